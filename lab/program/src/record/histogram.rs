//! Histograms of latencies. A record keeps them as HdrHistogram's V2, deflated, in base64,
//! which every port of HdrHistogram reads; records of earlier labs have V2 without deflation.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Significant decimal digits: the relative error of a recorded value is below 0.1 %.
const DIGITS: u8 = 3;
/// One hour, in nanoseconds: longer times are recorded as this.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// A distribution of times, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// Error for bytes that are no histogram.
#[derive(Debug, thiserror::Error)]
#[error("no histogram in HdrHistogram's V2 encoding: {0}")]
pub struct Undecodable(String);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::with_digits(DIGITS)
    }
}

impl Histogram {
    /// A histogram that is only as large as the greatest recorded time needs. Each thread of
    /// clients fills its own: hundreds of them exist in the process of an embedded target, and
    /// their memory is measured with the target's.
    pub fn growing() -> Histogram {
        let growing = hdrhistogram::Histogram::new(DIGITS);
        Histogram(growing.expect("the digits are valid"))
    }

    /// Counts one time; longer ones than an hour count as an hour.
    pub fn record(&mut self, nanoseconds: u64) {
        let recorded = self.0.record(nanoseconds.clamp(1, HIGHEST_NS));
        recorded.expect("a histogram has room for an hour, or grows");
    }

    /// Counts the same time `count` times.
    pub fn record_many(&mut self, nanoseconds: u64, count: u64) {
        self.0.saturating_record_n(nanoseconds.max(1), count);
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
            .expect("no histogram holds a time above the highest");
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

    /// The same distribution with fewer significant digits, which takes less room.
    pub fn rounded(&self, digits: u8) -> Histogram {
        let mut rounded = Histogram::with_digits(digits);
        rounded.add(self);
        rounded
    }

    fn with_digits(digits: u8) -> Histogram {
        let histogram = hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, digits);
        Histogram(histogram.expect("the bounds are valid"))
    }

    fn decode(bytes: &[u8]) -> Result<Histogram, String> {
        let read = Deserializer::new().deserialize(&mut &*bytes);
        let histogram: hdrhistogram::Histogram<u64> = read.map_err(|error| error.to_string())?;
        match (histogram.low(), histogram.high()) {
            (1, HIGHEST_NS) => Ok(Histogram(histogram)),
            _ => Err("its bounds are not the lab's".into()),
        }
    }
}

impl From<Histogram> for String {
    fn from(histogram: Histogram) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&histogram.0, &mut bytes);
        written.expect("a vector takes every byte");
        STANDARD.encode(bytes)
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
            assert_eq!(read, histogram);
        }
    }

    /// V2 without deflation: one count of 1 in the third bucket, behind two empty ones.
    const UNDEFLATED: [u8; 42] = *b"\x1c\x84\x93\x13\0\0\0\x02\0\0\0\0\0\0\0\x03\
        \0\0\0\0\0\0\0\x01\0\0\x03\x46\x30\xb8\xa0\0\x3f\xf0\0\0\0\0\0\0\x03\x02";

    #[test]
    fn histograms_of_earlier_labs_are_read() {
        let mut histogram = Histogram::default();
        histogram.record(2);
        assert_eq!(Histogram::decode(&UNDEFLATED).unwrap(), histogram);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for text in ["", "AAAA", "%%%"] {
            assert!(Histogram::try_from(text.to_owned()).is_err());
        }
        let text = String::from(filled());
        let cut_short = text[..text.len() / 8 * 4].to_owned();
        assert!(Histogram::try_from(cut_short).is_err());
        let mut other_bounds = UNDEFLATED;
        other_bounds[23] = 2;
        let error = Histogram::decode(&other_bounds).unwrap_err();
        assert!(error.contains("bounds"), "{error}");
    }

    #[test]
    fn a_rounded_histogram_keeps_counts_and_percentiles_to_a_hundredth() {
        let (full, rounded) = (filled(), filled().rounded(2));
        assert_eq!(rounded.count(), full.count());
        let change = rounded.percentile(99.0) as f64 / full.percentile(99.0) as f64 - 1.0;
        assert!(change.abs() < 1e-2, "{change}");
        assert!(String::from(rounded.clone()).len() < String::from(full).len());
        let read = Histogram::try_from(String::from(rounded.clone())).unwrap();
        assert_eq!(
            Histogram::merged([&read].into_iter()).count(),
            rounded.count()
        );
    }

    #[test]
    fn a_recorded_time_is_precise_to_a_thousandth() {
        let mut histogram = Histogram::default();
        histogram.record(1_234_567);
        let found = histogram.percentile(50.0) as f64;
        assert!((found / 1_234_567.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_growing_histogram_counts_as_a_whole_one_does() {
        let (mut growing, mut histogram) = (Histogram::growing(), Histogram::default());
        for time in [0, 1, 999, 1 << 20, 1 << 40, u64::MAX] {
            growing.record(time);
            histogram.record(time);
        }
        let mut sum = Histogram::default();
        sum.add(&growing);
        assert_eq!(sum, histogram);
    }
}
