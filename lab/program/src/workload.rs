//! Workloads: the load on a target, as a user writes it in TOML and as every record repeats
//! it.
//!
//! ```toml
//! name = "point-reads"
//! [load]      # the keys and values that exist before the measurement
//! keys = 1_000_000
//! key = { kind = "u64be", size = 16 }
//! value = { length = "uniform:200..1023", unique = true, compressible = 0.5 }
//! rounds = 10 # overwrites of the whole data set before the warm-up
//! compact = true # the target's own compaction, after them
//! [memory]
//! limit = "256MiB"
//! [mix]       # shares of the operations, which add up to 1
//! get = 0.5
//! put = 0.4
//! insert = 0.1
//! [access]
//! distribution = "zipf:0.99"
//! [clients]
//! connections = 10
//! clients = [1, 100]
//! [arrival]
//! mode = "closed"
//! [durability]
//! level = "durable"
//! [time]
//! warmup = "auto,max=30s"
//! measure = "10s"
//! ```
//!
//! Every field except `name` has a default. An unknown field is refused with its line,
//! because a field that is silently ignored would measure something else.

/// Conversions for serde, which uses the text form.
macro_rules! as_text {
    ($($name:ty),*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<$name, String> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    )*};
}

mod access;
mod arrival;
mod draw;
mod file;
mod keys;
mod memory;
mod size;
mod span;
mod values;

pub use access::Distribution;
pub use arrival::{Arrival, Objective, Process};
pub use draw::Draw;
pub use file::{Mistake, load, parse};
pub use memory::{ByteCount, LIMIT_MIN, Memory};
pub use size::ValueLength;
pub use span::{Span, Warmup};
pub use values::{Stamp, Values, mixed};

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A workload; `clients` may name several points of a curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name in results.
    pub name: String,
    /// Description in one sentence.
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub load: Load,
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Memory,
    #[serde(default)]
    pub mix: Mix,
    #[serde(default)]
    pub access: Access,
    #[serde(default)]
    pub clients: Clients,
    #[serde(default)]
    pub arrival: Arrival,
    #[serde(default)]
    pub durability: Durability,
    #[serde(default)]
    pub time: Time,
}

/// Keys and values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Number of keys; operations other than inserts draw keys from 0 to this number.
    pub keys: u64,
    /// Whether every key is written before the measurement.
    pub preload: bool,
    /// Number of times that the data set is overwritten between preload and warm-up. Each
    /// round puts as many values as there are keys, under keys from `access.distribution`.
    #[serde(skip_serializing_if = "is_default")]
    pub rounds: u32,
    /// Whether the target puts its data set in the order of the keys before the warm-up, if it
    /// has a call for that.
    #[serde(skip_serializing_if = "is_default")]
    pub compact: bool,
    pub key: KeySpec,
    pub value: ValueSpec,
}

/// Format of keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeySpec {
    pub kind: KeyKind,
    /// Length in bytes: shorter keys are padded at the end with zero bytes. 0 adds no
    /// padding.
    pub size: usize,
}

/// Encoding of a key's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyKind {
    /// Eight bytes, big endian: numeric order is key order.
    #[default]
    #[serde(rename = "u64be")]
    U64BigEndian,
    /// Eight bytes that are a permutation of all numbers: keys in ascending order of their
    /// numbers are in random order.
    #[serde(rename = "u64-random")]
    U64Random,
    /// Names of pods as Kubernetes keeps them: ten in each of fifty deployments of a namespace,
    /// with its random-looking parts. 66 bytes for up to 100,000,000 keys.
    #[serde(rename = "kubernetes")]
    Kubernetes,
    /// A zigzag varint, as etcd's benchmark writes them.
    #[serde(rename = "etcd-varint")]
    EtcdVarint,
    /// Sixteen decimal digits, as LevelDB's db_bench writes them.
    #[serde(rename = "dbbench-%016d")]
    DbBench,
    /// `series-` and the number without leading zeros, as BanyanDB's log
    /// benchmark writes them.
    #[serde(rename = "series")]
    Series,
    /// `user` and twenty decimal digits that are a permutation of all numbers: keys in
    /// ascending order of their numbers are in random order, as YCSB's hashed ones.
    #[serde(rename = "ycsb")]
    Ycsb,
}

/// Format of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValueSpec {
    /// Length in bytes.
    pub length: ValueLength,
    /// Whether all values differ. Otherwise a stale value cannot be distinguished from a
    /// fresh one, and verification checks only that keys are present.
    pub unique: bool,
    /// Size after compression as a share of the size before; 1 means random bytes.
    pub compressible: f64,
}

