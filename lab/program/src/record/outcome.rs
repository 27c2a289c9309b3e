//! Outcome of a run, and judgements of its quality.

use serde::{Deserialize, Serialize};

/// Outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Outcome {
    /// The run was measured; its numbers may be used.
    Measured,
    /// The run failed: the target does not start, a disk is full, too many operations fail.
    Failed {
        /// Cause and remedy.
        because: String,
    },
    /// Acknowledged data was missing afterwards: such a run gets no number.
    Lost {
        /// Examples of missing data, for reports.
        because: String,
    },
    /// A signal (Ctrl-C) ended the run.
    #[default]
    Interrupted,
}

/// Steadiness of the rate at the end of the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// The two halves of the last samples agreed, and their slope was insignificant.
    pub steady: bool,
    /// Length of the warm-up in seconds.
    pub warmup_seconds: f64,
    /// Second half over first half of the last samples of the warm-up, minus 1.
    pub last_change: f64,
}

/// A disturbance that makes a run doubtful.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taint {
    pub kind: TaintKind,
    /// The measured value; the kind determines the unit.
    pub value: f64,
    /// The greatest acceptable value, in the same unit.
    pub limit: f64,
}

/// Kinds of disturbances, with the unit of their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaintKind {
    /// The host gave processor time to other virtual machines; a share.
    Steal,
    /// Other processes used processor time; a share.
    ForeignLoad,
    /// The control group was throttled; a count.
    Throttling,
    /// The machine swapped; pages.
    Swap,
    /// The machine was not quiet when the run began; seconds of waiting.
    NotQuiet,
    /// The warm-up ended before the rate was steady; a relative change.
    NotSteady,
}

/// Result of reading back the data that the target had acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// The reason why nothing was verified, for reports; `None` where data was verified.
    pub skipped_because: Option<String>,
    /// Action on the target before reading: `closed and opened`, `killed and restarted`.
    pub after: String,
    /// Keys that were looked up.
    pub keys_checked: u64,
    /// Keys with an acknowledged write that were not there.
    pub keys_missing: u64,
    /// Keys with a value that no client wrote, or with one that was overwritten for certain.
    pub keys_wrong: u64,
    /// A few of the missing and wrong keys, for reports.
    pub examples: Vec<String>,
}

/// Judgement whether the target flushed as often as its level of durability requires.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DurabilityJudgement {
    pub judged: Judged,
    /// The reason, for reports.
    pub because: String,
}

/// Verdict on durability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// The device was flushed as often as the acknowledged writes require.
    Durable,
    /// The device was flushed too rarely: acknowledged writes do not survive a loss of power.
    NotDurable,
    /// The workload does not ask for durable writes.
    NotAsked,
    /// The device's counters do not decide: other processes share it, or it needs no flushes.
    #[default]
    Unknown,
}

impl Verification {
    /// Whether no checked key was missing or wrong.
    pub fn is_good(&self) -> bool {
        self.keys_missing == 0 && self.keys_wrong == 0
    }
}
