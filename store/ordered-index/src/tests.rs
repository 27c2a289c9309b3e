//! Tests that look inside: after every few operations the whole structure is
//! checked, not only its answers.

mod check;
mod cursors;
mod model;
mod shape;
mod spare;

use crate::IndexEntry;
use environment::randomness::Random;

/// Miri runs the same stories, a hundred times shorter.
const STEPS: u64 = if cfg!(miri) { 300 } else { 30_000 };

/// Entries with all of their bits in use, and others that differ in few.
fn entry(number: u64) -> IndexEntry {
    match number % 5 {
        0 => IndexEntry {
            value: number << 48 | number,
            stamp: number,
        },
        1 => IndexEntry {
            value: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            stamp: 1 << 63 | number,
        },
        _ => IndexEntry {
            value: number,
            stamp: !number,
        },
    }
}

/// A key of one of the shapes that the packing treats differently.
fn any_key(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => random.below(2_000).to_be_bytes().to_vec(),
        1 => format!("/registry/pods/blue/web-{:04}", random.below(2_000)).into_bytes(),
        2 => format!("/registry/{}/{}", random.below(30), random.below(30)).into_bytes(),
        3 => zeros_and_ones(random),
        4 => vec![b'p'; random.below(40) as usize],
        5 => vec![b'q'; 240 + random.below(60) as usize],
        6 => [vec![b'r'; 5_000], vec![random.below(50) as u8]].concat(),
        _ => binary(random),
    }
}

/// Short strings of 0 and 1: padding, prefixes of each other, the empty key.
fn zeros_and_ones(random: &mut Random) -> Vec<u8> {
    (0..random.below(12))
        .map(|_| random.below(2) as u8)
        .collect()
}

fn binary(random: &mut Random) -> Vec<u8> {
    let mut key = vec![0; random.below(30) as usize];
    random.fill(&mut key);
    key
}
