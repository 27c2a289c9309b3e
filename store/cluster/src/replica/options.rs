//! The options of a replica.

use std::time::Duration;

use crate::{CommandLimits, Mutant, ReadMode};

/// Options of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// The state machine's and the engine's options, with this member's id and the
    /// members of a new cluster.
    pub machine: revisions::Options,
    /// Time between two ticks of the consensus.
    pub heartbeat_interval: Duration,
    /// A member that has received nothing from a leader for this time may stand for election.
    pub election_timeout: Duration,
    /// Changes of the membership are refused while too few members are up.
    pub strict_reconfiguration: bool,
    /// Entries kept in the log for members that are behind.
    pub entries_kept_max: usize,
    /// The same limit in bytes; the smaller of the two holds.
    pub bytes_kept_max: u64,
    /// Approximate size of the pieces in which a snapshot is sent.
    pub snapshot_piece_bytes: usize,
    /// How a leader confirms that it still leads before it serves a read.
    pub read_mode: ReadMode,
    /// Limits on commands that other members forward to this one.
    pub command_limits: CommandLimits,
    /// Identifies the current start of the kernel, if it is known. With
    /// [`engine::Durability::Os`], a member that was not closed and finds a different value
    /// than in its last incarnation may have lost the end of its log.
    pub boot: Option<String>,
    /// If the end of the log may be lost, the member takes what is left for the whole log
    /// and votes at once. An operator sets this, for one start.
    pub accept_lost_tail: bool,
    /// Seed of this member's randomness, such as its election delay between one and two
    /// election timeouts.
    pub seed: u64,
    /// Whether this member compares its state with those of the others, and raises the alarm
    /// CORRUPT for members that differ.
    pub compares_states: bool,
    /// A rule that this replica breaks, to test that the simulation detects it.
    #[doc(hidden)]
    pub mutant: Option<Mutant>,
}

impl ReplicaOptions {
    /// Time limit for requests that wait for a leader or an answer: etcd's request timeout.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(5) + self.election_timeout * 2
    }

    /// The number below those of this incarnation's questions to other members. No other
    /// incarnation of this member uses the same numbers.
    pub(super) fn first_number(&self, opening: u32) -> u64 {
        if self.mutant == Some(Mutant::NumbersFromOneInEachIncarnation) {
            return 0;
        }
        u64::from(opening) << 32
    }
}
