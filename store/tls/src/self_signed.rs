//! The self-signed pair of `--auto-tls` and `--peer-auto-tls`: made once, kept for later starts.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use environment::Disk;
use environment::real::RealDisk;
use tracing::{info, warn};

use crate::Error;
use crate::authority::self_signed_pair;
use crate::files::NamedFile;
use crate::settings::Pair;

/// The pair in `directory`, which is made if one of its files is missing. It is valid for
/// `hosts`, and from now on for `years` years. `option` is named by errors.
pub fn self_signed(
    option: &'static str,
    directory: &Path,
    hosts: &[String],
    years: u64,
) -> Result<Pair, Error> {
    let file = |name: &str| NamedFile {
        option,
        path: directory.join(name),
    };
    let pair = Pair {
        certificate: file("cert.pem"),
        key: file("key.pem"),
    };
    if pair.certificate.path.exists() && pair.key.path.exists() {
        return Ok(pair);
    }
    let asked = years;
    let years = u32::try_from(years)
        .ok()
        .filter(|years| (1..=1000).contains(years));
    let years = years.ok_or_else(|| Error::Value {
        option: "self-signed-cert-validity",
        text: asked.to_string(),
        remedy: "write a number of years from 1 to 1000".to_owned(),
    })?;
    warn!(years, directory = %directory.display(), "automatically generate certificates");
    let made = self_signed_pair(hosts, years)?;
    let write = || -> io::Result<()> {
        RealDisk.create_directories(directory)?;
        // The certificate comes last: a pair counts if both are there.
        write(directory, "key.pem", &made.key_pem)?;
        write(directory, "cert.pem", &made.certificate_pem)
    };
    write().map_err(|error| {
        let remedy = "the directory must be one that this process may write to";
        pair.certificate
            .wrong(format!("cannot be written: {error}; {remedy}"))
    })?;
    info!(path = %pair.certificate.path.display(), "created cert file");
    info!(path = %pair.key.path.display(), "created key file");
    Ok(pair)
}

/// Writes a whole file that only its owner may read, under a name of its own first.
fn write(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let new = directory.join(format!("{name}.new"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    RealDisk.rename(&new, &directory.join(name))
}
