//! Three members over real connections.

use crate::meeting;

use std::time::Duration;

use cluster::{Error, ReadMode};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::response_op::Response as Answer;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use revisions::{Command, Response};

use meeting::{Cluster, get, in_time, put, put_surely, surely};

#[tokio::test]
async fn every_member_takes_writes_and_reads_the_writes_of_others() {
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
async fn two_of_three_serve_and_the_third_catches_up() {
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
async fn without_a_majority_no_write_is_acknowledged_and_local_reads_are_served() {
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

#[tokio::test]
async fn a_leader_that_stops_hands_leadership_over() {
    let mut cluster = Cluster::start_with_patience();
    in_time(put_surely(cluster.node(0), "k", "before")).await;
    let term = cluster.node(0).term();
    cluster.stop(0);
    in_time(put_surely(cluster.node(1), "k", "after")).await;
    let status = cluster.node(2).status();
    assert_eq!(status.term, term + 1, "{status:?}");
    assert!([2, 3].contains(&status.leader), "{status:?}");
    assert_eq!(get(cluster.node(2), "k").await.as_deref(), Some("after"));
}

#[tokio::test]
async fn commands_that_were_proposed_before_the_stop_are_carried_out() {
    let mut cluster = Cluster::start_with_patience();
    in_time(put_surely(cluster.node(0), "k", "before")).await;
    let puts: Vec<_> = (0..100)
        .map(|number| cluster.node(0).propose(put(&number.to_string(), "v")))
        .collect();
    cluster.stop(0);
    for put in puts {
        put.unwrap().await.unwrap();
    }
    in_time(put_surely(cluster.node(1), "k", "after")).await;
    assert_eq!(get(cluster.node(1), "99").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn leadership_is_moved_only_by_the_leader_and_only_to_a_voter() {
    let cluster = Cluster::start_with_patience();
    in_time(put_surely(cluster.node(0), "k", "v")).await;
    let refused = |outcome: Result<(), Error>| match outcome {
        Err(Error::Refused(revisions::Error::Etcd(refusal))) => refusal,
        other => panic!("{other:?}"),
    };
    use etcd_api::Error::{BadLeaderTransferee, NotLeader};
    assert_eq!(refused(cluster.node(1).move_leader(2).await), NotLeader);
    assert_eq!(
        refused(cluster.node(0).move_leader(9).await),
        BadLeaderTransferee
    );
    cluster.node(0).move_leader(1).await.unwrap();
    for (from, to) in [(0, 2), (1, 3), (2, 1)] {
        in_time(cluster.node(from).move_leader(to)).await.unwrap();
        assert_eq!(cluster.node(from).status().leader, to);
        in_time(put_surely(cluster.node(from), "k", "v")).await;
    }
}

#[tokio::test]
async fn leases_are_renewed_at_every_member() {
    let cluster = Cluster::start();
    let grant = || Command::LeaseGrant(LeaseGrantRequest { id: 7, ttl: 1000 });
    put_surely(cluster.node(0), "k", "v").await;
    cluster.node(1).execute(grant()).await.unwrap();
    let held = PutRequest {
        key: "held".into(),
        lease: 7,
        ..PutRequest::default()
    };
    cluster.node(2).execute(Command::Put(held)).await.unwrap();
    let question = |id| LeaseTimeToLiveRequest { id, keys: true };
    for number in 0..3 {
        let node = cluster.node(number);
        assert_eq!(node.renew_lease(7).await.unwrap(), 1000, "at {number}");
        assert_eq!(node.renew_lease(8).await.unwrap(), 0, "at {number}");
        let lease = node.lease_time_to_live(question(7)).await.unwrap();
        assert_eq!((lease.id, lease.granted_ttl), (7, 1000), "at {number}");
        assert!((1..=1000).contains(&lease.ttl), "{lease:?}");
        assert_eq!(lease.keys, ["held"]);
        let none = node.lease_time_to_live(question(8)).await.unwrap();
        assert_eq!((none.id, none.ttl), (8, -1), "at {number}");
    }
}

#[tokio::test]
async fn a_leader_keeps_leading_and_serves_waiting_commands_after_a_failed_transfer() {
    let mut cluster = Cluster::start_with_patience();
    in_time(put_surely(cluster.node(0), "k", "before")).await;
    cluster.stop(2);
    let moved = tokio::spawn({
        let leader = cluster.node(0).clone();
        async move { leader.move_leader(3).await }
    });
    for round in 0..10 {
        for number in 0..2 {
            let put = put("k", &round.to_string());
            in_time(cluster.node(number).execute(put)).await.unwrap();
        }
    }
    let outcome = in_time(moved).await.unwrap();
    let Err(Error::Refused(revisions::Error::Etcd(refusal))) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(refusal, etcd_api::Error::Timeout);
    assert_eq!(cluster.node(1).status().leader, 1);
}

#[tokio::test]
async fn changes_of_the_leader_are_reported_until_the_node_stops() {
    let cluster = Cluster::start_with_patience();
    let mut notices = cluster.node(1).leadership();
    let first = in_time(notices.wait_for(|now| now.leader == 1)).await;
    let term = first.unwrap().term;
    in_time(cluster.node(0).move_leader(3)).await.unwrap();
    let second = in_time(notices.wait_for(|now| now.leader == 3)).await;
    assert!(second.unwrap().term > term);
    cluster.node(1).stop();
    let end = in_time(notices.wait_for(|now| now.leader == 9)).await;
    assert!(end.is_err(), "the node has stopped");
}

#[tokio::test]
async fn a_leader_reads_under_its_lease_until_no_voter_answers() {
    let mut cluster = Cluster::start_with(|options| options.replica.read_mode = ReadMode::Lease);
    put_surely(cluster.node(0), "k", "v").await;
    let leased = |cluster: &Cluster| (0..3).find(|&at| cluster.node(at).has_read_lease());
    let leader = poll(|| leased(&cluster)).await;
    for number in 0..3 {
        assert_eq!(get(cluster.node(number), "k").await.as_deref(), Some("v"));
    }
    let others = (0..3).filter(|&number| number != leader);
    others.for_each(|number| cluster.stop(number));
    poll(|| (!cluster.node(leader).has_read_lease()).then_some(())).await;
    let read = cluster.node(leader).read_index();
    let waited = tokio::time::timeout(Duration::from_millis(300), read).await;
    assert!(
        !matches!(waited, Ok(Ok(()))),
        "no voter confirms that it leads"
    );
}

async fn poll<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), found).await;
    found.expect("the state is reached within a minute")
}

#[tokio::test]
async fn a_founder_with_another_segment_size_is_refused_by_the_others() {
    let cluster = Cluster::start_with(|options| {
        if options.replica.machine.member_id == 3 {
            options.replica.machine.engine.log.segment_bytes = 2 << 20;
        }
    });
    for round in 0..50 {
        put_surely(cluster.node(0), "k", &round.to_string()).await;
        put_surely(cluster.node(1), "k", &round.to_string()).await;
    }
    let status = cluster.node(2).status();
    let revision = cluster.node(2).reader().revision();
    assert_eq!((status.leader, revision), (0, 1), "{status:?}");
    for other in 0..2 {
        assert_eq!(cluster.node(other).connected_since(3), None);
    }
}

#[tokio::test]
async fn a_forwarded_transaction_that_reads_many_bytes_is_answered_completely() {
    let cluster = Cluster::start();
    let value = "x".repeat(100_000);
    for number in 0..10 {
        put_surely(cluster.node(0), &format!("big/{number}"), &value).await;
    }
    let read = RangeRequest {
        key: b"big/"[..].into(),
        range_end: b"big0"[..].into(),
        ..RangeRequest::default()
    };
    let mark = PutRequest {
        key: b"mark"[..].into(),
        ..PutRequest::default()
    };
    let operations = [Operation::RequestPut(mark), Operation::RequestRange(read)];
    let success = operations.map(|request| RequestOp {
        request: Some(request),
    });
    let transaction = Command::Txn(TxnRequest {
        success: success.to_vec(),
        ..TxnRequest::default()
    });
    // One of them leads, the others forward.
    for number in 0..3 {
        let Response::Txn(answer) = surely(cluster.node(number), &transaction).await else {
            panic!("another answer");
        };
        let Some(Answer::ResponseRange(range)) = &answer.responses[1].response else {
            panic!("{answer:?}");
        };
        let bytes = range.kvs.iter().map(|kv| kv.value().len());
        assert_eq!(bytes.sum::<usize>(), 1_000_000);
    }
}
