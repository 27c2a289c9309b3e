//! Clients that read and write a few keys.
//!
//! Every ten seconds the clients use new keys. So the history of a key stays small enough
//! for a checker that tries orders, and requests for the old keys that are still in progress
//! are tested too.

use std::{collections::HashMap, sync::Arc, time::Duration};

use environment::randomness::Random;
use history::{Operation, Request};

use super::{call::Caller, member::Member, recorder::Recorder, values};
use crate::process::Outcome;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const AGE_SECONDS: u64 = 10;

/// Prefix of the keys of the present ten seconds.
pub fn prefix(recorder: &Recorder) -> String {
    format!("k{:05}/", recorder.elapsed().as_secs() / AGE_SECONDS)
}

/// End of the range of keys with this prefix.
pub fn end_of(prefix: &str) -> String {
    prefix.replace('/', "0")
}

/// One client.
struct Client {
    number: u32,
    random: Random,
    caller: Caller,
    recorder: Arc<Recorder>,
    /// Numbers its values.
    counter: u64,
    /// When each key was last modified, as far as this client knows.
    modified: HashMap<String, i64>,
    prefix: String,
}

/// Sends operations until the end; `pause` is the mean time between two operations.
pub async fn work(
    number: u32,
    members: Vec<Arc<Member>>,
    recorder: Arc<Recorder>,
    seed: u64,
    pause: Duration,
) -> Outcome {
    let mut client = Client {
        number,
        random: Random::from_seed(seed),
        caller: Caller::new(number, &members, &recorder),
        recorder,
        counter: 0,
        modified: HashMap::new(),
        prefix: String::new(),
    };
    while !client.recorder.has_ended() {
        let went_well = client.step().await;
        let part = client.random.below(2_000) as u32;
        tokio::time::sleep(pause * part / 1_000).await;
        if !went_well {
            let rest = client.random.below(300);
            tokio::time::sleep(Duration::from_millis(rest)).await;
        }
    }
    Ok(())
}

impl Client {
    async fn step(&mut self) -> bool {
        let prefix = prefix(&self.recorder);
        if prefix != self.prefix {
            self.prefix = prefix;
            self.modified.clear();
        }
        let request = self.request();
        let patience = match self.random.below(10) {
            0 => self.random.below(100) + 10,
            1..=7 => self.random.below(2_000) + 500,
            _ => 9_000,
        };
        let patience = Duration::from_millis(patience);
        let called = self.caller.call(request, patience, &mut self.random).await;
        called.is_some_and(|operation| self.learn(&operation))
    }

    fn request(&mut self) -> Request {
        let key = format!("{}{}", self.prefix, self.random.pick(&KEYS));
        match self.random.below(100) {
            0..=24 => Request::Put {
                key,
                value: self.value(),
                lease: 0,
                previous: self.random.chance(1, 2),
            },
            25..=49 => self.swap(key),
            50..=57 => Request::Delete { key },
            58..=65 => Request::Get {
                key: self.prefix.clone(),
                end: end_of(&self.prefix),
                revision: 0,
                serializable: self.random.chance(1, 3),
            },
            66..=68 => Request::Get {
                revision: self.modified.get(&key).copied().unwrap_or(0),
                key,
                end: String::new(),
                serializable: false,
            },
            _ => Request::Get {
                key,
                end: String::new(),
                revision: 0,
                serializable: self.random.chance(1, 4),
            },
        }
    }

    /// A compare-and-swap, mostly with the revision that was last seen, sometimes as if the key did
    /// not exist. Sometimes it writes a second key, too.
    fn swap(&mut self, key: String) -> Request {
        let known = self.modified.get(&key).copied().unwrap_or(0);
        let expected = if self.random.chance(1, 10) { 0 } else { known };
        let mut puts = vec![(key.clone(), self.value())];
        let other = format!("{}{}", self.prefix, self.random.pick(&KEYS));
        if other != key && self.random.chance(1, 4) {
            puts.push((other, self.value()));
        }
        Request::Swap {
            key,
            expected,
            puts,
        }
    }

    fn value(&mut self) -> String {
        self.counter += 1;
        values::name(self.number, self.counter, &mut self.random)
    }

    /// Records the revisions of keys. Returns whether there was an answer.
    fn learn(&mut self, operation: &Operation) -> bool {
        let Some(answer) = operation.answer() else {
            return false;
        };
        match &operation.request {
            Request::Put { key, .. } => {
                self.modified.insert(key.clone(), answer.revision);
            }
            Request::Swap { puts, .. } if answer.succeeded => {
                let keys = puts.iter().map(|(key, _)| (key.clone(), answer.revision));
                self.modified.extend(keys);
            }
            Request::Delete { key } => {
                self.modified.remove(key);
            }
            _ => {
                let seen = answer.versions.iter();
                self.modified
                    .extend(seen.map(|it| (it.key.clone(), it.modified)));
            }
        }
        true
    }
}
