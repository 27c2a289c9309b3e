//! Space on disk and memory that a run's data took, over time.

use serde::{Deserialize, Serialize};

/// Samples of space and memory, one in each interval from the preload on. Records of earlier
/// labs have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Space {
    /// Mean length of a key and its value together, in bytes.
    pub entry_bytes: f64,
    /// Anonymous memory of the worker before an embedded target was opened, in bytes; 0 for
    /// servers.
    pub anonymous_bytes_before: u64,
    /// Number of keys that the preload writes; with fewer keys the data set is not complete.
    pub keys_preloaded: u64,
    /// The samples in the order of time. The last one was taken when the measured part ended.
    pub samples: Vec<SpaceSample>,
}

/// Space and memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpaceSample {
    /// Time from the beginning of the (first) measured part; negative before it.
    pub at_seconds: f64,
    /// Bytes of the blocks that files of the run's directory occupy.
    pub footprint_bytes: u64,
    /// Anonymous memory of the server processes together, or of the worker for an embedded
    /// target, in bytes.
    pub anonymous_bytes: u64,
    /// Number of existing keys; `None` where the lab does not know it.
    pub live_keys: Option<u64>,
}

impl Space {
    /// Bytes on disk for each byte of existing keys and values, by sample. Samples from before
    /// the end of the preload are left out.
    pub fn per_live_byte(&self) -> impl Iterator<Item = (&SpaceSample, f64)> {
        self.samples.iter().filter_map(|sample| {
            let keys = sample.live_keys.filter(|it| *it >= self.keys_preloaded)?;
            let live = keys as f64 * self.entry_bytes;
            (live > 0.0).then(|| (sample, sample.footprint_bytes as f64 / live))
        })
    }

    /// The last of these ratios, at the end of the measured part.
    pub fn per_live_byte_at_end(&self) -> Option<f64> {
        self.per_live_byte().last().map(|(_, ratio)| ratio)
    }

    /// The greatest of these ratios in the measured part.
    pub fn per_live_byte_peak(&self) -> Option<f64> {
        let measured = self.per_live_byte().filter(|(it, _)| it.at_seconds >= 0.0);
        measured.map(|(_, ratio)| ratio).max_by(f64::total_cmp)
    }

    /// Anonymous memory for each key when the measured part ended, in bytes.
    pub fn memory_per_key(&self) -> Option<f64> {
        self.memory_for_each_key(self.samples.last()?.anonymous_bytes)
    }

    /// The greatest anonymous memory of all samples, the preload's included, for each key that
    /// existed when the measured part ended, in bytes.
    pub fn memory_per_key_peak(&self) -> Option<f64> {
        let sizes = self.samples.iter().map(|sample| sample.anonymous_bytes);
        self.memory_for_each_key(sizes.max()?)
    }

    fn memory_for_each_key(&self, anonymous_bytes: u64) -> Option<f64> {
        let keys = self.samples.last()?.live_keys.filter(|keys| *keys > 0)?;
        let added = anonymous_bytes.saturating_sub(self.anonymous_bytes_before);
        (added > 0).then_some(added as f64 / keys as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_seconds: f64, footprint: u64, anonymous: u64, live: Option<u64>) -> SpaceSample {
        SpaceSample {
            at_seconds,
            footprint_bytes: footprint,
            anonymous_bytes: anonymous,
            live_keys: live,
        }
    }

    fn space() -> Space {
        Space {
            entry_bytes: 100.0,
            anonymous_bytes_before: 1000,
            keys_preloaded: 10,
            samples: vec![
                sample(-9.0, 5000, 1100, Some(2)),
                sample(-4.0, 4000, 3000, Some(10)),
                sample(1.0, 3000, 2000, Some(10)),
                sample(2.0, 2000, 1500, Some(10)),
            ],
        }
    }

    #[test]
    fn space_is_divided_by_the_live_bytes_once_the_data_set_is_complete() {
        let space = space();
        let ratios: Vec<f64> = space.per_live_byte().map(|(_, ratio)| ratio).collect();
        assert_eq!(ratios, [4.0, 3.0, 2.0]);
        assert_eq!(space.per_live_byte_at_end(), Some(2.0));
        assert_eq!(
            space.per_live_byte_peak(),
            Some(3.0),
            "the peak is one of the measured part"
        );
    }

    #[test]
    fn memory_of_the_lab_itself_is_subtracted_and_the_peak_includes_the_preload() {
        assert_eq!(space().memory_per_key(), Some(50.0));
        assert_eq!(space().memory_per_key_peak(), Some(200.0));
    }

    #[test]
    fn nothing_is_said_where_the_live_keys_are_unknown() {
        let mut space = space();
        space.samples.push(sample(3.0, 2000, 1500, None));
        assert_eq!(space.memory_per_key(), None);
        space.samples = vec![sample(3.0, 2000, 1500, Some(0))];
        space.keys_preloaded = 0;
        assert_eq!(space.per_live_byte_at_end(), None);
        assert_eq!(Space::default().memory_per_key_peak(), None);
    }
}
