//! Starts the node of a server: its member's cluster, its limits, and warnings about them.

use std::path::Path;
use std::sync::Arc;

use cluster::{
    Bootstrap, Credentials, Founding, Joining, MemberFile, MemberFileError, Node, NodeOptions,
    Origin, PeerListener, PeerTls,
};
use environment::real::RealDisk;
use tracing::warn;

use crate::config::{self, Config, Registry, Url};
use crate::discovery::registry::Registrant;
use crate::error::{MEMBER_FILE_REMEDY, member_file_unread};
use crate::{Error, discovery, listen};

/// A running node.
pub(crate) struct Begun {
    pub(crate) node: Node,
    /// Ids of this member and its cluster.
    pub(crate) member: MemberFile,
    /// Whether it is the only member and listens at no peer URL, so that no other can join.
    pub(crate) alone: bool,
    /// Whether the member had begun before this start.
    pub(crate) was_begun: bool,
}

/// Finds the members of a new cluster in the DNS or in another cluster, if they are to be found
/// there. A directory that has begun knows its cluster.
pub(crate) fn discover(config: &mut Config) -> Result<(), Error> {
    let domain = config.cluster.discovery.srv_domain.clone();
    let has_begun =
        || MemberFile::find(&RealDisk, &config.node.directory).is_ok_and(|it| it.is_some());
    if let Some(registry) = config.cluster.discovery.registry.clone() {
        if has_begun() {
            warn!("discovery token is ignored since cluster already initialized");
        } else if config.cluster.cannot_begin.is_none() {
            return join(&registry, config);
        }
        return Ok(());
    }
    if domain.is_empty() || has_begun() {
        return Ok(());
    }
    let found = discovery::srv::initial_cluster(config);
    let text = found.map_err(|reason| Error::Discovery { domain, reason })?;
    config::describe(&text, config).map_err(Error::Config)
}

/// Registers this member in another cluster, and takes the members from there.
fn join(registry: &Registry, config: &mut Config) -> Result<(), Error> {
    let urls = config.addresses.advertise_peer.iter();
    let urls = urls.map(|url| format!("{}={}", config.name, url.as_str()));
    let own = Registrant {
        id: format!("{:x}", founding(config).own.member),
        urls: urls.collect::<Vec<_>>().join(","),
    };
    let found = discovery::registry::join(registry, &own);
    let text = found.map_err(|error| Error::Registry {
        token: registry.token.clone(),
        reason: error.to_string(),
    })?;
    config::describe(&text, config).map_err(Error::Config)
}

/// Starts the node under its member's ids: those of the directory, or those that the flags
/// describe. `bound` are the sockets for other members, if they are bound already; `tls` is for
/// connections with them.
pub(crate) fn start_node(
    config: &Config,
    options: &NodeOptions,
    mut bound: Option<Vec<PeerListener>>,
    tls: Option<Arc<PeerTls>>,
) -> Result<Begun, Error> {
    let defaults = NodeOptions::new("");
    // A member that is alone sends no heartbeats and holds no elections: their flags have no
    // effect.
    let mut alone = options.clone();
    alone.replica.heartbeat_interval = defaults.replica.heartbeat_interval;
    alone.replica.election_timeout = defaults.replica.election_timeout;
    alone.replica.read_mode = defaults.replica.read_mode;
    let founders = config.cluster.founders.iter();
    let others = founders.filter(|it| it.name != config.name);
    let bootstrap = Bootstrap {
        options: options.clone(),
        alone: (!config.addresses.awaits_peers).then_some(alone),
        advertised: sorted_texts(&config.addresses.announced_peer),
        listed: others
            .flat_map(|other| sorted_texts(&other.peer_urls))
            .collect(),
        credentials: Credentials {
            secret: config.cluster.peer_secret.clone(),
            tls,
            local_address: config.addresses.local(),
        },
    };
    let listen = |_: &MemberFile| match bound.take() {
        Some(bound) => Ok(bound),
        None => Ok(listen::bind_peers(config)?.listeners),
    };
    let started = bootstrap.start(|| origin(config), listen)?;
    let (node, member, alone) = (started.node, started.member, started.is_alone);
    if started.was_begun && ignores_flags(config, &member) {
        warn!(
            member = format!("{:x}", member.member),
            cluster = format!("{:x}", member.cluster),
            "the --initial-* flags are ignored: \
             the data directory has had its member and cluster since its first start"
        );
    }
    if let Some(warning) = out_of_reach(config, &node, &member).filter(|_| !alone) {
        warn!("{warning}");
    }
    if let Some(warning) = small_segments(config, values_bytes_max(&node, options)) {
        warn!("{warning}");
    }
    Ok(Begun {
        node,
        member,
        alone,
        was_begun: started.was_begun,
    })
}

