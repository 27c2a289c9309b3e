//! Members that may begin or join a cluster, and members that must not.

use etcd_api::etcdserverpb::MemberAddRequest;
use etcd_api::etcdserverpb::cluster_client::ClusterClient;

use crate::three::{Three, named};

#[tokio::test]
async fn a_member_that_has_lost_its_directory_is_refused() {
    let mut three = Three::start();
    three.put(0, "k", "kept").await;
    three.named_members(1).await;
    three.kill(2);
    std::fs::remove_dir_all(three.directory(2)).unwrap();
    let (code, message) = three.refusal(2);
    assert_eq!(code, Some(1));
    assert!(
        message.contains("has already been bootstrapped"),
        "{message}"
    );
    assert!(message.contains("etcdctl member remove"), "{message}");
    three.put(0, "k", "two of three").await;
    assert_eq!(three.get(1, "k").await.as_deref(), Some("two of three"));
}

#[tokio::test]
async fn a_member_that_has_lost_its_log_is_refused() {
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
    let (code, message) = three.refusal(2);
    assert_eq!(code, Some(1));
    assert!(message.contains("does not know the member"), "{message}");
}

#[tokio::test]
async fn a_member_that_was_not_added_cannot_join() {
    let mut three = Three::start();
    let members = three.named_members(0).await;
    let stranger = three.prepare("d", &[0, 1, 2]);
    let (code, message) = three.refusal(stranger);
    assert_eq!(code, Some(1));
    assert!(message.contains("member count is unequal"), "{message}");
    let known = format!("a={}", named(&members, "a").peer_ur_ls[0]);
    assert!(message.contains(&known), "{message}");
    let other = three.prepare("c", &[0, 1]);
    let (code, message) = three.refusal(other);
    assert_eq!(code, Some(1));
    assert!(
        message.contains("no match found for existing member"),
        "{message}"
    );
}

/// Checks that the member's directory is empty or does not exist.
fn assert_untouched(three: &Three, number: usize) {
    let found = std::fs::read_dir(three.directory(number));
    assert_eq!(found.map_or(0, Iterator::count), 0);
}

#[tokio::test]
async fn a_new_cluster_beside_a_running_one_is_refused_before_it_writes() {
    let mut three = Three::start();
    three.named_members(0).await;
    let fourth = three.prepare("d", &[0, 1, 2]);
    three.add_flag(fourth, "--initial-cluster-state=new");
    let (code, message) = three.refusal(fourth);
    assert_eq!(code, Some(1), "{message}");
    let running = three.status(0).await.unwrap().header.unwrap().cluster_id;
    let expected = format!("run already, as cluster {running:x}");
    assert!(message.contains(&expected), "{message}");
    assert!(
        message.contains("--initial-cluster-state=existing"),
        "{message}"
    );
    assert_untouched(&three, fourth);

    three.kill(2);
    std::fs::remove_dir_all(three.directory(2)).unwrap();
    three.add_flag(2, "--initial-cluster-token=another");
    let (code, message) = three.refusal(2);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains(&expected), "{message}");
    assert!(message.contains("--initial-cluster-token"), "{message}");
    assert_untouched(&three, 2);
}

#[tokio::test]
async fn joining_with_another_segment_size_is_refused_with_the_right_one() {
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
    let (code, message) = three.refusal(second);
    assert_eq!(code, Some(1), "{message}");
    for part in ["start it with --segment-bytes=8388608", "1048576"] {
        assert!(message.contains(part), "{message}");
    }
    assert_untouched(&three, second);
    three.add_flag(second, "--segment-bytes=8388608");
    three.launch(second);
    three.named_members(0).await;
}
