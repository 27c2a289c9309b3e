//! Start of a member of a cluster: determines its ids, and starts its node.
//!
//! ```text
//!   first start, founds:  founders, token ────────────────► ids ──► file MEMBER
//!   first start, joins:   member lists of the members ────► ids ──► file MEMBER
//!   later starts:         file MEMBER ──► ids                  (options: ignored)
//! ```
//!
//! The options determine a member's ids when its data directory begins. After that the file
//! does: another token or another peer URL must not make another member of the same data. The
//! file is written before the first answer is sent, so no client ever sees ids that a crash
//! could change. The rules by which a first start is refused are in [`rules`].
//!
//! The programs that start members (the server, and programs that embed `inkstone`) differ in
//! their options and in the words of their errors, and in nothing else.

pub(crate) mod member_list;
mod rules;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use peers::PeerListener;
use revisions::{Member, identity};
use tracing::info;

use crate::{
    Credentials, Error, MemberFile, MemberFileError, MemberList, Network, Node, NodeOptions,
    holds_data,
};

/// Time limit for answers when a cluster begins: as long as etcd waits.
const FOUNDING_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for answers when joining: longer, because a joining member needs one.
const JOINING_TIMEOUT: Duration = Duration::from_secs(5);

/// The options of a member's start.
#[derive(Debug)]
pub struct Bootstrap {
    /// Options of a node with a network. The member's id and the founders are set by the
    /// start.
    pub options: NodeOptions,
    /// Options of a node that begins its cluster alone and that no other member can join: it
    /// is started without a network. `None` if others may join it.
    pub alone: Option<NodeOptions>,
    /// See [`Network::advertised`].
    pub advertised: Vec<String>,
    /// Peer URLs of the other members that the options name. A member that founds or joins a
    /// cluster asks them about itself; see also [`Network::listed`].
    pub listed: Vec<String>,
    /// See [`Network::credentials`].
    pub credentials: Credentials,
}

/// The cluster to which a member with a new directory belongs.
#[derive(Clone, Debug)]
pub enum Origin {
    /// The member is one of those that begin the cluster.
    Founds(Founding),
    /// The cluster runs already.
    Joins(Joining),
}

/// The founders of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
    /// The member that starts.
    pub own: MemberFile,
    /// All founders.
    pub founders: Vec<Member>,
}

impl Founding {
    /// The cluster that members with these peer URLs begin. Their ids and the cluster's are
    /// computed as etcd computes them.
    pub fn new<'a>(
        token: &str,
        founders: impl IntoIterator<Item = &'a [String]>,
        own_urls: Vec<String>,
    ) -> Founding {
        let id = |urls: &[String]| {
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            identity::member_id(&urls, token)
        };
        let founder = |urls: &[String]| Member {
            id: id(urls),
            peer_urls: urls.to_vec(),
            ..Member::default()
        };
        let founders: Vec<Member> = founders.into_iter().map(founder).collect();
        let ids: Vec<u64> = founders.iter().map(|founder| founder.id).collect();
        Founding {
            own: MemberFile {
                member: id(&own_urls),
                cluster: identity::cluster_id(&ids),
                peer_urls: own_urls,
            },
            founders,
        }
    }
}

/// The place of a joining member in its cluster.
#[derive(Clone, Debug)]
pub struct Joining {
    /// Peer URLs with which the member was added to the cluster.
    pub own_urls: Vec<String>,
    /// The peer URLs of each member of the cluster, sorted, with this one's among them: then
    /// only a cluster of exactly these members is joined, as in etcd. `None` if the options
    /// name some of the members.
    pub all: Option<Vec<Vec<String>>>,
}

/// A started member.
#[derive(Debug)]
pub struct Started {
    /// Its running node.
    pub node: Node,
    /// Its ids.
    pub member: MemberFile,
    /// Whether its directory had begun before this start, so that the ids of the file hold.
    pub was_begun: bool,
    /// Whether it was started without a network (see [`Bootstrap::alone`]).
    pub is_alone: bool,
}

/// A member that could not be started.
#[derive(Debug)]
pub struct BootstrapError {
    /// The data directory.
    pub directory: PathBuf,
    pub reason: BootstrapFailure,
}

