//! The same watches on our server and on etcd, while the same writes go on: the
//! same events in the same order.
//!
//! A scene is a random story on fresh keys: writes, compactions, watches that
//! begin in the past, now or in the future, of keys, intervals and empty ones,
//! with filters, former values and fragments, cancellations, questions for
//! progress, and ranges as streams. Each side's answers are gathered by
//! [`stream`], which also notices what is wrong on one side alone. At the end
//! every watch is brought up to date by writes of its own key, and compared.
//!
//! What may differ: how events are spread over answers; how many come before a
//! cancellation; and, where history is compacted while a watch still reads it,
//! whether the watch or the compaction comes first, and the former values of
//! what is compacted.

mod generate;
mod range_stream;
mod scene;
mod stream;

use std::collections::BTreeMap;
use std::time::Instant;

use environment::randomness::Random;
use scene::Scene;

use crate::servers::Servers;
use crate::{Length, Outcome, Report, Subject};

/// After so many, both servers begin again with empty directories.
const SCENES_MAX: u64 = 60;

/// Plays scenes until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let deadline = Instant::now() + length.lasting;
    let mut totals = BTreeMap::new();
    let mut seed = length.seed;
    loop {
        seed = few_scenes(subject, seed, deadline, &mut totals).await?;
        if Instant::now() >= deadline {
            return Ok(report(&totals));
        }
    }
}

fn report(totals: &BTreeMap<&'static str, u64>) -> Report {
    let mut report = Report::default();
    for (name, count) in totals {
        report.add(name, count);
    }
    report.add("differences", 0);
    report
}

/// The seed that comes next.
async fn few_scenes(
    subject: &Subject,
    first: u64,
    deadline: Instant,
    totals: &mut BTreeMap<&'static str, u64>,
) -> Outcome<u64> {
    let flags = ["--log-level=error"];
    let theirs = Servers::start(subject.etcd()?, 1, &flags).await?;
    let mut ours = Servers::start(&subject.inkstone, 1, &flags).await?;
    let (mut seed, mut compacted) = (first, 0);
    loop {
        let random = Random::from_seed(seed);
        let mut scene = Scene::open(random, theirs.first(), ours.first(), compacted).await?;
        let played = scene.play().await;
        ours.check()?;
        // A story that needs those before it is told with them.
        played.map_err(|error| {
            format!("{error}\nseed {seed}, begun with {first}; again: cargo xtask fuzz watch --seed {first}")
        })?;
        compacted = scene.compacted();
        for (name, count) in scene.counts() {
            *totals.entry(name).or_default() += count;
        }
        seed = seed.wrapping_add(1);
        if seed.wrapping_sub(first) >= SCENES_MAX || Instant::now() >= deadline {
            return Ok(seed);
        }
    }
}
