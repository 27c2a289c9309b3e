//! Puts the primes of an RSA key into the order that graviola computes with.
//!
//! ```text
//!   RSAPrivateKey = SEQ{ 0, n, e, d, p, q, d mod p-1, d mod q-1, 1/q mod p }
//!
//!   signing:  m1 = c^dp mod p    m2 = c^dq mod q    h = (m1 - m2)/q mod p    m = m2 + q·h
//! ```
//!
//! graviola 0.4.4 takes m1 - m2 modulo p without first reducing m2, which is right while
//! m2 - m1 < p. Where q is the larger prime that does not always hold: graviola then notices
//! that the result is wrong, and refuses to sign. How often depends on the primes; with etcd's
//! test certificates it is one signature in 70, and a TLS handshake fails with it. OpenSSL
//! writes the larger prime first, Go writes them as they come. This crate exchanges them.
//!
//! Its arithmetic is not constant in time: it runs once for each reading of a key's file.

mod der;
mod number;

use zeroize::Zeroizing;

use der::{Elements, INTEGER, OCTET_STRING, SEQUENCE, element};

/// Bytes of the algorithm of RSA keys, with tag and length.
const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";

/// The PKCS#1 form, larger prime first, of a key that is given in PKCS#1 with the smaller one
/// first. `None` for every other key, and for bytes that are none.
pub fn reordered(pkcs1: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut fields = Elements(Elements(pkcs1).take(SEQUENCE)?);
    let mut next = || fields.take(INTEGER);
    let [version, n, e, d] = [next()?, next()?, next()?, next()?];
    let [p, q, of_p, of_q, inverse] = [next()?, next()?, next()?, next()?, next()?];
    // Of two primes, so that no others follow.
    if version != [0] || !number::is_less(p, q) {
        return None;
    }
    let inverse = exchanged(p, q, inverse)?;
    let mut inside = Zeroizing::new(Vec::with_capacity(pkcs1.len() + 8));
    for number in [version, n, e, d, q, p, of_q, of_p, &inverse] {
        element(INTEGER, number, &mut inside);
    }
    let mut key = Zeroizing::new(Vec::with_capacity(inside.len() + 8));
    element(SEQUENCE, &inside, &mut key);
    Some(key)
}

/// The same for a key in PKCS#8, which contains the PKCS#1 form.
pub fn reordered_from_pkcs8(pkcs8: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut fields = Elements(Elements(pkcs8).take(SEQUENCE)?);
    fields.take(INTEGER)?;
    let algorithm = fields.take(SEQUENCE)?;
    if !algorithm.starts_with(RSA) {
        return None;
    }
    reordered(fields.take(OCTET_STRING)?)
}

/// 1/p mod q from 1/q mod p: because q·(1/q mod p) = 1 + k·p, it is q - k. `None` if the given
/// number is not that inverse.
fn exchanged(p: &[u8], q: &[u8], inverse: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let product = number::less_one(&number::product(q, inverse))?;
    let (k, rest) = number::divided(&product, p)?;
    if rest.iter().any(|byte| *byte != 0) {
        return None;
    }
    number::difference(q, &k).map(|it| number::signed(&it))
}

#[cfg(test)]
mod tests;
