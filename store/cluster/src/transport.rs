//! Carries members' messages over the connections of the crate `peers`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use environment::{Clock, Instant};
use peers::{
    BoxFuture, Dropped, Handler, Lane, LimitedWarnings, LinkError, PeerListener, Peers,
    PeersOptions, Refusal, Stream, WeakPeers,
};
use revisions::{KeyValueHash, Member, Members, Reader};
use tokio::time::MissedTickBehavior;

use crate::bootstrap::member_list;
use crate::figures_desk::{FiguresDesk, Gather, ToldFigures};
use crate::forwarded_reads::ForwardedReads;
use crate::hash_desk::HashDesk;
use crate::heartbeat_sender::HeartbeatSender;
use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::peer_message::{FiguresMessage, HashMessage};
use crate::peer_table::PeerTable;
use crate::round_trips::{PROBE_INTERVAL, RoundTrips};
use crate::snapshot::{SenderThreads, sender_threads};
use crate::snapshot_traffic::SnapshotTraffic;
use crate::traced_commands::TracedCommands;
use crate::{Credentials, Error, NodeOptions, Observer, PeerMessage, Sender};

/// The addresses and secrets with which a member joins the network of its cluster.
#[derive(Debug)]
pub struct Network {
    /// The id of the cluster; members of other clusters are refused.
    pub cluster_id: u64,
    /// Bound sockets on which other members connect.
    pub listeners: Vec<PeerListener>,
    /// The peer URLs that this member was started with. It announces them to every
    /// member that it connects to, so that one with an older address of it can answer.
    pub advertised: Vec<String>,
    /// Members, with their ids and peer URLs, that this one connects to before it has applied
    /// that it belongs to the cluster. It asks them about senders that it does not know. Not
    /// used by other members.
    pub contacts: Vec<Member>,
    /// Peer URLs of the cluster that the operator lists. This member asks there about senders
    /// that it does not know, as it asks the known members.
    pub listed: Vec<String>,
    pub credentials: Credentials,
}

/// Traffic with another member, since it became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Whether the member is connected at present.
    pub connected: bool,
    /// Bytes of messages that were sent, without snapshots.
    pub sent_bytes: u64,
    /// Bytes of messages that were received, without snapshots.
    pub received_bytes: u64,
    /// Messages that were dropped, because the member could not be reached or the queue was full.
    pub sent_failures: u64,
    /// Connections of the member that broke, or that ended because of what came.
    pub received_failures: u64,
    /// How often the connection to the member was lost.
    pub disconnections: u64,
}

/// The connections to the other members.
pub(crate) struct Transport {
    peers: Peers,
    senders: SenderThreads,
    member_id: u64,
    pub heartbeats: Arc<HeartbeatSender>,
    peer_table: Arc<PeerTable>,
    hashes: Arc<HashDesk>,
    figures: Arc<FiguresDesk>,
    snapshots: Arc<SnapshotTraffic>,
    traced: Arc<TracedCommands>,
    /// Whether this member is a learner, by the members that were set last.
    is_learner: AtomicBool,
}

