//! A change that is published alone finds the memory of nodes that earlier ones replaced. One
//! test, because all trees of the process have one heap.

use environment::randomness::Random;
use ordered_index::{IndexEntry, Writer, heap_use, new};

const KEYS: u64 = 100_000;
const CHANGES: u64 = 20_000;
/// A copied path has three nodes with three or four blocks each.
const BLOCKS_OF_A_PATH: u64 = 10;

/// Trees with keys and entries as current keys and superseded versions have them: fields of
/// several widths.
fn change(writer: &mut Writer, random: &mut Random, mark: u64) {
    let number = random.below(KEYS);
    let entry = IndexEntry {
        value: (20 + number % 3) << 48 | (mark * 40),
        stamp: mark,
    };
    writer.insert(0, format!("/registry/pods/{number:08}").as_bytes(), entry);
    let superseded = [&number.to_be_bytes()[..], &(!mark).to_be_bytes()].concat();
    writer.insert(1, &superseded, entry);
    writer.insert(2, b"one key alone", entry);
    writer.publish(mark);
}

#[test]
#[cfg_attr(miri, ignore = "takes many thousands of changes")]
fn most_blocks_of_a_copied_path_are_recycled() {
    let (mut writer, _reader) = new(3);
    let mut random = Random::from_seed(0);
    let mut mark = 0;
    let mut changes = |count: u64| {
        let before = heap_use().allocations;
        for _ in 0..count {
            mark += 1;
            change(&mut writer, &mut random, mark);
        }
        heap_use().allocations - before
    };
    changes(KEYS);
    let each = changes(CHANGES) as f64 / CHANGES as f64;
    let without = (3 * BLOCKS_OF_A_PATH) as f64;
    assert!(each < without / 8.0, "{each} allocations for each change");
}
