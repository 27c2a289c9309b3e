//! How a member of a cluster is started.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::PeerSecret;

use crate::{Durability, Error, Node};

/// Options of a [`Node`].
///
/// ```no_run
/// # fn main() -> Result<(), inkstone::Error> {
/// // The same on the other two machines, with their own name.
/// let node = inkstone::NodeOptions::new("a", "data")
///     .cluster_token("orders")
///     .founder("a", "10.0.0.1:7400")
///     .founder("b", "10.0.0.2:7400")
///     .founder("c", "10.0.0.3:7400")
///     .start()?;
/// node.wait_for_leader().wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NodeOptions {
    pub(super) name: String,
    pub(super) token: String,
    pub(super) founders: Vec<Founder>,
    pub(super) joining: Option<Joining>,
    pub(super) listen: Option<String>,
    pub(super) listener: Option<Arc<TcpListener>>,
    pub(super) peer_secret: Option<PeerSecret>,
    pub(super) node: cluster::NodeOptions,
}

/// A member that the cluster starts with.
#[derive(Clone, Debug)]
pub(super) struct Founder {
    pub name: String,
    pub address: String,
}

/// How a member comes to a cluster that exists.
#[derive(Clone, Debug)]
pub(super) struct Joining {
    /// Its own, as it was added with.
    pub address: String,
    /// Of some members.
    pub members: Vec<String>,
}

impl NodeOptions {
    /// A member of this name, which keeps everything in this directory; it is
    /// made when missing. Nobody founds the cluster yet.
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>) -> NodeOptions {
        let mut node = cluster::NodeOptions::new(directory);
        node.machine.quota_bytes = None;
        NodeOptions {
            name: name.into(),
            token: "inkstone".to_owned(),
            founders: Vec::new(),
            joining: None,
            listen: None,
            listener: None,
            peer_secret: None,
            node,
        }
    }

    /// Sets clusters apart whose members could take each other for their own:
    /// members of another token are refused. The same for all founders.
    #[must_use]
    pub fn cluster_token(mut self, token: impl Into<String>) -> NodeOptions {
        self.token = token.into();
        self
    }

    /// What all members know and no stranger does: members prove to each other that they
    /// have it, and let nothing else in. The same for all members; a member without it
    /// and one with it refuse each other.
    #[must_use]
    pub fn peer_secret(mut self, secret: PeerSecret) -> NodeOptions {
        self.peer_secret = Some(secret);
        self
    }

    /// A member that the cluster starts with, and the `host:port` where the
    /// others reach it. All founders, this member included, are told the same
    /// list: ids are computed from it. What a directory began with stands; at
    /// later starts the list may be left out, and is not looked at.
    ///
    /// While its directory is empty a founder asks the others for a second whether
    /// they know it. One that was up before has lost its directory, and is
    /// refused: it would forget what it has promised.
    #[must_use]
    pub fn founder(mut self, name: impl Into<String>, address: impl Into<String>) -> NodeOptions {
        self.founders.push(Founder {
            name: name.into(),
            address: address.into(),
        });
        self
    }

    /// Instead of founders: joins a cluster that exists. A member is asked first
    /// to add this one ([`Node::add_learner`], [`Node::add_member`]). `address` is
    /// the `host:port` that it was added with, where the others reach it;
    /// `members` are the addresses of some that are up: they are asked who belongs
    /// to the cluster and who this one is.
    ///
    /// The data come after the start. Until they are there, serializable reads see
    /// an empty store, everything else waits for them for some seconds, and the
    /// option has to be said at each start; afterwards it may be left out, and is not looked at.
    ///
    /// ```no_run
    /// # fn example(running: inkstone::Node) -> Result<(), inkstone::Error> {
    /// // At a member that runs:
    /// let id = running.add_learner(&["10.0.0.4:7400"]).wait()?;
    ///
    /// // On the new machine:
    /// let node = inkstone::NodeOptions::new("d", "data")
    ///     .join("10.0.0.4:7400", ["10.0.0.1:7400", "10.0.0.2:7400"])
    ///     .start()?;
    ///
    /// // At any member, when it has nearly everything:
    /// node.promote_member(id).wait()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn join<A: Into<String>>(
        mut self,
        address: impl Into<String>,
        members: impl IntoIterator<Item = A>,
    ) -> NodeOptions {
        self.joining = Some(Joining {
            address: address.into(),
            members: members.into_iter().map(A::into).collect(),
        });
        self
    }

    /// Where to listen for the other members, as `host:port`. Without it: where
    /// they expect this one, as the founders or [`NodeOptions::join`] say, or as
    /// they said when the directory began.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> NodeOptions {
        self.listen = Some(address.into());
        self
    }

    /// A socket that listens already, instead of [`NodeOptions::listen`]: one
    /// that a supervisor hands over, or one that was bound to learn its port.
    #[must_use]
    pub fn listener(mut self, listener: TcpListener) -> NodeOptions {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// When a member counts itself among those that have a write. With
    /// [`Durability::MajorityMemory`] or [`Durability::Os`] on all members a write
    /// survives the loss of any minority of machines, but not of the power of all.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> NodeOptions {
        durability.apply_to(&mut self.node);
        self
    }

    /// For one start, where this member has lost power and waits for another that never
    /// comes back: what it has left is taken for all there is. What others have
    /// acknowledged may be lost.
    #[must_use]
    pub fn accept_lost_tail(mut self) -> NodeOptions {
        self.node.accept_lost_tail = true;
        self
    }

    /// As [`Options::segment_bytes`](crate::Options::segment_bytes); the same
    /// on all members, because a batch that one has room for must fit into the
    /// others' segments.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> NodeOptions {
        self.node.machine.engine.segment_bytes = bytes;
        self
    }

    /// As [`Options::memory_bytes_max`](crate::Options::memory_bytes_max).
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> NodeOptions {
        self.node.machine.engine.memory_bytes_max = bytes;
        self
    }

    /// How often a leader lets the others hear of it: 100 ms unless told
    /// otherwise. About the time of a round trip.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> NodeOptions {
        self.node.heartbeat_interval = interval;
        self
    }

    /// After so long without a leader members stand for election: 1 s unless
    /// told otherwise. Ten heartbeats are a good measure, two the least. Writes
    /// and reads that find no leader are given up after 5 s and twice this.
    #[must_use]
    pub fn election_timeout(mut self, timeout: Duration) -> NodeOptions {
        self.node.election_timeout = timeout;
        self
    }

    /// Starts the member, see [`Node::start`].
    pub fn start(self) -> Result<Node, Error> {
        Node::start(self)
    }
}
