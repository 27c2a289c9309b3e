//! Threads of clients beside the coordinator.

use std::sync::Arc;
use std::thread::{Builder, ScopedJoinHandle};

use super::recorder::ThreadCounters;
use super::{Edges, Plan, Recorded, Recorder, coordinate};
use crate::record::{LoadResult, Steadiness};
use crate::targets::Failure;
use crate::verify::ClientWrites;

/// Result of a load: what was measured, all acknowledged writes, and whether the rate was steady.
pub type Measured = (LoadResult, Vec<ClientWrites>, Steadiness);

/// Result of a thread: what it recorded, and the acknowledged writes of its clients.
pub type Ended = (Recorded, Vec<ClientWrites>);

/// Runs the plan: each function in `threads` drives some of the clients in a thread of its own.
pub fn run_threads<Thread>(
    plan: &Arc<Plan>,
    edges: &mut dyn Edges,
    threads: Vec<Thread>,
) -> Result<Measured, Failure>
where
    Thread: FnOnce(Recorder) -> Result<Ended, Failure> + Send,
{
    let progress: Vec<Arc<ThreadCounters>> = threads.iter().map(|_| Arc::default()).collect();
    let (ended, steadiness) = std::thread::scope(|scope| {
        let handles: Vec<_> = threads
            .into_iter()
            .zip(&progress)
            .map(|(thread, progress)| {
                let recorder = Recorder::new(plan, Arc::clone(progress));
                let builder = Builder::new().name("clients".into());
                builder.spawn_scoped(scope, move || thread(recorder))
            })
            .collect();
        let steadiness = coordinate(plan, &progress, edges);
        let ended: Vec<Result<Ended, Failure>> = handles.into_iter().map(joined).collect();
        (ended, steadiness)
    });
    let ended = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (recorded, acknowledged): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    let load = Recorded::merge(plan, recorded);
    let steadiness = steadiness.map_err(|what| with_errors(what, &load.errors))?;
    let acknowledged = acknowledged.into_iter().flatten().collect();
    Ok((load, acknowledged, steadiness))
}

fn joined(
    handle: std::io::Result<ScopedJoinHandle<'_, Result<Ended, Failure>>>,
) -> Result<Ended, Failure> {
    let handle = handle.map_err(|error| format!("cannot start a thread of clients: {error}"))?;
    let ended = handle.join();
    ended.unwrap_or_else(|_| Err("a thread of clients has panicked".into()))
}

/// An error of the run, followed by the first errors of the target, if any.
fn with_errors(what: Failure, errors: &[String]) -> Failure {
    match errors {
        [] => what,
        errors => format!("{what}; first: {}", errors.join("; ")).into(),
    }
}
