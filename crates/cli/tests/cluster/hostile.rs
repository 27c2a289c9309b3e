//! What something that is no member can do at the peer ports.

use crate::peer_port::{
    APPEND, BULK, HEARTBEAT, Ids, STRANGER, TRANSFER_LEADER, URGENT, enter, put, raft,
    wait_for_the_end, write,
};
use crate::three::Three;

/// No cluster of these tests comes to it by its own elections.
const TERM_MAX: u64 = 10_000;

const STRANGERS_ID: u64 = 0xbad;

async fn check_terms(three: &Three) {
    for number in 0..3 {
        let term = three.status(number).await.unwrap().raft_term;
        assert!(term < TERM_MAX, "member {number} is at term {term}");
    }
}

/// Every member serves, before and after all of them were killed.
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
async fn a_message_in_another_name_than_the_connections_ends_the_connection() {
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
async fn messages_that_no_honest_member_sends_are_dropped_in_a_members_name_too() {
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
