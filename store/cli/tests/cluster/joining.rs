//! Members that join and leave while clients write.

use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::{
    MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest, RangeRequest,
};
use tonic::{Code, Status};

use crate::metrics::sample;
use crate::rolling::{Load, Written, keys_of};
use crate::three::{LOOK, LOOKS_MAX, Three, again, named, put};

const KEYS: i64 = 200;

/// Adds the member with this number through another, as soon as the strict check allows it;
/// returns its id.
async fn announce(three: &Three, asked: usize, newcomer: usize, is_learner: bool) -> u64 {
    let request = MemberAddRequest {
        peer_ur_ls: vec![three.peer_url(newcomer)],
        is_learner,
    };
    let mut cluster = ClusterClient::new(three.channel(asked));
    for _ in 0..LOOKS_MAX {
        match cluster.member_add(request.clone()).await {
            Ok(added) => return added.into_inner().member.unwrap().id,
            // The strict check passes once the members have been up for a while.
            Err(status) => again(status).await,
        }
    }
    panic!("no member could be added");
}

/// Adds a member that must be refused. One more URL gives it an id that differs from other
/// attempts in the same second.
async fn refused_add(three: &Three, peer_url: String, is_learner: bool) -> Status {
    let request = MemberAddRequest {
        peer_ur_ls: vec![peer_url, "http://127.0.0.1:2".to_owned()],
        is_learner,
    };
    let mut cluster = ClusterClient::new(three.channel(0));
    cluster.member_add(request).await.unwrap_err()
}

async fn remove(three: &Three, asked: usize, id: u64) {
    let mut cluster = ClusterClient::new(three.channel(asked));
    for _ in 0..LOOKS_MAX {
        match cluster.member_remove(MemberRemoveRequest { id }).await {
            Ok(_) => return,
            Err(status) => again(status).await,
        }
    }
    panic!("no member could be removed");
}

/// Checks that a member ended because it was removed.
pub fn assert_removed((code, message): (Option<i32>, String)) {
    assert_eq!(code, Some(1), "{message}");
    assert!(
        message.contains("permanently removed from the cluster"),
        "{message}"
    );
}

async fn promote(three: &Three, asked: usize, id: u64) -> Result<(), Status> {
    let mut cluster = ClusterClient::new(three.channel(asked));
    let promoted = cluster.member_promote(MemberPromoteRequest { id }).await;
    promoted.map(drop)
}

fn all_keys(serializable: bool) -> RangeRequest {
    RangeRequest {
        key: "k/".into(),
        range_end: "k0".into(),
        count_only: true,
        serializable,
        ..RangeRequest::default()
    }
}

async fn fill(three: &Three) -> i64 {
    let mut revision = 0;
    for number in 0..KEYS {
        revision = three.put(0, &format!("k/{number}"), "1").await;
    }
    revision
}

/// Waits until a member has all keys that were put before it joined.
async fn filled(three: &Three, number: usize) {
    for _ in 0..LOOKS_MAX {
        match three.kv(number).range(all_keys(true)).await {
            Ok(found) if found.get_ref().count == KEYS => return,
            Ok(_) => tokio::time::sleep(LOOK).await,
            Err(status) => again(status).await,
        }
    }
    panic!("member {number} is not filled");
}

