//! Identities of targets, for the record.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha1::{Digest, Sha1};

use super::{TargetKind, TargetSpec};
use crate::record::{Binary, TargetIdentity};

/// Cache of program hashes: hashing a large program takes a tenth of a second, and an
/// experiment has a hundred runs. A program is hashed again when its file has changed.
#[derive(Debug, Default)]
pub struct Programs(BTreeMap<PathBuf, (Stamp, Binary)>);

/// State of a file, which differs for another file or changed contents.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    device_and_inode: (u64, u64),
    bytes: u64,
    /// Time of the last change of the inode, in seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let about = std::fs::metadata(path).ok()?;
        Some(Stamp {
            device_and_inode: (about.dev(), about.ino()),
            bytes: about.len(),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }
}

impl Programs {
    /// The program of a target; `None` for endpoints, because the lab does not start their
    /// servers.
    pub fn of(&mut self, target: &TargetSpec) -> Option<Binary> {
        let path = target.program()?;
        let stamp = Stamp::of(&path)?;
        match self.0.get(&path) {
            Some((known, binary)) if *known == stamp => Some(binary.clone()),
            _ => {
                let binary = binary(&path)?;
                self.0.insert(path, (stamp, binary.clone()));
                Some(binary)
            }
        }
    }
}

impl TargetSpec {
    /// The identity as far as it is known before the target is opened. The program is hashed
    /// unless `known` is given.
    pub fn identity(&self, known: Option<Binary>) -> TargetIdentity {
        TargetIdentity {
            name: self.name.clone(),
            product: self.product(),
            binary: known.or_else(|| self.program().and_then(|path| binary(&path))),
            ..TargetIdentity::default()
        }
    }

    fn product(&self) -> String {
        match &self.kind {
            TargetKind::Embedded { target, .. } => match target.as_str() {
                "engine" => "inkstone (engine)".into(),
                "store" => "inkstone (embedded)".into(),
                "log" => "inkstone (value log)".into(),
                target => target.into(),
            },
            TargetKind::Server { binary, .. } => match harness::Program::new(binary).is_etcd() {
                true => "etcd".into(),
                false => "inkstone".into(),
            },
            TargetKind::Endpoints(_) => "etcd API".into(),
        }
    }

    fn program(&self) -> Option<std::path::PathBuf> {
        match &self.kind {
            TargetKind::Embedded { worker, .. } => match worker {
                Some(worker) => Some(worker.clone()),
                None => std::env::current_exe().ok(),
            },
            TargetKind::Server { binary, .. } => Some(binary.clone()),
            TargetKind::Endpoints(_) => None,
        }
    }
}

fn binary(path: &Path) -> Option<Binary> {
    let program = std::fs::read(path).ok()?;
    Some(Binary {
        file_name: path.file_name()?.to_string_lossy().into_owned(),
        bytes: program.len() as u64,
        sha1: Sha1::digest(program)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuilt_program_is_hashed_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab");
        std::fs::write(&path, "old").unwrap();
        let target: TargetSpec = format!("null@{}", path.display()).parse().unwrap();
        let mut programs = Programs::default();
        let old = programs.of(&target).unwrap();
        assert_eq!(programs.of(&target), Some(old.clone()));
        // A build replaces the file by renaming another one.
        let built = folder.path().join("built");
        std::fs::write(&built, "new").unwrap();
        std::fs::rename(built, &path).unwrap();
        assert_ne!(programs.of(&target).unwrap().sha1, old.sha1);
    }
}
