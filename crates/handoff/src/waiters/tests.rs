//! The list by itself, for Miri above all: links through frames of one thread.

use std::ptr;

use crate::waiters::{CLAIMED, DUE, LEAVING, Waiter, Waiters};

fn waiters<const COUNT: usize>() -> [Waiter; COUNT] {
    std::array::from_fn(|_| Waiter::new(ptr::null()))
}

/// Takes all out from the back, where the oldest are.
fn drain(list: &Waiters) -> Vec<*const Waiter> {
    // SAFETY: one thread has it all.
    std::iter::from_fn(|| unsafe { list.pop_back() }).collect()
}

#[test]
fn the_oldest_are_at_the_back() {
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
fn whoever_gives_up_is_unlinked_once_wherever_it_is() {
    for place in 0..3 {
        let list = Waiters::new();
        let all = waiters::<3>();
        // SAFETY: one thread, and the waiters outlive the list.
        unsafe {
            all.iter().for_each(|waiter| list.push_front(waiter));
            assert!(list.unlink(&all[place]));
            assert!(!list.unlink(&all[place]), "somebody has done so already");
        }
        let left = all.iter().enumerate().filter(|(other, _)| *other != place);
        let left: Vec<_> = left.map(|(_, waiter)| ptr::from_ref(waiter)).collect();
        assert_eq!(drain(&list), left);
        // SAFETY: as above.
        assert!(unsafe { list.is_empty() });
    }
}

#[test]
fn those_that_have_stepped_back_are_passed_over() {
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
            "the rest have had their slice"
        );
    }
    assert_eq!(drain(&list).len(), 2);
}

#[test]
fn the_newest_of_the_same_core_are_preferred_and_else_the_newest_of_all() {
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
fn far_from_the_front_or_after_their_slice_the_same_core_is_no_advantage() {
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
fn far_from_the_back_nobody_is_a_successor() {
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
fn far_from_the_front_nobody_is_new() {
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
fn claiming_strings_all_that_are_not_leaving() {
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

/// A waiter for another thread to tell.
struct Sent(*const Waiter);

// SAFETY: whoever has it touches it only as `Waiter::wake` does.
unsafe impl Send for Sent {}

#[test]
fn telling_is_the_last_touch_of_a_waiter() {
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let waiter = Waiter::new(ptr::null());
            sender.send(Sent(&raw const waiter)).unwrap();
            while waiter.word() != DUE {
                waiter.sleep(crate::waiters::ASLEEP, None);
            }
            // The frame ends while the other may still be in `wake`.
        });
        let Sent(waiter) = receiver.recv().unwrap();
        // SAFETY: it waits for us, in no list.
        unsafe { Waiter::wake(waiter, DUE) };
    });
}
