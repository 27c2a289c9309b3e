//! What a target is asked to do, as people write it in TOML and as every
//! result repeats it.
//!
//! ```toml
//! name = "point-reads"
//! [load]      # what is there before the clock starts, and what it looks like
//! keys = 1_000_000
//! key = { kind = "u64be", size = 16 }
//! value = { length = "uniform:200..1023", unique = true, compressible = 0.5 }
//! [mix]       # shares of a hundred percent
//! get = 0.5
//! put = 0.5
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
//! Everything but `name` has a default. A word that is not known is refused
//! with its line: an option that is silently ignored measures something else.

mod access;
mod arrival;
mod draw;
mod file;
mod keys;
mod size;
mod span;
mod values;

pub use access::Distribution;
pub use arrival::{Arrival, Objective, Process};
pub use draw::Draw;
pub use file::{Mistake, load, parse};
pub use keys::Keys;
pub use size::ValueLength;
pub use span::{Span, Warmup};
pub use values::{Stamp, Values, mixed};

use serde::{Deserialize, Serialize};

/// A whole workload; `clients` may still name several points of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What results call it.
    pub name: String,
    /// One sentence for people.
    #[serde(default)]
    pub description: String,
    /// What is there before the clock starts.
    #[serde(default)]
    pub load: Load,
    /// Shares of the kinds of operation.
    #[serde(default)]
    pub mix: Mix,
    /// Which keys are asked for.
    #[serde(default)]
    pub access: Access,
    /// How many ask at once.
    #[serde(default)]
    pub clients: Clients,
    /// When they ask.
    #[serde(default)]
    pub arrival: Arrival,
    /// What an acknowledgement must promise.
    #[serde(default)]
    pub durability: Durability,
    /// How long.
    #[serde(default)]
    pub time: Time,
}

/// Keys and values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Keys numbered from 0 that operations draw from.
    pub keys: u64,
    /// Whether each of them is written before the clock starts.
    pub preload: bool,
    /// What a key looks like.
    pub key: KeySpec,
    /// What a value looks like.
    pub value: ValueSpec,
}

/// What a key looks like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeySpec {
    /// How the number of the key becomes bytes.
    pub kind: KeyKind,
    /// Bytes; shorter keys are filled up with zero bytes behind. 0: as long as
    /// the kind makes them.
    pub size: usize,
}

/// How the number of a key becomes bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyKind {
    /// Eight bytes, big endian: numeric order is key order.
    #[default]
    #[serde(rename = "u64be")]
    U64BigEndian,
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
}

/// What a value looks like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValueSpec {
    /// Bytes of a value.
    pub length: ValueLength,
    /// Whether no two values are alike. Without it nobody can tell a stale
    /// value from a fresh one, and verify checks presence only.
    pub unique: bool,
    /// Size after compression as a share of the size before; 1: random bytes.
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
    /// Ordered reads of several keys.
    pub range: RangeSpec,
    /// Whether reads may be answered by a member that has not asked the
    /// others (etcd's `serializable`).
    pub serializable: bool,
}

/// Ordered reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RangeSpec {
    /// Share of all operations.
    pub share: f64,
    /// Keys that one range returns at most; 0: all of them.
    pub limit: u64,
    /// Always from the first key on, as etcd's rw-benchmark asks; otherwise
    /// from a drawn key.
    pub from_start: bool,
}

/// Which keys are asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// How a key is drawn.
    pub distribution: Distribution,
    /// Share of point reads that ask for a key that was never written.
    pub missing: f64,
}

/// How many ask at once: one number, or the points of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// Connections that servers are asked over; embedded targets have none.
    pub connections: u32,
    /// Clients, each with one operation at a time; each is a thread of an
    /// embedded target.
    #[serde(with = "one_or_many")]
    pub clients: Vec<u32>,
}

/// What an acknowledgement must promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Durability {
    /// The promise.
    pub level: DurabilityLevel,
    /// A put may return when it is in a buffer of so many bytes, two of which
    /// can be lost; for logs. 0: each put keeps the promise.
    pub buffer_bytes: u64,
    /// Size of a log's segments; 0: the target's own.
    pub segment_bytes: u64,
}

/// Promises of an acknowledgement, the strongest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityLevel {
    /// Survives a loss of power.
    #[default]
    Durable,
    /// Survives the process.
    Os,
    /// Nothing.
    None,
}

/// How long a run takes; never a number of operations, so that a slow target
/// is not measured over other minutes than a fast one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Time {
    /// What comes before and is not counted.
    pub warmup: Warmup,
    /// What is counted.
    pub measure: Span,
    /// Length of one point of the series.
    pub interval: Span,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            keys: 100_000,
            preload: true,
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

/// `clients = 8` and `clients = [1, 2, 4]` are both natural.
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
