//! Arithmetic on whole numbers of any length: bytes, the highest first.

use zeroize::Zeroizing;

/// A number; it may begin with zeros.
pub(crate) type Number = Zeroizing<Vec<u8>>;

/// Without the zeros at its beginning.
fn digits(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

pub(crate) fn is_less(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (digits(one), digits(other));
    (one.len(), one) < (other.len(), other)
}

pub(crate) fn product(one: &[u8], other: &[u8]) -> Number {
    let mut product = Zeroizing::new(vec![0u8; one.len() + other.len()]);
    for (place, digit) in one.iter().enumerate().rev() {
        let mut carry = 0u32;
        for (with, factor) in other.iter().enumerate().rev() {
            let sum = &mut product[place + with + 1];
            carry += u32::from(*sum) + u32::from(*digit) * u32::from(*factor);
            *sum = low(carry);
            carry >>= 8;
        }
        // No lower digit has added anything here.
        product[place] = low(carry);
    }
    product
}

/// `None` below zero.
pub(crate) fn difference(one: &[u8], other: &[u8]) -> Option<Number> {
    if is_less(one, other) {
        return None;
    }
    let mut result = Zeroizing::new(one.to_vec());
    subtract(&mut result, other);
    Some(result)
}

pub(crate) fn less_one(number: &[u8]) -> Option<Number> {
    difference(number, &[1])
}

/// Quotient and remainder; `None` for a division by zero.
pub(crate) fn divided(number: &[u8], by: &[u8]) -> Option<(Number, Number)> {
    if digits(by).is_empty() {
        return None;
    }
    let mut quotient = Zeroizing::new(vec![0u8; number.len()]);
    let mut rest = Zeroizing::new(vec![0u8; by.len() + 1]);
    for (place, byte) in number.iter().enumerate() {
        for bit in (0..8).rev() {
            append(&mut rest, byte >> bit & 1);
            if !is_less(&rest, by) {
                subtract(&mut rest, by);
                quotient[place] |= 1 << bit;
            }
        }
    }
    Some((quotient, rest))
}

/// As DER has it: without zeros at its beginning, except for one that keeps it positive.
pub(crate) fn signed(number: &[u8]) -> Number {
    let digits = digits(number);
    let is_positive = digits.first().is_some_and(|first| *first < 0x80);
    let zero: &[u8] = if is_positive { &[] } else { &[0] };
    Zeroizing::new([zero, digits].concat())
}

/// Twice the number, plus a bit. The highest bit is lost.
fn append(number: &mut [u8], bit: u8) {
    let mut carry = bit;
    for byte in number.iter_mut().rev() {
        let lost = *byte >> 7;
        *byte = *byte << 1 | carry;
        carry = lost;
    }
}

/// Subtracts a number that is not larger.
fn subtract(from: &mut [u8], number: &[u8]) {
    let number = digits(number);
    let mut borrow = false;
    let mut lower = number.iter().rev();
    for byte in from.iter_mut().rev() {
        let (less, first) = byte.overflowing_sub(lower.next().copied().unwrap_or(0));
        let (less, second) = less.overflowing_sub(u8::from(borrow));
        *byte = less;
        borrow = first || second;
    }
    assert!(!borrow, "the number to subtract is not larger");
}

fn low(number: u32) -> u8 {
    number.to_le_bytes()[0]
}
