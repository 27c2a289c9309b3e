//! Lanes, the connections between two members, and the reasons of refusals.

use std::fmt;

/// A kind of traffic with its own connection, so that no message waits for those of another
/// lane. The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Small messages that must not be late: heartbeats, votes, answers. One
    /// way and lossy; a message that waited too long in the queue is dropped.
    Urgent = 1,
    /// Large messages: log entries. One way, lossy.
    Bulk = 2,
    /// One transfer per connection, see [`crate::Peers::open_stream`].
    Snapshot = 4,
    /// One question per connection, from a process that need not be a member, see
    /// [`crate::ask`].
    Inquiry = 5,
}

impl Lane {
    /// Lanes that are kept connected to every member of the table.
    pub const KEPT: [Lane; 2] = [Lane::Urgent, Lane::Bulk];
    /// Number of a lane that earlier releases dial without sending anything on it.
    pub(crate) const RETIRED: u8 = 3;

    pub(crate) fn of_number(number: u8) -> Option<Lane> {
        let lanes = [Lane::Urgent, Lane::Bulk, Lane::Snapshot, Lane::Inquiry];
        lanes.into_iter().find(|lane| *lane as u8 == number)
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
    /// The refusals that this release knows; the first one has number 1.
    const KNOWN: [Refusal; 9] = [
        Refusal::Version,
        Refusal::Cluster,
        Refusal::Member,
        Refusal::Lane,
        Refusal::Damaged,
        Refusal::Removed,
        Refusal::Agreement,
        Refusal::Stranger,
        Refusal::Secret,
    ];

    pub(crate) fn number(self) -> u8 {
        let known = Refusal::KNOWN.iter().zip(1..).find(|(it, _)| **it == self);
        match (self, known) {
            (Refusal::Other(number), _) => number,
            (_, known) => known.expect("every other refusal is listed").1,
        }
    }

    pub(crate) fn of_number(number: u8) -> Refusal {
        assert_ne!(number, 0, "zero is no refusal");
        let known = Refusal::KNOWN.get(usize::from(number) - 1);
        known.copied().unwrap_or(Refusal::Other(number))
    }
}