impl Transport {
    /// Starts to listen. Messages go to `inbox`; questions for the member list are answered with the
    /// members that `reader` has applied.
    pub fn start(
        mut network: Network,
        member_id: u64,
        inbox: Arc<Inbox>,
        reader: Reader,
        node: &NodeOptions,
    ) -> Result<Transport, Error> {
        let clock = Arc::clone(&node.clock);
        let listeners = std::mem::take(&mut network.listeners);
        let mut options = PeersOptions::new(network.cluster_id, member_id, Vec::new());
        options.listen = listeners;
        let advertised = network.advertised.iter();
        options.addresses = advertised.filter_map(|url| address(url)).collect();
        // A leader sizes entries for its own segments, so a member with smaller ones could not
        // store them. All members have to agree.
        options.secret.clone_from(&network.credentials.secret);
        options.tls.clone_from(&network.credentials.tls);
        options.limits.local_address = network.credentials.local_address;
        options.agreement = format!("--segment-bytes={}", reader.engine().segment_bytes());
        let heartbeats = Arc::new(HeartbeatSender::new(
            Arc::clone(&clock),
            node.replica.heartbeat_interval,
            node.replica.election_timeout,
        ));
        let hashes = Arc::new(HashDesk::new(reader.clone()));
        let figures = Arc::new(FiguresDesk::new(Arc::clone(&clock)));
        let snapshots = SnapshotTraffic::new(Arc::clone(&clock), node.observer.clone());
        let snapshots = Arc::new(snapshots);
        let traced = TracedCommands::new(Arc::clone(&clock), node.observer.clone());
        let traced = Arc::new(traced);
        let round_trips = |observer: &Arc<dyn Observer>| {
            Arc::new(RoundTrips::new(Arc::clone(&clock), Arc::clone(observer)))
        };
        let round_trips = node.observer.as_ref().map(round_trips);
        let incoming = Arc::new_cyclic(|this| Incoming {
            this: Weak::clone(this),
            forwarded_reads: ForwardedReads::new(reader.clone(), Arc::clone(&inbox)),
            inbox,
            heartbeats: Arc::clone(&heartbeats),
            reader,
            peer_table: OnceLock::new(),
            hashes: Arc::clone(&hashes),
            figures: Arc::clone(&figures),
            snapshots: Arc::clone(&snapshots),
            traced: Arc::clone(&traced),
            round_trips: round_trips.clone(),
            member_id,
            clock: Arc::clone(&clock),
            warnings: LimitedWarnings::default(),
        });
        let peers = Peers::start(options, Arc::clone(&incoming) as Arc<dyn Handler>)?;
        let own = |member: &Member| member.id == member_id && member.is_learner;
        let joins_as_learner = network.contacts.iter().any(own);
        let table = PeerTable::new(peers.clone(), member_id, network, Arc::clone(&clock));
        let peer_table = Arc::new(table);
        let set = incoming.peer_table.set(Arc::downgrade(&peer_table));
        set.expect("this is the only place that sets it");
        peers.spawn(beat(Arc::clone(&heartbeats), peers.downgrade()));
        if let Some(round_trips) = round_trips {
            peers.spawn(probe(round_trips, Arc::downgrade(&peer_table)));
        }
        Ok(Transport {
            senders: SenderThreads::new(peers.clone(), clock, Arc::clone(&snapshots)),
            peers,
            member_id,
            heartbeats,
            peer_table,
            hashes,
            figures,
            snapshots,
            traced,
            is_learner: AtomicBool::new(joins_as_learner),
        })
    }

    /// Whether this member is a learner, without a vote.
    pub fn is_learner(&self) -> bool {
        self.is_learner.load(Ordering::Relaxed)
    }

    /// Since when a member is connected; `None` if it is not.
    pub fn connected_since(&self, member: u64) -> Option<Instant> {
        self.peers.status(member)?.active_since
    }

    /// The traffic with a member; `None` if the member is not known.
    pub fn traffic(&self, member: u64) -> Option<Traffic> {
        let status = self.peers.status(member)?;
        let sent = status.lanes.iter().map(|lane| lane.counts.sent_bytes);
        let dropped = status.lanes.iter().map(|lane| lane.counts.dropped());
        Some(Traffic {
            connected: status.active_since.is_some(),
            sent_bytes: sent.sum(),
            received_bytes: status.received_bytes,
            sent_failures: dropped.sum(),
            received_failures: status.received_failures,
            disconnections: status.disconnections,
        })
    }

    /// Asks a member for HashKV at a revision. Returns `None` if it cannot be reached. An answer
    /// may never come.
    pub async fn hash_kv_of(
        &self,
        member: u64,
        revision: i64,
    ) -> Option<Result<KeyValueHash, revisions::Error>> {
        let (asked, question) = self.hashes.ask(member, revision);
        send(&self.peers, member, &question).ok()?;
        asked.answer().await
    }

    /// Sets where this member's figures come from, for members that ask.
    pub fn tell_figures(&self, gather: Gather) {
        self.figures.tell(gather);
    }

    /// Asks the other members for their figures, see [`FiguresDesk::ask`].
    pub async fn figures_of_others(&self, patience: Duration) -> BTreeMap<u64, ToldFigures> {
        let members = self.peer_table.members();
        let send = |to, message: &PeerMessage| send(&self.peers, to, message).is_ok();
        self.figures.ask(&members, send, patience).await
    }

    /// Runs `guest` on the thread of the connections.
    pub fn spawn(&self, guest: impl Future<Output = ()> + Send + 'static) {
        self.peers.spawn(guest);
    }

    /// Ends the connections, and waits for the senders of snapshots.
    pub fn stop(&self) {
        self.peers.stop();
        self.senders.join();
    }
}

/// Sends heartbeats while the replica is at work, until the connections end.
async fn beat(heartbeats: Arc<HeartbeatSender>, peers: WeakPeers) {
    let mut looks = tokio::time::interval(heartbeats.interval());
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        for (to, message) in heartbeats.due() {
            let Some(peers) = peers.upgrade() else { return };
            // A member that cannot be reached may get the next heartbeat.
            let _ = send(&peers, to, &message);
        }
    }
}

