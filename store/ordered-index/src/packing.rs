//! How the numbers of one field are packed: what they share is stored once.
//!
//! ```text
//!   numbers   0x5e00_0000_1300   0x5e00_0000_2a00   0x5e00_0000_4100
//!   least     0x5e00_0000_1300   they differ from it by multiples of 2^8
//!   packed    0x00               0x17               0x2e       one byte each, shifted by 8
//! ```
//!
//! Order is kept: of two packed numbers the greater is packed from the greater one.

/// The most bytes of a packed number.
const WIDTH_MAX: u8 = size_of::<u64>() as u8;

/// The part that the numbers of a field have in common, and the width of the rest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packing {
    /// Not above any of them.
    base: u64,
    /// Each differs from the base by a multiple of two to this power.
    shift: u8,
    /// Bytes of a packed number. With [`WIDTH_MAX`] a number is its own packed form.
    width: u8,
    /// Where the packed number begins in its row.
    pub(crate) offset: u8,
}

/// The properties of some numbers that decide how they are packed. Adding a number does not
/// need the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    first: u64,
    least: u64,
    greatest: u64,
    /// Bits in which some number differs from the first.
    differing: u64,
}

impl Spread {
    pub(crate) fn of(number: u64) -> Spread {
        Spread {
            first: number,
            least: number,
            greatest: number,
            differing: 0,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, number: u64) {
        self.least = self.least.min(number);
        self.greatest = self.greatest.max(number);
        self.differing |= number ^ self.first;
    }
}

impl Packing {
    /// The packing in as few bytes as these numbers need. If these bytes can hold a wider range,
    /// the packing takes as many other numbers below as above, so that ascending or descending
    /// ones soon need no other packing.
    pub(crate) fn of(spread: &Spread) -> Packing {
        if spread.differing == 0 {
            return Packing {
                base: spread.least,
                ..Packing::default()
            };
        }
        let shift = spread.differing.trailing_zeros();
        let range = (spread.greatest - spread.least) >> shift;
        let width = (WIDTH_MAX * 8 - range.leading_zeros() as u8).div_ceil(8);
        if width == WIDTH_MAX {
            return Packing {
                width,
                ..Packing::default()
            };
        }
        let free = mask(width) - range;
        let above_max = (u64::MAX - spread.greatest) >> shift;
        let below = (free / 2).max(free.saturating_sub(above_max));
        let below = below.min(spread.least >> shift);
        Packing {
            base: spread.least - (below << shift),
            shift: shift as u8,
            width,
            offset: 0,
        }
    }

    /// The packing that takes `number` and everything that this one takes. If it is another one,
    /// it is wider or has a smaller shift, so a field is soon as wide as it gets, whatever
    /// numbers come.
    pub(crate) fn widened(&self, number: u64) -> Packing {
        if self.pack(number).is_some() {
            return *self;
        }
        let units = self.mask().min((u64::MAX - self.base) >> self.shift);
        let mut spread = Spread {
            first: self.base,
            least: self.base,
            greatest: self.base + (units << self.shift),
            differing: units.min(1) << self.shift,
        };
        spread.add(number);
        Packing::of(&spread)
    }

    pub(crate) fn width(&self) -> u8 {
        self.width
    }

    /// The greatest packed number.
    #[inline]
    pub(crate) fn mask(&self) -> u64 {
        mask(self.width)
    }

    /// The packed form of a number, if it has one in this packing.
    #[inline]
    pub(crate) fn pack(&self, number: u64) -> Option<u64> {
        let (packed, is_exact) = self.divided(number.checked_sub(self.base)?);
        (is_exact && packed <= self.mask()).then_some(packed)
    }

    /// The packed form of a number that this packing was made for.
    #[inline]
    pub(crate) fn pack_one_that_fits(&self, number: u64) -> u64 {
        debug_assert!(self.pack(number).is_some(), "{number} in {self:?}");
        (number - self.base) >> self.shift
    }

    /// The least packed number that stands for a number not below this one; it may be greater
    /// than any that is stored.
    #[inline]
    pub(crate) fn pack_up(&self, number: u64) -> u64 {
        let (packed, is_exact) = self.divided(number.saturating_sub(self.base));
        packed + u64::from(!is_exact)
    }

