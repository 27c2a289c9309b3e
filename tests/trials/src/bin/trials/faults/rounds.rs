//! Rounds: faults are injected and healed, and then all members must agree.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use environment::randomness::Random;
use tokio::{task::JoinSet, time::Instant};

use super::{
    broken, changes,
    injector::inject,
    kinds::{Kind, Missing},
    recorder::Recorder,
    recovery::Probe,
    trial::Trial,
};
use crate::{live_line, process::Outcome};

/// Seconds between two lines if the output is not a terminal.
const LINE_SECONDS: u64 = 30;

/// Faults of a trial.
pub enum Scene {
    /// All faults that this machine can inject.
    Everything(Missing),
    /// The fault that members without confirmation of reads do not survive.
    SlowLeaderCutOff,
}

/// Runs rounds until the time is over; the cluster is healed then.
pub async fn run(
    trial: &Arc<Trial>,
    recorder: &Arc<Recorder>,
    scene: &Scene,
    length: Duration,
    mut random: Random,
) -> Outcome {
    let end = Instant::now() + length;
    let line = tokio::spawn(show(Arc::clone(trial), Arc::clone(recorder)));
    let mut probe = Probe::new(1_100, trial, recorder);
    let mut outcome = Ok(());
    while outcome.is_ok() && Instant::now() < end {
        outcome = one(trial, &mut probe, scene, &mut random).await;
        tokio::time::sleep(Duration::from_millis(random.below(2_000))).await;
    }
    line.abort();
    outcome
}

async fn one(trial: &Arc<Trial>, probe: &mut Probe, scene: &Scene, random: &mut Random) -> Outcome {
    let kinds = match scene {
        Scene::Everything(missing) => missing.draw(random),
        Scene::SlowLeaderCutOff => {
            broken::slow_leader_cut_off(trial).await?;
            Vec::new()
        }
    };
    let mut faults = JoinSet::new();
    for kind in &kinds {
        let (kind, trial) = (*kind, Arc::clone(trial));
        let (mut start, random) = (random.split(), random.split());
        faults.spawn(async move {
            tokio::time::sleep(Duration::from_millis(start.below(1_500))).await;
            trial.now.lock().expect("no holder panics").push(kind);
            let done = inject(Arc::clone(&trial), kind, random).await;
            note(&trial, kind, matches!(done, Ok(true)));
            done.map_err(|error| format!("{}: {error}", kind.name()))
        });
    }
    while let Some(done) = faults.join_next().await {
        done??;
    }
    let healed = probe.all_members(trial).await;
    let settled = match healed {
        Ok(_) => settle(trial, probe, random).await,
        Err(error) => Err(error),
    };
    settled.map_err(|error| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        format!("after {}: {error}", names.join(" + "))
    })?;
    trial.look_after_members()
}

/// Finishes the changes of the members that have begun.
async fn settle(trial: &Trial, probe: &mut Probe, random: &mut Random) -> Outcome {
    let before = trial.voters();
    changes::settle(trial, random).await?;
    if trial.voters() != before {
        probe.all_members(trial).await?;
    }
    Ok(())
}

fn note(trial: &Trial, kind: Kind, done: bool) {
    let mut now = trial.now.lock().expect("no holder panics");
    if let Some(index) = now.iter().position(|it| *it == kind) {
        now.swap_remove(index);
    }
    let mut all = trial.done.lock().expect("no holder panics");
    *all.entry(kind).or_default() += u64::from(done);
}

/// Shows the state of the trial each second.
async fn show(trial: Arc<Trial>, recorder: Arc<Recorder>) {
    let mut before = 0;
    for second in 1.. {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let acknowledged = recorder.acknowledged.load(Ordering::Relaxed);
        let faults: u64 = trial.done.lock().expect("no holder panics").values().sum();
        let now: Vec<&str> = {
            let now = trial.now.lock().expect("no holder panics");
            now.iter().map(|kind| kind.name()).collect()
        };
        let elapsed = recorder.elapsed().as_secs();
        let line = format!(
            "{:>3}:{:02}  {faults} faults  {:>4} answers/s  {acknowledged} answers  \
             {} unknown  {} events  revision {}  {}",
            elapsed / 60,
            elapsed % 60,
            acknowledged - before,
            recorder.unknown.load(Ordering::Relaxed),
            recorder.events.load(Ordering::Relaxed),
            recorder.revision.load(Ordering::Relaxed),
            now.join(" + "),
        );
        live_line::show(&line, u64::is_multiple_of(second, LINE_SECONDS));
        before = acknowledged;
    }
}
