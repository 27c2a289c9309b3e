//! `--force-new-cluster`: one member goes on after the others are lost for good.

use etcd_api::etcdserverpb::MemberAddRequest;
use etcd_api::etcdserverpb::cluster_client::ClusterClient;

use crate::joining::assert_removed;
use crate::three::{LOOKS_MAX, Three, again, named};

const FORCE: &str = "--force-new-cluster";

#[tokio::test]
async fn the_last_member_goes_on_alone_with_all_it_has_and_the_cluster_grows_again() {
    let mut three = Three::start();
    for number in 0..20 {
        three.put(0, &format!("k{number}"), "kept").await;
    }
    three.named_members(2).await;
    (0..3).for_each(|number| three.kill(number));
    three.add_flag(2, FORCE);
    three.launch(2);
    let revision = three.put(2, "k20", "alone").await;
    assert_eq!(three.get(2, "k19").await.as_deref(), Some("kept"));
    assert_eq!(revision, 22, "no revision is given out twice");
    let members = three.named_members(2).await;
    assert_eq!(members.len(), 1);
    assert_eq!(named(&members, "c").name, "c");

    // Its log does not show the removal; the forced cluster reports it.
    let (code, log) = three.refusal(0);
    assert_eq!(code, Some(0), "{log}");
    assert_removed(three.refusal(0));

    let fourth = three.prepare("d", &[2]);
    let request = MemberAddRequest {
        peer_ur_ls: vec![three.peer_url(fourth)],
        is_learner: false,
    };
    let mut cluster = ClusterClient::new(three.channel(2));
    let mut added = cluster.member_add(request.clone()).await;
    for _ in 0..LOOKS_MAX {
        let Err(status) = added else { break };
        again(status).await;
        added = cluster.member_add(request.clone()).await;
    }
    added.unwrap();
    three.launch(fourth);
    three.put(2, "k21", "two").await;
    assert_eq!(three.get(fourth, "k21").await.as_deref(), Some("two"));
    assert_eq!(three.get(fourth, "k0").await.as_deref(), Some("kept"));
}

#[tokio::test]
async fn a_member_that_is_alone_already_is_not_changed() {
    let mut three = Three::alone();
    three.put(0, "k", "kept").await;
    let before = three.named_members(0).await;
    three.kill(0);
    three.add_flag(0, FORCE);
    three.launch(0);
    assert_eq!(three.get(0, "k").await.as_deref(), Some("kept"));
    assert_eq!(three.named_members(0).await, before);
}
