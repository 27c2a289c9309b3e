//! Who may begin, and who must not.

use etcd_api::etcdserverpb::MemberAddRequest;
use etcd_api::etcdserverpb::cluster_client::ClusterClient;

use crate::three::{Three, named};

#[tokio::test]
async fn a_member_that_has_lost_its_directory_does_not_begin_anew() {
    let mut three = Three::start();
    three.put(0, "k", "kept").await;
    three.named_members(1).await;
    three.kill(2);
    std::fs::remove_dir_all(three.directory(2)).unwrap();
    let (code, told) = three.refusal(2);
    assert_eq!(code, Some(1));
    assert!(told.contains("has already been bootstrapped"), "{told}");
    assert!(told.contains("etcdctl member remove"), "{told}");
    three.put(0, "k", "two of three").await;
    assert_eq!(three.get(1, "k").await.as_deref(), Some("two of three"));
}

#[tokio::test]
async fn a_member_that_has_lost_its_log_does_not_begin_anew() {
    let mut three = Three::start();
    three.put(0, "k", "kept").await;
    three.named_members(2).await;
    three.kill(2);
    let directory = three.directory(2);
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name != "MEMBER") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let (code, told) = three.refusal(2);
    assert_eq!(code, Some(1));
    assert!(told.contains("does not know the member"), "{told}");
}

#[tokio::test]
async fn whoever_was_not_announced_cannot_join() {
    let mut three = Three::start();
    let members = three.named_members(0).await;
    let stranger = three.prepare("d", &[0, 1, 2]);
    let (code, told) = three.refusal(stranger);
    assert_eq!(code, Some(1));
    assert!(told.contains("member count is unequal"), "{told}");
    let known = format!("a={}", named(&members, "a").peer_ur_ls[0]);
    assert!(told.contains(&known), "{told}");
    let other = three.prepare("c", &[0, 1]);
    let (code, told) = three.refusal(other);
    assert_eq!(code, Some(1));
    assert!(
        told.contains("no match found for existing member"),
        "{told}"
    );
}

/// It has written nothing.
fn assert_untouched(three: &Three, number: usize) {
    let found = std::fs::read_dir(three.directory(number));
    assert_eq!(found.map_or(0, Iterator::count), 0);
}

#[tokio::test]
async fn who_begins_a_cluster_beside_one_that_runs_is_refused_before_it_writes() {
    let mut three = Three::start();
    three.named_members(0).await;
    let fourth = three.prepare("d", &[0, 1, 2]);
    three.add_flag(fourth, "--initial-cluster-state=new");
    let (code, told) = three.refusal(fourth);
    assert_eq!(code, Some(1), "{told}");
    let running = three.status(0).await.unwrap().header.unwrap().cluster_id;
    let expected = format!("run already, as cluster {running:x}");
    assert!(told.contains(&expected), "{told}");
    assert!(told.contains("--initial-cluster-state=existing"), "{told}");
    assert_untouched(&three, fourth);

    three.kill(2);
    std::fs::remove_dir_all(three.directory(2)).unwrap();
    three.add_flag(2, "--initial-cluster-token=another");
    let (code, told) = three.refusal(2);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(&expected), "{told}");
    assert!(told.contains("--initial-cluster-token"), "{told}");
    assert_untouched(&three, 2);
}

#[tokio::test]
async fn who_joins_with_segments_of_another_size_is_told_the_right_one() {
    let mut three = Three::alone();
    three.named_members(0).await;
    let second = three.prepare("b", &[0]);
    let request = MemberAddRequest {
        peer_ur_ls: vec![three.peer_url(second)],
        is_learner: true,
    };
    let mut cluster = ClusterClient::new(three.channel(0));
    cluster.member_add(request).await.unwrap();
    three.add_flag(second, "--segment-bytes=1048576");
    let (code, told) = three.refusal(second);
    assert_eq!(code, Some(1), "{told}");
    for part in ["start it with --segment-bytes=8388608", "1048576"] {
        assert!(told.contains(part), "{told}");
    }
    assert_untouched(&three, second);
    three.add_flag(second, "--segment-bytes=8388608");
    three.launch(second);
    three.named_members(0).await;
}
