//! A small file of etcd 3.7.3: `small.db` has seven revisions, is compacted at 4, and has a user, a
//! role, a lease and a value that is larger than a page. The expected numbers are etcdutl's.

#![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

use std::path::{Path, PathBuf};

use etcd_snapshot::{Error, FileHash, FileStatus, hash, open, status};

fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/small.db")
}

#[test]
fn the_status_is_etcdutl_s() {
    let file = open(&small(), false, |_, _| ()).unwrap();
    let mut bytes = 0;
    let expected = FileStatus {
        hash: 2_585_546_249,
        revision: 7,
        keys: 3,
        size_bytes: 32_768,
        version: "3.7.0".to_owned(),
    };
    assert_eq!(status(&file, |read| bytes += read).unwrap(), expected);
    assert!(bytes > 10_000, "5,000 bytes are read twice: {bytes}");
}

#[test]
fn the_hash_is_etcdutl_s_and_ends_where_the_file_does() {
    let file = open(&small(), false, |_, _| ()).unwrap();
    let expected = FileHash {
        hash: 2_313_101_890,
        hash_revision: 7,
        compact_revision: 4,
    };
    for revision in [0, 7] {
        assert_eq!(hash(&file, revision, |_| ()).unwrap(), expected);
    }
    let past = hash(&file, 3, |_| ()).unwrap_err();
    assert!(matches!(
        past,
        Error::Compacted {
            asked: 3,
            compacted: 4
        }
    ));
    let future = hash(&file, 8, |_| ()).unwrap_err();
    assert!(matches!(
        future,
        Error::Future {
            asked: 8,
            newest: 7
        }
    ));
}

#[test]
fn a_file_that_is_not_what_was_saved_is_refused_unless_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.db");
    let mut bytes = std::fs::read(small()).unwrap();
    // In the value of zeros and x, where no page notices it.
    let at = bytes
        .windows(9)
        .position(|bytes| bytes == b"xxxxxxxxx")
        .unwrap();
    bytes[at] = b'y';
    std::fs::write(&path, bytes).unwrap();
    let error = open(&path, false, |_, _| ()).unwrap_err();
    assert!(matches!(error, Error::Changed(_)), "{error}");
    let changed = open(&path, true, |_, _| ()).unwrap();
    assert_ne!(hash(&changed, 0, |_| ()).unwrap().hash, 2_313_101_890);
}
