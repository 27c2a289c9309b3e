//! Puts that are recorded, and judged at the end with what each member shows.

use std::sync::atomic::Ordering;
use std::time::Duration;

use history::{Entry, History, Outcome as Known, Request, check};

use super::Counts;
use crate::client;
use crate::process::Outcome;
use crate::recorder::Recorder;
use crate::servers::Servers;
use crate::values;

/// Number of keys, which are put in turn.
const KEYS: u64 = 1000;
/// Failures in a row after which the load ends.
const FAILURES_MAX: u32 = 100;
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of the client that puts, and of the first that reads at the end.
const CLIENT: u32 = 1;
const READERS: u32 = 100;
/// Most violations that an error shows.
const SHOWN_MAX: usize = 5;

/// Puts until the end of the scene; a failed put is followed by the next one for a while.
pub async fn put_until_over(url: &str, counts: &Counts, recorder: &Recorder) -> Outcome {
    let channel = client::dial(url.to_owned()).await?;
    let mut failures = 0;
    for number in 0.. {
        if counts.over.load(Ordering::Relaxed) {
            break;
        }
        let put = Request::Put {
            key: format!("k/{:04}", number % KEYS),
            value: values::name(CLIENT, number, 0),
            lease: 0,
            previous: false,
        };
        let asked = client::ask((CLIENT, 0), &channel, put, PATIENCE, recorder);
        match asked.await.outcome {
            Known::Done(_) => failures = 0,
            other if failures > FAILURES_MAX => return Err(format!("{other:?}").into()),
            _ => {
                failures += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    Ok(())
}

/// Reads all keys and all revisions from every member, and judges them with what was put:
/// each answered put is there, and nothing else.
pub async fn judge(servers: &Servers, recorder: &Recorder) -> Outcome {
    let mut ledgers: Vec<Vec<Entry>> = Vec::new();
    for (number, member) in (0..).zip(&servers.cluster.members) {
        let channel = client::dial(member.client_url()).await?;
        let (reader, all) = ((READERS + number, number), client::read_of_all(0));
        let read = client::ask(reader, &channel, all, PATIENCE, recorder).await;
        let answer = read.answer().ok_or(format!("a last read: {read:?}"))?;
        ledgers.push(client::revisions(channel, 2, answer.revision).await?);
    }
    if ledgers.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err("members have different histories".into());
    }
    let (operations, _) = recorder.take();
    let violations = check(&History {
        operations,
        ledger: ledgers.pop().unwrap_or_default(),
        ..History::default()
    });
    if violations.is_empty() {
        return Ok(());
    }
    let shown = violations.iter().take(SHOWN_MAX).map(ToString::to_string);
    let shown: Vec<String> = shown.collect();
    Err(format!("{} violations: {}", violations.len(), shown.join("; ")).into())
}
