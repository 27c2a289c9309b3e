//! Clients that write while the power is cut.
//!
//! ```text
//!   Normal ──► Freezing ──► Cut ──► RunningOn (now and then)
//!     errors count │ errors are expected       the server lives, its disk does not
//! ```
//!
//! Each client owns its keys and has one operation in progress, and each
//! operation takes exactly one revision: a put, a delete of a present
//! key, or a transaction of several of them. Keys carry increasing numbers,
//! and values follow from a number that is unique for each write, so that a
//! value found later identifies its write.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::{CompactionRequest, kv_client::KvClient};

use crate::{
    crash::{load::send, model::Operation},
    process::Outcome,
};

/// Prefix of all keys.
pub const PREFIX: &str = "power/";
/// Most keys of one client; beyond that it deletes its oldest ones.
const KEYS_MAX: usize = 200;

/// What all tasks of one load share.
pub struct Scene {
    pub url: String,
    /// A [`Phase`].
    phase: AtomicU8,
    /// Number of the last write of all clients and cycles.
    pub counter: Arc<AtomicU64>,
    pub started: Instant,
}

/// Progress of the cut; never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Normal,
    /// The server is being stopped: errors are expected from now on.
    Freezing,
    /// The disk is gone, and the server is stopped.
    Cut,
    /// The disk is gone, and the server runs.
    RunningOn,
}

/// An acknowledged write.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    pub client: u32,
    pub operation: Operation,
    pub revision: i64,
    /// Time since the beginning of the load.
    pub at: Duration,
    /// Phase when it was sent, and when it was answered.
    pub sent: Phase,
    pub answered: Phase,
}

/// Writes of one client until the server was killed.
#[derive(Debug, Default)]
pub struct Seen {
    pub acknowledged: Vec<Acknowledged>,
    /// Sent and never answered.
    pub under_way: Option<Operation>,
}

impl Scene {
    pub fn new(url: String, counter: Arc<AtomicU64>) -> Scene {
        Scene {
            url,
            phase: AtomicU8::new(Phase::Normal as u8),
            counter,
            started: Instant::now(),
        }
    }

    pub fn enter(&self, phase: Phase) {
        let before = self.phase.swap(phase as u8, Ordering::SeqCst);
        assert!(before < phase as u8, "phases only grow");
    }

    pub fn phase(&self) -> Phase {
        let phases = [Phase::Normal, Phase::Freezing, Phase::Cut, Phase::RunningOn];
        phases[usize::from(self.phase.load(Ordering::SeqCst))]
    }
}

impl Acknowledged {
    /// Sent before the cut and answered after it: the kernel may have reported success for a
    /// flush that the cut interrupted.
    pub fn was_overtaken(&self) -> bool {
        self.sent < Phase::Cut && self.answered == Phase::RunningOn
    }
}

impl Seen {
    /// Writes that may be present or absent.
    pub fn uncertain(&self) -> impl Iterator<Item = &Operation> {
        let overtaken = self
            .acknowledged
            .iter()
            .filter(|write| write.was_overtaken())
            .map(|write| &write.operation);
        overtaken.chain(&self.under_way)
    }
}

struct Client {
    number: u32,
    /// Present keys, oldest first.
    living: BTreeSet<Bytes>,
    random: Random,
}

/// Writes until the server is killed; a refused write before the cut fails the test.
/// `living` are the client's keys that the store has already.
pub async fn run(
    scene: Arc<Scene>,
    number: u32,
    living: BTreeSet<Bytes>,
    seed: u64,
) -> Outcome<Seen> {
    let mut seen = Seen::default();
    let mut client = Client {
        number,
        living,
        random: Random::from_seed(seed),
    };
    let mut kv = match KvClient::connect(scene.url.clone()).await {
        Ok(kv) => kv,
        Err(_) if scene.phase() > Phase::Normal => return Ok(seen),
        Err(error) => return Err(error.into()),
    };
    loop {
        let counter = scene.counter.fetch_add(1, Ordering::Relaxed);
        let operation = client.choose(counter);
        seen.under_way = Some(operation.clone());
        let sent = scene.phase();
        match send(&mut kv, operation.clone()).await {
            Ok(header) => {
                client.happened(&operation);
                seen.under_way = None;
                seen.acknowledged.push(Acknowledged {
                    client: number,
                    operation,
                    revision: header.revision,
                    at: scene.started.elapsed(),
                    sent,
                    answered: scene.phase(),
                });
            }
            Err(_) if scene.phase() > Phase::Normal => return Ok(seen),
            Err(status) => return Err(format!("refused before the cut: {status}").into()),
        }
    }
}

/// Compacts up to `revision` after `delay`; returns whether the server acknowledged it.
pub async fn compact(scene: Arc<Scene>, revision: i64, delay: Duration) -> Outcome<bool> {
    tokio::time::sleep(delay).await;
    let request = CompactionRequest {
        revision,
        physical: false,
    };
    let answer = match KvClient::connect(scene.url.clone()).await {
        Ok(mut kv) => kv.compact(request).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match answer {
        Ok(_) => Ok(true),
        Err(_) if scene.phase() > Phase::Normal => Ok(false),
        Err(error) => Err(format!("compaction up to {revision} before the cut: {error}").into()),
    }
}

/// Prefix of the keys of client `number`.
pub fn prefix_of(number: u32) -> String {
    format!("{PREFIX}{number:03}/")
}

impl Client {
    fn choose(&mut self, counter: u64) -> Operation {
        if self.living.len() >= KEYS_MAX {
            return self.delete_oldest();
        }
        let mut effects = BTreeMap::new();
        let fresh = Bytes::from(format!("{}{counter:012}", prefix_of(self.number)));
        match self.random.below(10) {
            0 | 1 => drop(effects.insert(self.any().unwrap_or(fresh), Some(counter))),
            2 if !self.living.is_empty() => effects.extend(self.any().map(|key| (key, None))),
            3..=5 => {
                effects.extend(self.any().map(|key| (key, Some(counter))));
                effects.extend(self.any().map(|key| (key, None)));
                effects.insert(fresh, Some(counter));
            }
            _ => drop(effects.insert(fresh, Some(counter))),
        }
        Operation { effects }
    }

    fn delete_oldest(&mut self) -> Operation {
        let many = 2 + self.random.below(7) as usize;
        let oldest = self.living.iter().take(many);
        Operation {
            effects: oldest.map(|key| (key.clone(), None)).collect(),
        }
    }

    fn any(&mut self) -> Option<Bytes> {
        let bound = self.living.len().max(1) as u64;
        let place = self.random.below(bound) as usize;
        self.living.iter().nth(place).cloned()
    }

    fn happened(&mut self, operation: &Operation) {
        for (key, effect) in &operation.effects {
            match effect {
                Some(_) => self.living.insert(key.clone()),
                None => self.living.remove(key),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_takes_exactly_one_revision() {
        let mut client = Client {
            number: 1,
            living: BTreeSet::new(),
            random: Random::from_seed(1),
        };
        let mut most = 0;
        for counter in 0..5_000 {
            let operation = client.choose(counter);
            assert!(!operation.effects.is_empty(), "nothing to do");
            for (key, effect) in &operation.effects {
                let is_there = client.living.contains(key);
                assert!(effect.is_some() || is_there, "deletes what is not there");
            }
            client.happened(&operation);
            most = most.max(client.living.len());
        }
        assert_eq!(most, KEYS_MAX);
    }
}
