//! Samples of space on disk and memory, from the preload to the end of the measured part.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::accounting::{anonymous_bytes, footprint_bytes};
use crate::load::live::{WriteCounts, live_keys};
use crate::record::{Space, SpaceSample};
use crate::workload::Workload;

/// With more samples than this, every second one is dropped and the interval doubles, so that
/// a long load does not fill the record.
const SAMPLES_MAX: usize = 2_000;

/// Takes a sample in each interval of the workload.
pub struct SpaceWatch {
    workload: Workload,
    /// Directory and processes of the target; `None` where they are not the lab's.
    target: Option<(PathBuf, Vec<u32>)>,
    anonymous_bytes_before: u64,
    interval: Duration,
    samples: Vec<(Instant, SpaceSample)>,
    measured_since: Option<Instant>,
}

impl SpaceWatch {
    /// A watch without a target yet; remembers this process's memory, to be created before an
    /// embedded target is opened.
    pub fn new(workload: &Workload) -> SpaceWatch {
        SpaceWatch {
            workload: workload.clone(),
            target: None,
            anonymous_bytes_before: anonymous_bytes(std::process::id()),
            interval: workload.time.interval.as_duration(),
            samples: Vec::new(),
            measured_since: None,
        }
    }

    /// Names the directory and the server processes of the target; without servers it lives in
    /// this process.
    pub fn begin(&mut self, directory: &Path, servers: Vec<u32>) {
        let processes = match servers.is_empty() {
            true => vec![std::process::id()],
            false => {
                self.anonymous_bytes_before = 0;
                servers
            }
        };
        self.target = Some((directory.to_owned(), processes));
    }

    /// Takes a sample if the interval since the one before has passed.
    pub fn look(&mut self, live_keys: Option<u64>) {
        let last = self.samples.last();
        if last.is_none_or(|(at, _)| at.elapsed() >= self.interval) {
            self.take(live_keys);
        }
    }

    /// The same after these writes of the load.
    pub fn look_after(&mut self, counts: WriteCounts) {
        self.look(live_keys(&self.workload, counts));
    }

    /// Takes a sample, which is the last of a measured part.
    pub fn measured_part_ended(&mut self, counts: WriteCounts) {
        self.take(live_keys(&self.workload, counts));
    }

    /// The times of all samples count from the first call.
    pub fn measured_part_begins(&mut self) {
        self.measured_since.get_or_insert_with(Instant::now);
    }

    fn take(&mut self, live_keys: Option<u64>) {
        let Some((directory, processes)) = &self.target else {
            return;
        };
        let memory = processes.iter().map(|process| anonymous_bytes(*process));
        let sample = SpaceSample {
            at_seconds: 0.0,
            footprint_bytes: footprint_bytes(directory),
            anonymous_bytes: memory.sum(),
            live_keys,
        };
        self.samples.push((Instant::now(), sample));
        if self.samples.len() > SAMPLES_MAX {
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.interval *= 2;
        }
    }

    /// All samples, for the record.
    pub fn into_space(self) -> Space {
        let load = &self.workload.load;
        let Some(origin) = self.measured_since.filter(|_| self.target.is_some()) else {
            return Space::default();
        };
        let samples = self.samples.into_iter().map(|(at, sample)| SpaceSample {
            at_seconds: seconds_between(origin, at),
            ..sample
        });
        Space {
            entry_bytes: load.key_bytes_mean() + load.value.length.mean(),
            anonymous_bytes_before: self.anonymous_bytes_before,
            keys_preloaded: if load.preload { load.keys } else { 0 },
            samples: samples.collect(),
        }
    }
}

/// Seconds from `origin` to `at`, negative where `at` is earlier.
fn seconds_between(origin: Instant, at: Instant) -> f64 {
    let later = at.saturating_duration_since(origin).as_secs_f64();
    later - origin.saturating_duration_since(at).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse;

    fn watch(interval: &str) -> SpaceWatch {
        let text = format!(
            "name = \"test\"\n[load]\nkeys = 10\nkey = {{ kind = \"u64be\", size = 16 }}\n\
             value = {{ length = \"fixed:84\" }}\n[time]\ninterval = \"{interval}\"\nmeasure = \"1h\"\n"
        );
        SpaceWatch::new(&parse("test", &text).unwrap())
    }

    #[test]
    fn a_sample_has_the_blocks_of_the_files_and_the_memory_of_this_process() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data"), vec![1; 100_000]).unwrap();
        rustix::fs::sync();
        let mut watch = watch("1h");
        watch.begin(folder.path(), Vec::new());
        watch.look(Some(3));
        watch.look(Some(4));
        watch.measured_part_begins();
        watch.measured_part_ended(WriteCounts::default());
        let space = watch.into_space();
        let live: Vec<_> = space.samples.iter().map(|it| it.live_keys).collect();
        assert_eq!(live, [Some(3), Some(10)], "the interval had not passed");
        assert_eq!((space.entry_bytes, space.keys_preloaded), (100.0, 10));
        let [first, last] = [space.samples[0], space.samples[1]];
        assert!(
            first.at_seconds <= 0.0 && last.at_seconds >= 0.0,
            "{space:?}"
        );
        assert!(last.footprint_bytes >= 100_000 && last.anonymous_bytes > 0);
    }

    #[test]
    fn too_many_samples_are_thinned_and_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = watch("10ms");
        watch.begin(folder.path(), Vec::new());
        watch.measured_part_begins();
        for key in 0..=SAMPLES_MAX as u64 {
            watch.take(Some(key));
        }
        assert_eq!(watch.interval, Duration::from_millis(20));
        let space = watch.into_space();
        let live: Vec<_> = space.samples.iter().filter_map(|it| it.live_keys).collect();
        let even = (0..=SAMPLES_MAX as u64).step_by(2);
        assert_eq!(live, even.collect::<Vec<_>>());
    }

    #[test]
    fn a_target_that_is_not_the_labs_has_no_samples() {
        let mut watch = watch("10ms");
        watch.measured_part_begins();
        watch.measured_part_ended(WriteCounts::default());
        assert_eq!(watch.into_space(), Space::default());
    }
}