/// Probes all members, until the connections end.
async fn probe(round_trips: Arc<RoundTrips>, table: Weak<PeerTable>) {
    let mut looks = tokio::time::interval(PROBE_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let Some(table) = table.upgrade() else { return };
        for (to, probe) in round_trips.probes(&table.members()) {
            // A member that cannot be reached gets the next probe.
            let _ = send(&table.peers, to, &probe);
        }
    }
}

fn send(peers: &Peers, to: u64, message: &PeerMessage) -> Result<(), Dropped> {
    let lane = if message.is_bulk() {
        Lane::Bulk
    } else {
        Lane::Urgent
    };
    let (kind, parts) = message.encode();
    peers.send(to, lane, kind, &parts)
}

impl Outbox for Transport {
    fn send(&self, messages: Vec<(u64, PeerMessage)>) -> Vec<u64> {
        let mut unreachable = Vec::new();
        for (to, message) in messages {
            self.snapshots.sent(to, &message);
            self.traced.sent(to, &message);
            match send(&self.peers, to, &message) {
                Ok(()) => {}
                Err(Dropped::UnknownMember(_) | Dropped::Unreachable) => unreachable.push(to),
                Err(dropped) => tracing::debug!(to, ?dropped, "a message was dropped"),
            }
        }
        unreachable
    }

    fn set_members(&self, members: &Members) {
        // Until this member has applied its own role, the one from the member list by which it
        // joined holds.
        if let Some(own) = members.get(self.member_id) {
            self.is_learner.store(own.is_learner, Ordering::Relaxed);
        }
        self.peer_table.set_members(members);
    }

    fn carry(&self, snapshot: Sender) {
        self.senders.carry(snapshot);
    }
}

/// The address of a peer URL: host and port, behind `https://` if it is dialled with TLS.
pub(crate) fn address(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    (!authority.is_empty()).then(|| match scheme {
        "https" => format!("https://{authority}"),
        _ => authority.to_owned(),
    })
}

/// A peer URL of an address.
pub(crate) fn url(address: &str) -> String {
    match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    }
}

/// Handles messages of other members, and questions of any process.
struct Incoming {
    /// A reference to itself, for the tasks of streams.
    this: Weak<Incoming>,
    inbox: Arc<Inbox>,
    forwarded_reads: ForwardedReads,
    heartbeats: Arc<HeartbeatSender>,
    reader: Reader,
    /// Weak, because the peer table owns the connections, which own this.
    peer_table: OnceLock<Weak<PeerTable>>,
    hashes: Arc<HashDesk>,
    figures: Arc<FiguresDesk>,
    snapshots: Arc<SnapshotTraffic>,
    traced: Arc<TracedCommands>,
    /// `None` if their times are not wanted.
    round_trips: Option<Arc<RoundTrips>>,
    member_id: u64,
    clock: Arc<dyn Clock>,
    warnings: LimitedWarnings,
}

impl Incoming {
    /// Decodes a message. Returns `None` for one that cannot be decoded, which is dropped, and
    /// `Err` for one in another member's name, which no correct member sends.
    fn decode(&self, from: u64, kind: u8, payload: Bytes) -> Result<Option<PeerMessage>, String> {
        match PeerMessage::decode(kind, payload) {
            Ok(message) if message.is_in_the_name_of(from, self.member_id) => Ok(Some(message)),
            Ok(_) => Err("it sent a message from or for another member".to_owned()),
            Err(what) => {
                let line = format!("a message of member {from:x} is dropped: {what}");
                self.warnings.warn(self.clock.now(), line);
                Ok(None)
            }
        }
    }

    /// Passes a message on to the part that handles it.
    fn pass_on(&self, from: u64, message: PeerMessage, bytes: usize) {
        match message {
            PeerMessage::Hash(HashMessage::Question { number, revision }) => {
                self.hashes.answer(number, revision, self.sender_to(from));
            }
            PeerMessage::Hash(HashMessage::Answer { number, outcome }) => {
                self.hashes.answered(from, number, outcome);
            }
            PeerMessage::Figures(FiguresMessage::Question { number }) => {
                self.figures.answer(number, self.sender_to(from));
            }
            PeerMessage::Figures(FiguresMessage::Answer { number, figures }) => {
                self.figures.answered(from, number, figures);
            }
            PeerMessage::Probe { number } => {
                if let Some(table) = self.peer_table() {
                    // A member that cannot be reached gets no echo.
                    let _ = send(&table.peers, from, &PeerMessage::Echo { number });
                }
            }
            PeerMessage::Echo { number } => {
                if let Some(round_trips) = &self.round_trips {
                    round_trips.answered(from, number);
                }
            }
            message => {
                self.traced.received(from, &message);
                self.answer_for_replica(from, &message);
                self.forwarded_reads.pass_on(from, message, bytes);
            }
        }
    }

