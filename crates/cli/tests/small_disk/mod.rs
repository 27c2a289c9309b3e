//! A file system of a few MiB in memory, for one directory of a test.
//!
//! It is mounted in a mount namespace of its own, which a holder keeps alive and in which a
//! server is started, so that the server may be killed and started again. The holder ends when
//! its input does: whatever becomes of the test, no mount is left. The test sees the file
//! system through the holder's root in /proc.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub struct SmallDisk {
    holder: Child,
    directory: PathBuf,
}

/// A file that takes room until it is dropped.
pub struct Ballast(PathBuf);

impl SmallDisk {
    /// Mounts one at a directory, which is made where it is missing. `None`, loudly, where this
    /// process may not mount.
    pub fn mount(directory: &Path, mebibytes: u32) -> Option<SmallDisk> {
        std::fs::create_dir_all(directory).unwrap();
        let options = format!("size={mebibytes}m,mode=700");
        let mount = format!("mount -t tmpfs -o {options} tmpfs \"$0\" && echo mounted");
        let holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", &format!("{mount} && exec cat")])
            .arg(directory)
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
        let disk = SmallDisk {
            holder,
            directory: directory.to_owned(),
        };
        if line.trim() != "mounted" {
            eprintln!("SKIPPED: mounting a small file system needs root");
            return None;
        }
        Some(disk)
    }

    /// The command that runs a program where it sees the file system: the program's path and
    /// its arguments follow. The process becomes the program.
    pub fn entrance(&self) -> Vec<String> {
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.holder.id());
        vec!["nsenter".to_owned(), namespace]
    }

    /// Where this process sees what is mounted.
    fn seen(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.directory.strip_prefix("/").unwrap())
    }

    pub fn free_bytes(&self) -> u64 {
        let status = rustix::fs::statvfs(self.seen()).unwrap();
        status.f_bavail * status.f_frsize
    }

    /// Takes all that is free, to the last page.
    pub fn fill(&self) -> Ballast {
        // Beside the data directory's files, which a server counts as its own.
        let path = self.seen().join("lost+found");
        std::fs::create_dir_all(&path).unwrap();
        let path = path.join("ballast");
        let mut file = File::create(&path).unwrap();
        let page = [1; 4096];
        while file.write_all(&page).is_ok() {}
        Ballast(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
