//! Embedded targets, which run in the worker's own process.

use std::path::Path;
use std::sync::OnceLock;

use crate::workload::DurabilityLevel;

/// Any error of a target or a run; its text names the file or key.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Options for opening a target.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Durability that a put must have when it returns.
    pub durability: DurabilityLevel,
    /// Number of keys of the workload, for targets that allocate space ahead.
    pub keys: u64,
    /// Greatest length of a key and its value together, in bytes.
    pub entry_bytes_max: u64,
    /// Size of the buffer in which puts may be acknowledged before they are durable; 0 for
    /// no buffer.
    pub buffer_bytes: u64,
    /// Size of a log's segments; 0 for the target's default.
    pub segment_bytes: u64,
}

/// A target that this program can open.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Name on the command line.
    pub name: &'static str,
    /// Version of the product; for a crate of this workspace, the workspace's.
    pub version: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// Levels of durability that the target supports.
    pub promises: &'static [DurabilityLevel],
    /// Whether the target keeps keys in order and can read ranges.
    pub has_ranges: bool,
    /// Whether the target takes more keys than the workload's `load.keys`.
    pub grows: bool,
    /// Whether data outlives the process; otherwise nothing is verified.
    pub keeps_data: bool,
    /// Whether the target is a log that supports `durability.buffer_bytes` and
    /// `durability.segment_bytes`.
    pub gathers: bool,
    /// Opens the target in a directory, which may hold data of an earlier opening.
    pub open: Open,
}

impl Offer {
    /// An ordered store that keeps its data and promises both levels.
    pub const fn store(
        name: &'static str,
        version: &'static str,
        about: &'static str,
        open: Open,
    ) -> Offer {
        Offer {
            name,
            version,
            about,
            promises: &[DurabilityLevel::Durable, DurabilityLevel::Os],
            has_ranges: true,
            grows: true,
            keeps_data: true,
            gathers: false,
            open,
        }
    }
}

/// Opens a target in a directory.
pub type Open = fn(&Path, &OpenOptions) -> Result<Box<dyn Embedded>, Failure>;

/// An open target.
pub trait Embedded: Send + Sync {
    /// Opens a session for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure>;

    /// The product's version where only the open target can report it; `None` means the
    /// version of the offer.
    fn version(&self) -> Option<String> {
        None
    }

    /// Puts all data in the order of the keys; returns when that is done. Does nothing where keys
    /// are kept in order all the time, or there is no such call.
    fn compact(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Closes the target; returns when all data is written. Dropping it is enough by default.
    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Result of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Number of pairs.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// The processor fetches as many bytes at once.
const CACHE_LINE_BYTES: usize = 64;

impl Seen {
    /// Reads the pairs of a range, up to `limit`; 0 means all. `parts` returns the key and the
    /// value of a pair.
    pub fn read_all<Pair, Error: Into<Failure>>(
        pairs: impl Iterator<Item = Result<Pair, Error>>,
        limit: u64,
        parts: impl for<'p> Fn(&'p Pair) -> (&'p [u8], &'p [u8]),
    ) -> Result<Seen, Failure> {
        let mut seen = Seen::default();
        for pair in pairs {
            let pair = pair.map_err(Into::into)?;
            let (key, value) = parts(&pair);
            if !seen.read(key, value, limit) {
                break;
            }
        }
        Ok(seen)
    }

    /// Reads a pair, and returns whether more are wanted. Some bytes of each cache line of key and
    /// value are read, as by a program that uses them: some stores hand out an address, and have
    /// read nothing.
    pub fn read(&mut self, key: &[u8], value: &[u8], limit: u64) -> bool {
        for bytes in [key, value] {
            let lines = bytes.chunks(CACHE_LINE_BYTES).map(|line| line[0]);
            let read = lines.chain(bytes.last().copied());
            std::hint::black_box(read.fold(0, u8::wrapping_add));
        }
        self.bytes += (key.len() + value.len()) as u64;
        self.keys += 1;
        self.keys != limit
    }
}

/// Access of one thread to a target.
pub trait Session: Send {
    /// Writes a key; returns when the write has the durability of the options.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Appends the value of a key to `value`; returns false where the key does not exist.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure>;

    /// Reads up to `limit` pairs in order, beginning at `from`; 0 means all. Only called where
    /// the offer has ranges.
    fn range(&mut self, _from: &[u8], _limit: u64) -> Result<Seen, Failure> {
        Err("the target keeps no order of keys".into())
    }

    /// Writes many keys before the measurement, by the target's fastest way.
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
        super::engine::UNCOMPRESSED,
        super::engine::TIGHT,
        super::store::OFFER,
    ]
}

/// Targets of other crates in this program.
static FOREIGN: OnceLock<Vec<Offer>> = OnceLock::new();

/// Adds targets of other crates. Must be called at most once, before anything is measured.
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
