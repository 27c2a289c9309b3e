//! A Go client of a follower, which forwards each renewal to the leader.

use crate::go;
use crate::three::Three;

#[tokio::test]
async fn four_thousand_leases_of_a_go_client_at_a_follower_are_renewed() {
    let three = Three::start();
    three.put(0, "ready", "1").await;
    let follower = (three.leader(0).await + 1) % 3;
    let endpoint = three.client_address(follower);
    let Some(report) = go::run(&["leases", endpoint, "4000", "15", "20"]) else {
        return;
    };
    assert_eq!((&report["lost"], &report["cuts"]), (&0.into(), &0.into()));
    assert!(report["renewed"].as_u64() >= Some(4_000), "{report}");
}
