//! A certificate with its key, checked to belong together.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, crypto::CryptoProvider};

use crate::facts::Facts;
use crate::files::NamedFile;
use crate::protocol::provider;
use crate::{Error, words};

/// The curve P-521 in a key's DER.
const P521: [u8; 5] = [0x2b, 0x81, 0x04, 0x00, 0x23];

/// Reads a certificate, the first file, and its key, the second.
pub(crate) fn load(files: &[NamedFile]) -> Result<CertifiedKey, Error> {
    let [certificate, key] = files else {
        unreachable!("a pair is two files")
    };
    let chain = chain(certificate, &certificate.read()?)?;
    let key_der = private_key(key, &key.read()?)?;
    let provider = provider()?;
    certified(chain, key_der, &provider, certificate, key)
}

/// The certificates in the contents of a file.
pub(crate) fn chain(file: &NamedFile, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let chain = read.map_err(|error| file.wrong(format!("it is no PEM: {error}")))?;
    let Some(first) = chain.first() else {
        return Err(file.wrong(
            "it has no certificate: write it as PEM, between -----BEGIN CERTIFICATE----- and \
             -----END CERTIFICATE-----, the server's own first, then those that signed it",
        ));
    };
    Facts::of(first).map_err(|problem| file.wrong(problem))?;
    Ok(chain)
}

/// The key in the contents of a file.
pub(crate) fn private_key(file: &NamedFile, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    if holds(b"ENCRYPTED PRIVATE KEY-----") || holds(b"Proc-Type: 4,ENCRYPTED") {
        return Err(file.wrong(
            "the key is encrypted, and a server cannot ask for its passphrase; write it \
             without one: openssl pkey -in KEY -out PLAIN-KEY, and chmod 600 PLAIN-KEY",
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(bytes);
    key.map(in_order).map_err(|error| match error {
        pem::Error::NoItemsFound => file.wrong(
            "it has no private key: write it as PEM, between -----BEGIN PRIVATE KEY----- and \
             -----END PRIVATE KEY-----",
        ),
        error => file.wrong(format!("it is no PEM: {error}")),
    })
}

/// With an RSA key's larger prime first: otherwise some handshakes would fail.
fn in_order(key: PrivateKeyDer<'static>) -> PrivateKeyDer<'static> {
    let reordered = match &key {
        PrivateKeyDer::Pkcs1(key) => rsa_key::reordered(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => rsa_key::reordered_from_pkcs8(key.secret_pkcs8_der()),
        _ => None,
    };
    match reordered {
        Some(pkcs1) => PrivateKeyDer::Pkcs1(pkcs1.to_vec().into()),
        None => key,
    }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key_der: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
    certificate: &NamedFile,
    key: &NamedFile,
) -> Result<CertifiedKey, Error> {
    let is_p521 = key_der.secret_der().windows(5).any(|part| part == P521);
    CertifiedKey::from_der(chain, key_der, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => key.wrong(format!(
            "the key does not belong to the certificate {}; name the key with which it was made",
            certificate.path.display()
        )),
        _ if is_p521 => key.wrong(
            "keys on the curve P-521 are not supported; make key and certificate on P-256: \
             openssl ecparam -genkey -name prime256v1 -out KEY",
        ),
        rustls::Error::InvalidCertificate(error) => {
            let reason = words::certificate(&error);
            certificate.wrong(format!("the certificate cannot be used: {reason}"))
        }
        error => key.wrong(format!(
            "the key cannot be used ({error}); make an ECDSA key on P-256 or P-384, an RSA key \
             of 2,048 bits or more, or an Ed25519 key"
        )),
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rustls::SignatureScheme;

    use super::*;

    /// A file of the tests of crate `rsa-key`.
    fn file(name: &str) -> NamedFile {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../rsa-key/tests"));
        NamedFile {
            option: "cert-file",
            path: folder.join(name),
        }
    }

    #[test]
    fn every_handshake_is_signed_with_a_key_that_begins_with_its_smaller_prime() {
        let files = ["smaller_prime_first.pem", "smaller_prime_first.key"].map(file);
        let pair = load(&files).unwrap();
        for scheme in [
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PKCS1_SHA256,
        ] {
            let signer = pair.key.choose_scheme(&[scheme]).unwrap();
            for message in 0..300u32 {
                signer.sign(&message.to_be_bytes()).unwrap();
            }
        }
    }
}
