//! A small key with numbers that can be checked by hand, and bytes that are no key.

use super::*;

/// A key of the primes 11 and 251, in this order: n = 2761, e = 3, d = 1667.
const SMALL: [u8; 31] = [
    0x30, 29, 2, 1, 0, 2, 2, 0x0a, 0xc9, 2, 1, 3, 2, 2, 0x06, 0x83, 2, 1, 11, 2, 2, 0, 251, 2, 1,
    7, 2, 2, 0, 167, 2,
];

/// The key, with 1/251 mod 11 at its end.
fn small(inverse: u8) -> Vec<u8> {
    let mut key = [&SMALL[..], &[1, inverse]].concat();
    key[1] = u8::try_from(key.len() - 2).unwrap();
    key
}

#[test]
fn the_larger_prime_comes_first_and_the_inverse_fits_it() {
    // 251·5 = 1 + 114·11, and 11·(251 - 114) = 1 + 6·251.
    let key = reordered(&small(5)).unwrap();
    let mut fields = Elements(Elements(&key).take(SEQUENCE).unwrap());
    let numbers: Vec<Vec<u8>> = std::iter::from_fn(|| fields.take(INTEGER))
        .map(<[u8]>::to_vec)
        .collect();
    let of_q_then_p = [&[0, 251][..], &[11], &[0, 167], &[7], &[0, 137]];
    assert_eq!(numbers[4..], of_q_then_p);
    assert_eq!(numbers[..4], [&[0][..], &[0x0a, 0xc9], &[3], &[0x06, 0x83]]);
    assert!(reordered(&key).is_none(), "it is in order now");
}

#[test]
fn a_key_with_a_wrong_inverse_is_left_as_it_is() {
    for wrong in (0..11).filter(|it| *it != 5) {
        assert!(reordered(&small(wrong)).is_none(), "{wrong}");
    }
}

#[test]
fn bytes_that_are_no_key_are_left_as_they_are() {
    let key = small(5);
    for length in 0..key.len() {
        assert!(reordered(&key[..length]).is_none(), "{length}");
        assert!(reordered_from_pkcs8(&key[..length]).is_none(), "{length}");
    }
    for place in 0..key.len() {
        let mut damaged = key.clone();
        damaged[place] = damaged[place].wrapping_add(0x80);
        // It may be a key still; the reader must not panic.
        let _ = reordered(&damaged);
    }
    assert!(reordered_from_pkcs8(&key).is_none());
}

#[test]
fn the_key_is_found_within_pkcs8() {
    let mut algorithm = Vec::new();
    element(SEQUENCE, &[RSA, &[5, 0]].concat(), &mut algorithm);
    let mut inside = vec![2, 1, 0];
    inside.extend(algorithm);
    element(OCTET_STRING, &small(5), &mut inside);
    let mut key = Vec::new();
    element(SEQUENCE, &inside, &mut key);
    assert_eq!(reordered_from_pkcs8(&key), reordered(&small(5)));
    assert!(reordered_from_pkcs8(&key).is_some());
}

#[test]
fn arithmetic_agrees_with_that_of_the_machine() {
    let numbers = [
        0u32,
        1,
        2,
        255,
        256,
        257,
        65_535,
        65_536,
        0x1234_5678,
        u32::MAX,
    ];
    for (one, other) in numbers
        .iter()
        .flat_map(|it| numbers.map(|with| (*it, with)))
    {
        let [first, second] = [one, other].map(u32::to_be_bytes);
        assert_eq!(number::is_less(&first, &second), one < other);
        let product = (u64::from(one) * u64::from(other)).to_be_bytes();
        assert_eq!(number::product(&first, &second)[..], product);
        let difference = number::difference(&first, &second);
        let expected = one.checked_sub(other).map(u32::to_be_bytes);
        assert_eq!(difference.map(|it| it.to_vec()), expected.map(Vec::from));
        let divided = number::divided(&first, &second);
        let divided = divided.map(|(quotient, rest)| (quotient.to_vec(), rest[1..].to_vec()));
        let expected = one.checked_div(other).zip(one.checked_rem(other));
        let bytes = |number: u32| number.to_be_bytes().to_vec();
        assert_eq!(divided, expected.map(|(it, rest)| (bytes(it), bytes(rest))));
    }
}
