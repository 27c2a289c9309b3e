//! Recycled nodes: that they are used, how many are kept, and that they are as tight as new
//! ones.

use super::check::check;
use super::entry;
use crate::spare::{KEPT_BYTES_MAX, KEPT_BYTES_MIN};
use crate::{Writer, new};
use environment::randomness::Random;

const KEYS: u64 = if cfg!(miri) { 300 } else { 30_000 };

fn name(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

/// Like `name`, with a tail in every leaf.
fn long_name(number: u64) -> Vec<u8> {
    format!("{number:016}/of/another/tree").into_bytes()
}

/// Other tests of this process hold the collector back for moments.
fn collect(writer: &mut Writer) {
    (0..100).for_each(|_| writer.collect());
}

#[test]
fn a_change_fills_nodes_that_earlier_ones_replaced() {
    let (mut writer, _reader) = new(1);
    (0..KEYS).for_each(|number| _ = writer.insert(0, &name(number), entry(number)));
    for mark in 0..1_000_000 {
        let spare_bytes = writer.batch.spare.bytes();
        writer.insert(0, &name(mark % KEYS), entry(mark));
        if writer.batch.spare.bytes() < spare_bytes {
            check(&writer);
            return;
        }
        writer.publish(mark);
        collect(&mut writer);
    }
    panic!("a million changes, and none has used a spare node");
}

#[test]
fn spare_bytes_are_bounded_however_much_is_replaced_at_once() {
    let (mut writer, _reader) = new(2);
    for mark in 1..=20 {
        for number in 0..KEYS {
            let tree = (number % 2) as usize;
            writer.insert(tree, &name(number * mark), entry(mark));
        }
        writer.publish(mark);
        collect(&mut writer);
        let kept_bytes = writer.spare_bytes();
        let most_bytes = 2 * KEPT_BYTES_MAX;
        assert!(kept_bytes <= most_bytes, "{kept_bytes} bytes are kept");
    }
    check(&writer);
}

#[test]
#[cfg_attr(miri, ignore = "takes batches of many thousands")]
fn more_is_kept_while_batches_are_large_and_less_again_when_they_are_small() {
    let (mut writer, _reader) = new(1);
    let least_bytes = 2 * KEPT_BYTES_MIN;
    let mut most_bytes = 0;
    for mark in 0..40 {
        (0..60_000).for_each(|number| _ = writer.insert(0, &name(number), entry(mark)));
        writer.publish(mark);
        collect(&mut writer);
        most_bytes = most_bytes.max(writer.spare_bytes());
    }
    assert!(most_bytes > least_bytes, "{most_bytes} bytes are kept");
    for mark in 40..2_000 {
        writer.insert(0, &name(mark), entry(mark));
        writer.publish(mark);
        collect(&mut writer);
    }
    let kept_bytes = writer.spare_bytes();
    assert!(kept_bytes <= least_bytes, "{kept_bytes} bytes are kept");
    assert_eq!(writer.batch.spare.note_batch(0), KEPT_BYTES_MIN);
    check(&writer);
}

#[test]
fn a_tree_of_recycled_nodes_is_as_tight_as_one_of_new_ones() {
    let fill = |changes_published: u64| {
        let (mut writer, _reader) = new(2);
        let mut random = Random::from_seed(5);
        for mark in 0..KEYS {
            writer.insert(0, &name(random.below(KEYS)), entry(mark));
            writer.insert(1, &long_name(random.below(KEYS)), entry(mark));
            if mark % changes_published == 0 {
                writer.publish(mark);
            }
        }
        check(&writer);
        writer.memory_bytes()
    };
    let (each, none) = (fill(1), fill(KEYS));
    let rounded_up = none / 32 + (2 << 10);
    assert!(
        each < none + rounded_up,
        "{each} bytes recycled, {none} bytes new"
    );
}
