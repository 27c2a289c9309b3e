//! Starts the node of a server: the ids of its directory, its limits, and warnings about
//! them.

use std::net::TcpListener;

use cluster::{CommandLimits, Flushing, Network, Node, NodeOptions, holds_data};
use revisions::Member;
use tracing::{info, warn};

use crate::config::{Config, Durability, Url};
use crate::introduction::Introduced;
use crate::membership::Membership;
use crate::{Error, identity, introduction, listen};

/// The node's options for a configuration.
pub(crate) fn node_options(config: &Config) -> NodeOptions {
    let mut options = NodeOptions::new(&config.data_directory);
    let machine = &mut options.machine;
    machine.quota_bytes = config.quota_bytes;
    machine.learners_max = config.learners_max;
    machine.lease_ttl_min_seconds = lease_ttl_min_seconds(config);
    machine.watch.response_bytes_max = config.message_bytes_max();
    let engine = &mut machine.engine;
    engine.segment_bytes = config.segment_bytes;
    engine.memory_bytes_max = config.memory_bytes_max;
    engine.batch_bytes_max = engine.batch_bytes_max.min(config.segment_bytes / 2);
    (engine.durability, options.flushing) = match config.durability {
        Durability::Durable => (engine::Durability::Durable, None),
        Durability::MajorityMemory {
            entries_max,
            interval,
        } => {
            let flushing = Flushing {
                entries_max,
                interval,
            };
            (engine::Durability::Os, Some(flushing))
        }
        Durability::Os => (engine::Durability::Os, None),
    };
    options.accept_lost_tail = config.accept_lost_tail;
    // The strict check is done by the member that a client asks, as in etcd
    // (reconfiguration.rs).
    options.strict_reconfiguration = false;
    // Commands that other members forward have the same limits as those of own clients.
    options.command_limits = CommandLimits {
        request_bytes_max: config.request_bytes_max,
        operations_max: config.txn_operations_max,
    };
    options.entries_kept_max = config.entries_kept_max;
    options.bytes_kept_max = config.bytes_kept_max;
    options
}

/// A lease shorter than one and a half election timeouts could not be renewed in time.
fn lease_ttl_min_seconds(config: &Config) -> i64 {
    let milliseconds = config.election_timeout.as_millis() as u64;
    (3 * milliseconds).div_ceil(2 * 1000).max(1) as i64
}

/// A running node.
pub(crate) struct Begun {
    pub(crate) node: Node,
    pub(crate) membership: Membership,
    /// Whether it is the only member and listens at no peer URL, so that no other can join.
    pub(crate) alone: bool,
}

/// Starts the node under its member's ids: those of the directory, or new ones, which
/// are written to it before any client or member sees them.
pub(crate) fn start_node(config: &Config, options: &NodeOptions) -> Result<Begun, Error> {
    let (disk, directory) = (&*options.disk, &config.data_directory);
    let mut door = PeerDoor::default();
    loop {
        let found = Membership::find(disk, directory)?;
        let introduced = match &found {
            Some(membership) => Introduced::from(membership.clone()),
            None => introduction::introduce(config, holds_data(disk, directory))?,
        };
        let beginning = Beginning {
            config,
            options,
            membership: &introduced.membership,
            begins: found.is_none(),
        };
        let (node, alone) = beginning.start(introduced.members, &mut door)?;
        let membership = introduced.membership;
        // Before the node got the directory's lock, another server may have
        // held it, begun the directory and ended.
        if Membership::find(disk, directory)? != found {
            node.stop();
            continue;
        }
        match found {
            Some(membership) => membership.warn_of_ignored_flags(config),
            None => {
                membership.keep(disk, directory)?;
                info!(directory = %directory.display(), "began a new data directory");
            }
        }
        if let Some(warning) = out_of_reach(config, &node, &membership).filter(|_| !alone) {
            warn!("{warning}");
        }
        if let Some(warning) = small_segments(config, values_bytes_max(&node, options)) {
            warn!("{warning}");
        }
        return Ok(Begun {
            node,
            membership,
            alone,
        });
    }
}

/// The member's peer socket: bound once, however often the start is tried.
#[derive(Default)]
struct PeerDoor(Option<Vec<TcpListener>>);

impl PeerDoor {
    fn open(&mut self, config: &Config) -> Result<Vec<TcpListener>, Error> {
        let bound = match self.0.take() {
            Some(bound) => bound,
            None => listen::bind_peers(config)?,
        };
        let handed = bound.iter().map(TcpListener::try_clone);
        let handed = handed.collect::<Result<_, _>>().map_err(Error::Threads)?;
        self.0 = Some(bound);
        Ok(handed)
    }
}

/// One attempt to start the node of a known member.
struct Beginning<'a> {
    config: &'a Config,
    options: &'a NodeOptions,
    membership: &'a Membership,
    /// Whether the directory has no file `MEMBER` yet.
    begins: bool,
}

