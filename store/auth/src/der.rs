//! As much of DER and PEM as it takes to find keys in their files.
//!
//! ```text
//!   public key    SEQ{ SEQ{ algorithm }, BIT STRING }              the key is in the bit string
//!   certificate   SEQ{ SEQ{ [0]?, INT, SEQ, SEQ, SEQ, SEQ, public key, … }, … }
//!   PKCS#8        SEQ{ INT, SEQ{ algorithm }, OCTET STRING, … }    the key is in the octets
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// Tag of a certificate's version.
const VERSION: u8 = 0xa0;

/// The first block of a PEM file: its label and its bytes.
pub(crate) fn pem(text: &[u8]) -> Option<(String, Zeroizing<Vec<u8>>)> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let letters: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
    let bytes = STANDARD.decode(letters.as_bytes()).ok()?;
    Some((label.to_owned(), Zeroizing::new(bytes)))
}

/// Reads element after element.
#[derive(Clone, Copy)]
pub(crate) struct Der<'a>(pub &'a [u8]);

impl<'a> Der<'a> {
    /// Takes the next element; its tag and its content.
    fn element(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Two bytes of length at most: keys and certificates are not larger.
            0x81 | 0x82 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 3))?;
                let add = |sum: usize, &byte: &u8| (sum << 8) | usize::from(byte);
                (bytes.iter().fold(0, add), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// Takes the next element if it has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let content = ahead.element().filter(|(found, _)| *found == tag)?.1;
        *self = ahead;
        Some(content)
    }
}

/// A public key: the bytes of its algorithm and of the key itself.
pub(crate) struct PublicKey<'a> {
    pub algorithm: &'a [u8],
    pub key: &'a [u8],
}

/// The parts of a SubjectPublicKeyInfo.
pub(crate) fn public_key(spki: &[u8]) -> Option<PublicKey<'_>> {
    let mut inner = Der(Der(spki).take(SEQUENCE)?);
    let algorithm = inner.take(SEQUENCE)?;
    // No bits are unused.
    let key = inner.take(BIT_STRING)?.strip_prefix(&[0])?;
    Some(PublicKey { algorithm, key })
}

/// The SubjectPublicKeyInfo of a certificate.
pub(crate) fn public_key_of_certificate(certificate: &[u8]) -> Option<PublicKey<'_>> {
    let mut signed = Der(Der(Der(certificate).take(SEQUENCE)?).take(SEQUENCE)?);
    signed.take(VERSION);
    signed.take(INTEGER)?;
    // Algorithm, issuer, dates, subject.
    for _ in 0..4 {
        signed.take(SEQUENCE)?;
    }
    public_key(signed.0)
}

/// The private number of an EC key, in SEC 1's form.
pub(crate) fn ec_private_number(sec1: &[u8]) -> Option<&[u8]> {
    let mut inner = Der(Der(sec1).take(SEQUENCE)?);
    inner.take(INTEGER)?;
    inner.take(OCTET_STRING)
}

/// The private key inside of PKCS#8.
pub(crate) fn pkcs8_private_key(pkcs8: &[u8]) -> Option<&[u8]> {
    let mut inner = Der(Der(pkcs8).take(SEQUENCE)?);
    inner.take(INTEGER)?;
    inner.take(SEQUENCE)?;
    inner.take(OCTET_STRING)
}