/// The cluster that the flags describe; an error if no member can begin with them.
fn origin(config: &Config) -> Result<Origin, Error> {
    if let Some(error) = &config.cluster.cannot_begin {
        return Err(Error::Config(error.clone()));
    }
    if !config.cluster.joins {
        return Ok(Origin::Founds(founding(config)));
    }
    let founders = &config.cluster.founders;
    let own = founders.iter().find(|it| it.name == config.name);
    let all = founders.iter().map(|it| sorted_texts(&it.peer_urls));
    Ok(Origin::Joins(Joining {
        own_urls: own.map_or_else(Vec::new, |own| sorted_texts(&own.peer_urls)),
        all: Some(all.collect()),
    }))
}

/// The founders that the flags describe; an error if they describe no new cluster.
pub(crate) fn founding_of(config: &Config) -> Result<Founding, config::Error> {
    match &config.cluster.cannot_begin {
        Some(error) => Err(error.clone()),
        None => Ok(founding(config)),
    }
}

fn founding(config: &Config) -> Founding {
    let founders = config.cluster.founders.iter();
    let founders: Vec<_> = founders.map(|it| texts(&it.peer_urls)).collect();
    Founding::new(
        &config.cluster.token,
        founders.iter().map(Vec::as_slice),
        texts(&config.addresses.advertise_peer),
    )
}

/// Whether the flags describe another member or cluster than the directory's file, which
/// counts. A member that joined has its ids from the cluster, not from flags.
fn ignores_flags(config: &Config, member: &MemberFile) -> bool {
    !config.cluster.joins
        && (config.cluster.cannot_begin.is_some() || founding(config).own != *member)
}

fn texts(urls: &[Url]) -> Vec<String> {
    urls.iter().map(Url::as_str).map(str::to_owned).collect()
}

fn sorted_texts(urls: &[Url]) -> Vec<String> {
    let mut texts = texts(urls);
    texts.sort_unstable();
    texts
}

/// Checks that a server could start with the file `MEMBER` of `directory`, or
/// could write a new one because there is none. The error says what is wrong
/// with the file and what to do.
pub fn check_member_file(directory: &Path) -> Result<(), MemberFileDamage> {
    match MemberFile::find(&RealDisk, directory) {
        Ok(_) => Ok(()),
        Err(MemberFileError::Unusable { what, .. }) => Err(MemberFileDamage {
            what,
            remedy: MEMBER_FILE_REMEDY,
        }),
        Err(MemberFileError::Disk(error)) => Err(MemberFileDamage {
            what: member_file_unread(&error),
            remedy: "run this as the user that owns it",
        }),
    }
}

/// Fault of a file `MEMBER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFileDamage {
    /// The fault: a predicate, with the file's name as its subject.
    pub what: String,
    pub remedy: &'static str,
}

fn out_of_reach(config: &Config, node: &Node, member: &MemberFile) -> Option<String> {
    let members = node.reader().members();
    let own = members.get(member.member);
    let listed = own.map_or(&member.peer_urls, |own| &own.peer_urls);
    unreachable_warning(config, listed)
}

