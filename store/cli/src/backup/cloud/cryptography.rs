//! Signatures of requests to object stores, with the cryptography that is in the program anyway.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use graviola::signing::rsa::SigningKey;
use hmac::{Hmac, KeyInit, Mac};
use object_store::client::{
    CryptoProvider, DigestAlgorithm, DigestContext, HmacContext, Signer, SigningAlgorithm,
};
use object_store::{Error, Result};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

const PKCS8: &str = "PRIVATE KEY";
const PKCS1: &str = "RSA PRIVATE KEY";

/// SHA-256, HMAC and RSA.
#[derive(Debug)]
pub(super) struct OwnCryptography;

impl CryptoProvider for OwnCryptography {
    fn digest(&self, algorithm: DigestAlgorithm) -> Result<Box<dyn DigestContext>> {
        match algorithm {
            DigestAlgorithm::Sha256 => Ok(Box::new(Summed::<Sha256>::default())),
            _ => Err(refused("it asks for another digest than SHA-256")),
        }
    }

    fn hmac(&self, algorithm: DigestAlgorithm, secret: &[u8]) -> Result<Box<dyn HmacContext>> {
        let mac = Hmac::<Sha256>::new_from_slice(secret);
        match (algorithm, mac) {
            (DigestAlgorithm::Sha256, Ok(mac)) => Ok(Box::new(Tagged {
                mac: Some(mac),
                tag: Vec::new(),
            })),
            _ => Err(refused("it asks for another HMAC than that of SHA-256")),
        }
    }

    fn sign(&self, algorithm: SigningAlgorithm, pem: &[u8]) -> Result<Box<dyn Signer>> {
        match algorithm {
            SigningAlgorithm::RS256 => Ok(Box::new(RsaSigner(rsa_key_of(pem)?))),
            _ => Err(refused("it asks for another signature than RS256")),
        }
    }
}

fn refused(what: &str) -> Error {
    Error::Generic {
        store: "cryptography",
        source: what.into(),
    }
}

#[derive(Default)]
struct Summed<S> {
    sum: S,
    result: Vec<u8>,
}

impl DigestContext for Summed<Sha256> {
    fn update(&mut self, data: &[u8]) {
        Digest::update(&mut self.sum, data);
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.result = self.sum.finalize_reset().to_vec();
        Ok(&self.result)
    }
}

struct Tagged {
    mac: Option<Hmac<Sha256>>,
    tag: Vec<u8>,
}

impl HmacContext for Tagged {
    fn update(&mut self, data: &[u8]) {
        if let Some(mac) = &mut self.mac {
            Mac::update(mac, data);
        }
    }

    fn finish(&mut self) -> Result<&[u8]> {
        if let Some(mac) = self.mac.take() {
            self.tag = mac.finalize().into_bytes().to_vec();
        }
        Ok(&self.tag)
    }
}

struct RsaSigner(SigningKey);

impl Signer for RsaSigner {
    fn sign(&self, text: &[u8]) -> Result<Vec<u8>> {
        let mut signature = vec![0; self.0.modulus_len_bytes()];
        let signed = self.0.sign_pkcs1_sha256(&mut signature, text);
        let signed = signed.map_err(|_| refused("the private key does not sign"))?;
        Ok(signed.to_vec())
    }
}

/// The RSA key of a PEM text, in PKCS#8 or PKCS#1.
fn rsa_key_of(pem: &[u8]) -> Result<SigningKey> {
    let unusable = || refused("the private key is no RSA key in PEM");
    let text = std::str::from_utf8(pem).map_err(|_| unusable())?;
    let (der, is_pkcs8) = match section(text, PKCS8) {
        Some(der) => (der, true),
        None => (section(text, PKCS1).ok_or_else(unusable)?, false),
    };
    let reordered = match is_pkcs8 {
        true => rsa_key::reordered_from_pkcs8(&der),
        false => rsa_key::reordered(&der),
    };
    let key = match reordered {
        Some(pkcs1) => SigningKey::from_pkcs1_der(&pkcs1),
        None if is_pkcs8 => SigningKey::from_pkcs8_der(&der),
        None => SigningKey::from_pkcs1_der(&der),
    };
    key.map_err(|_| unusable())
}

/// The bytes of the first section of this kind.
fn section(text: &str, kind: &str) -> Option<Zeroizing<Vec<u8>>> {
    let begin = format!("-----BEGIN {kind}-----");
    let (_, rest) = text.split_once(&begin)?;
    let (body, _) = rest.split_once("-----END")?;
    let body: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
    STANDARD.decode(body.as_bytes()).ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digest_and_hmac_are_those_of_the_standards() {
        let mut digest = OwnCryptography.digest(DigestAlgorithm::Sha256).unwrap();
        digest.update(b"abc");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hexadecimal(digest.finish().unwrap()), expected);
        // RFC 4231, test case 2.
        let mut tag = OwnCryptography
            .hmac(DigestAlgorithm::Sha256, b"Jefe")
            .unwrap();
        tag.update(b"what do ya want ");
        tag.update(b"for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hexadecimal(tag.finish().unwrap()), expected);
    }

    #[test]
    fn a_key_signs_what_its_public_half_verifies() {
        let key = SigningKey::generate(graviola::signing::rsa::KeySize::Rsa2048).unwrap();
        let mut der = vec![0; 4096];
        let der = key.to_pkcs8_der(&mut der).unwrap();
        let pem = format!(
            "-----BEGIN {PKCS8}-----\n{}\n-----END {PKCS8}-----\n",
            STANDARD.encode(der)
        );
        let signer = OwnCryptography.sign(SigningAlgorithm::RS256, pem.as_bytes());
        let signature = signer.unwrap().sign(b"text").unwrap();
        let public = key.public_key();
        public.verify_pkcs1_sha256(&signature, b"text").unwrap();
        assert!(
            OwnCryptography
                .sign(SigningAlgorithm::RS256, b"no key")
                .is_err()
        );
    }
}
