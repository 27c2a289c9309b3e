//! The roads between two members, and why one may be closed.

use std::fmt;

/// A road with a connection of its own, so that nothing on it waits for what
/// travels on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Small messages that must not be late: heartbeats, votes, answers. One
    /// way, lossy, and what grew old in the queue is not sent at all.
    Urgent,
    /// Large messages: log entries. One way, lossy.
    Bulk,
    /// One transfer per connection, see [`crate::Peers::open_stream`].
    Snapshot,
    /// One question per connection, of somebody who need not be a member, see
    /// [`crate::ask`].
    Inquiry,
}

impl Lane {
    /// Lanes that are kept connected to every member of the table.
    pub const KEPT: [Lane; 2] = [Lane::Urgent, Lane::Bulk];
    /// Number of a lane that releases before this one dial and use for nothing.
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

/// Why a member did not let another one in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It speaks another version of the protocol.
    Version,
    /// It belongs to another cluster.
    Cluster,
    /// Another member of the cluster listens there.
    Member,
    /// It does not know the lane.
    Lane,
    /// The greeting arrived damaged.
    Damaged,
    /// The sender was removed from the cluster: it will never be let in again.
    Removed,
    /// It was begun otherwise than the members agreed, see
    /// [`crate::PeersOptions::agreement`].
    Agreement,
    /// The listener does not know the sender, or not yet.
    Stranger,
    /// One side has a peer secret and the other has none, or another one; see
    /// [`crate::PeersOptions::secret`].
    Secret,
    /// A reason that this release does not know; its text tells.
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