/// The warning if the member list shows peer URLs for this member at which it does not
/// listen because `--listen-peer-urls` is not set.
fn unreachable_warning(config: &Config, listed: &[String]) -> Option<String> {
    let default = config.addresses.listen_peer.iter().map(Url::as_str);
    let heard = default
        .clone()
        .any(|url| listed.iter().any(|listed| listed == url));
    if config.addresses.awaits_peers || heard || listed.is_empty() {
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
    let request_bytes_max = config.node.replica.command_limits.request_bytes_max;
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
    let batch_bytes_max = options.replica.machine.engine.batch_bytes_max;
    batch_bytes_max.min(half_segment_bytes) / 2
}

#[cfg(test)]
mod tests {
    use std::io;
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
        other: MemberFile,
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
        let mut options = config.node.clone();
        options.replica.machine.engine.log.reserve_bytes = 0;
        options.disk = Arc::new(disk);
        options
    }

    #[test]
    fn ids_that_another_server_wrote_during_the_start_are_kept() {
        let config = testing::config(&SMALL);
        let other_words = [&SMALL[..], &["--initial-cluster-token=other"]].concat();
        let other = founding(&testing::config(&other_words)).own;
        assert_ne!(other, founding(&config).own);
        let inner = SimulatedDisk::new(1);
        let disk = Raced {
            inner: inner.clone(),
            other: other.clone(),
            raced: AtomicBool::new(false),
        };
        let begun = start_node(&config, &options(&config, disk), None, None).unwrap();
        assert_eq!(begun.member, other);
        begun.node.stop();
        let kept = MemberFile::find(&inner, &config.node.directory).unwrap();
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
        let Begun { node, .. } = start_node(&config, &options, None, None).unwrap();
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

    fn ids(config: &Config) -> MemberFile {
        founding(config).own
    }

    #[test]
    fn the_default_member_has_etcd_s_well_known_ids() {
        let own = ids(&testing::config(&[]));
        assert_eq!(format!("{:x}", own.member), "8e9e05c52164694d");
        assert_eq!(format!("{:x}", own.cluster), "cdf818194e3a8c32");
    }

    #[test]
    fn the_order_of_urls_does_not_matter_but_the_token_does() {
        let of = |urls, token: &str| {
            let peers = format!("--initial-advertise-peer-urls={urls}");
            let token = format!("--initial-cluster-token={token}");
            ids(&testing::config(&[&peers, &token]))
        };
        let forward = of("http://a:1,http://b:2", "t");
        assert_eq!(forward, of("http://b:2,http://a:1", "t"));
        assert_ne!(forward, of("http://b:2,http://a:1", "u"));
    }

    /// etcd 3.7.3 gave these ids to members with these flags.
    #[test]
    fn every_member_of_three_computes_etcd_s_ids() {
        let urls = [17380, 17480, 17580].map(|port| format!("http://127.0.0.1:{port}"));
        let list = format!("a={},b={},c={}", urls[0], urls[1], urls[2]);
        let expected = [
            ("a", "aba125624fdfc62d"),
            ("b", "c579af7bebd214c6"),
            ("c", "ca6236fd59aef023"),
        ];
        for ((name, member), url) in expected.iter().zip(&urls) {
            let config = testing::config(&[
                &format!("--name={name}"),
                &format!("--initial-advertise-peer-urls={url}"),
                &format!("--initial-cluster={list}"),
                "--initial-cluster-token=hand",
            ]);
            assert!(
                config.cluster.cannot_begin.is_none(),
                "{:?}",
                config.cluster.cannot_begin
            );
            let own = ids(&config);
            assert_eq!(format!("{:x}", own.member), *member);
            assert_eq!(format!("{:x}", own.cluster), "500889cfad5b3cc2");
            assert!(!own.began_alone());
        }
        assert!(ids(&testing::config(&[])).began_alone());
    }
}