impl Beginning<'_> {
    /// Starts the node; true if it is alone (see [`Begun`]). A
    /// member that joins talks to `contacts`.
    fn start(&self, contacts: Vec<Member>, door: &mut PeerDoor) -> Result<(Node, bool), Error> {
        let (disk, directory) = (&*self.options.disk, &self.config.data_directory);
        let began_alone = self.membership.identity.stands_alone();
        if !self.begins && !began_alone && !holds_data(disk, directory) {
            return Err(self.not_in_its_data());
        }
        if began_alone && !self.config.awaits_peers {
            let node = self.start_alone()?;
            if node.reader().members().len() == 1 {
                return Ok((node, true));
            }
            // The cluster has more members than the one that began it.
            node.stop();
        }
        let asked = !contacts.is_empty();
        let node = self.start_member(contacts, door.open(self.config)?)?;
        if asked || !node.reader().members().is_empty() {
            return Ok((node, false));
        }
        // The member has joined, and ended before another member sent it anything.
        node.stop();
        let contacts = introduction::contacts(self.config, self.membership)?;
        let node = self.start_member(contacts, door.open(self.config)?)?;
        Ok((node, false))
    }

    /// Starts the only member of a cluster, without a peer port.
    fn start_alone(&self) -> Result<Node, Error> {
        let mut options = self.options.clone();
        options.machine.member_id = self.membership.identity.member;
        options.machine.initial_members = vec![Member {
            id: self.membership.identity.member,
            peer_urls: self.membership.peer_urls.clone(),
            ..Member::default()
        }];
        Ok(Node::start(options)?)
    }

    /// Starts one of several members. The flags name the members only when the cluster
    /// begins: afterwards the log does.
    fn start_member(
        &self,
        contacts: Vec<Member>,
        listeners: Vec<TcpListener>,
    ) -> Result<Node, Error> {
        let (config, identity) = (self.config, self.membership.identity);
        let mut options = self.options.clone();
        options.machine.member_id = identity.member;
        let founds = self.begins && !config.joins;
        options.machine.initial_members = if founds { founders(config) } else { Vec::new() };
        options.heartbeat_interval = config.heartbeat_interval;
        options.election_timeout = config.election_timeout;
        options.read_mode = config.read_mode;
        let network = Network {
            cluster_id: identity.cluster,
            listeners,
            advertised: introduction::texts(&config.announced_peer),
            contacts,
            listed: introduction::listed_others(config),
            secret: config.peer_secret.clone(),
        };
        let node = Node::start_member(options, network)?;
        let members = node.reader().members();
        // A member that joins knows no member until it has received a snapshot.
        if !members.is_empty() && members.get(identity.member).is_none() {
            node.stop();
            return Err(self.not_in_its_data());
        }
        Ok(node)
    }

    fn not_in_its_data(&self) -> Error {
        Error::NotInItsData {
            directory: self.config.data_directory.clone(),
            member: self.membership.identity.member,
        }
    }
}

fn founders(config: &Config) -> Vec<Member> {
    let member = |founder: &crate::config::Founder| Member {
        id: identity::member_id(&founder.peer_urls, &config.cluster_token),
        peer_urls: founder
            .peer_urls
            .iter()
            .map(Url::as_str)
            .map(str::to_owned)
            .collect(),
        ..Member::default()
    };
    config.founders.iter().map(member).collect()
}

fn out_of_reach(config: &Config, node: &Node, membership: &Membership) -> Option<String> {
    let members = node.reader().members();
    let own = members.get(membership.identity.member);
    let listed = own.map_or(&membership.peer_urls, |own| &own.peer_urls);
    unreachable_warning(config, listed)
}

/// The warning if the member list shows peer URLs for this member at which it does not
/// listen because `--listen-peer-urls` is not set.
fn unreachable_warning(config: &Config, listed: &[String]) -> Option<String> {
    let default = config.listen_peer.iter().map(Url::as_str);
    let heard = default
        .clone()
        .any(|url| listed.iter().any(|listed| listed == url));
    if config.awaits_peers || heard || listed.is_empty() {
        return None;
    }
    Some(format!(
        "the other members connect to {}, and this member listens at {} only: start it with \
         --listen-peer-urls",
        listed.join(","),
        default.collect::<Vec<_>>().join(",")
    ))
}

/// The warning if `--max-request-bytes` allows requests that no segment can hold.
fn small_segments(config: &Config, values_bytes_max: u64) -> Option<String> {
    let request_bytes_max = config.request_bytes_max;
    (request_bytes_max as u64 > values_bytes_max).then(|| {
        format!(
            "--max-request-bytes={request_bytes_max} is more than segments of this size hold: \
             writes of more than {values_bytes_max} bytes are refused; the size of segments \
             (--segment-bytes) can be chosen only when a data directory begins"
        )
    })
}

