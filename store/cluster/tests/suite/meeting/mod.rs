//! Members that communicate over real connections.

#![expect(clippy::disallowed_methods, reason = "a member is given bound sockets")]

use std::net::TcpListener;
use std::time::Duration;

use cluster::{Credentials, Error, Network, Node, NodeOptions};
use etcd_api::etcdserverpb::{MemberAddRequest, MemberUpdateRequest, PutRequest, RangeRequest};
use harness::ports::free_address;
use peers::PeerSecret;
use revisions::{Command, Member, Response};

const CLUSTER: u64 = 0xc1;

pub struct Cluster {
    pub members: Vec<Member>,
    pub nodes: Vec<Option<Node>>,
    place: tempfile::TempDir,
    change: fn(&mut NodeOptions),
    /// The peer secret of every member that is started from now on.
    pub secret: Option<PeerSecret>,
    /// Peer URLs that the operator lists to members that are started from now on.
    pub listed: Vec<String>,
}

fn options(place: &tempfile::TempDir, members: &[Member], number: usize) -> NodeOptions {
    let mut options = NodeOptions::new(place.path().join(number.to_string()));
    options.replica.machine.member_id = members[number].id;
    options.replica.machine.initial_members = members.to_vec();
    options.replica.machine.engine.log.segment_bytes = 1 << 20;
    options.replica.machine.engine.log.reserve_bytes = 0;
    options.replica.heartbeat_interval = Duration::from_millis(20);
    options.replica.election_timeout = Duration::from_millis(200);
    options.seed = Some(number as u64);
    options
}

impl Cluster {
    pub fn start() -> Cluster {
        Cluster::start_with(|_| {})
    }

    /// A cluster in which only the first member stands for election within an hour, unless a
    /// leader asks another one to.
    pub fn start_with_patience() -> Cluster {
        Cluster::start_with(|options| {
            if options.replica.machine.member_id != 1 {
                options.replica.election_timeout = Duration::from_secs(3600);
            }
        })
    }

    pub fn start_with(change: fn(&mut NodeOptions)) -> Cluster {
        let listeners: Vec<TcpListener> = (0..3)
            .map(|_| TcpListener::bind(free_address().unwrap()).unwrap())
            .collect();
        let members = listeners.iter().zip(1..).map(|(listener, id)| Member {
            id,
            peer_urls: vec![format!("http://{}", listener.local_addr().unwrap())],
            ..Member::default()
        });
        let members: Vec<Member> = members.collect();
        let place = tempfile::tempdir().unwrap();
        let nodes = listeners.into_iter().enumerate().map(|(number, listener)| {
            let mut options = options(&place, &members, number);
            change(&mut options);
            Some(Node::start_member(options, network(listener)).unwrap())
        });
        let nodes = nodes.collect();
        Cluster {
            members,
            nodes,
            place,
            change,
            secret: None,
            listed: Vec::new(),
        }
    }

    pub fn node(&self, number: usize) -> &Node {
        self.nodes[number].as_ref().unwrap()
    }

    pub fn stop(&mut self, number: usize) {
        self.nodes[number].take().unwrap().stop();
    }

    pub fn restart(&mut self, number: usize) {
        let node = self.start_member(number).unwrap();
        self.nodes[number] = Some(node);
    }

    /// Starts a member again; fails if the member cannot start.
    pub fn start_member(&self, number: usize) -> Result<Node, Error> {
        let others: Vec<usize> = (0..self.members.len()).collect();
        self.start_member_knowing(number, &others)
    }

    /// Starts a member that has only the members `known` as contacts.
    pub fn start_member_knowing(&self, number: usize, known: &[usize]) -> Result<Node, Error> {
        let url = self.members[number].peer_urls[0].clone();
        let address = url.strip_prefix("http://").unwrap().to_owned();
        let mut options = options(&self.place, &self.members, number);
        (self.change)(&mut options);
        let founders = self.members.iter().filter(|member| member.id <= 3);
        options.replica.machine.initial_members = if self.members[number].id <= 3 {
            founders.cloned().collect()
        } else {
            Vec::new()
        };
        let mut network = network(TcpListener::bind(address).unwrap());
        network.credentials = self.secret.clone().into();
        network.listed.clone_from(&self.listed);
        let known = known.iter().filter(|&&other| other != number);
        network.contacts = known.map(|&other| self.members[other].clone()).collect();
        Node::start_member(options, network)
    }

