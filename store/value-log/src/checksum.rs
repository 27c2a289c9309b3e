//! CRC-32C, by one of two libraries: which of them is faster depends on the processor and on the
//! number of bytes.
//!
//! On an x86-64 processor without carry-less multiplication in registers of 512 bits, `crc32c`, which computes
//! three sums beside each other with the processor's own instruction, was the faster one for 512 bytes and more, and
//! `crc-fast` for most shorter inputs (lab/records/2026-11-30-amd-epyc-2-cores-looks.md). On other
//! processors neither was measured, and `crc-fast` computes all.

use crc_fast::{CrcAlgorithm, Digest};

/// The shortest input that `crc32c` computes.
const LONG_BYTES_MIN: usize = 512;

/// CRC-32C of `bytes`.
#[inline]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    match bytes.len() >= LONG_BYTES_MIN && !multiplies_wide() {
        true => crc32c::crc32c(bytes),
        false => crc_fast::crc32_iscsi(bytes),
    }
}

/// CRC-32C of all parts, one after the other.
pub fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    if bytes >= LONG_BYTES_MIN && !multiplies_wide() {
        let append = |crc, part: &&[u8]| crc32c::crc32c_append(crc, part);
        return parts.iter().fold(0, append);
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// Whether `crc-fast` computes long inputs, too.
#[inline]
fn multiplies_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vpclmulqdq")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use environment::randomness::Random;

    #[test]
    fn the_sum_is_the_same_whichever_library_computes_it() {
        let mut random = Random::from_seed(1);
        let bytes: Vec<u8> = (0..70_000).map(|_| random.next_u64() as u8).collect();
        for length in (0..1_200).chain([4_096, 65_536, 70_000 - 8]) {
            let start = random.below(8) as usize;
            let input = &bytes[start..start + length];
            let expected = crc_fast::crc32_iscsi(input);
            assert_eq!(crc32c::crc32c(input), expected, "{length} bytes");
            assert_eq!(crc32c(input), expected, "{length} bytes");
            let (one, others) = input.split_at(random.below(length as u64 + 1) as usize);
            assert_eq!(crc32c_of(&[one, &[], others]), expected, "{length} bytes");
            let appended = crc32c::crc32c_append(crc32c::crc32c(one), others);
            assert_eq!(appended, expected, "{length} bytes");
        }
    }

    #[test]
    fn the_sum_of_nine_digits_is_the_one_that_is_published() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_of(&[]), 0);
    }
}
