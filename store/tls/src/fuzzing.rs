//! Fuzz targets in `fuzz/`: files of operators, and certificates of clients.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::facts::Facts;
use crate::files::NamedFile;
use crate::{pair, revocation, trust};

fn file() -> NamedFile {
    NamedFile {
        option: "fuzzed",
        path: "fuzzed".into(),
    }
}

/// Reads `bytes` as each kind of PEM file.
pub fn pem(bytes: &[u8]) {
    if let Ok(chain) = pair::chain(&file(), bytes) {
        assert!(!chain.is_empty(), "a chain has a certificate");
    }
    let _ = pair::private_key(&file(), bytes);
    let mut roots = RootCertStore::empty();
    let is_read = trust::add(&mut roots, &file(), bytes).is_ok();
    assert!(!is_read || !roots.is_empty(), "a file has an authority");
}

/// Reads `bytes` as a list of revoked certificates.
pub fn revocation_list(bytes: &[u8]) {
    let _ = revocation::read(&file(), bytes);
}

/// Reads `bytes` as the certificate that a client shows.
pub fn certificate(bytes: &[u8]) {
    let _ = Facts::of(&CertificateDer::from(bytes));
}

#[cfg(test)]
mod tests {
    use environment::randomness::Random;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::{Authority, Request};

    /// Calls `target` with damaged copies of the input, and with random bytes.
    fn run(target: fn(&[u8]), input: &[u8]) {
        let mut random = Random::from_seed(1);
        target(input);
        for _ in 0..5_000 {
            target(&random.damaged(input));
            let mut bytes = vec![0; random.below(200) as usize];
            random.fill(&mut bytes);
            target(&bytes);
        }
    }

    #[test]
    fn damaged_pem_files_are_refused_or_read() {
        let authority = Authority::new("an authority").unwrap();
        let issued = authority.issue(&Request::new("alice", &["a.example", "::1"]));
        let issued = issued.unwrap();
        run(pem, issued.certificate_pem.as_bytes());
        run(pem, issued.key_pem.as_bytes());
    }

    #[test]
    fn damaged_lists_and_certificates_are_refused_or_read() {
        let authority = Authority::new("an authority").unwrap();
        let issued = authority.issue(&Request::new("alice", &["a.example", "::1"]));
        let issued = issued.unwrap();
        let list = authority.revoke(&[issued.serial, vec![1, 2]]).unwrap();
        run(revocation_list, &list);
        let der = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
        run(certificate, &der);
    }
}
