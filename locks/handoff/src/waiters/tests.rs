//! Tests of the list alone, mostly for Miri: links through stack frames of one thread.

use std::ptr;

use crate::waiters::{CLAIMED, DUE, LEAVING, Waiter, Waiters};

fn waiters<const COUNT: usize>() -> [Waiter; COUNT] {
    std::array::from_fn(|_| Waiter::new(ptr::null()))
}

/// Unlinks all waiters, the oldest first.
fn drain(list: &Waiters) -> Vec<*const Waiter> {
    // SAFETY: one thread, and the waiters outlive the list.
    std::iter::from_fn(|| unsafe { list.pop_back() }).collect()
}

#[test]
fn pop_back_returns_the_oldest_first() {
    let list = Waiters::new();
    let [one, two, three] = &waiters();
    // SAFETY: one thread, and the waiters outlive the list.
    unsafe {
        list.push_front(one);
        list.push_front(two);
        list.push_back(three);
    }
    assert_eq!(drain(&list), [three, one, two].map(ptr::from_ref));
}

#[test]
fn a_waiter_is_unlinked_once_from_any_place() {
    for place in 0..3 {
        let list = Waiters::new();
        let all = waiters::<3>();
        // SAFETY: one thread, and the waiters outlive the list.
        unsafe {
            all.iter().for_each(|waiter| list.push_front(waiter));
            assert!(list.unlink(&all[place]));
            assert!(!list.unlink(&all[place]), "it was unlinked before");
        }
        let left = all.iter().enumerate().filter(|(other, _)| *other != place);
        let left: Vec<_> = left.map(|(_, waiter)| ptr::from_ref(waiter)).collect();
        assert_eq!(drain(&list), left);
        // SAFETY: as above.
        assert!(unsafe { list.is_empty() });
    }
}

#[test]
fn waiters_that_have_stepped_back_are_not_the_newest() {
    let list = Waiters::new();
    let new = Waiter::new(ptr::null());
    let back = [(); 2].map(|()| Waiter::stepping_back(ptr::null()));
    // SAFETY: one thread, and the waiters outlive the list.
    unsafe {
        list.push_front(&raw const new);
        back.iter().for_each(|waiter| list.push_front(waiter));
        assert_eq!(list.pop_newest(Some(0)), Some(&raw const new));
        assert_eq!(
            list.pop_newest(Some(0)),
            None,
            "the others have stepped back"
        );
    }
    assert_eq!(drain(&list).len(), 2);
}

#[test]
fn the_newest_of_the_same_core_is_preferred_to_the_newest_of_all() {
    let list = Waiters::new();
    let mut all = waiters::<4>();
    for (waiter, core) in all.iter_mut().zip([1, 0, 1, 0]) {
        waiter.core = core;
    }
    // SAFETY: one thread, and the waiters outlive the list.
    unsafe {
        all.iter().for_each(|waiter| list.push_front(waiter));
        for (here, place) in [(1, 2), (1, 0), (1, 3), (2, 1)] {
            assert_eq!(list.pop_newest(Some(here)), Some(&raw const all[place]));
        }
        assert!(list.is_empty());
        all.iter().for_each(|waiter| list.push_front(waiter));
        assert_eq!(list.pop_newest(None), Some(&raw const all[3]), "any core");
    }
    assert_eq!(drain(&list).len(), 3);
}

#[test]
fn the_same_core_is_no_advantage_far_from_the_front_or_after_stepping_back() {
    let list = Waiters::new();
    let mut all = waiters::<5>();
    all[0].core = 1;
    let mut back = Waiter::stepping_back(ptr::null());
    back.core = 1;
    for waiter in &mut all[1..] {
        waiter.core = 0;
    }
    // SAFETY: one thread, and the waiters outlive the list.
    unsafe {
        all.iter().for_each(|waiter| list.push_front(waiter));
        list.push_front(&raw const back);
        assert_eq!(list.pop_newest(Some(1)), Some(&raw const all[4]));
    }
    assert_eq!(drain(&list).len(), 5);
}

#[test]
fn a_successor_of_the_same_core_is_found_only_near_the_back() {
    let list = Waiters::new();
    let mut all = waiters::<10>();
    for (place, waiter) in all.iter_mut().enumerate() {
        waiter.core = u32::from(place >= 8);
    }
    // SAFETY: one thread, and the waiters outlive the list.
    unsafe {
        all.iter().for_each(|waiter| list.push_front(waiter));
        assert_eq!(list.pop_successor(&all[9]), Some(&raw const all[0]));
        assert_eq!(list.pop_successor(&all[9]), Some(&raw const all[8]));
    }
    assert_eq!(drain(&list).len(), 8);
}

#[test]
fn a_successor_is_the_oldest_of_the_same_core_or_else_the_oldest() {
    let list = Waiters::new();
    let mut all = waiters::<5>();
    for (waiter, core) in all.iter_mut().zip([1, 0, 0, 2, 0]) {
        waiter.core = core;
    }
    let [oldest, two, three, elsewhere, leaving] = &all;
    // SAFETY: one thread, and the waiters outlive the list.
    unsafe {
        all.iter().for_each(|waiter| list.push_front(waiter));
        for successor in [two, three, oldest] {
            assert_eq!(list.pop_successor(leaving), Some(ptr::from_ref(successor)));
        }
        assert_eq!(
            list.pop_successor(elsewhere),
            Some(ptr::from_ref(elsewhere))
        );
    }
    assert_eq!(drain(&list), [ptr::from_ref(leaving)]);
}

#[test]
fn a_waiter_far_from_the_front_is_not_the_newest() {
    let list = Waiters::new();
    let old = Waiter::new(ptr::null());
    let back = [(); 10].map(|()| Waiter::stepping_back(ptr::null()));
    // SAFETY: one thread, and the waiters outlive the list.
    unsafe {
        list.push_front(&raw const old);
        back.iter().for_each(|waiter| list.push_front(waiter));
        assert_eq!(list.pop_newest(Some(0)), None);
        assert_eq!(list.pop_back(), Some(&raw const old));
    }
    assert_eq!(drain(&list).len(), 10);
}

#[test]
fn claim_all_chains_the_waiters_that_are_not_leaving() {
    let list = Waiters::new();
    let all = waiters::<4>();
    // SAFETY: one thread, and the waiters outlive the list.
    unsafe {
        all.iter().for_each(|waiter| list.push_front(waiter));
        assert!(all[1].decide(LEAVING));
        let (claimed, count) = list.claim_all();
        assert_eq!(count, 3);
        let newest_first = [3, 2, 0].map(|place: usize| ptr::from_ref(&all[place]));
        assert!(claimed.eq(newest_first));
        assert!(list.all_are_leaving());
        assert_eq!(all[3].word(), CLAIMED);
        assert!(list.unlink(&all[1]));
    }
    assert_eq!(drain(&list).len(), 0);
}

/// A waiter that another thread wakes.
struct Sent(*const Waiter);

// SAFETY: the receiver accesses it only by `Waiter::wake`.
unsafe impl Send for Sent {}

#[test]
fn waking_a_waiter_does_not_touch_it_after_its_final_word() {
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let waiter = Waiter::new(ptr::null());
            sender.send(Sent(&raw const waiter)).unwrap();
            while waiter.word() != DUE {
                waiter.sleep(crate::waiters::ASLEEP, None);
            }
            // The frame ends while the other thread may still be in `wake`.
        });
        let Sent(waiter) = receiver.recv().unwrap();
        // SAFETY: it waits for this thread's word, in no list.
        unsafe { Waiter::wake(waiter, DUE) };
    });
}