    /// Gives a member another address, at which it is started next; returns the command that
    /// makes the cluster know it.
    pub fn moves(&mut self, number: usize) -> Command {
        self.members[number].peer_urls = vec![free_url()];
        Command::MemberUpdate(MemberUpdateRequest {
            id: self.members[number].id,
            peer_ur_ls: self.members[number].peer_urls.clone(),
        })
    }

    /// Adds a member to the cluster, without starting it. Returns its number.
    pub async fn add(&mut self, is_learner: bool) -> usize {
        self.add_at(0, is_learner).await
    }

    /// Adds a member by a request to the member of this number.
    pub async fn add_at(&mut self, asked: usize, is_learner: bool) -> usize {
        let peer_urls = vec![free_url()];
        let add = Command::MemberAdd(MemberAddRequest {
            peer_ur_ls: peer_urls.clone(),
            is_learner,
        });
        let Response::MemberAdd(added) = surely(self.node(asked), &add).await else {
            panic!("another answer");
        };
        self.members.push(Member {
            id: added.member.unwrap().id,
            peer_urls,
            ..Member::default()
        });
        self.nodes.push(None);
        self.nodes.len() - 1
    }

    /// Waits until the member has applied what the first one has, and checks that both are
    /// equal.
    pub async fn comes_to_equal(&self, number: usize) {
        let (one, other) = (self.node(0), self.node(number));
        poll("equal members", || {
            let revision = one.reader().revision();
            if other.reader().revision() < revision {
                return None;
            }
            let hashes = (
                one.reader().hash_kv(revision),
                other.reader().hash_kv(revision),
            );
            // A compaction in between is not what this checks.
            let (Ok(one), Ok(other)) = hashes else {
                return None;
            };
            if one.compact_revision != other.compact_revision {
                return None;
            }
            assert!(one.hash == other.hash, "{one:?} {other:?}");
            Some(())
        })
        .await;
    }
}

/// Calls `look` until it returns a value; fails the test after a minute.
pub async fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen within a minute");
}

/// Carries out a command; repeats it while the cluster refuses it.
pub async fn surely(node: &Node, command: &Command) -> Response {
    for _ in 0..300 {
        match node.execute(command.clone()).await {
            Ok(response) => return response,
            Err(Error::Refused(error)) => eprintln!("again: {error}"),
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{command:?} cannot be done");
}

/// Waits for `what`; fails the test after a minute.
pub async fn in_time<T>(what: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(60), what).await;
    waited.expect("the future ends within a minute")
}

/// A peer URL at which nothing listens.
fn free_url() -> String {
    format!("http://{}", free_address().unwrap())
}

fn network(listener: TcpListener) -> Network {
    let own = format!("http://{}", listener.local_addr().unwrap());
    Network {
        cluster_id: CLUSTER,
        listeners: vec![listener.into()],
        advertised: vec![own],
        contacts: Vec::new(),
        listed: Vec::new(),
        credentials: Credentials::default(),
    }
}

pub fn put(key: &str, value: &str) -> Command {
    Command::Put(PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    })
}

/// Puts a key; repeats it while the cluster refuses it.
pub async fn put_surely(node: &Node, key: &str, value: &str) {
    for _ in 0..100 {
        match node.execute(put(key, value)).await {
            Ok(Response::Put(_)) => return,
            Ok(other) => panic!("{other:?}"),
            Err(Error::Refused(error)) => eprintln!("again: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no leader was found");
}

pub async fn get(node: &Node, key: &str) -> Option<String> {
    node.read_index().await.unwrap();
    let request = RangeRequest {
        key: key.to_owned().into(),
        ..RangeRequest::default()
    };
    let found = node.reader().range(&request).unwrap().kvs;
    let value = found.first().map(|kv| kv.value().to_vec());
    value.map(|value| String::from_utf8(value).unwrap())
}
