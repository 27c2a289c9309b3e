//! A file system of a few MiB in memory, for one directory of a test.
//!
//! It is mounted in a mount namespace of its own. A holder process keeps the namespace alive,
//! and servers are started in it, so that a server may be killed and started again. The holder
//! ends when its stdin closes, so even a test that is killed leaves no mount behind. The test
//! reaches the file system through the holder's root in /proc.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct SmallDisk {
    holder: Child,
    directory: PathBuf,
}

/// A file that takes up space until it is dropped.
pub struct Ballast(PathBuf);

impl SmallDisk {
    /// Mounts a file system at a directory, which is made if it is missing. `None`, with a
    /// message, if this process may not mount.
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

    /// The command that runs a program in the namespace: the program's path and
    /// its arguments follow. The process becomes the program.
    pub fn entrance(&self) -> Vec<String> {
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.holder.id());
        vec!["nsenter".to_owned(), namespace]
    }

    /// Path of the mounted directory as seen from this process.
    fn seen(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.directory.strip_prefix("/").unwrap())
    }

    pub fn free_bytes(&self) -> u64 {
        let status = rustix::fs::statvfs(self.seen()).unwrap();
        status.f_bavail * status.f_frsize
    }

    /// Waits until no segment of the log is being made: it takes its space piece by piece.
    pub fn wait_for_segments(&self) {
        let made = || {
            let mut files = std::fs::read_dir(self.seen())?;
            let is_made = files.all(|it| it.is_ok_and(|it| !is_being_made(&it.path())));
            Ok(is_made.then_some(()))
        };
        harness::wait_for("all segments are made", Duration::from_secs(60), made).unwrap();
    }

    /// Takes all free space, to the last page.
    pub fn fill(&self) -> Ballast {
        // Not in the data directory, where a server would count the file as its own.
        let path = self.seen().join("lost+found");
        std::fs::create_dir_all(&path).unwrap();
        let path = path.join("ballast");
        let mut file = File::create(&path).unwrap();
        let page = [1; 4096];
        while file.write_all(&page).is_ok() {}
        Ballast(path)
    }
}

fn is_being_made(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "making")
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
