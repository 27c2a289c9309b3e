//! Who may begin, and who must not.

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
