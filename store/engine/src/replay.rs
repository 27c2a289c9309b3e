//! Groups of the log on their way into the index.
//!
//! ```text
//!   engine-replay    log ──► Group ──► DecodedGroup ──┐  some hundred at a time,
//!   the caller       index ◄── take ◄─────────────────┘  some such portions ahead
//! ```
//!
//! Reading, checking and decoding a group takes about as long as applying it, so two threads
//! take little more than half of the time. The one that reads is never far ahead: 16 MiB of the log, or
//! one large group besides the one that is applied.

use crate::damaged_group;
use crate::format::KIND_HARD_STATE;
use crate::last_changes::ChangeRun;
use crate::record_pointer::RecordPointer;
use crate::trees::VersionEntry;
use crate::{
    Batch, Change, Entry, Error, HardState, LogOptions, Revision, Unapplied, entry, record,
};
use environment::{Disk, Mutex, threads};
use std::mem;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::{io, iter};
use value_log::{Appended, Group, Log, Position, WalkedLog};

const THREAD: &str = "engine-replay";
/// Most groups in a portion.
const PORTION_GROUPS: usize = 256;
/// A portion with this many bytes is full.
const PORTION_BYTES: usize = 512 << 10;
/// Portions that wait for the thread that applies.
const PORTIONS_AHEAD: usize = 32;

/// A group of the log with its records decoded.
#[derive(Debug)]
pub(crate) struct DecodedGroup {
    /// Damaged records of it that are proved: place, kind and payload.
    pub(crate) mended: Vec<(Position, u8, Vec<u8>)>,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    HardStates(Vec<HardState>),
    Entry {
        entry: Entry,
        /// That was written with it.
        state: Option<HardState>,
        /// `None` where the checkpoint has applied it.
        change: Option<Box<Unapplied>>,
    },
    /// An entry of keys alone, where these are all that counts ([`Decoder::keys_alone`]).
    Keys {
        entry: Entry,
        /// Its first and its last main revision.
        mains: (i64, i64),
        /// Empty where the checkpoint has applied it.
        changes: ChangeRun,
    },
}

impl DecodedGroup {
    fn shows_keys(&self) -> bool {
        match &self.content {
            Content::Entry { change, .. } => {
                let batch = change.as_ref().map(|change| &change.batch);
                batch.is_some_and(|batch| batch.mains().is_some())
            }
            Content::Keys { .. } | Content::HardStates(_) => false,
        }
    }

    /// About what it takes in memory.
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Entry {
                change: Some(change),
                ..
            } => {
                let each = size_of::<Change>() + size_of::<Position>();
                change.body.bytes().len() + change.batch.changes.len() * each
            }
            Content::Keys { changes, .. } => changes.bytes(),
            Content::Entry { change: None, .. } | Content::HardStates(_) => 0,
        }
    }
}

/// Decodes the groups behind a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a> {
    pub(crate) directory: &'a Path,
    /// Index of the last entry that the checkpoint has applied.
    pub(crate) applied_index: u64,
    /// Of entries with keys alone only these are decoded.
    pub(crate) keys_alone: bool,
}

