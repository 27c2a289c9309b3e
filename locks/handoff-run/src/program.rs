//! The program: finding it, and whether a loader will preload a library into it.
//!
//! A program that this check refuses is not started. Of a program that may be executed but not
//! read, for instance, only the missing greeting shows that the library was not loaded.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{getgid, getuid};

use crate::elf::{self, Kind};
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// Depth to which the kernel follows interpreters of interpreters.
const SCRIPTS_MAX: usize = 5;
/// Bytes read of a program: enough for its headers, or for the first line of a script.
const HEAD_BYTES: u64 = 64 * 1024;

/// Finds the program as a shell does.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            Ok(about) if about.is_file() && is_executable(&path) => Ok(path),
            Ok(_) => Err(not_executable(&path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found(name)),
            Err(error) => Err(Failure::new(
                NOT_EXECUTABLE,
                format_args!("{}: {error}", path.display()),
                "",
            )),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut refused = None;
    for folder in std::env::split_paths(&folders) {
        // An empty name stands for the working directory.
        let path = Path::new(".").join(folder).join(name);
        if path.is_file() {
            if is_executable(&path) {
                return Ok(path);
            }
            refused = Some(path);
        }
    }
    Err(refused.map_or_else(|| not_found(name), |path| not_executable(&path)))
}

fn not_found(name: &OsStr) -> Failure {
    Failure::new(
        NOT_FOUND,
        format_args!("there is no program {}", name.display()),
        "Give its path, or a name that is in PATH.",
    )
}

fn not_executable(path: &Path) -> Failure {
    Failure::new(
        NOT_EXECUTABLE,
        format_args!("{} is not executable", path.display()),
        "",
    )
}

fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Refuses a program into which no loader will preload the library.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let Ok(head) = head(&path) else {
            return Ok(());
        };
        if let Some(interpreter) = interpreter(&head) {
            path = interpreter;
            continue;
        }
        let (reason, remedy) = match elf::kind(&head) {
            Some(Kind::Static) => (
                "is statically linked, so no loader preloads anything",
                "Link it dynamically",
            ),
            Some(Kind::Foreign) => (
                "is for another architecture than the library",
                "Build both for the same",
            ),
            Some(Kind::Dynamic) => match rights(&path) {
                Some(reason) => (reason, "Run a copy without special rights"),
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        return Err(Failure::not_started(
            format_args!("{} {reason}", path.display()),
            format_args!("{remedy}; `handoff run --no-preload` runs it with its own locks."),
        ));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this crate stands alone")]
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// The interpreter that a script names in its first line.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line.split(|byte| b" \t".contains(byte));
    let first = words.find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(first)))
}

/// Reason for which the program's loader will ignore `LD_PRELOAD`: the program has rights of its
/// own.
fn rights(path: &Path) -> Option<&'static str> {
    let about = path.metadata().ok()?;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    if about.mode() & libc::S_ISUID != 0 && about.uid() != user {
        return Some("is setuid: its loader ignores LD_PRELOAD");
    }
    // Without the right to execute for its group the bit means something else.
    let setgid = libc::S_ISGID | libc::S_IXGRP;
    if about.mode() & setgid == setgid && about.gid() != group {
        return Some("is setgid: its loader ignores LD_PRELOAD");
    }
    (user != 0 && has_capabilities(path))
        .then_some("has capabilities of its own: its loader ignores LD_PRELOAD")
}

fn has_capabilities(path: &Path) -> bool {
    // Without room for the value, the call returns its length.
    let length = rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 0]);
    length.is_ok_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter_first() {
        let named = |line: &[u8]| interpreter(line);
        assert_eq!(named(b"#! /bin/sh -e\nexit"), Some("/bin/sh".into()));
        assert_eq!(named(b"#!/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(named(b"#!\n"), None);
        assert_eq!(named(b"exit 0\n"), None);
    }
}