/// Shares of the kinds of operation; they add up to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mix {
    /// Point reads.
    pub get: f64,
    /// Writes of one key.
    pub put: f64,
    /// Writes of keys that do not exist yet. Their numbers ascend from the last preloaded key
    /// on, or from 0 without a preload; of n clients, each inserts every n-th number.
    #[serde(skip_serializing_if = "is_default")]
    pub insert: f64,
    /// Reads of one key, each followed by a write of the same key; both are one operation.
    #[serde(skip_serializing_if = "is_default")]
    pub read_modify_write: f64,
    /// Ordered reads of several keys.
    pub range: RangeSpec,
    /// Whether a member may answer reads from its own state, without confirming with a
    /// majority (etcd's `serializable`).
    pub serializable: bool,
}

/// Ordered reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RangeSpec {
    /// Share of all operations.
    pub share: f64,
    /// Greatest number of keys that one range returns; 0 means all.
    pub limit: u64,
    /// Least limit of a range: each range draws its own limit from here to `limit`, all
    /// equally often. 0 means that `limit` is the limit of every range.
    #[serde(skip_serializing_if = "is_default")]
    pub limit_min: u64,
    /// Whether ranges begin at the first key, as in etcd's rw-benchmark; otherwise they begin
    /// at a drawn key.
    pub from_start: bool,
}

/// Choice of the keys of operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    pub distribution: Distribution,
    /// Share of point reads of keys that were never written.
    pub missing: f64,
}

/// Number of concurrent clients: one number, or the points of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// Number of connections to servers; embedded targets have none.
    pub connections: u32,
    /// Number of clients, each with one operation at a time. For an embedded target each
    /// client is a thread.
    #[serde(with = "one_or_many")]
    pub clients: Vec<u32>,
    /// etcd's benchmark program, where it sends the load instead of the lab's own clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<PathBuf>,
}

/// Durability of acknowledged puts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Durability {
    pub level: DurabilityLevel,
    /// Size of the buffer in which a put may return, for logs; a crash can lose two buffers.
    /// 0 means that each put has reached the level when it returns.
    pub buffer_bytes: u64,
    /// Size of a log's segments; 0 for the target's default.
    pub segment_bytes: u64,
}

/// Levels of durability, the strongest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityLevel {
    /// An acknowledged put survives a loss of power.
    #[default]
    Durable,
    /// An acknowledged put survives the end of the process.
    Os,
    /// An acknowledged put may be lost at any time.
    None,
}

/// Times of a run. A run never ends after a number of operations, so that slow and fast
/// targets are measured for the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Time {
    /// Time before the measured part, in which operations do not count.
    pub warmup: Warmup,
    /// Length of the measured part.
    pub measure: Span,
    /// Length of an interval of the series.
    pub interval: Span,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            keys: 100_000,
            preload: true,
            rounds: 0,
            compact: false,
            key: KeySpec::default(),
            value: ValueSpec::default(),
        }
    }
}

impl Default for KeySpec {
    fn default() -> KeySpec {
        KeySpec {
            kind: KeyKind::U64BigEndian,
            size: 16,
        }
    }
}

impl Default for ValueSpec {
    fn default() -> ValueSpec {
        ValueSpec {
            length: ValueLength::Fixed(256),
            unique: true,
            compressible: 1.0,
        }
    }
}

impl Default for Mix {
    fn default() -> Mix {
        Mix {
            get: 0.0,
            put: 1.0,
            insert: 0.0,
            read_modify_write: 0.0,
            range: RangeSpec::default(),
            serializable: false,
        }
    }
}

impl Default for Clients {
    fn default() -> Clients {
        Clients {
            connections: 1,
            clients: vec![1],
            generator: None,
        }
    }
}

impl Default for Time {
    fn default() -> Time {
        Time {
            warmup: Warmup::default(),
            measure: Span::seconds(10.0),
            interval: Span::seconds(1.0),
        }
    }
}

/// Whether a field may be left out of a text: workers of earlier labs do not know it.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Mix {
    /// Share of the operations that write.
    pub fn writes(&self) -> f64 {
        self.put + self.insert + self.read_modify_write
    }
}

/// Accepts both `clients = 8` and `clients = [1, 2, 4]`.
mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(u32),
        Many(Vec<u32>),
    }

    pub fn serialize<S: Serializer>(clients: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
        match clients {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
        Ok(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(clients) => vec![clients],
            OneOrMany::Many(clients) => clients,
        })
    }
}
