//! Leadership, notices of its changes, and membership.

use inkstone::{LeadershipChanges, Remedy};

use crate::three::{NAMES, Three, get, in_time, put};

/// Waits for the notice that member `id` leads.
fn until_led_by(changes: &mut LeadershipChanges, id: u64) -> u64 {
    loop {
        let now = changes.next().unwrap();
        if now.leader == Some(id) {
            return now.term;
        }
    }
}

#[test]
fn all_members_are_notified_of_the_next_leader() {
    let three = Three::start_with_patience();
    let ids = [0, 1, 2].map(|number| three.node(number).id());
    let mut changes = [0, 1, 2].map(|number| three.node(number).leadership_changes());
    let mut terms = changes.each_mut().map(|it| until_led_by(it, ids[0]));
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        assert!(three.node(from).is_leader());
        in_time(three.node(from).move_leader(ids[to])).unwrap();
        assert_eq!(three.node(from).leadership().leader, Some(ids[to]));
        for (told, term) in changes.iter_mut().zip(&mut terms) {
            let next = until_led_by(told, ids[to]);
            assert!(next > *term, "{next} after {term}");
            *term = next;
        }
    }
    let error = in_time(three.node(1).move_leader(ids[2])).unwrap_err();
    assert_eq!(
        error.remedy(),
        Remedy::CorrectTheCall,
        "it does not lead: {error}"
    );
}

#[test]
fn a_stopping_leader_transfers_the_lead_and_its_notices_end() {
    let mut three = Three::start_with_patience();
    put(three.node(0), "k", "before");
    let (mut own, mut others) = (
        three.node(0).leadership_changes(),
        three.node(1).leadership_changes(),
    );
    let (gone, clone) = (three.node(0).id(), three.node(0).clone());
    three.stop(0);
    let next = loop {
        let now = others.next().unwrap();
        if now.leader.is_some_and(|leader| leader != gone) {
            break now;
        }
    };
    assert_eq!(in_time(three.node(1).wait_for_leader()).unwrap(), next);
    in_time(three.node(2).put("k", "after")).unwrap();
    let error = std::iter::repeat_with(|| own.next()).find_map(Result::err);
    assert_eq!(error.unwrap().remedy(), Remedy::Reopen);
    assert_eq!(clone.leadership().leader, None);
    let error = clone.put("k", "late").wait().unwrap_err();
    assert_eq!(error.remedy(), Remedy::Reopen, "{error}");
    let error = clone.get("k").wait().unwrap_err();
    assert_eq!(error.remedy(), Remedy::Reopen, "{error}");
}

#[test]
fn members_know_each_others_names_and_a_removed_one_is_not_listed() {
    let mut three = Three::start();
    put(three.node(0), "k", "v");
    let named = |number: usize| {
        let members = three.node(number).members();
        NAMES
            .iter()
            .all(|name| members.iter().any(|it| it.name == *name))
    };
    while !(0..3).all(named) {
        std::thread::yield_now();
    }
    let leader = three.leader(0);
    let (asked, removed) = ((leader + 1) % 3, (leader + 2) % 3);
    let id = three.node(removed).id();
    let moved = ["10.0.0.9:7400"];
    in_time(three.node(asked).update_member(id, &moved)).unwrap();
    let members = three.node(asked).members();
    let found = members.iter().find(|it| it.id == id).unwrap();
    assert_eq!(found.peer_urls, ["http://10.0.0.9:7400"]);
    let error = in_time(three.node(asked).update_member(id, &["nowhere"])).unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
    three.stop(removed);
    in_time(three.node(asked).remove_member(id)).unwrap();
    assert_eq!(three.node(asked).members().len(), 2);
    put(three.node(asked), "k", "two");
    assert_eq!(get(three.node(leader), "k").as_deref(), Some("two"));
    let error = in_time(three.node(asked).remove_member(id)).unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
}
