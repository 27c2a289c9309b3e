//! Number of keys that exist in the course of a run, from counts of the writes.

use crate::workload::{Arrival, Distribution, Workload};

/// Acknowledged writes since the warm-up began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Writes of all kinds, inserts included.
    pub written: u64,
    /// Writes of keys that did not exist before.
    pub inserted: u64,
    /// Bytes of keys and values of all writes.
    pub user_bytes: u64,
}

/// Number of existing keys after these writes; `None` where it does not follow from counts.
/// Without a preload, uniform draws have the number of different keys that is expected of
/// them, which is exact to within the root of the number of keys.
pub fn live_keys(workload: &Workload, counts: WriteCounts) -> Option<u64> {
    let load = &workload.load;
    if load.preload {
        return Some(load.keys + counts.inserted);
    }
    if workload.mix.insert > 0.0 {
        return Some(counts.inserted);
    }
    // A search counts the writes of its last step only.
    if matches!(workload.arrival, Arrival::Search { .. }) || workload.mix.read_modify_write > 0.0 {
        return None;
    }
    match workload.access.distribution {
        Distribution::Uniform => {
            let keys = load.keys as f64;
            let missed = (-(counts.written as f64) / keys).exp();
            Some((keys * (1.0 - missed)).round() as u64)
        }
        Distribution::Sequential | Distribution::Latest => Some(counts.written.min(load.keys)),
        Distribution::Zipf(_) | Distribution::Hot { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Draw, parse};
    use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

    fn live(text: &str, written: u64, inserted: u64) -> Option<u64> {
        let workload = parse("test", &format!("name = \"test\"\n{text}")).unwrap();
        let counts = WriteCounts {
            written,
            inserted,
            user_bytes: 0,
        };
        live_keys(&workload, counts)
    }

    #[test]
    fn preloaded_and_inserted_keys_exist() {
        assert_eq!(live("[load]\nkeys = 100\n", 70, 0), Some(100));
        let mix = "[load]\nkeys = 100\n[mix]\nput = 0.5\ninsert = 0.5\n";
        assert_eq!(live(mix, 70, 30), Some(130));
        let fill = "[load]\npreload = false\n[mix]\nput = 0.0\ninsert = 1.0\n";
        assert_eq!(live(fill, 70, 70), Some(70));
    }

    #[test]
    fn without_a_preload_ordered_writes_are_counted_and_popular_ones_are_unknown() {
        let with = |distribution: &str| {
            let text = "[load]\nkeys = 100\npreload = false\n[access]\ndistribution = ";
            live(&format!("{text}\"{distribution}\"\n"), 150, 0)
        };
        assert_eq!(with("sequential"), Some(100));
        assert_eq!(with("latest"), Some(100));
        assert_eq!(with("zipf:0.99"), None);
        assert_eq!(with("hot:0.1/0.9"), None);
    }

    #[test]
    fn uniform_writes_have_the_expected_number_of_different_keys() {
        let text = "[load]\nkeys = 10000\npreload = false\n";
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut draw = Draw::new(Distribution::Uniform, 10_000, 0, 1);
        let drawn: std::collections::BTreeSet<u64> =
            (0..15_000).map(|_| draw.to_write(&mut random)).collect();
        let expected = live(text, 15_000, 0).unwrap();
        assert!(expected.abs_diff(drawn.len() as u64) < 200, "{expected}");
        assert_eq!(live(text, 0, 0), Some(0));
    }
}
