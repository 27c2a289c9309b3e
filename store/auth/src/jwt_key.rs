//! Keys of signed tokens, and the arithmetic: graviola's, and for the one curve that it lacks
//! p521's. Neither needs a C compiler.

use graviola::hashing::{Sha256, Sha384};
use graviola::signing::ecdsa::{Curve, P256, P384};
use graviola::signing::eddsa::{Ed25519SigningKey, Ed25519VerifyingKey};
use graviola::signing::{ecdsa, rsa};
use hmac::{Hmac, KeyInit, Mac};
use p521::ecdsa::signature::{Signer, Verifier};
use zeroize::Zeroizing;

use crate::der;
use crate::jwt::{JwtError, JwtMethod};

/// Room for a signature of an RSA key of 8,192 bits.
const SIGNATURE_BYTES_MAX: usize = 1024;
/// Object identifiers, with their tags, as they are in the algorithm of a public key.
const OID_RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const OID_ED25519: &[u8] = b"\x06\x03\x2b\x65\x70";
const OID_P256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const OID_P384: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x22";
const OID_P521: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x23";

/// A key that signs and verifies.
pub(crate) enum PrivateKey {
    Rsa(Box<rsa::SigningKey>),
    P256(ecdsa::SigningKey<P256>),
    P384(ecdsa::SigningKey<P384>),
    P521(Box<p521::ecdsa::SigningKey>),
    Ed25519(Ed25519SigningKey),
    Secret(Zeroizing<Vec<u8>>),
}

/// A key that verifies.
pub(crate) enum PublicKey {
    Rsa(Box<rsa::VerifyingKey>),
    P256(Box<ecdsa::VerifyingKey<P256>>),
    P384(Box<ecdsa::VerifyingKey<P384>>),
    P521(Box<p521::ecdsa::VerifyingKey>),
    Ed25519(Ed25519VerifyingKey),
    Secret(Zeroizing<Vec<u8>>),
}

/// Reads the file of a private key that fits the method.
pub(crate) fn private_key(method: JwtMethod, file: &[u8]) -> Result<PrivateKey, JwtError> {
    if method.is_secret() {
        return Ok(PrivateKey::Secret(Zeroizing::new(file.to_vec())));
    }
    let (label, der) = der::pem(file).ok_or(JwtError::NotPem)?;
    let is_pkcs8 = label == "PRIVATE KEY";
    parsed_private_key(method, &der, is_pkcs8).ok_or(JwtError::PrivateKey { method })
}

fn parsed_private_key(method: JwtMethod, der: &[u8], is_pkcs8: bool) -> Option<PrivateKey> {
    use JwtMethod as M;
    let key = match method {
        M::Rs256 | M::Rs384 | M::Rs512 | M::Ps256 | M::Ps384 | M::Ps512 => {
            let key = match is_pkcs8 {
                true => rsa_key::reordered_from_pkcs8(der),
                false => rsa_key::reordered(der),
            };
            let key = match key {
                Some(pkcs1) => rsa::SigningKey::from_pkcs1_der(&pkcs1),
                None if is_pkcs8 => rsa::SigningKey::from_pkcs8_der(der),
                None => rsa::SigningKey::from_pkcs1_der(der),
            };
            PrivateKey::Rsa(Box::new(key.ok()?))
        }
        M::Es256 => PrivateKey::P256(ec_private_key(der, is_pkcs8)?),
        M::Es384 => PrivateKey::P384(ec_private_key(der, is_pkcs8)?),
        M::Es512 => {
            let sec1 = match is_pkcs8 {
                true => der::pkcs8_private_key(der)?,
                false => der,
            };
            let number = der::ec_private_number(sec1)?;
            PrivateKey::P521(Box::new(p521::ecdsa::SigningKey::from_slice(number).ok()?))
        }
        M::EdDsa => PrivateKey::Ed25519(Ed25519SigningKey::from_pkcs8_der(der).ok()?),
        M::Hs256 | M::Hs384 | M::Hs512 => return None,
    };
    Some(key)
}

