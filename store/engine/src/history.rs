//! All changes from a revision on: what a watch reads when it is behind.
//!
//! ```text
//!   compacted      floor                      applied
//!       ▼            ▼                           ▼
//!   ────┼────────────┼───────────────────────────┤
//!          from the       along the log,
//!          index          frame by frame
//! ```
//!
//! Normally the floor lies below the compacted revision, because reclaim does
//! not touch segments with history above it, and the walk is a sequential
//! read. Only `defragment` raises the floor: what lies between is then
//! collected from the index, which knows every version above the compacted
//! revision. The same way is taken when a segment vanishes under a walk.
//!
//! Starting costs a search in the marks and at most 64 KiB of reading.

use crate::parts::Parts;
use crate::read::Records;
use crate::record::{is_key_version, unreadable};
use crate::versions::{self, Places};
use crate::{Error, KeyChange};
use std::collections::VecDeque;
use std::sync::Arc;
use value_log::{GroupBuffer, Groups};

/// How often the source may change before the next transaction is found.
const ATTEMPTS_MAX: usize = 16;

/// All changes of one transaction, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Its main revision.
    pub main: i64,
    /// What it wrote.
    pub versions: Vec<KeyChange>,
}

/// A walk over transactions in order; made by [`crate::Engine::history`]. `None`
/// means that nothing more is applied yet: ask again later.
#[derive(Debug)]
pub struct History {
    parts: Arc<Parts>,
    next_main: i64,
    /// Generation of the engine's state that the source belongs to.
    generation: u64,
    source: Source,
    /// Read, not yet handed out.
    ahead: VecDeque<Changes>,
}

#[derive(Debug)]
enum Source {
    Unknown,
    Log(Box<Groups>),
    Index(Places),
}

impl History {
    pub(crate) fn new(parts: &Arc<Parts>, from_main: i64) -> Result<History, Error> {
        let compacted = parts.records.index.snapshot().compacted();
        if from_main < compacted {
            return Err(Error::Compacted {
                asked: from_main,
                compacted,
            });
        }
        Ok(History {
            parts: Arc::clone(parts),
            next_main: from_main.max(1),
            generation: 0,
            source: Source::Unknown,
            ahead: VecDeque::new(),
        })
    }

    fn records(&self) -> &Records {
        &self.parts.records
    }

    /// The revision that comes next.
    pub fn next_main(&self) -> i64 {
        self.next_main
    }

    fn advance(&mut self) -> Result<Option<Changes>, Error> {
        // Revision 1 is the empty store: nothing was written by it.
        self.next_main = self.next_main.max(2);
        let applied = self.check_compacted()?;
        self.follow_installation();
        if self.next_main > applied {
            return Ok(None);
        }
        let changes = self.find(applied);
        // A compaction during the search may have left a part of it.
        self.check_compacted()?;
        let changes = changes?;
        self.next_main = changes.main + 1;
        Ok(Some(changes))
    }

    /// The last applied revision; an error if the revision that comes next is compacted.
    fn check_compacted(&self) -> Result<i64, Error> {
        let snapshot = self.records().index.snapshot();
        let (applied, compacted) = (snapshot.revision(), snapshot.compacted());
        if self.next_main < compacted {
            let asked = self.next_main;
            return Err(Error::Compacted { asked, compacted });
        }
        Ok(applied)
    }

    /// Drops the source after a snapshot was installed: the old log may continue with entries
    /// that were never committed. Called after the applied revision was read: if that is of
    /// the old state, the old log has everything up to it.
    fn follow_installation(&mut self) {
        let generation = self.records().index.generation();
        if generation != self.generation {
            self.generation = generation;
            self.ahead.clear();
            self.source = Source::Unknown;
        }
    }

    fn find(&mut self, applied: i64) -> Result<Changes, Error> {
        let mut failure = None;
        for attempt in 0..ATTEMPTS_MAX {
            match self.take_next() {
                Ok(Some(changes)) => return Ok(changes),
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
            // The log is tried twice; after that only the index.
            self.seek(applied, attempt > 1);
        }
        Err(failure.unwrap_or(Error::Gap {
            directory: self.parts.directory.path.clone(),
            expected: self.next_main,
            found: self.ahead.front().map_or(0, |changes| changes.main),
        }))
    }

    fn seek(&mut self, applied: i64, index_only: bool) {
        self.ahead.clear();
        let start = if index_only {
            None
        } else {
            self.records().log_view.start_of(self.next_main)
        };
        self.source = match start {
            Some(position) => Source::Log(Box::new(self.records().log_view.log.groups(position))),
            None => self.index_source(applied),
        };
    }

    /// Changes from the index, up to where the log has them.
    fn index_source(&self, applied: i64) -> Source {
        let floor = self.records().log_view.floor();
        let to = if floor > self.next_main {
            applied.min(floor - 1)
        } else {
            applied
        };
        let snapshot = self.records().index.snapshot();
        let changes = versions::changes_between(&snapshot, self.next_main, to);
        Source::Index(Places::new(changes))
    }

    /// The transaction `next_main`; `None` when the source does not have it.
    fn take_next(&mut self) -> Result<Option<Changes>, Error> {
        loop {
            while let Some(changes) = self.ahead.pop_front() {
                if changes.main == self.next_main {
                    return Ok(Some(changes));
                }
                if changes.main > self.next_main {
                    self.ahead.push_front(changes);
                    return Ok(None);
                }
            }
            if !self.read_ahead()? {
                return Ok(None);
            }
        }
    }

    fn read_ahead(&mut self) -> Result<bool, Error> {
        let records = &self.parts.records;
        match &mut self.source {
            Source::Unknown => Ok(false),
            Source::Log(groups) => {
                let group = groups.next().transpose();
                records.lifecycle.check_open()?;
                let Some(group) = group? else {
                    return Ok(false);
                };
                let counts = !records
                    .log_view
                    .accounting
                    .overruled
                    .lock()
                    .has(group.start);
                if counts && group.tag.last as i64 >= self.next_main {
                    self.ahead = changes_of(&group)?;
                }
                Ok(true)
            }
            Source::Index(places) => {
                let Some((main, mut versions)) = versions::take_main(records, places)? else {
                    return Ok(false);
                };
                versions.sort_by_key(|stored: &KeyChange| stored.revision.sub);
                self.ahead.push_back(Changes { main, versions });
                Ok(true)
            }
        }
    }
}

impl Iterator for History {
    type Item = Result<Changes, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

fn changes_of(group: &GroupBuffer) -> Result<VecDeque<Changes>, Error> {
    let mut found: VecDeque<Changes> = VecDeque::new();
    for (position, kind, payload) in &group.records {
        if !is_key_version(*kind) {
            continue;
        }
        let stored =
            KeyChange::decode(*kind, payload).map_err(|what| unreadable(*position, what))?;
        match found.back_mut() {
            Some(last) if last.main == stored.revision.main => last.versions.push(stored),
            _ => found.push_back(Changes {
                main: stored.revision.main,
                versions: vec![stored],
            }),
        }
    }
    Ok(found)
}