/// Most bytes that the puts of one request may have: half of the largest batch, and at most
/// a quarter of one of the directory's segments, which may differ in size from the flag.
fn values_bytes_max(node: &Node, options: &NodeOptions) -> u64 {
    let half_segment_bytes = node.reader().engine().batch_log_bytes_max() / 2;
    let batch_bytes_max = options.machine.engine.batch_bytes_max;
    batch_bytes_max.min(half_segment_bytes) / 2
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use cluster::Pending;
    use environment::disk::DirectoryLock;
    use environment::simulated::SimulatedDisk;
    use environment::{Disk, File, OpenMode, Space};
    use etcd_api::etcdserverpb::PutRequest;
    use revisions::Command;

    use super::*;
    use crate::config::testing;

    /// A disk on which another server begins the directory, and ends, just
    /// before this one gets its lock.
    #[derive(Debug)]
    struct Raced {
        inner: SimulatedDisk,
        other: Membership,
        raced: AtomicBool,
    }

    impl Disk for Raced {
        fn create_directories(&self, path: &Path) -> io::Result<()> {
            self.inner.create_directories(path)
        }

        fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
            self.inner.open(path, mode)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.inner.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.inner.remove(path)
        }

        fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
            self.inner.list(directory)
        }

        fn sync_directory(&self, directory: &Path) -> io::Result<()> {
            self.inner.sync_directory(directory)
        }

        fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
            if !self.raced.swap(true, Ordering::Relaxed) {
                self.other.keep(&self.inner, directory).unwrap();
            }
            self.inner.lock_directory(directory)
        }

        fn space(&self, directory: &Path) -> io::Result<Space> {
            self.inner.space(directory)
        }
    }

    const SMALL: [&str; 2] = ["--data-dir=/data", "--segment-bytes=1048576"];

    fn options(config: &Config, disk: impl Disk + 'static) -> NodeOptions {
        let mut options = node_options(config);
        options.machine.engine.reserve_bytes = 0;
        options.disk = Arc::new(disk);
        options
    }

    #[test]
    fn ids_that_another_server_wrote_during_the_start_are_kept() {
        let config = testing::config(&SMALL);
        let other_words = [&SMALL[..], &["--initial-cluster-token=other"]].concat();
        let other = Membership::of(&testing::config(&other_words)).unwrap();
        assert_ne!(other, Membership::of(&config).unwrap());
        let inner = SimulatedDisk::new(1);
        let disk = Raced {
            inner: inner.clone(),
            other: other.clone(),
            raced: AtomicBool::new(false),
        };
        let begun = start_node(&config, &options(&config, disk)).unwrap();
        let Begun {
            node, membership, ..
        } = begun;
        assert_eq!(membership, other);
        node.stop();
        let kept = Membership::find(&inner, &config.data_directory).unwrap();
        assert_eq!(kept, Some(other));
    }

    fn put(node: &Node, bytes: u64) -> Result<(), String> {
        let put = Command::Put(PutRequest {
            key: "k".into(),
            value: vec![0; bytes as usize].into(),
            ..PutRequest::default()
        });
        let outcome = node.propose(put).and_then(Pending::wait);
        outcome.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_warning_says_what_too_small_segments_hold() {
        let config = testing::config(&SMALL);
        let options = options(&config, SimulatedDisk::new(2));
        let Begun { node, .. } = start_node(&config, &options).unwrap();
        let bytes_max = values_bytes_max(&node, &options);
        // The record's header and the key take their part.
        put(&node, bytes_max - 200).unwrap();
        let refused = put(&node, bytes_max).unwrap_err();
        assert!(refused.contains(&bytes_max.to_string()), "{refused}");
        let warning = small_segments(&config, bytes_max).unwrap();
        assert!(warning.contains(&bytes_max.to_string()), "{warning}");
        assert!(warning.contains("--segment-bytes"), "{warning}");
        assert_eq!(small_segments(&testing::config(&[]), 16 << 20), None);
    }

    #[test]
    fn a_warning_names_an_advertised_address_without_a_listener() {
        let listed = |url: &str| vec![url.to_owned()];
        let warning_of =
            |words: &[&str], url| unreachable_warning(&testing::config(words), &listed(url));
        let warning = warning_of(&[], "http://10.0.0.1:2380").unwrap();
        for part in [
            "http://10.0.0.1:2380",
            "http://localhost:2380",
            "--listen-peer-urls",
        ] {
            assert!(warning.contains(part), "{warning}");
        }
        assert_eq!(warning_of(&[], "http://localhost:2380"), None);
        // With `--listen-peer-urls` set, a proxy may forward the advertised address.
        let said = ["--listen-peer-urls=http://10.0.0.2:2380"];
        assert_eq!(warning_of(&said, "http://10.0.0.1:2380"), None);
    }
}
