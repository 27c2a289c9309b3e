//! Every interleaving of a publish and a pin, under loom's memory model.
//!
//! `RUSTFLAGS="--cfg crossbeam_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --release
//! -p ordered-index --features loom --test loom_publish`
//!
//! Loom replaces the atomics of crossbeam-epoch, through which all state that
//! threads share passes. The nodes behind the pointer are plain memory: a wrong
//! publish shows as a state that is not whole, a node freed too early as a
//! crash (seen with the collector bypassed; `-Zsanitizer=address` names the
//! line). Two preemptions take a quarter of a minute, three take hours.
#![cfg(crossbeam_loom)]

use loom::thread;
use ordered_index::{IndexEntry, Reader, Writer, new};

fn change(writer: &mut Writer, mark: u64) {
    let entry = IndexEntry {
        value: mark,
        stamp: mark,
    };
    writer.insert(0, b"key", entry);
    writer.insert(1, b"key", entry);
    writer.publish(mark);
    // What the publish retired may be freed from here on.
    writer.collect();
}

/// Both trees carry the snapshot's mark.
fn verify(reader: &Reader) -> u64 {
    let snapshot = reader.pin();
    for tree in [0, 1] {
        let stamp = snapshot.get(tree, b"key").map_or(0, |entry| entry.stamp);
        assert_eq!(stamp, snapshot.mark(), "tree {tree} does not fit the mark");
    }
    snapshot.mark()
}

#[test]
fn a_pinned_state_is_whole_in_every_interleaving() {
    loom::model(|| {
        let (mut writer, reader) = new(2);
        let other = reader.clone();
        let thread = thread::spawn(move || {
            let first = verify(&other);
            assert!(verify(&other) >= first, "time ran backwards");
        });
        change(&mut writer, 1);
        change(&mut writer, 2);
        thread.join().unwrap();
        assert_eq!(verify(&reader), 2);
    });
}
