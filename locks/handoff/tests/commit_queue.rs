//! Group commit with real threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use handoff::{CommitQueue, Mutex, Unanswered};

/// Divides the number of rounds: Miri is that much slower.
const FEWER: usize = if cfg!(miri) { 20 } else { 1 };

#[test]
fn every_operation_is_done_once_and_answered_to_its_thread() {
    for threads in [1_u64, 2, 8, 64] {
        let log = Mutex::new(Vec::new());
        let leads = AtomicBool::new(false);
        let queue = CommitQueue::new();
        let each = 8_000 / FEWER as u64 / threads;
        thread::scope(|scope| {
            for thread in 0..threads {
                let (log, leads, queue) = (&log, &leads, &queue);
                scope.spawn(move || {
                    for number in 0..each {
                        let operation = thread * each + number;
                        let answer = queue.commit(operation, |group| {
                            assert!(!leads.swap(true, Ordering::AcqRel), "two leaders");
                            for member in group {
                                let operation = member.take_operation();
                                log.lock().push(operation);
                                member.answer(operation * 2);
                            }
                            leads.store(false, Ordering::Release);
                        });
                        assert_eq!(answer, Ok(operation * 2));
                    }
                });
            }
        });
        let mut log = log.into_inner();
        log.sort_unstable();
        assert!(log.into_iter().eq(0..each * threads));
    }
}

#[test]
fn a_group_knows_its_length() {
    let queue = CommitQueue::<(), usize>::new();
    let lengths = queue.commit((), |group| {
        let length = group.len();
        group.for_each(|member| member.answer(length));
        assert_eq!(group.len(), 0);
    });
    assert_eq!(lengths, Ok(1));
}

#[test]
fn an_operation_without_an_answer_ends_with_an_error() {
    let queue = CommitQueue::<(), ()>::new();
    assert_eq!(queue.commit((), |_group| ()), Err(Unanswered));
}

#[test]
fn a_leader_that_panics_leaves_no_thread_waiting() {
    let queue = CommitQueue::<usize, usize>::new();
    let (panicked, unanswered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (queue, panicked, unanswered) = (&queue, &panicked, &unanswered);
        for thread in 0..16 {
            scope.spawn(move || {
                for round in 0..100 / FEWER {
                    let outcome = std::panic::catch_unwind(|| {
                        queue.commit(round, |group| {
                            assert!((thread + round) % 7 != 0, "on purpose");
                            group.for_each(|member| member.answer(member.take_operation()));
                        })
                    });
                    match outcome {
                        Err(_) => panicked.fetch_add(1, Ordering::Relaxed),
                        Ok(Err(Unanswered)) => unanswered.fetch_add(1, Ordering::Relaxed),
                        Ok(Ok(answer)) => {
                            assert_eq!(answer, round);
                            continue;
                        }
                    };
                }
            });
        }
    });
    assert!(panicked.into_inner() > 0);
}
