//! Random keys and values, made before the clock starts and shared by all threads.

/// All random data; values are cut from it.
pub const BYTES: usize = 1 << 20;
/// Length of a piece of random bytes that is then repeated: values compress to about one
/// half, as those of db_bench do.
const PIECE_BYTES: usize = 100;

/// xorshift64*, good enough here and without shared state.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        // Mixing makes neighbouring seeds begin differently.
        let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random((mixed ^ (mixed >> 29)) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        // The upper bits are the better ones.
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

/// A mebibyte that values are cut from.
pub fn values(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(BYTES + PIECE_BYTES);
    while bytes.len() < BYTES {
        let half: Vec<u8> = (0..PIECE_BYTES / 2)
            .map(|_| b' ' + random.below(95) as u8)
            .collect();
        bytes.extend_from_slice(&half);
        bytes.extend_from_slice(&half);
    }
    bytes.truncate(BYTES);
    bytes
}

/// Sixteen digits, as db_bench has them.
pub fn key(number: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// Cuts values one after the other, from a place of each thread's own.
pub struct Cutter<'a> {
    bytes: &'a [u8],
    length: usize,
    at: usize,
}

impl<'a> Cutter<'a> {
    pub fn new(bytes: &'a [u8], length: usize, random: &mut Random) -> Cutter<'a> {
        let at = random.below((bytes.len() - length + 1) as u64) as usize;
        Cutter { bytes, length, at }
    }

    pub fn next(&mut self) -> &'a [u8] {
        if self.at + self.length > self.bytes.len() {
            self.at = 0;
        }
        let value = &self.bytes[self.at..self.at + self.length];
        self.at += self.length;
        value
    }
}