fn ec_private_key<C: Curve>(der: &[u8], is_pkcs8: bool) -> Option<ecdsa::SigningKey<C>> {
    let key = match is_pkcs8 {
        true => ecdsa::SigningKey::from_pkcs8_der(der),
        false => ecdsa::SigningKey::from_sec1_der(der),
    };
    key.ok()
}

/// Reads the file of a public key, or of a certificate, that fits the method.
pub(crate) fn public_key(method: JwtMethod, file: &[u8]) -> Result<PublicKey, JwtError> {
    let (label, der) = der::pem(file).ok_or(JwtError::NotPem)?;
    let key = match (&label[..], method.is_rsa()) {
        ("RSA PUBLIC KEY", true) => rsa_public_key(&der),
        ("CERTIFICATE", _) => {
            der::public_key_of_certificate(&der).and_then(|key| parsed_public_key(method, &key))
        }
        _ => der::public_key(&der).and_then(|key| parsed_public_key(method, &key)),
    };
    key.ok_or(JwtError::PublicKey { method })
}

fn rsa_public_key(pkcs1: &[u8]) -> Option<PublicKey> {
    let key = rsa::VerifyingKey::from_pkcs1_der(pkcs1).ok()?;
    Some(PublicKey::Rsa(Box::new(key)))
}

fn parsed_public_key(method: JwtMethod, found: &der::PublicKey<'_>) -> Option<PublicKey> {
    use JwtMethod as M;
    let is = |oid: &[u8]| found.algorithm.ends_with(oid);
    let key = match method {
        _ if method.is_rsa() && found.algorithm.starts_with(OID_RSA) => {
            return rsa_public_key(found.key);
        }
        M::Es256 if is(OID_P256) => PublicKey::P256(Box::new(
            ecdsa::VerifyingKey::from_x962_uncompressed(found.key).ok()?,
        )),
        M::Es384 if is(OID_P384) => PublicKey::P384(Box::new(
            ecdsa::VerifyingKey::from_x962_uncompressed(found.key).ok()?,
        )),
        M::Es512 if is(OID_P521) => {
            let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(found.key).ok()?;
            PublicKey::P521(Box::new(key))
        }
        M::EdDsa if is(OID_ED25519) => {
            PublicKey::Ed25519(Ed25519VerifyingKey::from_bytes(found.key).ok()?)
        }
        _ => return None,
    };
    Some(key)
}

impl PrivateKey {
    /// The key that verifies what this one signs.
    pub fn public_key(&self) -> Option<PublicKey> {
        let mut room = [0u8; SIGNATURE_BYTES_MAX];
        Some(match self {
            PrivateKey::Rsa(key) => PublicKey::Rsa(Box::new(key.public_key())),
            PrivateKey::P256(key) => {
                let point = der::public_key(key.to_spki_der(&mut room).ok()?)?;
                PublicKey::P256(Box::new(
                    ecdsa::VerifyingKey::from_x962_uncompressed(point.key).ok()?,
                ))
            }
            PrivateKey::P384(key) => {
                let point = der::public_key(key.to_spki_der(&mut room).ok()?)?;
                PublicKey::P384(Box::new(
                    ecdsa::VerifyingKey::from_x962_uncompressed(point.key).ok()?,
                ))
            }
            PrivateKey::P521(key) => PublicKey::P521(Box::new(*key.verifying_key())),
            PrivateKey::Ed25519(key) => PublicKey::Ed25519(key.public_key()),
            PrivateKey::Secret(secret) => PublicKey::Secret(secret.clone()),
        })
    }

