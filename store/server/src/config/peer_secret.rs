//! The file of the secret that members prove to each other.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cluster::PeerSecret;

/// Permissions of the group and of others.
const OTHERS_MODE: u32 = 0o077;
/// A longer file is not a secret; reading stops here.
const FILE_BYTES_MAX: u64 = 128 << 10;

/// Reads the secret; `None` if `path` is empty. The error is the remedy.
pub(super) fn read(path: &str) -> Result<Option<PeerSecret>, String> {
    match path {
        "" => Ok(None),
        path => load(Path::new(path)).map(Some),
    }
}

fn load(path: &Path) -> Result<PeerSecret, String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the configuration is the process's own"
    )]
    let file = File::open(path).map_err(|error| format!("the file cannot be opened: {error}"))?;
    let metadata = file
        .metadata()
        .map_err(|error| format!("the file's metadata cannot be read: {error}"))?;
    if !metadata.is_file() {
        return Err("it is no file (a directory?)".to_owned());
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS_MODE != 0 {
        return Err(format!(
            "others than its owner may use the file, its mode is {mode:04o}; call chmod 600"
        ));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("the file cannot be read: {error}"))?;
    PeerSecret::new(&bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(place: &tempfile::TempDir, bytes: &[u8], mode: u32) -> PathBuf {
        let path = place.path().join(format!("{mode:o}-{}", bytes.len()));
        #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn only_long_secrets_in_files_of_their_owner_are_taken() {
        let place = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o400] {
            assert!(load(&file(&place, &[7; 32], mode)).is_ok(), "{mode:o}");
        }
        for (bytes, mode, expected) in [
            (32, 0o644, "its mode is 0644; call chmod 600"),
            (32, 0o640, "its mode is 0640"),
            (31, 0o600, "at least 32 bytes, this one has 31"),
            (0, 0o600, "at least 32 bytes, this one has 0"),
            (100 << 10, 0o600, "at most 65536 bytes"),
        ] {
            let error = load(&file(&place, &vec![7; bytes], mode)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(load(place.path()).unwrap_err().contains("no file"));
        let missing = load(&place.path().join("missing")).unwrap_err();
        assert!(missing.contains("cannot be opened"), "{missing}");
    }
}
