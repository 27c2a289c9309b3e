//! A file system of a few MiB, for one test.
//!
//! It is mounted in a mount namespace that a holder keeps alive and that a
//! server is started in, so that the server may be killed and started again.
//! The holder ends when its input does: whatever becomes of the test, no mount
//! is left.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::served::PROGRAM;

pub struct SmallDisk {
    holder: Child,
    place: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`, loudly, where this process may not mount.
    pub fn mount(mebibytes: u32) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let mount = format!("mount -t tmpfs -o size={mebibytes}m tmpfs \"$0\" && echo mounted");
        let holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", &format!("{mount} && exec cat")])
            .arg(place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut holder) = holder else {
            eprintln!("SKIPPED: a small file system needs unshare(1)");
            return None;
        };
        let mut line = String::new();
        let mut output = BufReader::new(holder.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let disk = SmallDisk { holder, place };
        if line.trim() != "mounted" {
            eprintln!("SKIPPED: mounting a small file system needs root");
            return None;
        }
        Some(disk)
    }

    /// Below what is mounted.
    pub fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// The program, where it sees the file system.
    pub fn program(&self) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            .arg(PROGRAM);
        command
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
