//! Authorities that this side trusts.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::Error;
use crate::files::NamedFile;

/// Where systems keep the authorities that they trust.
const OF_SYSTEMS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The file of trusted authorities: `named`, or the system's.
pub(crate) fn files(named: Option<&NamedFile>) -> Vec<NamedFile> {
    let of_system = || {
        let exists = OF_SYSTEMS.into_iter().find(|path| Path::new(path).exists());
        exists.map(|path| NamedFile {
            option: "authorities-of-the-system",
            path: path.into(),
        })
    };
    named.cloned().or_else(of_system).into_iter().collect()
}

/// Reads the authorities of an operator's file: each of them must be usable.
pub(crate) fn load(files: &[NamedFile]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for file in files {
        add(&mut roots, file, &file.read()?)?;
    }
    Ok(roots)
}

/// Adds the authorities in the contents of a file.
pub(crate) fn add(roots: &mut RootCertStore, file: &NamedFile, bytes: &[u8]) -> Result<(), Error> {
    for certificate in CertificateDer::pem_slice_iter(bytes) {
        let certificate =
            certificate.map_err(|error| file.wrong(format!("it cannot be read: {error}")))?;
        roots.add(certificate).map_err(|error| {
            let number = roots.len() + 1;
            file.wrong(format!("certificate {number} cannot be used: {error}"))
        })?;
    }
    match roots.is_empty() {
        false => Ok(()),
        true => Err(file.wrong(
            "it has no certificate: write the authority's, between -----BEGIN CERTIFICATE----- \
             and -----END CERTIFICATE-----",
        )),
    }
}

/// Reads the authorities of the system, as many as can be used.
pub(crate) fn load_of_system(files: &[NamedFile]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for file in files {
        let bytes = file.read()?;
        let certificates = CertificateDer::pem_slice_iter(&bytes).flatten();
        roots.add_parsable_certificates(certificates);
    }
    Ok(roots)
}
