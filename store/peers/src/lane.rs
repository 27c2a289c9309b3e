//! Lanes, the connections between two members, and the reasons of refusals.

use std::fmt;

/// A kind of traffic with its own connection, so that no message waits for those of another
/// lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Small messages that must not be late: heartbeats, votes, answers. One
    /// way and lossy; a message that waited too long in the queue is dropped.
    Urgent,
    /// Large messages: log entries. One way, lossy.
    Bulk,
    /// One transfer per connection, see [`crate::Peers::open_stream`].
    Snapshot,
    /// One question per connection, from a process that need not be a member, see
    /// [`crate::ask`].
    Inquiry,
}

impl Lane {
    /// Lanes that are kept connected to every member of the table.
    pub const KEPT: [Lane; 2] = [Lane::Urgent, Lane::Bulk];
    /// Number of a lane that earlier releases dial without sending anything on it.
    pub(crate) const RETIRED: u8 = 3;

    pub(crate) const fn number(self) -> u8 {
        match self {
            Lane::Urgent => 1,
            Lane::Bulk => 2,
            Lane::Snapshot => 4,
            Lane::Inquiry => 5,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<Lane> {
        let mut lanes = Lane::KEPT
            .into_iter()
            .chain([Lane::Snapshot, Lane::Inquiry]);
        lanes.find(|lane| lane.number() == number)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Lane::Urgent => "urgent",
            Lane::Bulk => "bulk",
            Lane::Snapshot => "snapshot",
            Lane::Inquiry => "inquiry",
        })
    }
}

/// Why a listener refused a dialer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The two sides speak different versions of the protocol.
    Version,
    /// The two members belong to different clusters.
    Cluster,
    /// Another member of the cluster listens at the address, or both have the same id.
    Member,
    /// The listener does not know the lane.
    Lane,
    /// The greeting came damaged.
    Damaged,
    /// The sender was removed from the cluster and will never be let in again.
    Removed,
    /// The two members have different agreements, see [`crate::PeersOptions::agreement`].
    Agreement,
    /// The listener does not know the sender; it may do so later.
    Stranger,
    /// One side has a peer secret and the other has none, or another one; see
    /// [`crate::PeersOptions::secret`].
    Secret,
    /// A reason that this release does not know; the text with it says more.
    Other(u8),
}

impl Refusal {
    pub(crate) fn number(self) -> u8 {
        match self {
            Refusal::Version => 1,
            Refusal::Cluster => 2,
            Refusal::Member => 3,
            Refusal::Lane => 4,
            Refusal::Damaged => 5,
            Refusal::Removed => 6,
            Refusal::Agreement => 7,
            Refusal::Stranger => 8,
            Refusal::Secret => 9,
            Refusal::Other(number) => number,
        }
    }

    pub(crate) fn of_number(number: u8) -> Refusal {
        assert_ne!(number, 0, "zero is no refusal");
        match number {
            1 => Refusal::Version,
            2 => Refusal::Cluster,
            3 => Refusal::Member,
            4 => Refusal::Lane,
            5 => Refusal::Damaged,
            6 => Refusal::Removed,
            7 => Refusal::Agreement,
            8 => Refusal::Stranger,
            9 => Refusal::Secret,
            number => Refusal::Other(number),
        }
    }
}
