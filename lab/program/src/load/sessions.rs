//! Load on embedded targets: one thread for each client.

use std::sync::Arc;

use super::batches::{Batch, BatchLimits, OnBatch};
use super::threads::{Ended, Measured, run_threads};
use super::timer::wake_precisely;
use super::{Client, Due, Edges, OperationResult, Plan, Recorder};
use crate::record::Kind;
use crate::targets::{Embedded, Failure, Session};
use crate::verify::Ledger;

/// Well below the limits of the targets' batches.
pub const EMBEDDED_BATCH: BatchLimits = BatchLimits {
    entries: 1000,
    bytes: 1 << 20,
};

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
        let answer = perform(&client, session.as_mut(), &mut read);
        client.ended(&mut recorder, due, (begun, plan.now()), &answer);
    }
    recorder.client_ended(client.operations);
    (recorder.into_recorded(), vec![client.acknowledged])
}

fn perform(client: &Client, session: &mut dyn Session, read: &mut Vec<u8>) -> OperationResult {
    let (key, value) = (&client.key, &client.value);
    let mut answer = OperationResult::default();
    let outcome = match client.kind {
        Kind::Put => session
            .put(key, value)
            .map(|()| answer.has_written(key, value)),
        Kind::Get => session
            .get(key, read)
            .map(|found| answer.has_read(key, read, found)),
        Kind::ReadModifyWrite => session.get(key, read).and_then(|found| {
            answer.has_read(key, read, found);
            session.put(key, value)?;
            answer.has_written(key, value);
            Ok(())
        }),
        Kind::Range => session.range(key, client.limit).map(|seen| {
            answer.keys_returned = seen.keys;
            answer.user_bytes = seen.bytes;
        }),
    };
    answer.failure = outcome.err().map(|failure| failure.to_string());
    answer
}

/// Writes batches by the target's fastest way.
pub fn write_embedded(
    plan: &Plan,
    target: &dyn Embedded,
    batches: impl Iterator<Item = Batch>,
    on_batch: &mut OnBatch<'_>,
) -> Result<(), Failure> {
    let mut session = target.session()?;
    for batch in batches {
        let begun = plan.now();
        session.load(&batch.entries)?;
        on_batch(&batch, (begun, plan.now()))?;
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