impl Decoder<'_> {
    pub(crate) fn decode(&self, group: &Group<'_>) -> Result<DecodedGroup, Error> {
        let mended = self.mended_in(group)?;
        let content = if group.tag.index == 0 {
            Content::HardStates(hard_states(group)?)
        } else if let Some(keys) = self.keys_of(group) {
            keys
        } else {
            self.entry(group, &mended)?
        };
        let place = |(number, payload): (usize, Vec<u8>)| {
            let (position, kind, _) = group.records[number];
            (position, kind, payload)
        };
        Ok(DecodedGroup {
            mended: mended.into_iter().map(place).collect(),
            content,
        })
    }

    fn entry(&self, group: &Group<'_>, mended: &[(usize, Vec<u8>)]) -> Result<Content, Error> {
        let (term, index) = (group.tag.term, group.tag.index);
        let (body, state) = entry::without_hard_state(group.body_with(mended));
        let entry = Entry {
            index,
            term,
            start: group.start,
            body_bytes: body.bytes().len() as u64,
        };
        let mut change = None;
        if index > self.applied_index {
            let batch = Batch::decode(term, index, &body)?;
            let appended = appended(group, batch.changes.len(), entry.body_bytes);
            change = Some(Box::new(Unapplied {
                batch,
                appended,
                body,
            }));
        }
        Ok(Content::Entry {
            entry,
            state,
            change,
        })
    }

    /// The keys of an entry that has nothing else; `None` also if anything is wrong with it.
    fn keys_of(&self, group: &Group<'_>) -> Option<Content> {
        if !self.keys_alone || !group.damaged.is_empty() {
            return None;
        }
        let is_applied = group.tag.index <= self.applied_index;
        let records = if is_applied { 0 } else { group.records.len() };
        let mut changes = ChangeRun::with_capacity(records);
        let (mut first_main, mut last) = (None, None);
        let mut body_bytes = 0;
        for &(position, kind, payload) in &group.records {
            let (key, header) = record::key_in(kind, payload).ok()?;
            let (main, sub) = (header.main as i64, i64::from(header.sub));
            let revision = Revision { main, sub };
            if !revision.may_follow(last) {
                return None;
            }
            first_main.get_or_insert(main);
            last = Some(revision);
            let record_bytes = Log::record_bytes(payload.len()) as u64;
            let version = VersionEntry {
                pointer: RecordPointer::new(position, record_bytes),
                main,
                tombstone: header.tombstone,
            };
            if !is_applied {
                changes.push(key, version);
            }
            body_bytes += record_bytes;
        }
        let entry = Entry {
            index: group.tag.index,
            term: group.tag.term,
            start: group.start,
            body_bytes,
        };
        let mains = (first_main?, last?.main);
        Some(Content::Keys {
            entry,
            mains,
            changes,
        })
    }

    /// Damaged records of a group that are proved. Of a group that the checkpoint holds only
    /// the hard state is needed, which comes last.
    fn mended_in(&self, group: &Group<'_>) -> Result<Vec<(usize, Vec<u8>)>, Error> {
        let index = group.tag.index;
        let is_applied = index != 0 && index <= self.applied_index;
        let last = group.records.len().wrapping_sub(1);
        if group.damaged.is_empty() || (is_applied && !group.damaged.contains(&last)) {
            return Ok(Vec::new());
        }
        damaged_group::of(self.directory, group)
    }
}

fn hard_states(group: &Group<'_>) -> Result<Vec<HardState>, Error> {
    let decode = |&(position, kind, payload): &(Position, u8, &[u8])| {
        let state = HardState::decode(payload).filter(|_| kind == KIND_HARD_STATE);
        state.ok_or_else(|| {
            record::unreadable(
                position,
                "a record outside of a batch that is no hard state",
            )
        })
    };
    group.records.iter().map(decode).collect()
}

/// Where the records of a batch lie, which are the first of their group.
fn appended(group: &Group<'_>, records: usize, body_bytes: u64) -> Appended {
    let records = group.records.iter().take(records);
    let positions: Vec<Position> = records.map(|record| record.0).collect();
    let records_start = positions.first().map_or(0, |first| first.offset());
    Appended {
        sequence: group.sequence,
        start: group.start,
        positions,
        end_offset: records_start + body_bytes,
    }
}

/// Reads the log from `replay_from` on, and puts each of its groups.
pub(crate) fn read(
    disk: Arc<dyn Disk>,
    mut decoder: Decoder<'_>,
    options: LogOptions,
    replay_from: Option<Position>,
    put: &mut Put<'_>,
) -> Result<WalkedLog, Error> {
    let (directory, mut refused) = (decoder.directory, None);
    // The first batch with keys is shown in whole.
    let keys_alone = mem::take(&mut decoder.keys_alone);
    let mut visit = |group: &Group<'_>| {
        let decoded = decoder.decode(group).map_err(|error| {
            let text = error.to_string();
            refused = Some(error);
            text
        });
        if keys_alone && !decoder.keys_alone {
            decoder.keys_alone = decoded.as_ref().is_ok_and(DecodedGroup::shows_keys);
        }
        let put = decoded.and_then(|group| put(group).map_err(|TakerEnded| "it is refused".into()));
        put.map_err(|text| value_log::Error::visit(io::Error::other(text)))
    };
    let walked = Log::walk(disk, directory, options, replay_from, &mut visit);
    match refused {
        Some(error) => Err(error),
        None => walked.map_err(of_log),
    }
}

