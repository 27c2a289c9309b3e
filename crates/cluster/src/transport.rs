//! Members' messages over the connections of the crate `peers`.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use environment::Instant;
use peers::{BoxFuture, Dropped, Handler, Lane, Peers, PeersOptions, Stream};
use revisions::{Members, Reader};

use crate::inbox::Inbox;
use crate::{Error, Outbox, PeerMessage, roster};

/// Where the members of a cluster meet.
#[derive(Debug)]
pub struct Network {
    /// Members of other clusters are refused.
    pub cluster_id: u64,
    /// Bound sockets, for the other members.
    pub listeners: Vec<TcpListener>,
}

/// The connections to the other members.
pub(crate) struct Transport {
    peers: Peers,
    member_id: u64,
    /// Whom the connections know.
    known: Mutex<BTreeSet<u64>>,
    /// Whether this member is one, as the newest members that were set say.
    is_learner: AtomicBool,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Transport")
            .field("member_id", &self.member_id)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Transport {
    /// Starts listening; what comes in goes to `inbox`, and who asks for the
    /// members hears what `reader` knows.
    pub fn start(
        network: Network,
        member_id: u64,
        inbox: Arc<Inbox>,
        reader: Reader,
    ) -> Result<Transport, Error> {
        let options = PeersOptions::new(network.cluster_id, member_id, network.listeners);
        let peers = Peers::start(options, Arc::new(Incoming { inbox, reader }))
            .map_err(|error| Error::Storage(error.to_string()))?;
        Ok(Transport {
            peers,
            member_id,
            known: Mutex::default(),
            is_learner: AtomicBool::default(),
        })
    }

    /// This member votes on nothing.
    pub fn is_learner(&self) -> bool {
        self.is_learner.load(Ordering::Relaxed)
    }

    /// Since when a member is connected; `None`: it is not.
    pub fn connected_since(&self, member: u64) -> Option<Instant> {
        self.peers.status(member)?.active_since
    }

    /// Ends the connections.
    pub fn stop(&self) {
        self.peers.stop();
    }
}

impl Outbox for Transport {
    fn send(&self, messages: Vec<(u64, PeerMessage)>) -> Vec<u64> {
        let mut unreachable = Vec::new();
        for (to, message) in messages {
            let lane = if message.is_bulk() {
                Lane::Bulk
            } else {
                Lane::Urgent
            };
            let (kind, parts) = message.encode();
            match self.peers.send(to, lane, kind, &parts) {
                Ok(()) => {}
                Err(Dropped::UnknownMember(_) | Dropped::Unreachable) => unreachable.push(to),
                Err(dropped) => tracing::debug!(to, ?dropped, "a message was dropped"),
            }
        }
        unreachable
    }

    fn set_members(&self, members: &Members) {
        let own = members.get(self.member_id);
        let is_learner = own.is_some_and(|member| member.is_learner);
        self.is_learner.store(is_learner, Ordering::Relaxed);
        let others = members.iter().filter(|member| member.id != self.member_id);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut present = BTreeSet::new();
        for member in others {
            present.insert(member.id);
            let addresses = member.peer_urls.iter().filter_map(|url| address(url));
            if let Err(error) = self.peers.set_member(member.id, addresses.collect()) {
                tracing::warn!(member = format!("{:x}", member.id), %error, "no way to a member");
            }
        }
        for gone in known.difference(&present) {
            self.peers.remove_member(*gone);
        }
        *known = present;
    }
}

/// The host and port of a peer URL.
pub(crate) fn address(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    (!authority.is_empty()).then(|| authority.to_owned())
}

/// What other members send, and strangers ask.
struct Incoming {
    inbox: Arc<Inbox>,
    reader: Reader,
}

impl Handler for Incoming {
    fn message(&self, from: u64, _lane: Lane, kind: u8, payload: Bytes) {
        let bytes = payload.len();
        match PeerMessage::decode(kind, payload) {
            Ok(message) => self.inbox.receive(from, message, bytes),
            Err(what) => {
                tracing::warn!(from = format!("{from:x}"), what, "a message cannot be read");
            }
        }
    }

    fn request(&self, _from: u64, _kind: u8, _body: Bytes) -> BoxFuture<Result<Bytes, Bytes>> {
        let refusal = Bytes::from_static(b"this release answers no requests on this lane");
        Box::pin(async move { Err(refusal) })
    }

    fn inquiry(&self, kind: u8, _question: Bytes) -> Result<Bytes, String> {
        if kind != roster::QUESTION {
            return Err(format!("this release answers no questions of kind {kind}"));
        }
        // The index first: what is applied meanwhile makes the roster newer.
        let index = self.reader.engine().applied_index();
        Ok(roster::encode(&self.reader.members(), index))
    }

    fn stream(&self, from: u64, kind: u8, _header: Bytes, _stream: Stream) -> BoxFuture<()> {
        Box::pin(async move {
            tracing::warn!(from = format!("{from:x}"), kind, "a stream of unknown kind");
        })
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn a_peer_url_has_a_host_and_a_port() {
        for (url, expected) in [
            ("http://10.0.0.1:2380", Some("10.0.0.1:2380")),
            ("https://[::1]:2380/path", Some("[::1]:2380")),
            ("unix://", None),
            ("10.0.0.1:2380", None),
        ] {
            assert_eq!(address(url).as_deref(), expected, "{url}");
        }
    }
}
