//! The checker against one that tries every order, on tiny histories: right
//! ones, and ones with a lie in them.

use std::collections::BTreeMap;

use environment::randomness::Random;
use history::{Answer, Change, Entry, History, Operation, Outcome, Request, Version, check};

const KEYS: [&str; 2] = ["x", "y"];
const CASES: u64 = 30_000;
const OPERATIONS_MAX: u64 = 5;
const TIME: u64 = 24;

/// What a store is and has been.
#[derive(Clone, Default)]
struct Store {
    keys: BTreeMap<String, Version>,
    ledger: Vec<Entry>,
}

impl Store {
    fn revision(&self) -> i64 {
        self.ledger.len() as i64 + 1
    }

    fn carry_out(&mut self, request: &Request) -> Answer {
        let found = |store: &Store, key: &str| store.keys.get(key).cloned();
        let (mut succeeded, mut versions) = (true, Vec::new());
        match request {
            Request::Put {
                key,
                value,
                previous,
                ..
            } => {
                versions.extend(found(self, key).filter(|_| *previous));
                self.put(&[(key.clone(), value.clone())]);
            }
            Request::Delete { key } => {
                versions.extend(found(self, key));
                succeeded = self.keys.remove(key).is_some();
                if succeeded {
                    let modified = self.revision() + 1;
                    let key = key.clone();
                    self.enter(vec![Change::Delete { key, modified }]);
                }
            }
            Request::Get { key, .. } => versions.extend(found(self, key)),
            Request::Swap {
                key,
                expected,
                puts,
            } => {
                succeeded = found(self, key).map_or(0, |it| it.modified) == *expected;
                match succeeded {
                    true => self.put(puts),
                    false => versions.extend(found(self, key)),
                }
            }
            _ => unreachable!("no leases here"),
        }
        Answer {
            revision: self.revision(),
            succeeded,
            versions,
            seconds: 0,
        }
    }

    fn put(&mut self, puts: &[(String, String)]) {
        let revision = self.revision() + 1;
        let changes = puts.iter().map(|(key, value)| {
            let before = self.keys.get(key);
            let version = Version {
                key: key.clone(),
                value: value.clone(),
                created: before.map_or(revision, |it| it.created),
                modified: revision,
                version: before.map_or(1, |it| it.version + 1),
                lease: 0,
            };
            self.keys.insert(key.clone(), version.clone());
            Change::Put(version)
        });
        let changes = changes.collect();
        self.enter(changes);
    }

    fn enter(&mut self, changes: Vec<Change>) {
        let revision = self.revision() + 1;
        self.ledger.push(Entry { revision, changes });
    }
}

/// Whether some order of the operations explains everything. `left` holds what
/// is not in the order yet.
fn possible(history: &History, store: &Store, left: &[usize]) -> bool {
    let all = &history.operations;
    let told = &history.ledger[..];
    if !told.starts_with(&store.ledger) {
        return false;
    }
    let is_done = |index: usize| all[index].answer().is_some();
    if store.ledger == told && !left.iter().any(|index| is_done(*index)) {
        return true;
    }
    left.iter().any(|&next| {
        let waits = |&other: &usize| {
            is_done(other) && other != next && all[other].returned < all[next].called
        };
        if left.iter().any(waits) {
            return false;
        }
        let mut after = store.clone();
        let answer = after.carry_out(&all[next].request);
        if all[next].answer().is_some_and(|told| *told != answer) {
            return false;
        }
        let rest: Vec<usize> = left.iter().copied().filter(|it| *it != next).collect();
        possible(history, &after, &rest)
    })
}

