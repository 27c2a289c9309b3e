//! One store over many restarts: what its clients saw before its process ended, against what
//! it shows when it runs again.
//!
//! ```text
//!   revision     ... floor │ floor+1 ... newest │ newest+1 ... shown
//!                compacted │ judged before:     │ acknowledged: that very write
//!                          │ as it was          │ else: one of unknown outcome,
//!                          │                    │       whole, and only once
//! ```
//!
//! A write of unknown outcome that is absent after the restart never happens: it is judged
//! with the life in which it was sent.

use std::collections::BTreeMap;

use crate::{Base, Change, Entry, History, Operation, Rule, Version, Violation, check};

/// A store, as far as its past lives have been judged.
#[derive(Debug)]
pub struct Restarts {
    /// Revisions up to here may be compacted.
    floor: i64,
    /// Every revision after the floor.
    ledger: Vec<Entry>,
    /// The keys at the newest revision.
    keys: BTreeMap<String, Version>,
}

/// Result of the time between two restarts.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Violations of [`Rule::Lost`].
    pub lost: u64,
    /// Writes of unknown outcome that are present.
    pub survived: u64,
    /// Writes of unknown outcome that are absent.
    pub absent: u64,
    pub violations: Vec<Violation>,
}

impl Default for Restarts {
    /// An empty store.
    fn default() -> Restarts {
        Restarts {
            floor: Base::default().revision,
            ledger: Vec::new(),
            keys: BTreeMap::new(),
        }
    }
}

impl Restarts {
    /// Revisions up to this one may be compacted.
    pub fn floor(&self) -> i64 {
        self.floor
    }

    /// The newest revision that was judged.
    pub fn newest(&self) -> i64 {
        self.floor + self.ledger.len() as i64
    }

    /// The keys at the newest revision.
    pub fn keys(&self) -> impl Iterator<Item = &Version> {
        self.keys.values()
    }

    /// Notes that a compaction up to `revision` was requested and may have happened.
    pub fn may_be_compacted(&mut self, revision: i64) {
        assert!(revision <= self.newest(), "judged revisions are compacted");
        let gone = usize::try_from(revision - self.floor).unwrap_or(0);
        self.ledger.drain(..gone);
        self.floor = self.floor.max(revision);
    }

    /// Judges a life. `operations` are all of its clients', and those that have read the
    /// store after the restart; `shown` is every revision after the floor as the store shows
    /// it then.
    pub fn judge(&mut self, operations: Vec<Operation>, mut shown: Vec<Entry>) -> Verdict {
        let fresh = shown.split_off(shown.len().min(self.ledger.len()));
        let mut violations = self.changed(&shown);
        let history = History {
            base: Base {
                revision: self.newest(),
                versions: self.keys.values().cloned().collect(),
            },
            operations,
            ledger: fresh,
            ..History::default()
        };
        violations.extend(check(&history));
        let writes = history.operations.iter();
        let acknowledged = writes.filter(|it| it.revision_taken().is_some()).count() as u64;
        let unknown = history.operations.iter().filter(|it| it.is_unknown());
        let unknown = unknown.count() as u64;
        let survived = (history.ledger.len() as u64).saturating_sub(acknowledged);
        let lost = violations.iter().filter(|it| it.rule == Rule::Lost);
        let verdict = Verdict {
            acknowledged,
            lost: lost.count() as u64,
            survived,
            absent: unknown.saturating_sub(survived),
            violations,
        };
        for entry in history.ledger {
            self.follow(entry);
        }
        verdict
    }

    /// Revisions that were judged before and are shown differently now.
    fn changed(&self, shown: &[Entry]) -> Vec<Violation> {
        let mut shown = shown.iter();
        let pairs = self.ledger.iter().map(|was| (was, shown.next()));
        let changed = pairs.filter(|(was, now)| Some(*was) != *now);
        let violation = |(was, now): (&Entry, Option<&Entry>)| Violation {
            rule: Rule::Ledger,
            text: format!("what was {was:?} is now {now:?}"),
            evidence: Vec::new(),
        };
        changed.map(violation).collect()
    }

    fn follow(&mut self, entry: Entry) {
        for change in &entry.changes {
            match change {
                Change::Put(version) => {
                    self.keys.insert(version.key.clone(), version.clone());
                }
                Change::Delete { key, .. } => {
                    self.keys.remove(key);
                }
            }
        }
        self.ledger.push(entry);
    }
}
