//! Makes the data set of a run, before anything is measured.

use super::{Failure, Job, Opened, settle};
use crate::load::batches::{Batch, BatchLimits, OnBatch, preload, rounds};
use crate::load::{EMBEDDED_BATCH, Plan, REMOTE_BATCH, Stage, write_embedded, write_remote};
use crate::verify::ClientWrites;
use crate::worker::measure::send_progress;
use crate::worker::space::SpaceWatch;

/// Preloads the keys, overwrites them in rounds, and puts them in order, as the workload says. Returns
/// the writes of the rounds, with times since the plan's origin.
pub fn make(
    job: &Job,
    opened: &Opened,
    plan: &Plan,
    space: &mut SpaceWatch,
) -> Result<Option<ClientWrites>, Failure> {
    let load = &job.workload.load;
    if !load.preload {
        return Ok(None);
    }
    if load.compact && matches!(opened, Opened::Servers(..)) {
        return Err("load.compact = true: servers have no call that puts keys in order".into());
    }
    write(opened, plan, preload, &mut |batch, _| {
        space.look(Some((batch.share * load.keys as f64).round() as u64));
        send_progress(Stage::Load, batch.share, 0.0)
    })?;
    settle(job);
    let of_rounds = match load.rounds {
        0 => None,
        _ => Some(overwrite(job, opened, plan, space)?),
    };
    if let (true, Opened::Embedded(_, target)) = (load.compact, opened) {
        send_progress(Stage::Compact, 0.0, 0.0)?;
        target.compact()?;
        space.look(Some(load.keys));
        settle(job);
    }
    Ok(of_rounds)
}

fn overwrite(
    job: &Job,
    opened: &Opened,
    plan: &Plan,
    space: &mut SpaceWatch,
) -> Result<ClientWrites, Failure> {
    let mut writes = ClientWrites::new(plan.clients);
    write(opened, plan, rounds, &mut |batch, (begun, ended)| {
        for (key, stamp) in &batch.written {
            writes.note(*key, *stamp, begun, ended);
        }
        space.look(Some(job.workload.load.keys));
        send_progress(Stage::Overwrite, batch.share, 0.0)
    })?;
    settle(job);
    Ok(writes)
}

fn write<'a, Puts: Iterator<Item = Batch>>(
    opened: &Opened,
    plan: &'a Plan,
    batches: fn(&'a Plan, BatchLimits) -> Puts,
    on_batch: &mut OnBatch<'_>,
) -> Result<(), Failure> {
    match opened {
        Opened::Embedded(_, target) => {
            let batches = batches(plan, EMBEDDED_BATCH);
            write_embedded(plan, target.as_ref(), batches, on_batch)
        }
        Opened::Servers(_, remote) => {
            write_remote(plan, remote, batches(plan, REMOTE_BATCH), on_batch)
        }
    }
}
