//! Members that find each other through another cluster.

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use harness::{Member, MemberConfig, Program};
use tonic::transport::Channel;

use crate::three::NAMES;

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");
const SIZE: &str = "/_etcd/registry/blue/_config/size";

fn program(flags: &[&str]) -> Program {
    let own = ["--segment-bytes=8388608", "--log-level=info"];
    Program::new(PROGRAM).with(&own).with(flags)
}

async fn kv(member: &Member) -> KvClient<Channel> {
    KvClient::connect(member.client_url()).await.unwrap()
}

async fn put(member: &Member, key: &str, value: &str) {
    let request = PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    };
    kv(member).await.put(request).await.unwrap();
}

/// The keys and values that begin with a text.
async fn below(member: &Member, prefix: &str) -> Vec<(String, String)> {
    let mut range_end = prefix.as_bytes().to_vec();
    *range_end.last_mut().unwrap() += 1;
    let request = RangeRequest {
        key: prefix.to_owned().into(),
        range_end: range_end.into(),
        ..RangeRequest::default()
    };
    let answer = kv(member).await.range(request).await.unwrap().into_inner();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pairs = answer.kvs.iter();
    pairs
        .map(|pair| (text(pair.key()), text(pair.value())))
        .collect()
}

#[tokio::test]
async fn three_members_find_each_other_and_a_fourth_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let registry = Member::alone(program(&[]), place.path()).unwrap();
    // The first endpoint does not answer.
    let closed = harness::ports::free_address().unwrap();
    let endpoints = format!("--discovery-endpoints={closed},{}", registry.client_url());
    let flags = ["--discovery-token=blue", &endpoints];
    let mut members: Vec<Member> = NAMES
        .iter()
        .chain(&["d"])
        .map(|name| {
            let config = MemberConfig::on_reserved_ports(name, place.path()).unwrap();
            Member::new(program(&flags), config)
        })
        .collect();

    let (_, text) = members[0].refused_start().unwrap();
    assert!(text.contains("discovery: size key not found"), "{text}");
    put(&registry, SIZE, "many").await;
    let (_, text) = members[0].refused_start().unwrap();
    assert!(text.contains("discovery: size key is bad"), "{text}");

    put(&registry, SIZE, "3").await;
    for member in &mut members[..3] {
        member.start().unwrap();
    }
    for member in &mut members[..3] {
        member.wait_until_ready().unwrap();
    }
    put(&members[0], "k", "v").await;
    let expected = [("k".to_owned(), "v".to_owned())];
    assert_eq!(below(&members[2], "k").await, expected);
    let mut registered = below(&registry, "/_etcd/registry/blue/members/").await;
    registered.sort_by(|one, other| one.1.cmp(&other.1));
    let urls: Vec<&str> = registered.iter().map(|(_, urls)| &**urls).collect();
    let configs = members[..3].iter().map(|member| &member.config);
    let wanted: Vec<String> = configs
        .map(|config| format!("{}={}", config.name, config.peer_url()))
        .collect();
    assert_eq!(urls, wanted);

    let (_, text) = members[3].refused_start().unwrap();
    assert!(text.contains("discovery: cluster is full"), "{text}");

    // A member that has begun needs the registry no more.
    drop(registry);
    members[1].kill().unwrap();
    members[1].start_and_wait().unwrap();
    let log = members[1].process().unwrap().log();
    assert!(log.contains("discovery token is ignored"), "{log}");
    put(&members[1], "k", "w").await;
}
