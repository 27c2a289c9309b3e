//! The data of a recording.

/// Nanoseconds since the recording began, on one monotonic clock.
pub type Moment = u64;

/// Everything that was recorded of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// By how much the members' clocks ran faster than the recording's at most, in percent:
    /// a lease may end earlier by this much.
    pub clock_error_percent: u64,
    /// In any order.
    pub operations: Vec<Operation>,
    /// In any order.
    pub watches: Vec<Watch>,
    /// Every revision from 2 on, as the members show it in the end.
    pub ledger: Vec<Entry>,
}

/// One request of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub request: Request,
    pub outcome: Outcome,
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Makes a lease; no id is used twice.
    Grant {
        /// Its id.
        lease: i64,
        /// Its time to live.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered.
    Done(Answer),
    /// It may have happened, may still happen, or may never happen; why that is unknown.
    Unknown(String),
    /// It has certainly not happened and never will; why.
    Refused(String),
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A new version.
    Put(Version),
    /// The key is deleted.
    Delete { key: String, modified: i64 },
}

/// One revision of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub revision: i64,
    /// Its changes, by key.
    pub changes: Vec<Change>,
}

/// One watch, from its creation to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Number of the client that watched.
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
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Operation {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Done(answer) => Some(answer),
            Outcome::Unknown(_) | Outcome::Refused(_) => None,
        }
    }

    /// Whether its outcome is unknown.
    pub fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown(_))
    }

    /// The revision that it wrote, if the client knows it.
    pub fn revision_taken(&self) -> Option<i64> {
        let answer = self.answer().filter(|answer| answer.succeeded)?;
        match self.request {
            Request::Put { .. } | Request::Delete { .. } | Request::Swap { .. } => {
                Some(answer.revision)
            }
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
