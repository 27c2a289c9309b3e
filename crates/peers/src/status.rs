//! What is known of a member, for people and metrics.

use std::sync::Arc;
use std::time::Duration;

use environment::Instant;

use crate::link::{LaneCounts, Link};
use crate::member::Member;
use crate::shared::Shared;
use crate::{Lane, LinkError};

/// A member of the table as it is seen from here.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Where it is dialled, in turn.
    pub addresses: Arc<[String]>,
    /// Since when its Urgent lane is connected; none: it is not.
    pub active_since: Option<Instant>,
    /// What it said it runs, at its last welcome.
    pub release: Option<String>,
    /// How long the last connection of the Urgent lane took to come about:
    /// about one round trip.
    pub round_trip: Option<Duration>,
    /// The lanes from us to it, in the order of [`Lane::KEPT`].
    pub lanes: Vec<LaneStatus>,
    /// Lanes on which it is connected to us.
    pub incoming: Vec<Lane>,
    /// Frames that came from it, streams' left out.
    pub received: u64,
    /// Their bytes on the wire.
    pub received_bytes: u64,
}

/// A lane from us to a member.
#[derive(Clone, Debug)]
pub struct LaneStatus {
    /// Which.
    pub lane: Lane,
    /// Since when it is connected; none: it is not.
    pub connected_since: Option<Instant>,
    /// The address of the last connection.
    pub address: Option<String>,
    /// What ended the last connection, or failed since.
    pub last_error: Option<LinkError>,
    /// Bytes that are queued.
    pub queued_bytes: usize,
    /// Since the member came into the table.
    pub counts: LaneCounts,
}

pub(crate) fn status(shared: &Shared, member: &Member) -> PeerStatus {
    let urgent = member.urgent.link.state();
    let received = shared.received_from(member.id);
    let (frames, bytes) = received.totals();
    let mut incoming: Vec<Lane> = received.connected().iter().copied().collect();
    incoming.sort_unstable();
    PeerStatus {
        addresses: Arc::clone(&member.addresses.borrow()),
        active_since: urgent.since,
        release: urgent.release,
        round_trip: urgent.round_trip,
        lanes: vec![
            lane(
                Lane::Urgent,
                &member.urgent.link,
                member.urgent.queued_bytes(),
            ),
            lane(Lane::Bulk, &member.bulk.link, member.bulk.queued_bytes()),
        ],
        incoming,
        received: frames,
        received_bytes: bytes,
    }
}

fn lane(lane: Lane, link: &Link, queued_bytes: usize) -> LaneStatus {
    let state = link.state();
    LaneStatus {
        lane,
        connected_since: state.since,
        address: state.address,
        last_error: state.last_error,
        queued_bytes,
        counts: link.counts.read(),
    }
}
