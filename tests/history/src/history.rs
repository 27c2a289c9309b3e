//! The data of a recording. Its form as lines of JSON, which another program reads too, is
//! given by the attributes here and by `recording.rs`.

use serde::{Deserialize, Serialize};

/// Nanoseconds since the recording began, on one monotonic clock.
pub type Moment = u64;

/// Everything that was recorded of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// By how much the members' clocks ran faster than the recording's at most, in percent:
    /// a lease may end earlier by this much.
    pub clock_error_percent: u64,
    /// The store before the ledger's first entry.
    pub base: Base,
    /// In any order.
    pub operations: Vec<Operation>,
    /// In any order.
    pub watches: Vec<Watch>,
    /// Every revision after the base, as the members show it in the end.
    pub ledger: Vec<Entry>,
}

/// All keys of a store at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    pub revision: i64,
    pub versions: Vec<Version>,
}

impl Default for Base {
    /// An empty store.
    fn default() -> Base {
        Base {
            revision: 1,
            versions: Vec::new(),
        }
    }
}

/// One request of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Number of the client that asked.
    pub client: u32,
    /// Number of the member that was asked.
    pub member: u32,
    /// The life of that member that answered; `None`: that is not certain.
    pub life: Option<u32>,
    /// When the client began.
    pub called: Moment,
    /// When the answer, or the failure, was there.
    pub returned: Moment,
    #[serde(flatten)]
    pub request: Request,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "lowercase")]
pub enum Request {
    /// Writes a key.
    Put {
        key: String,
        /// Never written to this key before.
        value: String,
        /// 0: none.
        lease: i64,
        /// Also wants to see the version before.
        previous: bool,
    },
    /// Deletes a key, and wants to see the version before.
    Delete { key: String },
    /// Reads.
    Get {
        /// The key, or the first of the range.
        key: String,
        /// The end of the range; empty: only the key.
        end: String,
        /// 0: the newest.
        #[serde(rename = "at")]
        revision: i64,
        /// Without asking the leader.
        serializable: bool,
    },
    /// Writes if the key was last modified at `expected`, else reads the key.
    Swap {
        /// The key that is compared.
        key: String,
        /// Its modification revision; 0: it is not there.
        expected: i64,
        /// What is written then: keys and values, each key once.
        puts: Vec<(String, String)>,
    },
    /// Writes and deletes several keys, each key once, all at one revision.
    Batch {
        /// Keys and values.
        puts: Vec<(String, String)>,
        /// Keys that are there.
        deletes: Vec<String>,
    },
    /// Forgets what was overwritten or deleted before a revision.
    Compact {
        #[serde(rename = "at")]
        revision: i64,
    },
    /// Makes a lease; no id is used twice.
    Grant {
        /// Its id.
        lease: i64,
        /// Its time to live.
        #[serde(rename = "asked_seconds")]
        seconds: i64,
    },
    /// Ends a lease.
    Revoke {
        /// Its id.
        lease: i64,
    },
    /// Gives a lease its whole time again.
    Renew {
        /// Its id.
        lease: i64,
    },
}

/// What the client knows of an operation afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// Answered.
    Done(Answer),
    /// It may have happened, may still happen, or may never happen; why that is unknown.
    Unknown { reason: String },
    /// It has certainly not happened and never will; why.
    Refused { reason: String },
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// From the header.
    pub revision: i64,
    /// A put: true. A deletion: there was something. A swap: it wrote. A
    /// renewal: the lease lives.
    pub succeeded: bool,
    /// A read, and a swap that failed: what was there. A put that asked for it,
    /// and a deletion: what was there before.
    pub versions: Vec<Version>,
    /// A grant and a renewal: the time to live that the server gives.
    pub seconds: i64,
}

/// One version of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// When this life of the key began.
    pub created: i64,
    /// When this version was written.
    pub modified: i64,
    /// Puts since the key came to life.
    pub version: i64,
    /// 0: none.
    pub lease: i64,
}

/// A change of one key at one revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Change {
    /// A new version.
    Put(Version),
    /// The key is deleted.
    Delete {
        #[serde(rename = "deleted")]
        key: String,
        modified: i64,
    },
}

/// One revision of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(rename = "ledger")]
    pub revision: i64,
    /// Its changes, by key.
    pub changes: Vec<Change>,
}

/// One watch, from its creation to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Number of the client that watched.
    #[serde(rename = "watch")]
    pub client: u32,
    /// Number of the member that was asked.
    pub member: u32,
    /// The key, or the first of the range.
    pub key: String,
    /// The end of the range; empty: only the key.
    pub end: String,
    /// The first revision that is to be delivered.
    pub first: i64,
    /// When it was asked for.
    pub called: Moment,
    /// In the order in which they came.
    pub deliveries: Vec<Delivery>,
}

/// One message of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// When it came.
    pub at: Moment,
    /// Without changes: nothing up to this revision is missing.
    pub revision: i64,
    pub changes: Vec<Change>,
}

impl Change {
    /// The key that changes.
    pub fn key(&self) -> &str {
        match self {
            Change::Put(version) => &version.key,
            Change::Delete { key, .. } => key,
        }
    }

    /// At which revision.
    pub fn modified(&self) -> i64 {
        match self {
            Change::Put(version) => version.modified,
            Change::Delete { modified, .. } => *modified,
        }
    }
}

impl Outcome {
    pub fn unknown(reason: impl Into<String>) -> Outcome {
        let reason = reason.into();
        Outcome::Unknown { reason }
    }

    pub fn refused(reason: impl Into<String>) -> Outcome {
        let reason = reason.into();
        Outcome::Refused { reason }
    }
}

impl Request {
    /// Whether it is a read that does not ask the leader.
    pub fn is_serializable(&self) -> bool {
        matches!(self, Request::Get { serializable, .. } if *serializable)
    }
}

impl Operation {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Done(answer) => Some(answer),
            Outcome::Unknown { .. } | Outcome::Refused { .. } => None,
        }
    }

    /// Whether its outcome is unknown.
    pub fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown { .. })
    }

    /// The revision that it wrote, if the client knows it.
    pub fn revision_taken(&self) -> Option<i64> {
        let answer = self.answer().filter(|answer| answer.succeeded)?;
        match self.request {
            Request::Put { .. }
            | Request::Delete { .. }
            | Request::Swap { .. }
            | Request::Batch { .. } => Some(answer.revision),
            _ => None,
        }
    }
}

/// Whether a range as etcd writes it holds a key.
pub(crate) fn holds(first: &str, end: &str, key: &str) -> bool {
    if end.is_empty() {
        key == first
    } else {
        first <= key && key < end
    }
}
