//! Data directories of etcd, which look empty to a store that looks for files.

use std::io;
use std::path::Path;

use environment::Disk;

use crate::Error;

/// What etcd calls the directories in its data directory, and those in there.
const OF_ETCD: [&str; 3] = ["member", "snap", "wal"];

/// Refuses a directory of etcd's before anything is written to it. A store of
/// Inkstone that somebody began beside etcd's is served.
pub(crate) fn refuse_etcd(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    // What cannot be listed, or is not there yet, the engine judges.
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

/// etcd lets nobody else into its directories: then they are there all the same.
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
