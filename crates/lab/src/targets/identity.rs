//! Who a target is, for the record.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha1::{Digest, Sha1};

use super::{Place, Program, TargetSpec};
use crate::record::{Binary, TargetIdentity};

/// Programs that were hashed already: a large one takes a tenth of a second, in each
/// of a hundred runs. One whose file was changed meanwhile is hashed again.
#[derive(Debug, Default)]
pub struct Programs(BTreeMap<PathBuf, (Stamp, Binary)>);

/// Another one for another file, or another content.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    device_and_inode: (u64, u64),
    bytes: u64,
    /// Seconds and nanoseconds of its last change, of content or otherwise.
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
    /// The program of a target; none where it is somebody else's.
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
    /// What can be said before it is opened; `known` is what is known of its program.
    pub fn identity(&self, known: Option<Binary>) -> TargetIdentity {
        TargetIdentity {
            name: self.name.clone(),
            product: self.product(),
            binary: known.or_else(|| self.program().and_then(|path| binary(&path))),
            ..TargetIdentity::default()
        }
    }

    fn product(&self) -> String {
        match &self.place {
            Place::Embedded { target, .. } => match target.as_str() {
                "engine" => "inkstone (engine)".into(),
                "store" => "inkstone (embedded)".into(),
                "log" => "inkstone (value log)".into(),
                target => target.into(),
            },
            Place::Server { binary, flags, .. } => {
                let program = Program {
                    binary: binary.clone(),
                    flags: flags.clone(),
                };
                match program.is_etcd() {
                    true => "etcd".into(),
                    false => "inkstone".into(),
                }
            }
            Place::Endpoints(_) => "etcd API".into(),
        }
    }

    fn program(&self) -> Option<std::path::PathBuf> {
        match &self.place {
            Place::Embedded { worker, .. } => match worker {
                Some(worker) => Some(worker.clone()),
                None => std::env::current_exe().ok(),
            },
            Place::Server { binary, .. } => Some(binary.clone()),
            Place::Endpoints(_) => None,
        }
    }
}

fn binary(path: &Path) -> Option<Binary> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut hash = Sha1::new();
    let mut bytes = 0;
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part).ok()? {
            0 => break,
            read => {
                hash.update(&part[..read]);
                bytes += read as u64;
            }
        }
    }
    let sha1 = hash.finalize();
    Some(Binary {
        file_name: path.file_name()?.to_string_lossy().into_owned(),
        bytes,
        sha1: sha1.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_built_anew_is_hashed_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab");
        std::fs::write(&path, "old").unwrap();
        let target: TargetSpec = format!("null@{}", path.display()).parse().unwrap();
        let mut programs = Programs::default();
        let old = programs.of(&target).unwrap();
        assert_eq!(programs.of(&target), Some(old.clone()));
        // As builds do it: another file takes the name.
        let built = folder.path().join("built");
        std::fs::write(&built, "new").unwrap();
        std::fs::rename(built, &path).unwrap();
        assert_ne!(programs.of(&target).unwrap().sha1, old.sha1);
    }
}
