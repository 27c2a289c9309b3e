//! How a run ended, and what it is worth.

use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Outcome {
    /// Its numbers may be used.
    Measured,
    /// It could not be done: a target that does not start, a full disk, too
    /// many errors.
    Failed {
        /// What happened and what to do.
        because: String,
    },
    /// Acknowledged data was gone: a target that loses data gets no number.
    Lost {
        /// Which, for people.
        because: String,
    },
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// Whether the rate had settled before it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// The two halves of the last intervals agreed and their slope was none.
    pub steady: bool,
    /// Length of the warm-up in seconds.
    pub warmup_seconds: f64,
    /// Half over half of the last intervals of the warm-up, minus 1.
    pub last_change: f64,
}

/// Something that makes a run doubtful.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taint {
    /// What it was.
    pub kind: TaintKind,
    /// How much of it.
    pub value: f64,
    /// How much would have been fine, in the same unit.
    pub limit: f64,
}

/// What makes a run doubtful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaintKind {
    /// The host gave processor time to others; a share.
    Steal,
    /// Other processes used processor time; a share.
    ForeignLoad,
    /// The control group was throttled; a count.
    Throttling,
    /// The machine swapped; pages.
    Swap,
    /// The machine was not quiet when the run began; seconds of waiting.
    NotQuiet,
    /// The lab measured to the end without the rate becoming steady; a change.
    NotSteady,
}

/// Whether what was acknowledged was there afterwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// It was looked for at all; for people why not.
    pub skipped_because: Option<String>,
    /// What was done before looking: `closed and opened`, `killed and restarted`.
    pub after: String,
    /// Keys that were looked up.
    pub keys_checked: u64,
    /// Keys that somebody had been told are written, and were not there.
    pub keys_missing: u64,
    /// Keys with a value that nobody wrote there, or one that was overwritten
    /// before.
    pub keys_wrong: u64,
    /// A few of them, for people.
    pub examples: Vec<String>,
}

/// Whether the target did what its promise takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DurabilityJudgement {
    /// The verdict.
    pub judged: Judged,
    /// Why, for people.
    pub because: String,
}

/// Verdicts on durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// The device was flushed as often as acknowledged writes take.
    Durable,
    /// It was not: what was acknowledged does not survive a loss of power.
    NotDurable,
    /// It was not asked for.
    NotAsked,
    /// The device cannot tell: shared with others, or it needs no flushes.
    Unknown,
}

impl Verification {
    /// Nothing that was acknowledged is gone.
    pub fn is_good(&self) -> bool {
        self.keys_missing == 0 && self.keys_wrong == 0
    }
}
