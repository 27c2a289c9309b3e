//! Targets that work in the worker's own process.

use std::path::Path;
use std::sync::OnceLock;

use crate::workload::DurabilityLevel;

/// What went wrong, for people: which file or key, what the target said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    /// Of anything that can say what went wrong.
    pub fn of(error: impl std::fmt::Display) -> Failure {
        Failure(error.to_string())
    }
}

/// How a target is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// What an acknowledgement must promise.
    pub durability: DurabilityLevel,
    /// Keys that the workload has, for targets that make room ahead.
    pub keys: u64,
    /// The longest key and value together, in bytes.
    pub entry_bytes_max: u64,
    /// What may be acknowledged before it is kept; 0: nothing.
    pub buffer_bytes: u64,
    /// Of a log; 0: as the target likes.
    pub segment_bytes: u64,
}

/// A target that can be opened here.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Of the product; for a crate of this workspace, the workspace's.
    pub version: &'static str,
    /// One sentence for people.
    pub about: &'static str,
    /// Promises that it can keep.
    pub promises: &'static [DurabilityLevel],
    /// Whether it has an order of keys to read ranges in.
    pub has_ranges: bool,
    /// Whether data outlives the process; without, nothing is verified.
    pub keeps_data: bool,
    /// Whether it is a log that knows `durability.buffer_bytes` and
    /// `durability.segment_bytes`.
    pub gathers: bool,
    /// Opens it in a directory, which may hold what it wrote before.
    pub open: Open,
}

/// Opens a target in a directory.
pub type Open = fn(&Path, &OpenOptions) -> Result<Box<dyn Embedded>, Failure>;

/// An open target.
pub trait Embedded: Send + Sync {
    /// For one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure>;

    /// The product's version where only the open target knows it; otherwise the
    /// offer's counts.
    fn version(&self) -> Option<String> {
        None
    }

    /// Returns when everything is closed and nothing is left to write.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// What a range returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Pairs.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// One thread's way to a target.
pub trait Session: Send {
    /// Returns when the write is as durable as the options say.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Appends the value to `value`; false when there is no such key.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure>;

    /// Reads up to `limit` pairs from `from` on, in order; 0: all.
    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure>;

    /// Writes many keys before the clock starts, as fast as the target can.
    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        entries
            .iter()
            .try_for_each(|(key, value)| self.put(key, value))
    }
}

/// The targets of this crate.
pub fn built_in() -> Vec<Offer> {
    vec![
        super::null::OFFER,
        super::file::OFFER,
        super::append::OFFER,
        super::log::OFFER,
        super::engine::OFFER,
        super::store::OFFER,
    ]
}

/// Targets of other crates in this program.
static FOREIGN: OnceLock<Vec<Offer>> = OnceLock::new();

/// Offers more than this crate's own; once, before anything is measured.
pub fn offer_also(offers: &[Offer]) {
    let set = FOREIGN.set(offers.to_vec());
    assert!(set.is_ok(), "targets of other crates are offered once");
}

/// All targets of this program.
pub fn offered() -> Vec<Offer> {
    let mut offers = built_in();
    offers.extend(FOREIGN.get().into_iter().flatten());
    offers
}

/// What a target without ranges answers.
pub(super) fn no_ranges(target: &str) -> Failure {
    Failure(format!(
        "target {target} keeps no order of keys: a workload with mix.range.share > 0 cannot run on it"
    ))
}
