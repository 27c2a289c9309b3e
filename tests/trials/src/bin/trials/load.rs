//! Requests that a client draws over its keys, and what it has learned from the answers.

use std::collections::HashMap;

use environment::randomness::Random;
use history::{Answer, Request};

use crate::values;

/// Most keys of a read of many.
const RANGE_KEYS_MAX: u64 = 100;

/// The keys that clients share, and the sizes of their values.
#[derive(Clone, Debug)]
pub struct Keys {
    pub prefix: String,
    pub many: u64,
    pub value_bytes: fn(&mut Random) -> u64,
}

impl Keys {
    /// Any of them.
    pub fn any(&self, random: &mut Random) -> String {
        self.key(random.below(self.many))
    }

    fn key(&self, number: u64) -> String {
        format!("{}{number:05}", self.prefix)
    }

    /// First key and end of a range of at most [`RANGE_KEYS_MAX`].
    fn range(&self, random: &mut Random) -> (String, String) {
        let first = random.below(self.many.saturating_sub(RANGE_KEYS_MAX) + 1);
        (self.key(first), self.key(first + RANGE_KEYS_MAX))
    }
}

/// The load of one client.
pub struct Load {
    client: u32,
    /// Numbers its values.
    counter: u64,
    keys: Keys,
    /// When each key was last modified, as far as this client knows.
    modified: HashMap<String, i64>,
}

impl Load {
    pub fn new(client: u32, keys: Keys) -> Load {
        Load {
            client,
            counter: 0,
            keys,
            modified: HashMap::new(),
        }
    }

    /// Uses these keys from now on.
    pub fn use_keys(&mut self, keys: Keys) {
        if keys.prefix != self.keys.prefix {
            self.keys = keys;
            self.modified.clear();
        }
    }

    /// The next request.
    pub fn draw(&mut self, random: &mut Random) -> Request {
        let key = self.keys.any(random);
        match random.below(100) {
            0..=24 => Request::Put {
                key,
                value: self.value(random),
                lease: 0,
                previous: random.chance(1, 2),
            },
            25..=49 => self.swap(key, random),
            50..=57 => Request::Delete { key },
            58..=65 => {
                let (key, end) = self.keys.range(random);
                Request::Get {
                    key,
                    end,
                    revision: 0,
                    serializable: random.chance(1, 3),
                }
            }
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
                serializable: random.chance(1, 4),
            },
        }
    }

    /// A compare-and-swap, mostly with the revision that was last seen, sometimes as if the key did
    /// not exist. Sometimes it writes a second key, too.
    fn swap(&mut self, key: String, random: &mut Random) -> Request {
        let known = self.modified.get(&key).copied().unwrap_or(0);
        let expected = if random.chance(1, 10) { 0 } else { known };
        let mut puts = vec![(key.clone(), self.value(random))];
        let other = self.keys.any(random);
        if other != key && random.chance(1, 4) {
            puts.push((other, self.value(random)));
        }
        Request::Swap {
            key,
            expected,
            puts,
        }
    }

    fn value(&mut self, random: &mut Random) -> String {
        self.counter += 1;
        let bytes = (self.keys.value_bytes)(random);
        values::name(self.client, self.counter, bytes)
    }

    /// Learns the revisions of keys from an answer.
    pub fn learn(&mut self, request: &Request, answer: &Answer) {
        match request {
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
    }
}
