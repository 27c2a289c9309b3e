//! Clients that write while the server ends.
//!
//! ```text
//!   Normal ──► Ending ──► Cut ──► RunningOn (now and then)
//!     errors count │ errors are expected       the server lives, its disk does not
//! ```
//!
//! Each client owns its keys and has one write in progress, and each write takes exactly one
//! revision: a put, a delete of a present key, or a transaction of several of them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use environment::randomness::Random;
use etcd_api::etcdserverpb::{CompactionRequest, kv_client::KvClient};
use history::{Operation, Outcome as Known, Request};
use tonic::transport::Channel;

use crate::{client, process::Outcome, recorder::Recorder, values};

/// Most keys of one client; beyond that it deletes its oldest ones.
const KEYS_MAX: usize = 200;
const VALUE_BYTES_MAX: u64 = 3_000;

/// State that all tasks of one load share.
pub struct Load {
    url: String,
    /// A [`Phase`].
    phase: AtomicU8,
    recorder: Arc<Recorder>,
}

/// Progress of the end; never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Normal,
    /// The server is being killed or stopped: errors are expected from now on.
    Ending,
    /// The disk is gone, and the server is stopped.
    Cut,
    /// The disk is gone, and the server runs.
    RunningOn,
}

impl Load {
    pub fn new(url: String, recorder: &Arc<Recorder>) -> Load {
        Load {
            url,
            phase: AtomicU8::new(Phase::Normal as u8),
            recorder: Arc::clone(recorder),
        }
    }

    pub fn enter(&self, phase: Phase) {
        let before = self.phase.swap(phase as u8, Ordering::SeqCst);
        assert!(before < phase as u8, "phases only grow");
    }

    fn phase(&self) -> Phase {
        let phases = [Phase::Normal, Phase::Ending, Phase::Cut, Phase::RunningOn];
        phases[usize::from(self.phase.load(Ordering::SeqCst))]
    }

    /// A connection; `None` if the server has been ended before there was one.
    async fn connect(&self) -> Outcome<Option<Channel>> {
        match client::dial(self.url.clone()).await {
            Ok(channel) => Ok(Some(channel)),
            Err(_) if self.phase() > Phase::Normal => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Writes until the server is gone; a refused write before that fails the trial. `keys` are
/// the client's keys that the store has already. Returns how many writes were sent before a
/// cut and acknowledged after it: the kernel may have reported success for a flush that the
/// cut interrupted, so these may be absent (`freeze.rs` has the reason).
pub async fn write(
    load: Arc<Load>,
    number: u32,
    keys: BTreeSet<String>,
    seed: u64,
) -> Outcome<u64> {
    let mut overtaken = 0;
    let mut writer = Writer {
        number,
        keys,
        random: Random::from_seed(seed),
    };
    let Some(channel) = load.connect().await? else {
        return Ok(overtaken);
    };
    loop {
        let called = load.recorder.moment();
        // No other write has this moment and this client.
        let request = writer.choose(called);
        let sent = load.phase();
        let outcome = client::send(channel.clone(), &request).await;
        let answered = load.phase();
        let is_answered = outcome.is_ok();
        let outcome = match outcome {
            Ok(_) if sent < Phase::Cut && answered == Phase::RunningOn => {
                overtaken += 1;
                Known::unknown("answered by a server without its disk")
            }
            Ok(answer) => Known::Done(answer),
            Err(status) if answered == Phase::Normal => {
                return Err(format!("refused before the end: {status}").into());
            }
            Err(status) => Known::unknown(status.message()),
        };
        writer.happened(&request);
        load.recorder.record(Operation {
            client: number,
            member: 0,
            life: None,
            called,
            returned: load.recorder.moment(),
            request,
            outcome,
        });
        if !is_answered {
            return Ok(overtaken);
        }
    }
}

/// Compacts up to `revision` after `delay`; returns whether the server acknowledged it.
pub async fn compact(
    load: Arc<Load>,
    revision: i64,
    physical: bool,
    delay: Duration,
) -> Outcome<bool> {
    tokio::time::sleep(delay).await;
    let Some(channel) = load.connect().await? else {
        return Ok(false);
    };
    let request = CompactionRequest { revision, physical };
    match KvClient::new(channel).compact(request).await {
        Ok(_) => Ok(true),
        Err(_) if load.phase() > Phase::Normal => Ok(false),
        Err(error) => Err(format!("compaction up to {revision}: {error}").into()),
    }
}

/// Prefix of the keys of client `number`.
pub fn prefix_of(number: u32) -> String {
    format!("k/{number:03}/")
}

struct Writer {
    number: u32,
    /// Present keys, oldest first.
    keys: BTreeSet<String>,
    random: Random,
}

impl Writer {
    /// A write with a number that is used for no other.
    fn choose(&mut self, counter: u64) -> Request {
        if self.keys.len() >= KEYS_MAX {
            return self.delete_oldest();
        }
        let fresh = format!("{}{counter:016}", prefix_of(self.number));
        let value = values::name(self.number, counter, self.random.below(VALUE_BYTES_MAX));
        let any = self.any();
        match (self.random.below(10), any) {
            (0 | 1, Some(key)) => self.put(key, value),
            (2, Some(key)) => Request::Delete { key },
            (3..=5, Some(key)) => {
                let mut puts = vec![(fresh, value.clone())];
                let gone = self.any().filter(|gone| *gone != key);
                puts.push((key, value));
                Request::Batch {
                    puts,
                    deletes: gone.into_iter().collect(),
                }
            }
            _ => self.put(fresh, value),
        }
    }

    fn put(&mut self, key: String, value: String) -> Request {
        Request::Put {
            key,
            value,
            lease: 0,
            previous: self.random.chance(1, 4),
        }
    }

    fn delete_oldest(&mut self) -> Request {
        let many = 2 + self.random.below(7) as usize;
        Request::Batch {
            puts: Vec::new(),
            deletes: self.keys.iter().take(many).cloned().collect(),
        }
    }

    fn any(&mut self) -> Option<String> {
        let bound = self.keys.len().max(1) as u64;
        let place = self.random.below(bound) as usize;
        self.keys.iter().nth(place).cloned()
    }

    fn happened(&mut self, request: &Request) {
        let (puts, deletes) = match request {
            Request::Put { key, .. } => (vec![key], &[][..]),
            Request::Delete { key } => (Vec::new(), std::slice::from_ref(key)),
            Request::Batch { puts, deletes } => {
                (puts.iter().map(|(key, _)| key).collect(), &deletes[..])
            }
            other => unreachable!("{other:?} is not chosen"),
        };
        self.keys.extend(puts.into_iter().cloned());
        self.keys.retain(|key| !deletes.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_takes_exactly_one_revision() {
        let mut writer = Writer {
            number: 1,
            keys: BTreeSet::new(),
            random: Random::from_seed(1),
        };
        let mut most = 0;
        for counter in 0..5_000 {
            let request = writer.choose(counter);
            let (puts, deletes) = match &request {
                Request::Put { .. } => (1, Vec::new()),
                Request::Delete { key } => (0, vec![key]),
                Request::Batch { puts, deletes } => (puts.len(), deletes.iter().collect()),
                other => panic!("{other:?}"),
            };
            assert!(puts + deletes.len() > 0, "nothing to do");
            for key in deletes {
                assert!(writer.keys.contains(key), "deletes what is not there");
            }
            writer.happened(&request);
            most = most.max(writer.keys.len());
        }
        assert!((KEYS_MAX..KEYS_MAX + 2).contains(&most), "{most}");
    }
}
