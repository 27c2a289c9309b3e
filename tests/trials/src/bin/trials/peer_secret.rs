//! The secret that members of a cluster share.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::process::Outcome;

/// Writes a new secret into a file of `directory` that only its owner may read.
pub fn write(directory: &Path) -> Outcome<PathBuf> {
    let path = directory.join("peer.secret");
    let mut options = File::options();
    let mut file = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&path)?;
    let secret: [u8; 32] = environment::randomness::secret_bytes()?;
    // As text: a line end within would be cut off.
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    file.write_all(digits.as_bytes())?;
    Ok(path)
}