    /// Signs a message; `None` if the method and the key do not fit, or randomness fails.
    pub fn sign(&self, method: JwtMethod, message: &[u8]) -> Option<Vec<u8>> {
        use JwtMethod as M;
        let mut room = [0u8; SIGNATURE_BYTES_MAX];
        let signature = match (self, method) {
            (PrivateKey::Rsa(key), M::Rs256) => key.sign_pkcs1_sha256(&mut room, message),
            (PrivateKey::Rsa(key), M::Rs384) => key.sign_pkcs1_sha384(&mut room, message),
            (PrivateKey::Rsa(key), M::Rs512) => key.sign_pkcs1_sha512(&mut room, message),
            (PrivateKey::Rsa(key), M::Ps256) => key.sign_pss_sha256(&mut room, message),
            (PrivateKey::Rsa(key), M::Ps384) => key.sign_pss_sha384(&mut room, message),
            (PrivateKey::Rsa(key), M::Ps512) => key.sign_pss_sha512(&mut room, message),
            (PrivateKey::P256(key), M::Es256) => key.sign::<Sha256>(&[message], &mut room),
            (PrivateKey::P384(key), M::Es384) => key.sign::<Sha384>(&[message], &mut room),
            (PrivateKey::P521(key), M::Es512) => {
                let signature: p521::ecdsa::Signature = key.try_sign(message).ok()?;
                return Some(signature.to_bytes().to_vec());
            }
            (PrivateKey::Ed25519(key), M::EdDsa) => return Some(key.sign(message).to_vec()),
            (PrivateKey::Secret(secret), _) => return tag(method, secret, message),
            _ => return None,
        };
        signature.ok().map(<[u8]>::to_vec)
    }
}

impl PublicKey {
    /// Whether this is the signature of the message.
    pub fn verifies(&self, method: JwtMethod, message: &[u8], signature: &[u8]) -> bool {
        use JwtMethod as M;
        let verified = match (self, method) {
            (PublicKey::Rsa(key), M::Rs256) => key.verify_pkcs1_sha256(signature, message),
            (PublicKey::Rsa(key), M::Rs384) => key.verify_pkcs1_sha384(signature, message),
            (PublicKey::Rsa(key), M::Rs512) => key.verify_pkcs1_sha512(signature, message),
            (PublicKey::Rsa(key), M::Ps256) => key.verify_pss_sha256(signature, message),
            (PublicKey::Rsa(key), M::Ps384) => key.verify_pss_sha384(signature, message),
            (PublicKey::Rsa(key), M::Ps512) => key.verify_pss_sha512(signature, message),
            (PublicKey::P256(key), M::Es256) => key.verify::<Sha256>(&[message], signature),
            (PublicKey::P384(key), M::Es384) => key.verify::<Sha384>(&[message], signature),
            (PublicKey::P521(key), M::Es512) => {
                let signature = p521::ecdsa::Signature::from_slice(signature);
                return signature.is_ok_and(|it| key.verify(message, &it).is_ok());
            }
            (PublicKey::Ed25519(key), M::EdDsa) => key.verify(signature, message),
            (PublicKey::Secret(secret), _) => {
                return verifies_tag(method, secret, message, signature);
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

fn tag(method: JwtMethod, secret: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    fn of<M: Mac + KeyInit>(secret: &[u8], message: &[u8]) -> Vec<u8> {
        keyed::<M>(secret, message).finalize().into_bytes().to_vec()
    }
    match method {
        JwtMethod::Hs256 => Some(of::<Hmac<sha2::Sha256>>(secret, message)),
        JwtMethod::Hs384 => Some(of::<Hmac<sha2::Sha384>>(secret, message)),
        JwtMethod::Hs512 => Some(of::<Hmac<sha2::Sha512>>(secret, message)),
        _ => None,
    }
}

/// Compares in constant time.
fn verifies_tag(method: JwtMethod, secret: &[u8], message: &[u8], tag: &[u8]) -> bool {
    fn is<M: Mac + KeyInit>(secret: &[u8], message: &[u8], tag: &[u8]) -> bool {
        keyed::<M>(secret, message).verify_slice(tag).is_ok()
    }
    match method {
        JwtMethod::Hs256 => is::<Hmac<sha2::Sha256>>(secret, message, tag),
        JwtMethod::Hs384 => is::<Hmac<sha2::Sha384>>(secret, message, tag),
        JwtMethod::Hs512 => is::<Hmac<sha2::Sha512>>(secret, message, tag),
        _ => false,
    }
}

fn keyed<M: Mac + KeyInit>(secret: &[u8], message: &[u8]) -> M {
    let keyed = <M as KeyInit>::new_from_slice(secret);
    let mut keyed = keyed.expect("HMAC takes keys of any length");
    keyed.update(message);
    keyed
}
