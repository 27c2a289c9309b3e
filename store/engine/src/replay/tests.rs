use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use value_log::{Body, Record, Sequence};

/// More than a reader may be ahead.
const GROUPS: u64 = (3 * PORTIONS_AHEAD * PORTION_GROUPS) as u64 + 7;

fn group(number: u64) -> DecodedGroup {
    let commit = number;
    DecodedGroup {
        mended: Vec::new(),
        content: Content::HardStates(vec![HardState {
            commit,
            ..HardState::default()
        }]),
    }
}

fn number(group: &DecodedGroup) -> u64 {
    match &group.content {
        Content::HardStates(states) => states[0].commit,
        Content::Entry { .. } | Content::Keys { .. } => panic!("no entry was put"),
    }
}

fn refusal(number: u64) -> Error {
    Error::InvalidBatch {
        index: number,
        what: "refused by the test".into(),
    }
}

/// Runs with one thread or with two.
fn run<R: Send>(
    threads: usize,
    read: impl FnOnce(&mut Put<'_>) -> R + Send,
    take: impl FnMut(DecodedGroup) -> Result<(), Error>,
) -> Result<R, Error> {
    match threads {
        1 => on_one_thread(read, take),
        _ => on_two_threads(read, take),
    }
}

fn put_all(put: &mut Put<'_>) -> Result<(), TakerEnded> {
    (0..GROUPS).try_for_each(|number| put(group(number)))
}

#[test]
fn every_group_is_taken_in_the_order_of_the_log() {
    for threads in [1, 2] {
        let mut taken = Vec::new();
        let read = run(threads, put_all, |group| {
            taken.push(number(&group));
            Ok(())
        });
        assert!(read.unwrap().is_ok());
        assert!(taken.into_iter().eq(0..GROUPS));
    }
}

#[test]
fn a_group_that_is_refused_ends_the_reading_and_its_error_counts() {
    for threads in [1, 2] {
        let endless = |put: &mut Put<'_>| {
            let mut numbers = 0..;
            numbers.try_for_each(|number| put(group(number)))
        };
        let mut last = None;
        let ended = run(threads, endless, |group| {
            last = Some(number(&group));
            match number(&group) {
                1_000 => Err(refusal(1_000)),
                _ => Ok(()),
            }
        });
        assert!(matches!(
            ended,
            Err(Error::InvalidBatch { index: 1_000, .. })
        ));
        assert_eq!(
            last,
            Some(1_000),
            "a group behind the refused one was taken"
        );
    }
}

#[test]
fn what_was_put_before_the_reading_failed_is_taken() {
    for threads in [1, 2] {
        let fails = |put: &mut Put<'_>| {
            (0..5).try_for_each(|number| put(group(number))).unwrap();
            Err::<(), Error>(refusal(5))
        };
        let mut taken = 0;
        let read = run(threads, fails, |_| {
            taken += 1;
            Ok(())
        });
        assert!(matches!(
            read,
            Ok(Err(Error::InvalidBatch { index: 5, .. }))
        ));
        assert_eq!(taken, 5);
    }
}

#[test]
fn the_reader_waits_when_it_is_some_portions_ahead() {
    let put = AtomicU64::new(0);
    let read = |to: &mut Put<'_>| {
        (0..GROUPS).try_for_each(|number| {
            put.fetch_add(1, Ordering::SeqCst);
            to(group(number))
        })
    };
    // One portion is in the hands of each thread.
    let ahead_max = (PORTIONS_AHEAD + 2) * PORTION_GROUPS;
    let taken = on_two_threads(read, |group| {
        let ahead = put.load(Ordering::SeqCst) - number(&group);
        assert!(ahead <= ahead_max as u64, "{ahead} groups ahead");
        // Gives the reader the time to run ahead.
        std::thread::yield_now();
        Ok::<(), Error>(())
    });
    assert!(taken.unwrap().is_ok());
}

/// An entry with a body of about `bytes`.
fn large_group(bytes: usize) -> DecodedGroup {
    let batch = Batch {
        term: 1,
        index: 1,
        changes: Vec::new(),
    };
    let position = Position::new(1, 4096);
    let appended = Appended {
        sequence: Sequence(1),
        start: position,
        positions: Vec::new(),
        end_offset: 4096,
    };
    let payload = vec![7; bytes];
    let body = Body::encode(&[Record {
        kind: 9,
        parts: &[&payload],
    }]);
    let change = Unapplied {
        batch,
        appended,
        body,
    };
    DecodedGroup {
        mended: Vec::new(),
        content: Content::Entry {
            entry: change.entry(),
            state: None,
            change: Some(Box::new(change)),
        },
    }
}

#[test]
fn of_large_groups_one_waits_while_another_is_taken() {
    let put = AtomicU64::new(0);
    let read = |to: &mut Put<'_>| {
        (0..20).try_for_each(|_| {
            put.fetch_add(1, Ordering::SeqCst);
            to(large_group((PORTIONS_AHEAD + 1) * PORTION_BYTES))
        })
    };
    let mut taken = 0;
    let read = on_two_threads(read, |_| {
        // Gives the reader the time to run ahead.
        std::thread::yield_now();
        taken += 1;
        let ahead = put.load(Ordering::SeqCst) - taken;
        assert!(ahead <= 1, "{ahead} more have been put");
        Ok::<(), Error>(())
    });
    assert!(read.unwrap().is_ok());
    assert_eq!(taken, 20);
}

#[test]
fn a_panic_of_either_side_ends_both() {
    let reader = || on_two_threads(|_| -> () { panic!("the reader") }, |_| Ok::<(), Error>(()));
    let taker = || on_two_threads(put_all, |_| -> Result<(), Error> { panic!("the taker") });
    let panics = [
        catch_unwind(AssertUnwindSafe(|| drop(reader()))),
        catch_unwind(AssertUnwindSafe(|| drop(taker()))),
    ];
    let said = panics.map(|panic| *panic.unwrap_err().downcast::<&str>().unwrap());
    assert_eq!(said, ["the reader", "the taker"]);
}
