//! Who a target is, for the record.

use std::io::Read as _;
use std::path::Path;

use sha1::{Digest, Sha1};

use super::{Place, Program, TargetSpec};
use crate::record::{Binary, TargetIdentity};

impl TargetSpec {
    /// What can be said before it is opened.
    pub fn identity(&self) -> TargetIdentity {
        TargetIdentity {
            name: self.name.clone(),
            product: self.product(),
            binary: self.program().and_then(|path| binary(&path)),
            ..TargetIdentity::default()
        }
    }

    fn product(&self) -> String {
        match &self.place {
            Place::Embedded { target, .. } => match target.as_str() {
                "engine" => "inkstone (embedded)".into(),
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