/// A true history: each operation happens at a moment between its call and
/// its return, or after it if its outcome is unknown.
fn truth(random: &mut Random) -> History {
    let many = 1 + random.below(OPERATIONS_MAX);
    let mut planned: Vec<(u64, Operation)> = (0..many).map(|it| plan(it, random)).collect();
    planned.sort_by_key(|(moment, _)| *moment);
    let mut store = Store::default();
    let mut history = History::default();
    for (_, mut operation) in planned {
        if let Request::Swap { key, expected, .. } = &mut operation.request
            && random.chance(2, 3)
        {
            *expected = store.keys.get(key).map_or(0, |it| it.modified);
        }
        if random.chance(1, 4) {
            operation.outcome = Outcome::unknown("no answer");
            if random.chance(1, 2) {
                store.carry_out(&operation.request);
            }
        } else {
            operation.outcome = Outcome::Done(store.carry_out(&operation.request));
        }
        history.operations.push(operation);
    }
    history.ledger = store.ledger;
    history
}

/// An operation, and the moment at which it happens.
fn plan(number: u64, random: &mut Random) -> (u64, Operation) {
    let called = random.below(TIME);
    let returned = called + 1 + random.below(TIME / 2);
    let key = (*random.pick(&KEYS)).to_owned();
    let value = number.to_string();
    let request = match random.below(5) {
        0 | 1 => Request::Put {
            key,
            value,
            lease: 0,
            previous: random.chance(1, 2),
        },
        2 => Request::Delete { key },
        3 => Request::Get {
            key,
            end: String::new(),
            revision: 0,
            serializable: false,
        },
        _ => swap(key, value, random),
    };
    let operation = Operation {
        client: number as u32,
        member: 0,
        life: None,
        called,
        returned,
        request,
        outcome: Outcome::refused(""),
    };
    let moment = called + random.below(returned - called + 1);
    (moment, operation)
}

fn swap(key: String, value: String, random: &mut Random) -> Request {
    let mut puts = vec![(key.clone(), value.clone())];
    let other = (*random.pick(&KEYS)).to_owned();
    if other != key {
        puts.push((other, value));
    }
    Request::Swap {
        key,
        expected: random.below(4) as i64,
        puts,
    }
}

/// Changes something that a client or the ledger says.
fn lie(history: &mut History, random: &mut Random) {
    let index = random.below(history.operations.len() as u64) as usize;
    let operation = &mut history.operations[index];
    match random.below(7) {
        0 => {
            let moved = random.below(TIME);
            operation.returned = moved + (operation.returned - operation.called);
            operation.called = moved;
        }
        1 => {
            history.ledger.pop();
        }
        2 if history.ledger.len() > 1 => {
            let last = history.ledger.len() - 1;
            history.ledger.swap(last, last - 1);
        }
        3 => operation.outcome = Outcome::unknown("no answer"),
        4 => operation.outcome = Outcome::refused("no"),
        _ => {
            if let Outcome::Done(answer) = &mut operation.outcome {
                match random.below(3) {
                    0 => answer.revision += random.below(3) as i64 - 1,
                    // Of a read it means nothing.
                    1 if !matches!(operation.request, Request::Get { .. }) => {
                        answer.succeeded = !answer.succeeded;
                    }
                    _ => drop(answer.versions.pop()),
                }
            }
        }
    }
}

#[test]
fn the_checker_agrees_with_a_search_of_every_order() {
    let mut random = Random::from_seed(3);
    let (mut right, mut wrong) = (0, 0);
    for case in 0..CASES {
        let mut history = truth(&mut random);
        for _ in 0..random.below(3) {
            lie(&mut history, &mut random);
        }
        let told: Vec<usize> = (0..history.operations.len())
            .filter(|it| !matches!(history.operations[*it].outcome, Outcome::Refused { .. }))
            .collect();
        let expected = possible(&history, &Store::default(), &told);
        let violations = check(&history);
        assert_eq!(
            violations.is_empty(),
            expected,
            "case {case}: {history:#?}\n{violations:#?}"
        );
        right += u64::from(expected);
        wrong += u64::from(!expected);
    }
    assert!(right > CASES / 10 && wrong > CASES / 10, "{right} {wrong}");
}