/// Damage that a restart meets, with a remedy that this crate knows.
pub(crate) fn of_log(error: value_log::Error) -> Error {
    match error {
        value_log::Error::Damaged {
            file, offset, what, ..
        } => Error::LogDamaged { file, offset, what },
        other => other.into(),
    }
}

/// Where a reader puts groups.
pub(crate) type Put<'a> = dyn FnMut(DecodedGroup) -> Result<(), TakerEnded> + 'a;

/// The other thread takes no more groups: it has refused one.
#[derive(Debug)]
pub(crate) struct TakerEnded;

/// Lets `read` run on a thread of its own and `take` on this one, which gets all groups in the
/// order in which they were put. The first group that `take` refuses ends both, and its error
/// counts more than what `read` says then. Where no thread can be started, this one does both.
pub(crate) fn on_two_threads<R: Send, E>(
    read: impl FnOnce(&mut Put<'_>) -> R + Send,
    mut take: impl FnMut(DecodedGroup) -> Result<(), E>,
) -> Result<R, E> {
    let read = Mutex::new(Some(read));
    let the_read = || read.lock().take().expect("it is taken once");
    let (sender, receiver) = sync_channel::<Vec<DecodedGroup>>(PORTIONS_AHEAD);
    std::thread::scope(|scope| {
        let reader = threads::spawn_scoped(scope, THREAD, || {
            let mut portion = Portion::new(sender);
            let result = the_read()(&mut |group| portion.put(group));
            // With `TakerEnded` the taker has an error, which counts more.
            let _ = portion.send();
            result
        });
        let reader = match reader {
            Ok(reader) => reader,
            Err(error) => {
                tracing::warn!(%error, "the log is read and applied by one thread");
                return on_one_thread(the_read(), take);
            }
        };
        // The receiver is dropped with the first error, and so the reader does not wait.
        let taken = receiver.into_iter().flatten().try_for_each(&mut take);
        let result = reader.join().unwrap_or_else(|panic| resume_unwind(panic));
        taken.map(|()| result)
    })
}

/// The same on this thread alone: each group is taken when it is put.
pub(crate) fn on_one_thread<R, E>(
    read: impl FnOnce(&mut Put<'_>) -> R,
    mut take: impl FnMut(DecodedGroup) -> Result<(), E>,
) -> Result<R, E> {
    let mut refused = None;
    let result = read(&mut |group| {
        take(group).map_err(|error| {
            refused = Some(error);
            TakerEnded
        })
    });
    refused.map_or(Ok(result), Err)
}

/// Groups that are sent together.
struct Portion {
    sender: SyncSender<Vec<DecodedGroup>>,
    groups: Vec<DecodedGroup>,
    bytes: usize,
}

impl Portion {
    fn new(sender: SyncSender<Vec<DecodedGroup>>) -> Portion {
        Portion {
            sender,
            groups: Vec::new(),
            bytes: 0,
        }
    }

    fn put(&mut self, group: DecodedGroup) -> Result<(), TakerEnded> {
        self.bytes += group.bytes();
        self.groups.push(group);
        if self.groups.len() < PORTION_GROUPS && self.bytes < PORTION_BYTES {
            return Ok(());
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), TakerEnded> {
        let full = mem::replace(&mut self.groups, Vec::with_capacity(PORTION_GROUPS));
        let places = (mem::take(&mut self.bytes) / PORTION_BYTES).clamp(1, PORTIONS_AHEAD + 1);
        // A large portion takes several places, the largest all: behind such a one, empty ones
        // make this thread wait until it is being taken.
        let portions = iter::once(full).chain((1..places).map(|_| Vec::new()));
        for portion in portions {
            self.sender.send(portion).map_err(|_| TakerEnded)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
