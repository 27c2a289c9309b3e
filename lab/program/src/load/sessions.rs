//! Load on embedded targets: one thread for each client.

use std::sync::Arc;
use std::time::Instant;

use super::recorder::ThreadCounters;
use super::timer::wake_precisely;
use super::{Client, Due, Edges, OperationResult, Plan, Recorded, Recorder, coordinate};
use crate::record::{Kind, LoadResult, Steadiness};
use crate::targets::{Embedded, Failure, Session};
use crate::verify::{Acknowledged, Ledger};
use crate::workload::Stamp;

/// Most entries and bytes of one call of a preload, well below the limits of a batch.
const LOAD_ENTRIES: u64 = 1000;
const LOAD_BYTES: usize = 1 << 20;

/// Runs the plan with a session for each client.
pub fn run_embedded(
    plan: &Arc<Plan>,
    target: &dyn Embedded,
    edges: &mut dyn Edges,
) -> Result<(LoadResult, Vec<Acknowledged>, Steadiness), Failure> {
    let progress: Vec<Arc<ThreadCounters>> = (0..plan.clients).map(|_| Arc::default()).collect();
    let sessions = (0..plan.clients).map(|_| target.session());
    let sessions: Vec<_> = sessions.collect::<Result<_, _>>()?;
    let (ended, steadiness) = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .into_iter()
            .zip(&progress)
            .enumerate()
            .map(|(number, (session, progress))| {
                let client = Client::new(plan, number as u32);
                let recorder = Recorder::new(plan, Arc::clone(progress));
                let builder = std::thread::Builder::new().name(format!("client-{number}"));
                builder.spawn_scoped(scope, move || drive(client, recorder, session))
            })
            .collect();
        let steadiness = coordinate(plan, &progress, edges);
        let ended: Vec<_> = threads
            .into_iter()
            .filter_map(|thread| thread.ok().and_then(|thread| thread.join().ok()))
            .collect();
        (ended, steadiness)
    });
    if ended.len() < plan.clients as usize {
        return Err(format!(
            "{} of {} client threads could not be started or have panicked",
            plan.clients as usize - ended.len(),
            plan.clients
        )
        .into());
    }
    let (recorded, acknowledged): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    let load = Recorded::merge(plan, recorded);
    let steadiness = steadiness.map_err(|what| with_errors(what, &load.errors))?;
    Ok((load, acknowledged, steadiness))
}

/// An error of the run, followed by the first errors of the target, if any.
pub(super) fn with_errors(what: Failure, errors: &[String]) -> Failure {
    match errors {
        [] => what,
        errors => format!("{what}; first: {}", errors.join("; ")).into(),
    }
}

fn drive(
    mut client: Client,
    mut recorder: Recorder,
    mut session: Box<dyn Session + '_>,
) -> (Recorded, Acknowledged) {
    wake_precisely();
    let plan = Arc::clone(recorder.plan());
    let range_limit = plan.workload.mix.range.limit;
    let mut read = Vec::new();
    loop {
        let due = client.due();
        if due == Due::Over {
            break;
        }
        client.draw();
        if let Due::At(at) = due {
            wait_until(&plan, at);
        }
        read.clear();
        let begun = plan.now();
        let answer = perform(&client, session.as_mut(), &mut read, range_limit);
        client.ended(&mut recorder, due, (begun, plan.now()), &answer);
    }
    recorder.client_ended(client.operations);
    (recorder.into_recorded(), client.acknowledged)
}

fn wait_until(plan: &Plan, at_ns: u64) {
    let moment = plan.instant(at_ns);
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left);
    }
}

fn perform(
    client: &Client,
    session: &mut dyn Session,
    read: &mut Vec<u8>,
    range_limit: u64,
) -> OperationResult {
    let (key, value) = (&client.key, &client.value);
    let mut answer = OperationResult::default();
    let outcome = match client.kind {
        Kind::Put => session.put(key, value).map(|()| {
            answer.user_bytes = (key.len() + value.len()) as u64;
        }),
        Kind::Get => session.get(key, read).map(|found| {
            answer.not_found = !found;
            answer.user_bytes = (key.len() + read.len()) as u64;
        }),
        Kind::Range => session.range(key, range_limit).map(|seen| {
            answer.keys_returned = seen.keys;
            answer.user_bytes = seen.bytes;
        }),
    };
    answer.failure = outcome.err().map(|failure| failure.to_string());
    answer
}

/// Writes every key once. `on_share` receives the share done; its error ends the preload.
pub fn preload_embedded(
    plan: &Plan,
    target: &dyn Embedded,
    on_share: &mut dyn FnMut(f64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut session = target.session()?;
    let keys = plan.workload.load.keys;
    let mut entries = Vec::new();
    let mut bytes = 0;
    for number in 0..keys {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        plan.keys.write(number, &mut key);
        plan.values.write(number, Stamp::PRELOAD, &mut value);
        bytes += key.len() + value.len();
        entries.push((key, value));
        if entries.len() as u64 >= LOAD_ENTRIES || bytes >= LOAD_BYTES || number + 1 == keys {
            session.load(&entries)?;
            entries.clear();
            bytes = 0;
            on_share((number + 1) as f64 / keys as f64)?;
        }
    }
    Ok(())
}

/// Reads the keys of these numbers and passes their values to the ledger.
pub fn read_back_embedded(
    plan: &Plan,
    target: &dyn Embedded,
    ledger: &mut Ledger,
    numbers: &[u64],
) -> Result<(), Failure> {
    let mut session = target.session()?;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for number in numbers {
        plan.keys.write(*number, &mut key);
        value.clear();
        let found = session.get(&key, &mut value)?;
        ledger.check(&plan.values, *number, found.then_some(&value));
    }
    Ok(())
}
