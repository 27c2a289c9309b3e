//! Rounds: faults are injected and healed, and then all members must agree.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use environment::randomness::Random;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{broken, changes, injector::inject, kinds::Kind, recovery::Probe, trial::Trial};
use crate::{live_line::Progress, process::Outcome};

/// Runs rounds until the time is over; the cluster is healed then. With `broken`, the fault is
/// the one that members without confirmation of reads do not survive.
pub async fn run(
    trial: &Arc<Trial>,
    broken: bool,
    length: Duration,
    mut random: Random,
) -> Outcome {
    let end = Instant::now() + length;
    let line = tokio::spawn(show(Arc::clone(trial)));
    let mut probe = Probe::new(1_100, trial);
    let mut outcome = Ok(());
    while outcome.is_ok() && Instant::now() < end {
        outcome = one(trial, &mut probe, broken, &mut random).await;
        sleep(Duration::from_millis(random.below(2_000))).await;
    }
    line.abort();
    outcome
}

async fn one(trial: &Arc<Trial>, probe: &mut Probe, broken: bool, random: &mut Random) -> Outcome {
    let mut kinds = Vec::new();
    if broken {
        broken::slow_leader_cut_off(trial).await?;
    } else {
        let missing = trial.missing.lock().expect("no holder panics");
        kinds = missing.draw(random);
    }
    let mut faults = JoinSet::new();
    for &kind in &kinds {
        let (start, random) = (random.below(1_500), random.split());
        faults.spawn(fault(Arc::clone(trial), kind, start, random));
    }
    while let Some(done) = faults.join_next().await {
        done??;
    }
    let healed = async {
        probe.all_members(trial).await?;
        // Changes of the members that have begun are finished.
        let before = trial.voters();
        changes::settle(trial, random).await?;
        if trial.voters() != before {
            probe.all_members(trial).await?;
        }
        Outcome::Ok(())
    };
    healed
        .await
        .map_err(|error| format!("after {}: {error}", names(&kinds)))?;
    trial.look_after_members()
}

/// Injects a fault after `start` milliseconds, and counts it.
async fn fault(trial: Arc<Trial>, kind: Kind, start: u64, random: Random) -> Outcome {
    sleep(Duration::from_millis(start)).await;
    let now = || trial.now.lock().expect("no holder panics");
    now().push(kind);
    let done = inject(Arc::clone(&trial), kind, random).await;
    let place = now().iter().position(|it| *it == kind);
    now().swap_remove(place.expect("it was pushed"));
    if done.map_err(|error| format!("{}: {error}", kind.name()))? {
        trial.recorder.count("fault", &kind.name());
    }
    Ok(())
}

fn names(kinds: &[Kind]) -> String {
    let names: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
    names.join(" + ")
}

/// Shows the state of the trial each second.
async fn show(trial: Arc<Trial>) {
    let recorder = &trial.recorder;
    let mut progress = Progress::begin();
    let mut before = 0;
    loop {
        sleep(Duration::from_secs(1)).await;
        let acknowledged = recorder.acknowledged.load(Ordering::Relaxed);
        let now = trial.now.lock().expect("no holder panics").clone();
        progress.show(&format!(
            "{} faults  {:>4} answers/s  {acknowledged} answers  {} unknown  {} events  \
             revision {}  {}",
            recorder.counted("fault").values().sum::<u64>(),
            acknowledged - before,
            recorder.unknown(),
            recorder.events.load(Ordering::Relaxed),
            recorder.revision.load(Ordering::Relaxed),
            names(&now),
        ));
        before = acknowledged;
    }
}
