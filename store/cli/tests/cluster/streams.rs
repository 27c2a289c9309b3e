//! Streams of clients that require a leader, and the count of leaders.

use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, MoveLeaderRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status, Streaming};

use crate::metrics::sample;
use crate::three::{LOOK, LOOKS_MAX, NAMES, Three, named};

/// A request that requires a leader, or not.
fn needing<T>(message: T, needs_leader: bool) -> Request<T> {
    let mut request = Request::new(message);
    if needs_leader {
        let yes = MetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", yes);
    }
    request
}

/// A watch of one key. It ends when the sender is dropped.
struct Watch {
    _requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watch {
    /// Creates a watch; returns once the server has created it.
    async fn open(three: &Three, number: usize, key: &str, needs_leader: bool) -> Watch {
        let (requests, receiver) = mpsc::channel(1);
        let create = WatchCreateRequest {
            key: key.to_owned().into(),
            ..WatchCreateRequest::default()
        };
        let create = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        };
        requests.send(create).await.unwrap();
        let request = needing(ReceiverStream::new(receiver), needs_leader);
        let mut client = WatchClient::new(three.channel(number));
        let responses = client.watch(request).await.unwrap().into_inner();
        let mut watch = Watch {
            _requests: requests,
            responses,
        };
        assert!(watch.responses.message().await.unwrap().unwrap().created);
        watch
    }

    /// The value of the next event.
    async fn next(&mut self) -> Vec<u8> {
        let response = self.responses.message().await.unwrap().unwrap();
        response.events[0].kv.as_ref().unwrap().value().to_vec()
    }
}

/// Opens a stream of renewals and waits for its first answer.
async fn renewing(
    three: &Three,
    number: usize,
) -> (
    mpsc::Sender<LeaseKeepAliveRequest>,
    Streaming<LeaseKeepAliveResponse>,
) {
    let mut client = LeaseClient::new(three.channel(number));
    let grant = LeaseGrantRequest { ttl: 600, id: 7 };
    client.lease_grant(grant).await.unwrap();
    let (requests, receiver) = mpsc::channel(1);
    let renewal = LeaseKeepAliveRequest { id: 7 };
    requests.send(renewal).await.unwrap();
    let request = needing(ReceiverStream::new(receiver), true);
    let mut answers = client.lease_keep_alive(request).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().ttl, 600);
    (requests, answers)
}

#[tokio::test]
async fn streams_that_require_a_leader_end_without_one_and_others_stay() {
    let mut three = Three::start();
    three.put(2, "k", "before").await;
    let mut needy = Watch::open(&three, 2, "k", true).await;
    let mut patient = Watch::open(&three, 2, "k", false).await;
    let (_renewals, mut renewed) = renewing(&three, 2).await;
    three.kill(0);
    three.kill(1);
    let lost = needy.responses.message().await.unwrap_err();
    assert_eq!(lost.message(), "etcdserver: no leader");
    let lost = renewed.message().await.unwrap_err();
    assert_eq!(lost.message(), "etcdserver: no leader");
    let refused = WatchClient::new(three.channel(2))
        .watch(needing(tokio_stream::empty(), true))
        .await;
    assert_eq!(refused.unwrap_err().message(), "etcdserver: no leader");
    three.launch(1);
    three.put(1, "k", "after").await;
    assert_eq!(patient.next().await, b"after");
}

/// The leader answers renewals and questions about a lease, so without one they fail with
/// `no leader`. Commands that go through the log time out: they are not known to be lost.
#[tokio::test]
async fn calls_about_leases_say_that_there_is_no_leader() {
    let mut three = Three::start();
    let mut leases = LeaseClient::new(three.channel(2));
    three.put(2, "k", "v").await;
    let grant = LeaseGrantRequest { ttl: 600, id: 7 };
    leases.lease_grant(grant).await.unwrap();
    three.kill(0);
    three.kill(1);
    no_leader_at(&three, 2).await;
    let asked = LeaseTimeToLiveRequest { id: 7, keys: false };
    let renewals = tokio_stream::iter([LeaseKeepAliveRequest { id: 7 }]);
    let mut others = [
        leases.clone(),
        leases.clone(),
        leases.clone(),
        leases.clone(),
    ];
    let [first, second, third, fourth] = &mut others;
    let revoke = LeaseRevokeRequest { id: 7 };
    let grant = LeaseGrantRequest { ttl: 600, id: 8 };
    let (renewed, remaining, revoked, granted) = tokio::join!(
        async {
            first
                .lease_keep_alive(renewals)
                .await?
                .into_inner()
                .message()
                .await
                .map(drop)
        },
        async { second.lease_time_to_live(asked).await.map(drop) },
        async { third.lease_revoke(revoke).await.map(drop) },
        async { fourth.lease_grant(grant).await.map(drop) },
    );
    let text = |outcome: Result<(), Status>| {
        let status = outcome.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        status.message().to_owned()
    };
    assert_eq!(text(renewed), "etcdserver: no leader");
    assert_eq!(text(remaining), "etcdserver: no leader");
    assert_eq!(text(revoked), "etcdserver: request timed out");
    assert_eq!(text(granted), "etcdserver: request timed out");
    let refused = leases.lease_grant(needing(grant, true)).await;
    assert_eq!(text(refused.map(drop)), "etcdserver: no leader");
}

/// Waits until a member knows of no leader.
async fn no_leader_at(three: &Three, number: usize) {
    for _ in 0..LOOKS_MAX {
        if three.status(number).await.unwrap().leader == 0 {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("there is still a leader");
}

#[tokio::test]
async fn streams_that_require_a_leader_outlive_a_change_of_it() {
    let mut three = Three::start();
    let leader = three.leader(0).await;
    let stays = (leader + 1) % 3;
    // The put is answered once that member has applied it, so the watch begins after it.
    three.put(stays, "k", "before").await;
    let mut needy = Watch::open(&three, stays, "k", true).await;
    three.stop(leader).await;
    three.put(stays, "k", "after").await;
    assert_eq!(needy.next().await, b"after");
}

/// Number of leader changes at `/metrics` of a member.
fn leaders_seen(three: &Three, number: usize) -> u64 {
    let seen = sample(three, number, "etcd_server_leader_changes_seen_total");
    seen.unwrap() as u64
}

#[tokio::test]
async fn every_change_of_the_leader_is_counted() {
    let three = Three::start();
    three.put(0, "k", "1").await;
    let members = three.named_members(0).await;
    let mut leader = three.leader(0).await;
    let watcher = (leader + 2) % 3;
    assert_eq!(three.leader(watcher).await, leader);
    let before = leaders_seen(&three, watcher);
    assert!(before >= 1);
    // Back and forth, faster than anyone could look.
    let moves = 4;
    for _ in 0..moves {
        let next = if leader == (watcher + 1) % 3 {
            (watcher + 2) % 3
        } else {
            (watcher + 1) % 3
        };
        let target_id = named(&members, NAMES[next]).id;
        let mut client = MaintenanceClient::new(three.channel(leader));
        let request = MoveLeaderRequest { target_id };
        client.move_leader(request).await.unwrap();
        leader = next;
        // A put succeeds once the new leader knows that it leads.
        three.put(leader, "k", "1").await;
    }
    for _ in 0..LOOKS_MAX {
        if leaders_seen(&three, watcher) >= before + moves {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{} of {moves} seen", leaders_seen(&three, watcher) - before);
}
