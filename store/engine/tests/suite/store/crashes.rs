//! A crash or a fault at every I/O of a run, and what a restart finds.

use super::model::Model;
use super::{Store, seed};
use engine::Options;
use environment::simulated::{Fault, Restart, SimulatedDisk};

/// Every way to come back from a crash.
pub const RESTARTS: [Restart; 5] = [
    Restart::power_loss(),
    Restart::power_loss_without_journal(),
    Restart::power_loss_within_a_sector(),
    Restart::nothing_kept(),
    Restart::ProcessCrash,
];

/// A workload and its judge.
pub struct Trial<Run, Judge> {
    /// Part of every failure's message.
    pub name: &'static str,
    /// Runs until a crash or fault stops it: what it left for the judge.
    pub run: Run,
    /// Looks at what a restart finds.
    pub judge: Judge,
}

impl<Story, Run, Judge> Trial<Run, Judge>
where
    Run: Fn(&SimulatedDisk) -> Story,
    Judge: Fn(&SimulatedDisk, &Story, &str),
{
    /// A crash at each of these I/Os, and each of these restarts.
    pub fn crash(&self, ios: impl Iterator<Item = u64>, restarts: &[Restart]) {
        for io in ios {
            let (disk, story) = self.crashed(io);
            for &restart in restarts {
                let what = format!("{}, crash at I/O {io}, {restart:?}", self.name);
                (self.judge)(&disk.restart(restart), &story, &what);
            }
        }
    }

    /// A crash at each of these I/Os, and another one early in the recovery.
    pub fn crash_again(&self, ios: impl Iterator<Item = u64>, options: &Options) {
        for io in ios {
            let (disk, story) = self.crashed(io);
            for second in 0..8 {
                let disk = disk.restart(Restart::power_loss());
                disk.crash_at(second);
                drop(Store::open(&disk, options.clone(), Model::default()));
                disk.crash();
                let what = format!("{}, crash at I/O {io}, again at {second}", self.name);
                (self.judge)(&disk.restart(Restart::power_loss()), &story, &what);
            }
        }
    }

    /// A flush that fails, or a write that stops halfway, at each of these I/Os.
    pub fn fail(&self, ios: impl Iterator<Item = u64>) {
        for io in ios {
            for fault in [Fault::FailedFlush, Fault::ShortWrite { bytes: 100 }] {
                let disk = SimulatedDisk::new(seed(io));
                disk.inject(io, fault);
                let story = (self.run)(&disk);
                disk.crash();
                let what = format!("{}, {fault:?} at I/O {io}", self.name);
                (self.judge)(&disk.restart(Restart::power_loss()), &story, &what);
            }
        }
    }

    fn crashed(&self, io: u64) -> (SimulatedDisk, Story) {
        let disk = SimulatedDisk::new(seed(io));
        disk.crash_at(io);
        let story = (self.run)(&disk);
        disk.crash();
        (disk, story)
    }
}

/// Whether a run finds out that a device ignored a flush: `run` returns the last index
/// that was acknowledged.
pub fn ignored_flush_is_noticed(
    mut ios: impl Iterator<Item = u64>,
    options: &Options,
    run: impl Fn(&SimulatedDisk) -> u64,
) -> bool {
    ios.any(|io| {
        let disk = SimulatedDisk::new(seed(io));
        disk.inject(io, Fault::IgnoredFlush);
        // Before a later flush makes up for it.
        disk.crash_at(io + 1);
        let acknowledged = run(&disk);
        disk.crash();
        let disk = disk.restart(Restart::nothing_kept());
        match Store::open(&disk, options.clone(), Model::default()) {
            Err(_) => true,
            Ok(store) => store.recovered.applied_index < acknowledged,
        }
    })
}
