//! Runs the same watches and the same writes on Inkstone and on etcd, and compares the
//! events and their order.
//!
//! A scene is a random sequence on fresh keys: writes, compactions, watches that
//! begin in the past, now or in the future, of keys, intervals and empty intervals,
//! with filters, previous values and fragments, cancellations, progress
//! requests, and range streams. Each server's answers are gathered by
//! `stream`, which also detects faults of one server alone. At the end
//! writes to a key of each watch bring it up to date, and the watches are compared.
//!
//! These may differ: how events are spread over answers; how many are sent before a
//! cancellation; and, if history is compacted while a watch still reads it,
//! whether the watch or the compaction is first, and the previous values of
//! compacted versions.

pub(crate) mod generate;
mod range_stream;
mod scene;
mod stream;

use std::collections::BTreeMap;
use std::time::Instant;

use environment::randomness::Random;
use scene::Scene;

use crate::servers::Servers;
use crate::{Length, Outcome, Report, Subject};

/// Scenes after which both servers are started again with empty directories.
const SCENES_MAX: u64 = 60;

/// Plays scenes until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let deadline = Instant::now() + length.lasting;
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    let mut seed = length.seed;
    while seed == length.seed || Instant::now() < deadline {
        let (first, mut compacted) = (seed, 0);
        let (theirs, mut ours) = Servers::pair(subject)?;
        while seed == first || (seed - first < SCENES_MAX && Instant::now() < deadline) {
            let random = Random::from_seed(seed);
            let mut scene = Scene::open(random, theirs.first(), ours.first(), compacted).await?;
            let played = scene.play().await;
            ours.check()?;
            // A scene may depend on those before it, so the message names the first seed, too.
            played.map_err(|error| {
                let again = format!("cargo trials fuzz watch --seed {first}");
                format!("{error}\nseed {seed}, begun with {first}; again: {again}")
            })?;
            compacted = scene.compacted;
            for (name, count) in scene.counts {
                *totals.entry(name).or_default() += count;
            }
            seed += 1;
        }
    }
    let mut report = Report::default();
    for (name, count) in totals {
        report.add(name, count);
    }
    report.add("differences", 0);
    Ok(report)
}
