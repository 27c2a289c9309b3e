//! Histograms of latencies, and their encoding: HdrHistogram's V2 in base64, which every port
//! of HdrHistogram reads.
//!
//! ```text
//!   cookie 0x1c849313 │ payload bytes │ 0 │ digits │ lowest │ highest │ 1.0 │ counts
//!        u32                u32        u32    u32      u64       u64     f64
//! ```
//!
//! Numbers are big endian. Each count is a zigzag LEB128; a negative one stands for that many
//! empty buckets. Trailing empty buckets are left out.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// Significant decimal digits: the relative error of a recorded value is below 0.1 %.
const DIGITS: u8 = 3;
/// One hour, in nanoseconds: longer times are recorded as this.
const HIGHEST_NS: u64 = 3_600_000_000_000;
const COOKIE: u32 = 0x1c84_9313;
const HEADER_BYTES: usize = 40;

/// A distribution of times, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// Error for bytes that are no histogram.
#[derive(Debug, thiserror::Error)]
#[error("no histogram in HdrHistogram's V2 encoding: {0}")]
pub struct Undecodable(String);

/// A histogram that one thread fills. It is only as large as the greatest recorded time
/// needs: hundreds of them exist in the process of an embedded target, and their memory is
/// measured with the target's.
#[derive(Clone, Debug)]
pub struct Tally(hdrhistogram::Histogram<u64>);

impl Default for Tally {
    fn default() -> Tally {
        let mut histogram = hdrhistogram::Histogram::new(DIGITS).expect("the digits are valid");
        histogram.auto(true);
        Tally(histogram)
    }
}

impl Tally {
    /// Counts one time; longer ones than an hour count as an hour.
    pub fn record(&mut self, nanoseconds: u64) {
        let recorded = self.0.record(nanoseconds.clamp(1, HIGHEST_NS));
        recorded.expect("a tally grows to the greatest recorded time");
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        let histogram = hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS);
        Histogram(histogram.expect("the bounds are valid"))
    }
}

