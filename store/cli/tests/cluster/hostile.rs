//! Attacks on the peer ports by programs that are no members.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::peer_port::{
    APPEND, BULK, HEARTBEAT, Ids, SECRET, STRANGER, TRANSFER_LEADER, URGENT, enter, half_frame,
    put, raft, wait_for_the_end, write,
};
use crate::three::{LOOK, LOOKS_MAX, Three};

/// The clusters of these tests do not reach this term by their own elections.
const TERM_MAX: u64 = 10_000;

const STRANGERS_ID: u64 = 0xbad;

async fn check_terms(three: &Three) {
    for number in 0..3 {
        let term = three.status(number).await.unwrap().raft_term;
        assert!(term < TERM_MAX, "member {number} is at term {term}");
    }
}

/// Checks that every member serves, before and after all members are killed.
async fn check_all_serve(three: &mut Three) {
    for round in ["before", "after"] {
        for number in 0..3 {
            let key = format!("{round}{number}");
            three.put(number, &key, "served").await;
            let found = three.get((number + 1) % 3, &key).await;
            assert_eq!(found.as_deref(), Some("served"));
        }
        check_terms(three).await;
        if round == "before" {
            (0..3).for_each(|number| three.kill(number));
            (0..3).for_each(|number| three.launch(number));
        }
    }
}

#[tokio::test]
async fn a_stranger_is_refused_by_every_member_and_changes_nothing() {
    let mut three = Three::start();
    three.put(0, "k", "1").await;
    let ids = Ids::of(&three).await;
    for to in 0..3 {
        for lane in [URGENT, BULK] {
            let (mut socket, verdict) = enter(&three, &ids, STRANGERS_ID, to, lane);
            assert_eq!(verdict, STRANGER);
            let receiver = ids.members[to];
            write(
                &mut socket,
                &raft(HEARTBEAT, STRANGERS_ID, receiver, u64::MAX),
            );
            write(&mut socket, &put("stolen", b"by a stranger"));
            wait_for_the_end(&mut socket);
        }
    }
    check_all_serve(&mut three).await;
    assert_eq!(three.get(0, "stolen").await, None);
}

#[tokio::test]
async fn a_message_with_another_sender_than_the_connection_s_ends_the_connection() {
    let mut three = Three::start();
    three.put(0, "k", "1").await;
    let ids = Ids::of(&three).await;
    for to in 0..3 {
        let [sender, other] = [1, 2].map(|step| ids.members[(to + step) % 3]);
        let (mut socket, verdict) = enter(&three, &ids, sender, to, URGENT);
        assert_eq!(verdict, 0);
        write(
            &mut socket,
            &raft(HEARTBEAT, other, ids.members[to], u64::MAX),
        );
        wait_for_the_end(&mut socket);
    }
    check_all_serve(&mut three).await;
}

#[tokio::test]
async fn impossible_messages_in_a_member_s_name_are_dropped() {
    let mut three = Three::start();
    three.put(0, "k", "1").await;
    let ids = Ids::of(&three).await;
    for to in 0..3 {
        let (sender, receiver) = (ids.members[(to + 1) % 3], ids.members[to]);
        let (mut socket, verdict) = enter(&three, &ids, sender, to, URGENT);
        assert_eq!(verdict, 0);
        for term in [0, 1 << 40, u64::MAX] {
            for kind in 0..=20 {
                write(&mut socket, &raft(kind, sender, receiver, term));
            }
        }
        for kind in [APPEND, HEARTBEAT, TRANSFER_LEADER] {
            write(&mut socket, &raft(kind, sender, receiver, u64::MAX - 1));
        }
        write(&mut socket, &put("", b"a put without a key"));
        write(&mut socket, &put("large", &vec![7; 3 << 20]));
    }
    check_all_serve(&mut three).await;
    assert_eq!(three.get(0, "large").await, None);
}

