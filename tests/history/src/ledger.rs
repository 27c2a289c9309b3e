//! The ledger as a model: the state of every key at every revision.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::history::holds;
use crate::{Base, Change, Entry, Rule, Version, Violation};

/// Every key's versions by revision; `None`: it was deleted.
#[derive(Debug, Default)]
pub(crate) struct Ledger<'a> {
    /// Revision of the base.
    base: i64,
    entries: &'a [Entry],
    keys: BTreeMap<&'a str, Vec<(i64, Option<&'a Version>)>>,
}

impl<'a> Ledger<'a> {
    /// Takes the entries up to the first that contradicts those before it.
    pub fn new(base: &'a Base, entries: &'a [Entry]) -> (Ledger<'a>, Vec<Violation>) {
        let mut ledger = Ledger {
            base: base.revision,
            ..Ledger::default()
        };
        for version in &base.versions {
            let written = (version.modified, Some(version));
            ledger.keys.insert(&version.key, vec![written]);
        }
        let mut violations = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            if let Err(text) = ledger.enter(index, entry) {
                violations.push(Violation {
                    rule: Rule::Ledger,
                    text: format!("{text}: {entry:?}"),
                    evidence: Vec::new(),
                });
                break;
            }
            ledger.entries = &entries[..=index];
        }
        (ledger, violations)
    }

    fn enter(&mut self, index: usize, entry: &'a Entry) -> Result<(), String> {
        let expected = self.base + 1 + index as i64;
        if entry.revision != expected {
            return Err(format!("revision {expected} is missing"));
        }
        if entry.changes.is_empty() {
            return Err("nothing changes".to_owned());
        }
        let keys: BTreeSet<&str> = entry.changes.iter().map(Change::key).collect();
        if keys.len() != entry.changes.len() {
            return Err("a key changes twice".to_owned());
        }
        for change in &entry.changes {
            self.judge(entry.revision, change)?;
        }
        for change in &entry.changes {
            let version = match change {
                Change::Put(version) => Some(version),
                Change::Delete { .. } => None,
            };
            let versions = self.keys.entry(change.key()).or_default();
            versions.push((entry.revision, version));
        }
        Ok(())
    }

    /// Whether a change follows from what was before.
    fn judge(&self, revision: i64, change: &Change) -> Result<(), String> {
        let before = self.at(change.key(), revision - 1);
        if change.modified() != revision {
            return Err(format!("a change of revision {}", change.modified()));
        }
        match (change, before) {
            (Change::Delete { .. }, None) => Err("what is not there is deleted".to_owned()),
            (Change::Delete { .. }, Some(_)) => Ok(()),
            (Change::Put(version), before) => {
                let begun = before.map_or((revision, 1), |it| (it.created, it.version + 1));
                let (created, number) = begun;
                match (version.created, version.version) == begun {
                    true => Ok(()),
                    false => Err(format!(
                        "a put that should be created {created}, version {number}"
                    )),
                }
            }
        }
    }

    /// Revision of the base, from which on the model knows every state.
    pub fn base(&self) -> i64 {
        self.base
    }

    /// The newest revision.
    pub fn newest(&self) -> i64 {
        self.base + self.entries.len() as i64
    }

    /// What happened at a revision.
    pub fn entry(&self, revision: i64) -> Option<&'a Entry> {
        let index = usize::try_from(revision - self.base - 1).ok()?;
        self.entries.get(index)
    }

    /// All of them, in order.
    pub fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// What a key was at a revision.
    pub fn at(&self, key: &str, revision: i64) -> Option<&'a Version> {
        let versions = self.keys.get(key)?;
        let after = versions.partition_point(|(at, _)| *at <= revision);
        versions[..after].last().and_then(|(_, version)| *version)
    }

    /// What a range was at a revision, by key.
    pub fn range(&self, first: &str, end: &str, revision: i64) -> Vec<&'a Version> {
        if end.is_empty() {
            return self.at(first, revision).into_iter().collect();
        }
        let from = (Bound::Included(first), Bound::Unbounded);
        let keys = self.keys.range::<str, _>(from).map(|(key, _)| *key);
        let keys = keys.take_while(|key| holds(first, end, key));
        keys.filter_map(|key| self.at(key, revision)).collect()
    }
}
