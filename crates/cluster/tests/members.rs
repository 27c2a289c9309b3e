//! Three members that meet over real connections.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::disallowed_methods, reason = "a member is given bound sockets")]

use std::net::TcpListener;
use std::time::Duration;

use cluster::{Error, Network, Node, NodeOptions};
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use revisions::{Command, Member, Response};

const CLUSTER: u64 = 0xc1;

struct Cluster {
    members: Vec<Member>,
    nodes: Vec<Option<Node>>,
    place: tempfile::TempDir,
}

fn options(place: &tempfile::TempDir, members: &[Member], number: usize) -> NodeOptions {
    let mut options = NodeOptions::new(place.path().join(number.to_string()));
    options.machine.member_id = members[number].id;
    options.machine.initial_members = members.to_vec();
    options.machine.engine.segment_bytes = 1 << 20;
    options.machine.engine.reserve_bytes = 0;
    options.heartbeat_interval = Duration::from_millis(20);
    options.election_timeout = Duration::from_millis(200);
    options.seed = number as u64;
    options
}

impl Cluster {
    fn start() -> Cluster {
        let listeners: Vec<TcpListener> = (0..3)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let members = listeners.iter().zip(1..).map(|(listener, id)| Member {
            id,
            peer_urls: vec![format!("http://{}", listener.local_addr().unwrap())],
            ..Member::default()
        });
        let members: Vec<Member> = members.collect();
        let place = tempfile::tempdir().unwrap();
        let nodes = listeners.into_iter().enumerate().map(|(number, listener)| {
            let options = options(&place, &members, number);
            Some(Node::start_member(options, network(listener)).unwrap())
        });
        let nodes = nodes.collect();
        Cluster {
            members,
            nodes,
            place,
        }
    }

    fn node(&self, number: usize) -> &Node {
        self.nodes[number].as_ref().unwrap()
    }

    fn stop(&mut self, number: usize) {
        self.nodes[number].take().unwrap().stop();
    }

    fn restart(&mut self, number: usize) {
        let url = self.members[number].peer_urls[0].clone();
        let address = url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind(address).unwrap();
        let options = options(&self.place, &self.members, number);
        let node = Node::start_member(options, network(listener)).unwrap();
        self.nodes[number] = Some(node);
    }
}

fn network(listener: TcpListener) -> Network {
    Network {
        cluster_id: CLUSTER,
        listeners: vec![listener],
    }
}

fn put(key: &str, value: &str) -> Command {
    Command::Put(PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    })
}

/// Puts, again and again where the lead has just changed.
async fn put_surely(node: &Node, key: &str, value: &str) {
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

async fn get(node: &Node, key: &str) -> Option<String> {
    node.read_index().await.unwrap();
    let request = RangeRequest {
        key: key.to_owned().into(),
        ..RangeRequest::default()
    };
    let found = node.reader().range(&request).unwrap().kvs;
    let value = found.first().map(|kv| kv.value().to_vec());
    value.map(|value| String::from_utf8(value).unwrap())
}

#[tokio::test]
async fn every_member_takes_writes_and_reads_what_others_wrote() {
    let cluster = Cluster::start();
    for round in 0..20 {
        let writer = cluster.node(round % 3);
        put_surely(writer, "k", &round.to_string()).await;
        for reader in 0..3 {
            let found = get(cluster.node(reader), "k").await;
            assert_eq!(found, Some(round.to_string()), "round {round} at {reader}");
        }
    }
    let hash = |number: usize| cluster.node(number).reader().hash_kv(15).unwrap();
    assert!(hash(0) == hash(1) && hash(1) == hash(2));
}

#[tokio::test]
async fn two_of_three_go_on_and_the_third_catches_up() {
    let mut cluster = Cluster::start();
    put_surely(cluster.node(0), "k", "before").await;
    let leader = cluster.node(0).status().leader;
    let lost = leader as usize - 1;
    cluster.stop(lost);
    let (one, other) = ((lost + 1) % 3, (lost + 2) % 3);
    put_surely(cluster.node(one), "k", "without it").await;
    assert_eq!(
        get(cluster.node(other), "k").await.as_deref(),
        Some("without it")
    );
    cluster.restart(lost);
    assert_eq!(
        get(cluster.node(lost), "k").await.as_deref(),
        Some("without it")
    );
    cluster.stop(one);
    put_surely(cluster.node(lost), "k", "again").await;
    assert_eq!(
        get(cluster.node(other), "k").await.as_deref(),
        Some("again")
    );
}

#[tokio::test]
async fn without_a_majority_nothing_is_acknowledged_and_local_reads_go_on() {
    let mut cluster = Cluster::start();
    put_surely(cluster.node(0), "k", "kept").await;
    // All three have applied it.
    for number in 0..3 {
        get(cluster.node(number), "k").await;
    }
    cluster.stop(1);
    cluster.stop(2);
    let answer = tokio::time::timeout(
        Duration::from_secs(1),
        cluster.node(0).execute(put("k", "lost")),
    );
    assert!(!matches!(answer.await, Ok(Ok(_))), "one of three");
    let request = RangeRequest {
        key: "k".into(),
        serializable: true,
        ..RangeRequest::default()
    };
    let found = cluster.node(0).reader().range(&request).unwrap().kvs;
    assert_eq!(found[0].value(), &b"kept"[..]);
    cluster.restart(1);
    put_surely(cluster.node(0), "k", "after").await;
}