/// Memory of a member's process, in MiB.
#[cfg(target_os = "linux")]
fn resident_mib(three: &Three, number: usize) -> u64 {
    harness::readings::resident_bytes(three.process_id(number)).unwrap() >> 20
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn halves_of_large_frames_take_little_memory_and_stop_no_member() {
    let mut three = Three::start();
    three.put(0, "k", "1").await;
    let ids = Ids::of(&three).await;
    let idle = resident_mib(&three, 0);
    let half = half_frame();
    let mut sockets = Vec::new();
    for number in 0..20 {
        let sender = ids.members[1 + number % 2];
        // Streams, of which a member may have several.
        let (mut socket, verdict) = enter(&three, &ids, sender, 0, 4);
        assert_eq!(verdict, 0);
        let patience = Some(Duration::from_millis(300));
        socket.set_write_timeout(patience).unwrap();
        write(&mut socket, &half);
        sockets.push(socket);
    }
    let more = resident_mib(&three, 0).saturating_sub(idle);
    assert!(more < 200, "{more} MiB for 20 halves of 65 MiB");
    three.put(0, "k", "2").await;
    drop(sockets);
    check_all_serve(&mut three).await;
}

/// A secret of its own in a file, with this mode.
fn secret(place: &tempfile::TempDir, byte: u8, mode: u32) -> PathBuf {
    let path = place.path().join(format!("secret-{byte}-{mode:o}"));
    std::fs::write(&path, [byte; 32]).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn flag(path: &std::path::Path) -> String {
    format!("--peer-secret-file={}", path.display())
}

#[tokio::test]
async fn members_with_a_secret_refuse_peers_without_it() {
    let place = tempfile::tempdir().unwrap();
    let mut three = Three::start_with(&[&flag(&secret(&place, 7, 0o600))]);
    three.put(0, "k", "1").await;
    let ids = Ids::of(&three).await;
    for to in 0..3 {
        for sender in [STRANGERS_ID, ids.members[(to + 1) % 3]] {
            for lane in [1, 2, 4, 5] {
                let (mut socket, verdict) = enter(&three, &ids, sender, to, lane);
                assert_eq!(verdict, SECRET);
                write(&mut socket, &put("stolen", b"without the secret"));
                wait_for_the_end(&mut socket);
            }
        }
    }
    check_all_serve(&mut three).await;
    assert_eq!(three.get(0, "stolen").await, None);
}

#[tokio::test]
async fn a_member_without_the_right_secret_stays_out_until_it_has_it() {
    let place = tempfile::tempdir().unwrap();
    let right = flag(&secret(&place, 7, 0o400));
    let mut three = Three::start_with(&[&right]);
    three.put(0, "k", "1").await;
    for wrong in [
        flag(&secret(&place, 8, 0o600)),
        "--peer-secret-file=".into(),
    ] {
        three.kill(2);
        three.add_flag(2, &wrong);
        three.launch(2);
        three.put(0, "k", "2").await;
        // It serves its own data, and finds no leader.
        for _ in 0..LOOKS_MAX {
            if three.status(2).await.is_ok() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(LOOK * 40).await;
        assert_eq!(three.status(2).await.unwrap().leader, 0, "{wrong}");
    }
    three.kill(2);
    three.add_flag(2, &right);
    three.launch(2);
    check_all_serve(&mut three).await;
    assert_eq!(three.get(2, "k").await.as_deref(), Some("2"));
}

#[test]
fn a_start_with_a_readable_or_short_secret_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let mut three = Three::prepared();
    let short = place.path().join("short");
    std::fs::write(&short, b"password").unwrap();
    std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (path, expected) in [
        (secret(&place, 7, 0o644), "its mode is 0644; call chmod 600"),
        (short, "at least 32 bytes, this one has 8"),
        (place.path().join("missing"), "the file cannot be opened"),
    ] {
        three.add_flag(0, &flag(&path));
        let (code, message) = three.refusal(0);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
