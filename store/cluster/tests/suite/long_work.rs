//! A leader that is at work for longer than an election timeout.

use crate::meeting;

use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeOptions, Observer};
use environment::Clock;
use environment::real::RealClock;
use etcd_api::etcdserverpb::DeleteRangeRequest;
use revisions::Command;

use meeting::{Cluster, in_time, put, put_surely};

/// Keeps the replica at work with each deletion.
#[derive(Debug)]
struct Works(Duration);

impl Observer for Works {
    fn evaluated(&self, command: &Command, _done: bool, _took: Duration) {
        if let Command::DeleteRange(_) = command {
            RealClock.sleep(self.0);
        }
    }

    fn swept(&self, _took: Duration) {}
}

fn works_for_timeouts(options: &mut NodeOptions, timeouts: u32) {
    options.observer = Some(Arc::new(Works(options.replica.election_timeout * timeouts)));
}

/// An election timeout that a busy machine does not use up between two heartbeats.
const LONG_TIMEOUT: Duration = Duration::from_secs(2);

fn deletion() -> Command {
    Command::DeleteRange(DeleteRangeRequest {
        key: "k".into(),
        range_end: "l".into(),
        ..DeleteRangeRequest::default()
    })
}

#[tokio::test]
async fn a_leader_at_work_for_several_election_timeouts_keeps_its_lead() {
    let cluster = Cluster::start_with(|options| {
        options.replica.election_timeout = LONG_TIMEOUT;
        // Followers wait for up to two timeouts.
        works_for_timeouts(options, 3);
    });
    put_surely(cluster.node(0), "k", "v").await;
    let before = cluster.node(0).status();
    let leader = before.leader as usize - 1;
    // A follower sends it on.
    for asked in [leader, (leader + 1) % 3] {
        let answer = in_time(cluster.node(asked).execute(deletion())).await;
        assert!(answer.is_ok(), "{answer:?}");
        let after = cluster.node(asked).status();
        assert_eq!((after.term, after.leader), (before.term, before.leader));
    }
}

#[tokio::test]
async fn a_leader_that_seems_stuck_is_replaced_by_another() {
    let cluster = Cluster::start_with(|options| works_for_timeouts(options, 30));
    put_surely(cluster.node(0), "k", "v").await;
    let before = cluster.node(0).status();
    let stuck = before.leader as usize - 1;
    let lost = cluster.node(stuck).propose(deletion()).unwrap();
    let other = cluster.node((stuck + 1) % 3);
    in_time(async {
        while other.execute(put("k", "w")).await.is_err() || other.term() == before.term {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let answer = in_time(lost).await;
    assert!(answer.is_err(), "{answer:?}");
}
