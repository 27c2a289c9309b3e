//! Model of one client's keys, and the states that it may find after a crash.

use std::collections::BTreeMap;

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::EncodedKeyValue;

/// Keys of one client: few enough that most writes overwrite or delete.
const KEYS: u64 = 40;
const VALUE_BYTES_MAX: u64 = 3000;

/// One write of a client, which happens as a whole at one revision or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// New counter of each key; None deletes it.
    pub effects: BTreeMap<Bytes, Option<u64>>,
}

/// A present key: the counter of its write, and the acknowledged revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    counter: u64,
    revision: i64,
}

/// The model of one client.
#[derive(Clone, Debug)]
pub struct Model {
    client: u32,
    keys: BTreeMap<Bytes, Seen>,
    /// The operation that was sent and not answered.
    under_way: Option<Operation>,
    /// Counter of the next write; never used twice.
    counter: u64,
    /// Number of writes acknowledged since the last verification.
    pub acknowledged: u64,
}

impl Model {
    pub fn new(client: u32) -> Model {
        Model {
            client,
            keys: BTreeMap::new(),
            under_way: None,
            counter: 0,
            acknowledged: 0,
        }
    }

    /// Prefix of all keys of this client.
    pub fn prefix(&self) -> String {
        format!("crash/{:03}/", self.client)
    }

    /// Chooses the next write and records it as in progress.
    pub fn begin(&mut self, random: &mut Random) -> Operation {
        assert!(self.under_way.is_none(), "one operation at a time");
        self.counter += 1;
        let key = self.key(random.below(KEYS));
        let mut effects = BTreeMap::new();
        match random.below(10) {
            0 if self.keys.contains_key(&key) => {
                effects.insert(key, None);
            }
            1..=3 => {
                effects.insert(key, Some(self.counter));
                effects.insert(self.key(random.below(KEYS)), Some(self.counter));
            }
            _ => {
                effects.insert(key, Some(self.counter));
            }
        }
        let operation = Operation { effects };
        self.under_way = Some(operation.clone());
        operation
    }

    /// Records the server's answer that the write in progress happened at `revision`.
    pub fn acknowledge(&mut self, revision: i64) {
        let operation = self.under_way.take().expect("an answer has a request");
        self.acknowledged += 1;
        self.happened(&operation, revision);
    }

    fn key(&self, number: u64) -> Bytes {
        Bytes::from(format!("{}{number:02}", self.prefix()))
    }

    fn happened(&mut self, operation: &Operation, revision: i64) {
        for (key, effect) in &operation.effects {
            match *effect {
                Some(counter) => self.keys.insert(key.clone(), Seen { counter, revision }),
                None => self.keys.remove(key),
            };
        }
    }

    /// Compares the keys found after a restart with the allowed states.
    /// Returns whether the write in progress survived.
    pub fn verify(&mut self, found: &[EncodedKeyValue], newest: i64) -> Result<bool, String> {
        let acknowledged = self.fault(found);
        let Some(operation) = self.under_way.take() else {
            return acknowledged.map_or(Ok(false), Err);
        };
        if acknowledged.is_none() {
            return Ok(false);
        }
        let before = self.clone();
        let revision = revision_of(&operation, found, &before, newest);
        self.happened(&operation, revision);
        match self.fault(found) {
            None => Ok(true),
            Some(fault) => Err(format!(
                "client {}: neither without the write in progress ({}) nor with it ({fault}): \
                 {operation:?}",
                self.client,
                acknowledged.unwrap_or_default(),
            )),
        }
    }