async fn assert_equal_hashes(three: &Three, numbers: &[usize], revision: i64) {
    let mut hashes = Vec::new();
    for &number in numbers {
        hashes.push(three.hash(number, revision).await.hash);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

#[tokio::test]
async fn a_learner_joins_serves_what_it_may_and_is_promoted() {
    let mut three = Three::start();
    fill(&three).await;
    let learner = three.prepare("d", &[0, 1, 2]);
    let id = announce(&three, 1, learner, true).await;
    let another = refused_add(&three, "http://127.0.0.1:1".to_owned(), true).await;
    let expected = "etcdserver: too many learner members in cluster";
    assert_eq!(another.message(), expected);
    let twice = refused_add(&three, three.peer_url(learner), false).await;
    assert_eq!(twice.message(), "etcdserver: Peer URLs already exists");
    let early = promote(&three, 0, id).await.unwrap_err();
    let expected = "etcdserver: can only promote a learner member which is in sync with leader";
    assert_eq!(early.message(), expected);

    three.launch(learner);
    filled(&three, learner).await;
    assert!(three.status(learner).await.unwrap().is_learner);
    let expected = "etcdserver: rpc not supported for learner";
    let mut client = three.kv(learner);
    let refused = client.put(put("k/0", "2")).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::FailedPrecondition, expected)
    );
    let refused = client.range(all_keys(false)).await.unwrap_err();
    assert_eq!(refused.message(), expected);
    let list = MemberListRequest {
        linearizable: false,
    };
    let mut cluster = ClusterClient::new(three.channel(learner));
    assert_eq!(
        cluster.member_list(list).await.unwrap_err().message(),
        expected
    );

    let no_learner = "etcdserver: can only promote a learner member";
    let mut unanswered = false;
    for attempt in 0.. {
        assert!(attempt < LOOKS_MAX, "it does not catch up");
        match promote(&three, 1, id).await {
            Ok(()) => {
                let promoted = sample(&three, 1, "etcd_server_learner_promote_successes");
                assert_eq!(promoted, Some(1.0));
                break;
            }
            Err(late) if late.message().contains("in sync") => tokio::time::sleep(LOOK).await,
            Err(done) if unanswered && done.message() == no_learner => break,
            Err(status) => {
                unanswered = true;
                again(status).await;
            }
        }
    }
    let twice = promote(&three, 1, id).await.unwrap_err();
    assert_eq!(twice.message(), no_learner);
    while three.status(learner).await.unwrap().is_learner {
        tokio::time::sleep(LOOK).await;
    }
    let revision = three.put(learner, "k/0", "2").await;
    assert_eq!(three.get(0, "k/0").await.as_deref(), Some("2"));
    assert_equal_hashes(&three, &[0, 1, 2, learner], revision).await;
}

#[tokio::test]
async fn a_lost_member_is_replaced_under_load() {
    let mut three = Three::start();
    fill(&three).await;
    let members = three.named_members(0).await;
    let load = Load::start(&three, 4, &[0, 1]);
    three.kill(2);
    std::fs::remove_dir_all(three.directory(2)).unwrap();
    remove(&three, 0, named(&members, "c").id).await;
    assert_removed(three.refusal(2));
    let newcomer = three.prepare("d", &[0, 1]);
    announce(&three, 0, newcomer, false).await;
    three.launch(newcomer);
    filled(&three, newcomer).await;
    let all = load.stop().await;
    let revision = three.put(newcomer, "k/0", "2").await;
    for Written {
        writer,
        keys,
        complaints,
    } in &all
    {
        let found = keys_of(&three, newcomer, *writer).await;
        assert_eq!(
            found, *keys,
            "of writer {writer}, after the errors {complaints:?}"
        );
    }
    assert_equal_hashes(&three, &[0, 1, newcomer], revision).await;
    let members = three.named_members(newcomer).await;
    assert_eq!(members.len(), 3);
    assert_eq!(named(&members, "d").peer_ur_ls, [three.peer_url(newcomer)]);
    // A member that has joined starts like the others.
    three.kill(newcomer);
    three.launch(newcomer);
    assert_eq!(three.get(newcomer, "k/0").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_removed_member_ends_and_refuses_to_start_again() {
    let mut three = Three::start();
    three.put(2, "k", "1").await;
    let members = three.named_members(0).await;
    remove(&three, 0, named(&members, "c").id).await;
    assert_eq!(three.end(2).await, Some(0));
    for _ in 0..2 {
        assert_removed(three.refusal(2));
    }
    three.put(0, "k", "2").await;
    assert_eq!(three.get(1, "k").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_member_removed_while_down_learns_it_and_refuses_further_starts() {
    let mut three = Three::start();
    three.put(2, "k", "1").await;
    let members = three.named_members(0).await;
    three.kill(2);
    remove(&three, 0, named(&members, "c").id).await;
    // Its log does not show the removal; the other members report it.
    three.launch(2);
    assert_eq!(three.end(2).await, Some(0));
    (0..2).for_each(|number| three.kill(number));
    for _ in 0..2 {
        assert_removed(three.refusal(2));
    }
}

#[tokio::test]
async fn a_cluster_of_one_grows_to_three() {
    let mut three = Three::alone();
    let revision = fill(&three).await;
    for (newcomer, name) in [(1, "b"), (2, "c")] {
        let others: Vec<usize> = (0..newcomer).collect();
        assert_eq!(three.prepare(name, &others), newcomer);
        announce(&three, 0, newcomer, false).await;
        three.launch(newcomer);
        filled(&three, newcomer).await;
        three.named_members(newcomer).await;
    }
    assert_equal_hashes(&three, &[0, 1, 2], revision).await;
    three.kill(0);
    three.put(1, "k/0", "2").await;
    three.launch(0);
    assert_eq!(three.get(0, "k/0").await.as_deref(), Some("2"));
}
