//! Options of a member of a cluster.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Durability, PeerSecret};

/// Options of a [`Node`](crate::Node).
///
/// ```no_run
/// # fn main() -> Result<(), inkstone::Error> {
/// // The same on the other two machines, with their own names.
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
    pub(super) join: Option<Join>,
    pub(super) listen: Option<String>,
    pub(super) listener: Option<Arc<TcpListener>>,
    pub(super) peer_secret: Option<PeerSecret>,
    pub(super) node: cluster::NodeOptions,
}

/// A founding member of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Founder {
    pub name: String,
    pub address: String,
}

/// Addresses for joining an existing cluster.
#[derive(Clone, Debug)]
pub(super) struct Join {
    /// The member's own address, with which it was added.
    pub address: String,
    /// Addresses of some members.
    pub members: Vec<String>,
}

impl NodeOptions {
    /// Options of a member with this name and data directory, which is created where it is
    /// missing. They have no founders yet.
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>) -> NodeOptions {
        let mut node = cluster::NodeOptions::new(directory);
        node.replica.machine.quota_bytes = None;
        NodeOptions {
            name: name.into(),
            token: "inkstone".to_owned(),
            founders: Vec::new(),
            join: None,
            listen: None,
            listener: None,
            peer_secret: None,
            node,
        }
    }

    /// Sets the token of the cluster, which must be the same for all founders. Members refuse
    /// members with another token, so clusters with equal addresses do not mix.
    #[must_use]
    pub fn cluster_token(mut self, token: impl Into<String>) -> NodeOptions {
        self.token = token.into();
        self
    }

    /// Sets the secret with which members authenticate each other. It must be the same for all
    /// members; a member with a secret and one without refuse each other.
    #[must_use]
    pub fn peer_secret(mut self, secret: PeerSecret) -> NodeOptions {
        self.peer_secret = Some(secret);
        self
    }

    /// Adds a founding member of the cluster and the `host:port` where the others reach it. All
    /// founders need the same list, which includes this member: ids are computed from it. The
    /// first start stores the ids in the directory; later starts ignore the list, and may leave
    /// it out.
    ///
    /// If its directory is empty, a founder first asks the others, for up to a second, whether
    /// they know it. A member that ran before has lost its directory, and its start fails:
    /// without its log it could vote twice or lose acknowledged writes.
    #[must_use]
    pub fn founder(mut self, name: impl Into<String>, address: impl Into<String>) -> NodeOptions {
        self.founders.push(Founder {
            name: name.into(),
            address: address.into(),
        });
        self
    }

    /// Joins an existing cluster instead of founding one. The member must have been added to
    /// the cluster before ([`Node::add_learner`](crate::Node::add_learner), [`Node::add_member`](crate::Node::add_member)). `address` is the
    /// `host:port` with which it was added and where the others reach it. `members` are the
    /// addresses of some running members, from which this one learns the members of the cluster
    /// and its own id.
    ///
    /// The member receives its data after the start. Until it has them, serializable reads see
    /// an empty store, other calls wait for some seconds, and each start needs this option.
    /// Afterwards starts ignore it, and may leave it out.
    ///
    /// ```no_run
    /// # fn example(running: inkstone::Node) -> Result<(), inkstone::Error> {
    /// // At a running member:
    /// let id = running.add_learner(&["10.0.0.4:7400"]).wait()?;
    ///
    /// // On the new machine:
    /// let node = inkstone::NodeOptions::new("d", "data")
    ///     .join("10.0.0.4:7400", ["10.0.0.1:7400", "10.0.0.2:7400"])
    ///     .start()?;
    ///
    /// // At any member, when the new one has nearly all data:
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
        self.join = Some(Join {
            address: address.into(),
            members: members.into_iter().map(A::into).collect(),
        });
        self
    }

    /// Sets the `host:port` on which to listen for the other members. By default it is this
    /// member's address among the founders or in [`NodeOptions::join`], or the one of the
    /// directory's first start.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> NodeOptions {
        self.listen = Some(address.into());
        self
    }

    /// Sets a listening socket, instead of [`NodeOptions::listen`]: for example one from a
    /// supervisor, or one that was bound to port 0.
    #[must_use]
    pub fn listener(mut self, listener: TcpListener) -> NodeOptions {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Sets the point at which this member acknowledges a write towards the majority. With
    /// [`Durability::MajorityMemory`] or [`Durability::Os`] on all members, a write survives
    /// the loss of any minority of machines, but not a loss of power of all.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> NodeOptions {
        durability.apply_to(&mut self.node);
        self
    }

    /// Accepts a lost tail of the log, for one start. Use it where this member has lost power
    /// and waits for a member that never comes back: it then takes its remaining log for
    /// complete, and writes that others have acknowledged may be lost.
    #[must_use]
    pub fn accept_lost_tail(mut self) -> NodeOptions {
        self.node.replica.accept_lost_tail = true;
        self
    }

    /// Sets [`Options::segment_bytes`](crate::Options::segment_bytes). It must be the same on
    /// all members, because a batch must fit into the segments of each.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> NodeOptions {
        self.node.replica.machine.engine.log.segment_bytes = bytes;
        self
    }

    /// Sets [`Options::memory_bytes_max`](crate::Options::memory_bytes_max).
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> NodeOptions {
        self.node.replica.machine.engine.memory_bytes_max = bytes;
        self
    }

    /// Sets the interval of a leader's heartbeats: 100 ms by default. About the time of a round
    /// trip is a good value.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> NodeOptions {
        self.node.replica.heartbeat_interval = interval;
        self
    }

    /// Sets the time without a leader after which members stand for election: 1 s by default.
    /// Ten heartbeat intervals are a good value, two the minimum. Writes and reads that find no
    /// leader fail after 5 s plus twice this time.
    #[must_use]
    pub fn election_timeout(mut self, timeout: Duration) -> NodeOptions {
        self.node.replica.election_timeout = timeout;
        self
    }
}

/// The peer URL of an address, in etcd's form, so that the ids equal those of a server with
/// this address.
pub(super) fn url(address: &str) -> String {
    format!("http://{address}")
}