/// Why a member could not be started.
#[derive(Debug)]
pub enum BootstrapFailure {
    /// The file `MEMBER` cannot be used.
    MemberFile(MemberFileError),
    /// The node cannot be started, or the cluster has removed the member.
    Node(Error),
    /// The system starts no thread to ask the other members.
    Thread(io::Error),
    /// The system hands out no second handle of a listening socket.
    Socket(io::Error),
    /// The directory has a file `MEMBER`, and neither a log nor a checkpoint: they are lost.
    NoData { member: u64 },
    /// The log belongs to another member: it does not have this one.
    ForeignLog { member: u64 },
    /// The directory is empty, and other members know this one as one that has been up.
    Lost { member: u64 },
    /// The other members run already, in another cluster than the founders describe.
    OtherCluster {
        described: u64,
        running: Box<MemberList>,
    },
    /// The other members have segments of another size.
    OtherSegments { ours: u64, theirs: u64 },
    /// The member has begun to join, has received nothing yet, and its options do not let it
    /// join.
    Unfilled { member: u64 },
    /// The member has begun to join one cluster, and the members that its options name belong
    /// to another.
    JoinsAnother { own: MemberFile, named: u64 },
    /// No member answers one that joins, for these reasons.
    NoMemberAnswers { reasons: Vec<String> },
    /// The members that the options name belong to different clusters.
    TwoClusters { clusters: [u64; 2] },
    /// The cluster does not have the members that the options name, this one among them.
    NotListed {
        list: Box<MemberList>,
        /// Peer URLs of this member in the options.
        own_urls: Vec<String>,
        /// The difference to the options, in etcd's words.
        what: String,
    },
}

impl From<Error> for BootstrapFailure {
    fn from(error: Error) -> BootstrapFailure {
        BootstrapFailure::Node(error)
    }
}

impl From<MemberFileError> for BootstrapFailure {
    fn from(error: MemberFileError) -> BootstrapFailure {
        BootstrapFailure::MemberFile(error)
    }
}

/// The ids of a member, and the members with which its directory begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Introduction {
    member: MemberFile,
    /// Founders, if the member is one of them and its directory is new.
    founders: Vec<Member>,
    /// Members that a joining member without data connects to.
    contacts: Vec<Member>,
}

impl Bootstrap {
    /// Starts the member under the ids of its directory, or under new ones, which are in the
    /// directory before any client or member sees them.
    ///
    /// `origin` gives the member's cluster if the directory is new. `listen` binds the sockets
    /// for other members; it is called once at most.
    pub fn start<E: From<BootstrapError>>(
        &self,
        origin: impl Fn() -> Result<Origin, E>,
        listen: impl FnMut(&MemberFile) -> Result<Vec<PeerListener>, E>,
    ) -> Result<Started, E> {
        let (disk, directory) = (&*self.options.disk, &self.options.directory);
        let mut start = Start {
            bootstrap: self,
            origin,
            listen,
            listeners: None,
        };
        let find = || MemberFile::find(disk, directory).map_err(|error| self.failed(error));
        loop {
            let found = find()?;
            let introduction = match &found {
                Some(member) => Introduction {
                    member: member.clone(),
                    founders: Vec::new(),
                    contacts: Vec::new(),
                },
                None => start.introduce()?,
            };
            let member = introduction.member.clone();
            let (node, is_alone) = start.attempt(introduction, found.is_some())?;
            // Before the node got the directory's lock, another process may have held it,
            // begun the directory and ended.
            if find()? != found {
                node.stop();
                continue;
            }
            if found.is_none() {
                let kept = member.keep(disk, directory);
                kept.map_err(|error| self.failed(MemberFileError::Disk(error)))?;
                info!(directory = %directory.display(), "began a new data directory");
            }
            return Ok(Started {
                node,
                member,
                was_begun: found.is_some(),
                is_alone,
            });
        }
    }

    fn failed<E: From<BootstrapError>>(&self, reason: impl Into<BootstrapFailure>) -> E {
        E::from(BootstrapError {
            directory: self.options.directory.clone(),
            reason: reason.into(),
        })
    }

    fn holds_data(&self) -> bool {
        holds_data(&*self.options.disk, &self.options.directory)
    }

    fn ask(&self, timeout: Duration) -> Result<rules::Asked, BootstrapFailure> {
        let asked = MemberList::ask(self.listed.clone(), timeout, self.credentials.clone());
        let (lists, reasons) = asked.map_err(BootstrapFailure::Thread)?;
        Ok(rules::Asked { lists, reasons })
    }

    /// Determines the ids of a founder.
    fn found(&self, founding: Founding) -> Result<Introduction, BootstrapFailure> {
        let own = &founding.own;
        if !own.began_alone() {
            let asked = self.ask(FOUNDING_TIMEOUT)?;
            asked.refuse_other_cluster(own.cluster)?;
            self.refuse(own.member, &asked)?;
        }
        Ok(Introduction {
            member: founding.own,
            founders: founding.founders,
            contacts: Vec::new(),
        })
    }

    /// Determines the ids that the cluster has given to a joining member.
    fn join(&self, joining: &Joining) -> Result<Introduction, BootstrapFailure> {
        let asked = self.ask(JOINING_TIMEOUT)?;
        let introduction = asked.join(joining)?;
        self.refuse(introduction.member.member, &asked)?;
        Ok(introduction)
    }

    fn refuse(&self, member: u64, asked: &rules::Asked) -> Result<(), BootstrapFailure> {
        let holds_data = self.holds_data();
        asked.refuse_if_known(member, holds_data)?;
        asked.refuse_other_segments(
            self.options.replica.machine.engine.log.segment_bytes,
            holds_data,
        )
    }

