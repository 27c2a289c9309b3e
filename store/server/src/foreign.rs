//! Recognizes data directories of etcd, which look empty to this store.

use std::io;
use std::path::Path;

use environment::Disk;

use crate::Error;

/// Names of directories in etcd's data directory, on its first two levels.
const OF_ETCD: [&str; 3] = ["member", "snap", "wal"];

/// Refuses a directory of etcd before anything is written to it. A directory that also
/// holds a store of Inkstone is served.
pub(crate) fn refuse_etcd(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    // A directory that does not exist or cannot be listed is left to the engine.
    let Ok(names) = disk.list(directory) else {
        return Ok(());
    };
    if names.iter().any(|name| name.ends_with(".checkpoint")) {
        return Ok(());
    }
    let holds = |name: &&str| is_directory(disk, &directory.join(name));
    match OF_ETCD.into_iter().find(holds) {
        Some(holds) => Err(Error::EtcdDirectory {
            directory: directory.to_owned(),
            holds,
        }),
        None => Ok(()),
    }
}

/// Whether the path is a directory. etcd's directories are closed to other users, so one
/// that may not be opened counts.
fn is_directory(disk: &dyn Disk, path: &Path) -> bool {
    match disk.list(path) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use environment::OpenMode;
    use environment::real::RealDisk;

    use super::*;

    #[test]
    fn etcd_s_directories_are_refused_by_what_they_hold() {
        for (inside, holds) in [
            (&["member/snap", "member/wal"][..], "member/"),
            (&["snap", "wal"], "snap/"),
            (&["wal"], "wal/"),
        ] {
            let place = tempfile::tempdir().unwrap();
            for path in inside {
                RealDisk
                    .create_directories(&place.path().join(path))
                    .unwrap();
            }
            let error = refuse_etcd(&RealDisk, place.path()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("directory of etcd"), "{text}");
            assert!(text.contains(holds), "{text}");
            assert_eq!(RealDisk.list(place.path()).unwrap(), [""; 0]);
        }
    }

    #[test]
    fn a_store_begun_beside_etcd_s_and_what_is_not_there_pass() {
        let place = tempfile::tempdir().unwrap();
        refuse_etcd(&RealDisk, &place.path().join("absent")).unwrap();
        refuse_etcd(&RealDisk, place.path()).unwrap();
        let member = place.path().join("member");
        RealDisk.create_directories(&member).unwrap();
        let checkpoint = place.path().join("00000001.checkpoint");
        RealDisk.open(&checkpoint, OpenMode::CreateNew).unwrap();
        refuse_etcd(&RealDisk, place.path()).unwrap();
    }
}
