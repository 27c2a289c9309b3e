//! Revoked certificates, by etcd's rule: a certificate is revoked if its serial is in the list.
//! Neither the list's signature nor its dates are checked.

use std::collections::HashSet;

use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use crate::Error;
use crate::facts::{Facts, trimmed};
use crate::files::NamedFile;

/// The serials of a list; `None` while the list cannot be read.
#[derive(Debug, Default)]
pub(crate) struct Revoked(Option<HashSet<Vec<u8>>>);

impl Revoked {
    pub(crate) fn load(files: &[NamedFile]) -> Result<Revoked, Error> {
        let mut serials = HashSet::new();
        for file in files {
            serials.extend(read(file, &file.read()?)?);
        }
        Ok(Revoked(Some(serials)))
    }

    /// Refuses a chain of which one certificate is revoked or cannot be read. While there is no
    /// list every chain is refused.
    pub(crate) fn check<'a>(
        &self,
        mut chain: impl Iterator<Item = &'a CertificateDer<'a>>,
    ) -> Result<(), CertificateError> {
        let serials = self.0.as_ref();
        let serials = serials.ok_or(CertificateError::UnknownRevocationStatus)?;
        let is_revoked = |certificate: &CertificateDer<'_>| match Facts::of(certificate) {
            Ok(facts) => serials.contains(&facts.serial),
            Err(_) => true,
        };
        match chain.any(is_revoked) {
            true => Err(CertificateError::Revoked),
            false => Ok(()),
        }
    }
}

/// The serials in the contents of a file.
pub(crate) fn read(file: &NamedFile, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    if bytes.starts_with(b"-----BEGIN") {
        let remedy = "the list is PEM and must be DER; convert it: \
                      openssl crl -in LIST.pem -outform DER -out LIST.crl";
        return Err(file.wrong(remedy));
    }
    let (rest, list) = CertificateRevocationList::from_der(bytes).map_err(|error| {
        file.wrong(format!(
            "it is no list of revoked certificates in DER ({error}); make one with \
             openssl ca -gencrl, and convert it with openssl crl -outform DER"
        ))
    })?;
    if !rest.is_empty() {
        return Err(file.wrong("bytes follow the end of the list; write the list again"));
    }
    let revoked = list.iter_revoked_certificates();
    Ok(revoked
        .map(|it| trimmed(it.raw_serial()).to_owned())
        .collect())
}