    /// Starts the only member of a cluster, without a network.
    fn start_alone(&self, options: &NodeOptions, own: &MemberFile) -> Result<Node, Error> {
        let mut options = options.clone();
        options.replica.machine.member_id = own.member;
        options.replica.machine.initial_members = vec![Member {
            id: own.member,
            peer_urls: own.peer_urls.clone(),
            ..Member::default()
        }];
        Node::start(options)
    }

    /// Starts a member with a network.
    fn start_member(
        &self,
        introduction: &Introduction,
        listeners: Vec<PeerListener>,
    ) -> Result<Node, BootstrapFailure> {
        let member = introduction.member.member;
        let mut options = self.options.clone();
        options.replica.machine.member_id = member;
        options.replica.machine.initial_members = introduction.founders.clone();
        let network = Network {
            cluster_id: introduction.member.cluster,
            listeners,
            advertised: self.advertised.clone(),
            contacts: introduction.contacts.clone(),
            listed: self.listed.clone(),
            credentials: self.credentials.clone(),
        };
        let node = Node::start_member(options, network)?;
        let members = node.reader().members();
        // A member that joins knows no member until it has received a snapshot.
        if members.is_empty() || members.get(member).is_some() {
            return Ok(node);
        }
        node.stop();
        Err(match members.is_removed(member) {
            true => Error::Removed { member }.into(),
            false => BootstrapFailure::ForeignLog { member },
        })
    }
}

/// A start, which may take several attempts.
struct Start<'a, O, L> {
    bootstrap: &'a Bootstrap,
    origin: O,
    listen: L,
    /// Bound once, however many attempts there are.
    listeners: Option<Vec<PeerListener>>,
}

impl<E, O, L> Start<'_, O, L>
where
    E: From<BootstrapError>,
    O: Fn() -> Result<Origin, E>,
    L: FnMut(&MemberFile) -> Result<Vec<PeerListener>, E>,
{
    /// Determines the ids of a member without a file `MEMBER`: its directory is empty, or a
    /// crash came between the first data and the file.
    fn introduce(&self) -> Result<Introduction, E> {
        let introduced = match (self.origin)()? {
            Origin::Founds(founding) => self.bootstrap.found(founding),
            Origin::Joins(joining) => self.bootstrap.join(&joining),
        };
        introduced.map_err(|reason| self.bootstrap.failed(reason))
    }

    /// Starts the node; true if it has no network.
    fn attempt(
        &mut self,
        mut introduction: Introduction,
        was_begun: bool,
    ) -> Result<(Node, bool), E> {
        let bootstrap = self.bootstrap;
        let own = introduction.member.clone();
        if was_begun && !own.began_alone() && !bootstrap.holds_data() {
            let member = own.member;
            return Err(bootstrap.failed(BootstrapFailure::NoData { member }));
        }
        if let Some(options) = bootstrap.alone.as_ref().filter(|_| own.began_alone()) {
            let node = bootstrap.start_alone(options, &own);
            let node = node.map_err(|error| bootstrap.failed(error))?;
            if node.reader().members().len() == 1 {
                return Ok((node, true));
            }
            // The cluster has more members than the one that began it.
            node.stop();
        }
        let node = self.start_member(&introduction)?;
        if !introduction.contacts.is_empty() || !node.reader().members().is_empty() {
            return Ok((node, false));
        }
        // The member has joined, and ended before another member sent it anything. It cannot
        // answer the others without their addresses, so it asks for them first.
        node.stop();
        let contacts = match (self.origin)() {
            // It has joined before, and was stopped before it received anything.
            Ok(Origin::Joins(joining)) => {
                let asked = bootstrap.ask(JOINING_TIMEOUT);
                asked.and_then(|asked| asked.contacts(&joining, &own))
            }
            _ => Err(BootstrapFailure::Unfilled { member: own.member }),
        };
        introduction.contacts = contacts.map_err(|reason| bootstrap.failed(reason))?;
        Ok((self.start_member(&introduction)?, false))
    }

    fn start_member(&mut self, introduction: &Introduction) -> Result<Node, E> {
        let bound = match &self.listeners {
            Some(bound) => bound,
            None => self.listeners.insert((self.listen)(&introduction.member)?),
        };
        let handles: io::Result<_> = bound.iter().map(PeerListener::try_clone).collect();
        let started = match handles {
            Ok(handles) => self.bootstrap.start_member(introduction, handles),
            Err(error) => Err(BootstrapFailure::Socket(error)),
        };
        started.map_err(|reason| self.bootstrap.failed(reason))
    }
}

/// The shortest lease in seconds, for this election timeout: one and a half timeouts. A
/// shorter lease could not be renewed in time after a change of leader.
pub fn lease_ttl_min_seconds(election_timeout: Duration) -> i64 {
    let milliseconds = u64::try_from(election_timeout.as_millis()).unwrap_or(u64::MAX / 3);
    let seconds = milliseconds.saturating_mul(3).div_ceil(2 * 1000).max(1);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
