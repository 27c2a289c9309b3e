//! Signatures with a key that begins with its smaller prime, as Go writes half of them.

use graviola::signing::rsa::SigningKey;

/// Of its primes the one is three quarters of the other, so that graviola refuses one signature
/// in 25.
const KEY: &str = include_str!("smaller_prime_first.key");
const MESSAGES: u32 = 500;

fn key() -> Vec<u8> {
    use base64::Engine;
    let letters: String = KEY.lines().filter(|it| !it.starts_with('-')).collect();
    base64::engine::general_purpose::STANDARD
        .decode(letters)
        .expect("the file is PEM")
}

/// How many of the messages it does not sign.
fn refused(key: &SigningKey) -> usize {
    let mut room = [0; 256];
    let signs = |message: &u32| {
        let message = message.to_be_bytes();
        match key.sign_pkcs1_sha256(&mut room, &message) {
            Ok(signature) => key
                .public_key()
                .verify_pkcs1_sha256(signature, &message)
                .is_ok(),
            Err(_) => false,
        }
    };
    MESSAGES as usize - (0..MESSAGES).filter(signs).count()
}

#[test]
fn every_message_is_signed_with_the_key_in_order() {
    let key = rsa_key::reordered(&key()).expect("its smaller prime comes first");
    assert_eq!(refused(&SigningKey::from_pkcs1_der(&key).unwrap()), 0);
}

#[test]
fn graviola_does_not_sign_every_message_with_the_key_as_it_is() {
    let refused = refused(&SigningKey::from_pkcs1_der(&key()).unwrap());
    assert!(
        refused > 0,
        "graviola signs with primes in any order now: this crate can go"
    );
}