    /// The first difference between the model's keys and those found.
    fn fault(&self, found: &[EncodedKeyValue]) -> Option<String> {
        let mut missing = self.keys.clone();
        for kv in found {
            let fields = kv.fields();
            let key = String::from_utf8_lossy(fields.key);
            let Some(seen) = missing.remove(fields.key) else {
                return Some(format!("{key} should not be there"));
            };
            if fields.value != value(seen.counter) {
                return Some(format!("{key} does not show write {}", seen.counter));
            }
            if fields.mod_revision != seen.revision {
                return Some(format!(
                    "{key} moved from revision {} to {}",
                    seen.revision, fields.mod_revision
                ));
            }
        }
        let (key, seen) = missing.first_key_value()?;
        Some(format!("{key:?} with write {} is lost", seen.counter))
    }
}

/// The revision at which the unanswered `operation` must have happened.
fn revision_of(
    operation: &Operation,
    found: &[EncodedKeyValue],
    before: &Model,
    newest: i64,
) -> i64 {
    let written = found
        .iter()
        .find(|kv| operation.effects.get(kv.key()).is_some_and(Option::is_some));
    let revision = written.map_or(newest, EncodedKeyValue::mod_revision);
    let latest = before.keys.values().map(|seen| seen.revision).max();
    // An impossible revision makes the comparison that follows fail.
    if revision > latest.unwrap_or(0) && revision <= newest {
        revision
    } else {
        -1
    }
}

/// The whole value of a write follows from its counter.
pub fn value(counter: u64) -> Bytes {
    let mut random = Random::from_seed(counter);
    let mut bytes = vec![0; random.below(VALUE_BYTES_MAX) as usize];
    random.fill(&mut bytes);
    bytes.extend(counter.to_le_bytes());
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_api::mvccpb::KeyValue;

    fn stored(key: &Bytes, counter: u64, revision: i64) -> EncodedKeyValue {
        EncodedKeyValue::from(KeyValue {
            key: key.clone(),
            value: value(counter),
            mod_revision: revision,
            ..KeyValue::default()
        })
    }

    /// A client with one acknowledged put and, if `pair_under_way`, a pair in progress.
    fn client(pair_under_way: bool) -> (Model, Bytes, Bytes) {
        let mut model = Model::new(1);
        let (one, two) = (model.key(1), model.key(2));
        model.under_way = Some(Operation {
            effects: BTreeMap::from([(one.clone(), Some(1))]),
        });
        model.acknowledge(2);
        if pair_under_way {
            model.under_way = Some(Operation {
                effects: BTreeMap::from([(one.clone(), Some(2)), (two.clone(), Some(2))]),
            });
        }
        (model, one, two)
    }

    #[test]
    fn a_missing_acknowledged_write_is_found() {
        let (mut model, one, _) = client(false);
        assert_eq!(model.verify(&[stored(&one, 1, 2)], 2), Ok(false));
        assert!(model.verify(&[], 2).unwrap_err().contains("is lost"));
        assert!(
            model
                .verify(&[stored(&one, 1, 3)], 3)
                .unwrap_err()
                .contains("moved")
        );
        assert!(
            model
                .verify(&[stored(&one, 9, 2)], 2)
                .unwrap_err()
                .contains("show")
        );
    }

    #[test]
    fn a_write_in_progress_may_be_present_as_a_whole_or_absent() {
        let (mut model, one, _) = client(true);
        assert_eq!(model.verify(&[stored(&one, 1, 2)], 2), Ok(false));
        let (mut model, one, two) = client(true);
        assert_eq!(
            model.verify(&[stored(&one, 2, 3), stored(&two, 2, 3)], 3),
            Ok(true)
        );
    }

    #[test]
    fn half_a_transaction_is_found() {
        let (mut model, one, two) = client(true);
        assert!(
            model
                .verify(&[stored(&one, 1, 2), stored(&two, 2, 3)], 3)
                .is_err()
        );
        let (mut model, one, _) = client(true);
        assert!(model.verify(&[stored(&one, 2, 3)], 3).is_err());
        let (mut model, one, two) = client(true);
        assert!(
            model
                .verify(&[stored(&one, 2, 3), stored(&two, 2, 4)], 4)
                .is_err()
        );
    }
}
