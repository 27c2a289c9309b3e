//! Status of a member, for people and metrics.

use std::sync::Arc;
use std::time::Duration;

use environment::Instant;

use crate::link::LaneCounts;
use crate::member::Member;
use crate::message_lane::MessageLane;
use crate::shared::Shared;
use crate::{Lane, LinkError};

/// Status of a member of the table, as this member sees it.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Addresses at which it is dialled, in turn.
    pub addresses: Arc<[String]>,
    /// When its Urgent lane was connected; `None` while it is not.
    pub active_since: Option<Instant>,
    /// Release of the member, from its last welcome.
    pub release: Option<String>,
    /// Duration of the last connect of the Urgent lane: about one round trip.
    pub round_trip: Option<Duration>,
    /// Lanes from this member to it, in the order of [`Lane::KEPT`].
    pub lanes: Vec<LaneStatus>,
    /// Lanes on which it is connected to this member.
    pub incoming: Vec<Lane>,
    /// Frames received from it, without those of streams.
    pub received: u64,
    /// Bytes of these frames on the wire.
    pub received_bytes: u64,
    /// Connections from it that broke, or that ended because of what came.
    pub received_failures: u64,
    /// How often the Urgent lane to it was lost.
    pub disconnections: u64,
}

/// Status of a lane from this member to another.
#[derive(Clone, Debug)]
pub struct LaneStatus {
    pub lane: Lane,
    /// When it was connected; `None` while it is not.
    pub connected_since: Option<Instant>,
    /// The address of the last connection.
    pub address: Option<String>,
    /// Error that ended the last connection, or of the last attempt since.
    pub last_error: Option<LinkError>,
    pub queued_bytes: usize,
    /// Counts since the member was added to the table.
    pub counts: LaneCounts,
}

pub(crate) fn status(shared: &Shared, member: &Member) -> PeerStatus {
    let urgent = member.urgent.link.state();
    let received = shared.senders.received_from(member.id);
    let (frames, bytes) = received.totals();
    let mut incoming: Vec<Lane> = received.connected().iter().copied().collect();
    incoming.sort_unstable();
    PeerStatus {
        addresses: Arc::clone(&member.addresses.borrow()),
        active_since: urgent.since,
        release: urgent.release,
        round_trip: urgent.round_trip,
        lanes: Lane::KEPT
            .map(|it| lane(it, member.message_lane(it)))
            .into(),
        incoming,
        received: frames,
        received_bytes: bytes,
        received_failures: received.failures(),
        disconnections: urgent.disconnections,
    }
}

fn lane(lane: Lane, queue: &MessageLane) -> LaneStatus {
    let state = queue.link.state();
    LaneStatus {
        lane,
        connected_since: state.since,
        address: state.address,
        last_error: state.last_error,
        queued_bytes: queue.queued_bytes(),
        counts: queue.link.counts.read(),
    }
}