    #[inline]
    pub(crate) fn unpack(&self, packed: u64) -> u64 {
        self.base + (packed << self.shift)
    }

    /// A difference in units of the shift, rounded down, and whether nothing was lost.
    #[inline]
    fn divided(&self, difference: u64) -> (u64, bool) {
        let units = difference >> self.shift;
        (units, units << self.shift == difference)
    }
}

/// The greatest number of `width` bytes.
#[inline]
fn mask(width: u8) -> u64 {
    !u64::MAX.checked_shl(u32::from(width) * 8).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use environment::randomness::Random;

    const ROUNDS: u64 = if cfg!(miri) { 200 } else { 20_000 };

    fn packing(numbers: &[u64]) -> Packing {
        let mut spread = Spread::of(numbers[0]);
        numbers.iter().for_each(|&number| spread.add(number));
        Packing::of(&spread)
    }

    #[test]
    fn equal_numbers_take_no_byte() {
        let packing = packing(&[77, 77]);
        assert_eq!((packing.width(), packing.pack(77)), (0, Some(0)));
        assert_eq!(packing.unpack(0), 77);
        assert_eq!((packing.pack(76), packing.pack(78)), (None, None));
        assert_eq!((packing.pack_up(77), packing.pack_up(78)), (0, 1));
    }

    #[test]
    fn what_all_numbers_share_is_not_stored() {
        let packing = packing(&[0x5e00_0000_1300, 0x5e00_0000_2a00, 0x5e00_0000_4100]);
        assert_eq!(packing.width(), 1);
        assert_eq!(packing.pack(0x5e00_0000_2a01), None, "not a multiple");
        assert!(packing.pack(0x5e00_0000_4200).is_some(), "room above");
        assert!(packing.pack(0x5e00_0000_1200).is_some(), "room below");
    }

    #[test]
    fn the_widest_range_is_stored_as_it_is() {
        let packing = packing(&[0, u64::MAX, 1]);
        assert_eq!(packing.width(), WIDTH_MAX);
        assert_eq!(packing.pack(u64::MAX), Some(u64::MAX));
        assert_eq!(packing.pack_up(u64::MAX), u64::MAX);
    }

    #[test]
    fn numbers_far_apart_with_nothing_between_take_one_byte() {
        assert_eq!(packing(&[0, 1 << 63]).width(), 1);
        assert_eq!(packing(&[1, 1 | 1 << 63]).width(), 1);
    }

    #[test]
    fn a_wider_packing_takes_all_that_the_one_before_took() {
        let mut random = Random::from_seed(4);
        for _ in 0..ROUNDS {
            let mut number = || {
                let (bits, shift) = (random.below(64), random.below(64));
                (random.next_u64() >> bits) << shift
            };
            let mut packing = packing(&[number()]);
            let mut taken = Vec::new();
            for _ in 0..20 {
                let next = number();
                let wider = packing.widened(next);
                let is_other = wider.width > packing.width || wider.shift < packing.shift;
                assert_eq!(is_other, packing.pack(next).is_none());
                packing = wider;
                taken.push(next);
                let back = |&number: &u64| packing.unpack(packing.pack(number).unwrap());
                assert!(taken.iter().map(back).eq(taken.iter().copied()));
            }
        }
    }

    #[test]
    fn packed_numbers_come_back_and_keep_their_order() {
        let mut random = Random::from_seed(3);
        for _ in 0..ROUNDS {
            let (base, bits, shift) = (random.next_u64(), random.below(64), random.below(64));
            let mut number = || base.wrapping_add((random.next_u64() >> bits) << shift);
            let mut numbers = [number(), number(), number(), number()];
            numbers.sort_unstable();
            let packing = packing(&numbers);
            let packed = numbers.map(|number| packing.pack(number).expect("it was counted in"));
            assert_eq!(packed.map(|packed| packing.unpack(packed)), numbers);
            assert!(packed.is_sorted());
            let other = number();
            let not_below = numbers.map(|number| number >= other);
            let wanted = packing.pack_up(other);
            assert_eq!(packed.map(|packed| packed >= wanted), not_below, "{other}");
        }
    }
}