    /// Sends an answer to a member, from any thread. The member asks again if it is lost and the
    /// member still wants to know.
    fn sender_to(&self, member: u64) -> impl FnOnce(&PeerMessage) + Send + 'static {
        let table = self.peer_table.get().cloned();
        move |answer| {
            if let Some(table) = table.and_then(|table| table.upgrade()) {
                let _ = send(&table.peers, member, answer);
            }
        }
    }

    fn peer_table(&self) -> Option<Arc<PeerTable>> {
        self.peer_table.get().and_then(Weak::upgrade)
    }

    /// Answers a leader's heartbeat if the replica is at work. The replica gets it later too.
    fn answer_for_replica(&self, from: u64, message: &PeerMessage) {
        let Some(answer) = self.heartbeats.answer(message) else {
            return;
        };
        if let Some(table) = self.peer_table() {
            // A leader that cannot be reached sends another heartbeat.
            let _ = send(&table.peers, from, &answer);
        }
    }
}

impl Handler for Incoming {
    fn message(&self, from: u64, _lane: Lane, kind: u8, payload: Bytes) -> Result<(), String> {
        let bytes = payload.len();
        if let Some(message) = self.decode(from, kind, payload)? {
            self.pass_on(from, message, bytes);
        }
        Ok(())
    }

    fn inquiry(&self, kind: u8, _question: Bytes) -> Result<Bytes, String> {
        if kind != member_list::QUESTION {
            return Err(format!("this release answers no questions of kind {kind}"));
        }
        // The index is read first. If an entry is applied in between, the list is newer
        // than its index says, never older.
        let index = self.reader.engine().applied_index();
        let segment_bytes = self.reader.engine().segment_bytes();
        Ok(member_list::encode(
            &self.reader.members(),
            index,
            segment_bytes,
        ))
    }

    /// Receives the stream of a snapshot. If the inbox is full, it drops a piece, and the
    /// import reports that it misses that one.
    fn stream(&self, from: u64, kind: u8, _header: Bytes, mut stream: Stream) -> BoxFuture<()> {
        let here = self.this.upgrade();
        let here = here.expect("the connections own it while a stream comes in");
        Box::pin(async move {
            if kind != sender_threads::STREAM {
                let line = format!("member {from:x} opened a stream of unknown kind {kind}");
                return here.warnings.warn(here.clock.now(), line);
            }
            while let Ok(Some(frame)) = stream.receive().await {
                let bytes = frame.payload.len();
                match here.decode(from, frame.kind, frame.payload) {
                    Ok(Some(message)) => {
                        here.snapshots.received(from, &message);
                        here.inbox.receive(from, message, bytes);
                    }
                    Ok(None) => {}
                    Err(reason) => {
                        let line = format!("closed a stream of member {from:x}: {reason}");
                        return here.warnings.warn(here.clock.now(), line);
                    }
                }
            }
        })
    }

    fn is_removed(&self, sender: u64) -> bool {
        self.reader.is_removed(sender)
    }

    fn admits(&self, sender: u64) -> bool {
        let table = self.peer_table();
        table.is_some_and(|table| table.admits(sender))
    }

    fn announced(&self, sender: u64, addresses: &[String]) {
        if let Some(table) = self.peer_table() {
            table.announced(sender, addresses);
        }
    }

    fn link(&self, to: u64, lane: Lane, state: Result<(), &LinkError>) {
        let Err(error) = state else { return };
        if let LinkError::Refused {
            refusal: Refusal::Removed,
            ..
        } = error
        {
            self.inbox.removal_reported();
        }
        if lane == Lane::Urgent
            && let Some(table) = self.peer_table()
        {
            table.out_of_reach(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn a_peer_url_has_a_host_and_a_port() {
        for (url, expected) in [
            ("http://10.0.0.1:2380", Some("10.0.0.1:2380")),
            ("https://[::1]:2380/path", Some("https://[::1]:2380")),
            ("unix://", None),
            ("10.0.0.1:2380", None),
        ] {
            assert_eq!(address(url).as_deref(), expected, "{url}");
        }
    }
}