impl Histogram {
    /// Counts one time; longer ones than an hour count as an hour.
    pub fn record(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds.max(1));
    }

    /// The sum of several histograms. For display only: verdicts compare percentiles run by
    /// run.
    pub fn merged<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Histogram {
        let mut all = Histogram::default();
        for histogram in histograms {
            all.add(histogram);
        }
        all
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.0
            .add(&other.0)
            .expect("all histograms have the same bounds");
    }

    /// Adds the counts of a thread.
    pub fn add_tally(&mut self, tally: &Tally) {
        self.0
            .add(&tally.0)
            .expect("a tally holds nothing above the highest time");
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time in nanoseconds that `percent` of the recorded times did not exceed; 0 where
    /// nothing was recorded.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// Mean time, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Longest time, in nanoseconds; 0 where nothing was recorded.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// Shortest time, in nanoseconds; 0 where nothing was recorded.
    pub fn min(&self) -> u64 {
        match self.count() {
            0 => 0,
            _ => self.0.min(),
        }
    }

    /// The buckets that are not empty, ascending: upper bound in nanoseconds, and count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }

    fn encode(&self) -> Vec<u8> {
        let mut counts = Vec::new();
        let mut empty = 0_i64;
        let last = self.0.max();
        if self.count() > 0 {
            for bucket in self.0.iter_all() {
                match bucket.count_at_value() {
                    0 => empty += 1,
                    count => {
                        if empty > 0 {
                            put_number(&mut counts, -empty);
                        }
                        empty = 0;
                        put_number(&mut counts, count as i64);
                    }
                }
                if bucket.value_iterated_to() >= last {
                    break;
                }
            }
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + counts.len());
        bytes.extend(COOKIE.to_be_bytes());
        bytes.extend((counts.len() as u32).to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(u32::from(self.0.sigfig()).to_be_bytes());
        bytes.extend(self.0.low().to_be_bytes());
        bytes.extend(self.0.high().to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes.extend(counts);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Histogram, String> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            word.map(u32::from_be_bytes).ok_or("it is cut short")
        };
        if word(0)? != COOKIE {
            return Err("it begins with another mark".into());
        }
        let payload = bytes.get(HEADER_BYTES..).ok_or("it is cut short")?;
        if payload.len() != word(4)? as usize {
            return Err("its length is another".into());
        }
        let mut histogram = Histogram::default();
        let ours = histogram.encode();
        if bytes[8..HEADER_BYTES] != ours[8..HEADER_BYTES] {
            return Err("its bounds are not the lab's".into());
        }
        let counts = numbers(payload).ok_or("a count is cut short")?;
        let shape = histogram.clone();
        let mut buckets = shape.0.iter_all();
        for count in counts {
            if count < 0 {
                let skipped = usize::try_from(-count).map_err(|_| "it skips too much")?;
                buckets.nth(skipped - 1).ok_or("it skips too much")?;
                continue;
            }
            let bucket = buckets.next().ok_or("it has too many counts")?;
            let recorded = histogram
                .0
                .record_n(bucket.value_iterated_to(), count as u64);
            recorded.map_err(|error| error.to_string())?;
        }
        Ok(histogram)
    }
}

fn put_number(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    // Eight groups of seven bits, then a byte of eight: nine bytes at most.
    for _ in 0..8 {
        if rest < 0x80 {
            break;
        }
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn numbers(mut bytes: &[u8]) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        let mut number = 0_u64;
        for index in 0..9 {
            let (&byte, rest) = bytes.split_first()?;
            bytes = rest;
            let is_last = index == 8;
            let low = if is_last { byte } else { byte & 0x7f };
            number |= u64::from(low) << (7 * index);
            if is_last || byte < 0x80 {
                break;
            }
        }
        numbers.push((number >> 1) as i64 ^ -((number & 1) as i64));
    }
    Some(numbers)
}

impl From<Histogram> for String {
    fn from(histogram: Histogram) -> String {
        STANDARD.encode(histogram.encode())
    }
}

impl TryFrom<String> for Histogram {
    type Error = Undecodable;

    fn try_from(text: String) -> Result<Histogram, Undecodable> {
        let bytes = STANDARD
            .decode(text)
            .map_err(|error| Undecodable(error.to_string()))?;
        Histogram::decode(&bytes).map_err(Undecodable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Histogram {
        let mut histogram = Histogram::default();
        for times in 0..10_000_u64 {
            histogram.record(times * times * 37 + 1);
        }
        histogram.record(u64::MAX);
        histogram
    }

    #[test]
    fn an_encoded_histogram_decodes_to_the_same_counts() {
        for histogram in [Histogram::default(), filled()] {
            let text = String::from(histogram.clone());
            let read = Histogram::try_from(text).unwrap();
            assert_eq!(read.count(), histogram.count());
            assert_eq!(read.percentile(99.9), histogram.percentile(99.9));
            assert!(read.buckets().eq(histogram.buckets()));
        }
    }

    #[test]
    fn bytes_equal_those_of_other_ports() {
        // One count of 1 in the third bucket: two empty ones are a 3, one is a 2.
        let mut histogram = Histogram::default();
        histogram.record(2);
        let bytes = histogram.encode();
        assert_eq!(bytes[..4], [0x1c, 0x84, 0x93, 0x13]);
        assert_eq!(bytes[4..8], [0, 0, 0, 2]);
        assert_eq!(bytes[HEADER_BYTES..], [3, 2]);
    }

    #[test]
    fn numbers_of_every_size_survive() {
        let all = [
            0,
            1,
            -1,
            63,
            -64,
            64,
            1 << 20,
            -(1 << 40),
            i64::MAX,
            i64::MIN,
        ];
        let mut bytes = Vec::new();
        for number in all {
            put_number(&mut bytes, number);
        }
        assert_eq!(numbers(&bytes).unwrap(), all);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for text in ["", "AAAA", "%%%"] {
            assert!(Histogram::try_from(text.to_owned()).is_err());
        }
        let mut bytes = filled().encode();
        bytes.pop();
        assert!(Histogram::decode(&bytes).is_err());
    }

    #[test]
    fn a_recorded_time_is_precise_to_a_thousandth() {
        let mut histogram = Histogram::default();
        histogram.record(1_234_567);
        let found = histogram.percentile(50.0) as f64;
        assert!((found / 1_234_567.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_tally_counts_as_a_histogram_does() {
        let (mut tally, mut histogram) = (Tally::default(), Histogram::default());
        for time in [0, 1, 999, 1 << 20, 1 << 40, u64::MAX] {
            tally.record(time);
            histogram.record(time);
        }
        let mut sum = Histogram::default();
        sum.add_tally(&tally);
        assert_eq!(sum, histogram);
    }
}
