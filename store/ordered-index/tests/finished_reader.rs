//! A reader on a thread that has ended. The test has a process of its own, because one collector
//! serves all indexes of a process: readers of other tests would keep this one's garbage.

use environment::threads;
use ordered_index::{Fanout, IndexEntry, with_fanout};

const BATCHES: u64 = if cfg!(miri) { 40 } else { 20_000 };
const KEYS: u64 = 1_000;

#[test]
fn readers_on_a_finished_thread_leave_nothing_pinned() {
    let (mut writer, reader) = with_fanout(1, Fanout { leaf: 4, inner: 4 });
    let pins_once = move || assert_eq!(reader.pin().len(0), 0);
    let thread = threads::spawn("pins once", pins_once).unwrap();
    thread.join().unwrap();
    let (mut most, mut all) = (0, 0);
    for mark in 1..=BATCHES {
        let before = writer.garbage_bytes();
        for number in 0..8 {
            let key = (mark * 8 + number) * 7919 % KEYS;
            let entry = IndexEntry {
                value: mark,
                stamp: mark,
            };
            writer.insert(0, &key.to_be_bytes(), entry);
        }
        writer.publish(mark);
        most = most.max(writer.garbage_bytes());
        all += writer.garbage_bytes().saturating_sub(before);
    }
    assert!(most < 16 << 20, "{most} bytes of garbage without a reader");
    assert!(
        cfg!(miri) || all > 64 << 20,
        "{all} bytes are too few to tell"
    );
}
