//! Load on embedded targets: one thread for each client.

use std::sync::Arc;

use super::threads::{Ended, Measured, run_threads};
use super::timer::wake_precisely;
use super::{Client, Due, Edges, OperationResult, Plan, Recorder};
use crate::record::Kind;
use crate::targets::{Embedded, Failure, Session};
use crate::verify::Ledger;
use crate::workload::Stamp;

/// Most entries and bytes of one call of a preload, well below the limits of a batch.
const LOAD_ENTRIES: u64 = 1000;
const LOAD_BYTES: usize = 1 << 20;

/// Runs the plan with a session for each client.
pub fn run_embedded(
    plan: &Arc<Plan>,
    target: &dyn Embedded,
    edges: &mut dyn Edges,
) -> Result<Measured, Failure> {
    let thread = |number| {
        let session = target.session()?;
        let client = Client::new(plan, number);
        Ok(move |recorder| Ok(drive(client, recorder, session)))
    };
    let threads: Result<Vec<_>, Failure> = (0..plan.clients).map(thread).collect();
    run_threads(plan, edges, threads?)
}

fn drive(mut client: Client, mut recorder: Recorder, mut session: Box<dyn Session + '_>) -> Ended {
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
            std::thread::sleep(plan.left_until(at));
        }
        read.clear();
        let begun = plan.now();
        let answer = perform(&client, session.as_mut(), &mut read, range_limit);
        client.ended(&mut recorder, due, (begun, plan.now()), &answer);
    }
    recorder.client_ended(client.operations);
    (recorder.into_recorded(), vec![client.acknowledged])
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
