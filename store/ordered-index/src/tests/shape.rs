//! How full nodes are, and what bulk loads and removals leave behind.

use super::check::{check, check_content};
use super::{any_key, entry};
use crate::{BulkLoad, Fanout, IndexEntry, OutOfOrder, new, with_fanout};
use environment::randomness::Random;
use std::collections::BTreeMap;

const KEYS: u64 = if cfg!(miri) { 400 } else { 40_000 };

fn numbered(number: u64) -> Vec<u8> {
    format!("/registry/pods/blue/web-{number:08}").into_bytes()
}

#[test]
fn ascending_keys_leave_full_leaves() {
    let (mut writer, _) = new(1);
    for number in 0..KEYS {
        writer.insert(0, &numbered(number), entry(number));
    }
    let found = check(&writer);
    assert_eq!(found[0].leaves, KEYS.div_ceil(128));
}

/// Positions of records of one length, and revisions, in the order of arrival.
fn in_a_log(number: u64) -> IndexEntry {
    IndexEntry {
        value: (23 << 48) | (7 << 24) | (number * 23),
        stamp: number,
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes many keys to be about full leaves")]
fn what_the_keys_of_a_leaf_and_their_entries_share_takes_no_memory() {
    let mut random = Random::from_seed(5);
    let per_key = |key: &mut dyn FnMut(u64) -> Vec<u8>| {
        let (mut writer, _) = new(1);
        for number in 0..KEYS {
            writer.insert(0, &key(number), in_a_log(number));
        }
        writer.memory_bytes() / KEYS
    };
    let in_order = per_key(&mut |number| numbered(number));
    let random = per_key(&mut |_| random.next_u64().to_be_bytes().to_vec());
    // The entries of this many keys take 3 bytes for the position and 2 for the revision, and the random
    // keys 7 behind what all of a leaf share.
    assert!(
        in_order <= 11,
        "{in_order} bytes for a 32-byte key and its entry"
    );
    assert!(
        random <= 19,
        "{random} bytes for a random 8-byte key and its entry"
    );
}

#[test]
fn ascending_keys_in_batches_of_one_leave_full_leaves_too() {
    let (mut writer, _) = new(1);
    for number in 0..KEYS / 4 {
        writer.insert(0, &numbered(number), entry(number));
        writer.publish(number);
    }
    assert_eq!(check(&writer)[0].leaves, (KEYS / 4).div_ceil(128));
}

#[test]
fn removing_everything_in_any_order_leaves_one_empty_leaf() {
    for seed in 0..6 {
        let mut random = Random::from_seed(seed);
        let (mut writer, _) = with_fanout(1, Fanout { leaf: 8, inner: 8 });
        let mut numbers: Vec<u64> = (0..KEYS / 40).collect();
        for &number in &numbers {
            writer.insert(0, &numbered(number), entry(number));
        }
        match seed {
            0 => {}
            1 => numbers.reverse(),
            _ => numbers.sort_by_cached_key(|_| random.next_u64()),
        }
        for (step, number) in numbers.into_iter().enumerate() {
            assert_eq!(writer.remove(0, &numbered(number)), Some(entry(number)));
            if step % 7 == 0 {
                writer.publish(step as u64);
            }
            if step % 50 == 0 {
                check(&writer);
            }
        }
        let found = check(&writer);
        assert_eq!((found[0].leaves, found[0].levels), (1, 1));
    }
}

#[test]
fn narrow_neighbours_merge() {
    let (mut writer, _) = new(1);
    for number in 0..KEYS {
        writer.insert(0, &numbered(number), entry(number));
    }
    let full = check(&writer)[0].leaves;
    for number in (0..KEYS).filter(|number| number % 16 != 0) {
        writer.remove(0, &numbered(number));
    }
    let left = check(&writer)[0].leaves;
    assert!(
        left * 3 < full,
        "{left} of {full} leaves for a sixteenth of the keys"
    );
}

#[test]
fn a_bulk_load_says_beforehand_what_its_leaves_will_take() {
    let (mut writer, _) = new(1);
    let empty_bytes = writer.memory_bytes();
    let mut load = BulkLoad::new();
    for number in 0..KEYS {
        load.push(&numbered(number), entry(number)).unwrap();
    }
    let said_bytes = load.memory_bytes();
    writer.install(0, load);
    let taken_bytes = writer.memory_bytes() - empty_bytes;
    let (per_key, all) = (taken_bytes / KEYS, 0..taken_bytes);
    assert!(all.contains(&said_bytes), "{said_bytes} of {taken_bytes}");
    // The leaf that was not full, and inner nodes.
    let open_bytes = 128 * (per_key + 1) + taken_bytes / 20;
    assert!(
        said_bytes + open_bytes > taken_bytes,
        "{said_bytes} of {taken_bytes}"
    );
}

#[test]
fn a_bulk_load_of_any_size_equals_inserts() {
    let mut random = Random::from_seed(11);
    let sizes = [0, 1, 2, 3, 7, 8, 49, 50, 51, 343, 344, KEYS / 20];
    for fanout in [
        Fanout { leaf: 4, inner: 4 },
        Fanout { leaf: 8, inner: 8 },
        Fanout::default(),
    ] {
        for size in sizes {
            let model: BTreeMap<Vec<u8>, IndexEntry> = (0..size)
                .map(|number| (any_key(&mut random), entry(number)))
                .collect();
            let (mut writer, reader) = with_fanout(1, fanout);
            writer.insert(0, b"replaced by the load", entry(0));
            writer.publish(1);
            let loaded = writer.bulk_load(0, model.iter().map(|(key, &entry)| (key, entry)));
            assert_eq!(loaded, Ok(model.len() as u64));
            check(&writer);
            check_content(&writer, 0, &model);
            assert_eq!(reader.pin().len(0), 1, "visible before its publish");
            writer.publish(2);
            assert_eq!(reader.pin().len(0), model.len() as u64);
        }
    }
}

#[test]
fn a_bulk_load_in_parts_equals_inserts() {
    let mut random = Random::from_seed(12);
    let fanout = Fanout { leaf: 8, inner: 8 };
    let parts_of = [&[0][..], &[0, 5, 0], &[7, 1, 1], &[20, 0, 7, 8], &[1, 50]];
    for part_sizes in parts_of {
        let size: usize = part_sizes.iter().sum();
        let mut model = BTreeMap::new();
        while model.len() < size {
            model.insert(any_key(&mut random), entry(model.len() as u64));
        }
        let mut pairs = model.iter();
        let mut load = BulkLoad::with_fanout(fanout);
        for &part_size in part_sizes {
            let mut part = BulkLoad::with_fanout(fanout);
            for (key, &entry) in pairs.by_ref().take(part_size) {
                part.push(key, entry).unwrap();
            }
            load.append(part).unwrap();
        }
        assert_eq!(load.len(), size as u64);
        let (mut writer, _) = with_fanout(1, fanout);
        writer.install(0, load);
        check(&writer);
        check_content(&writer, 0, &model);
    }
}

#[test]
fn a_part_out_of_order_is_refused_and_changes_nothing() {
    let load_of = |numbers: std::ops::Range<u64>| {
        let mut load = BulkLoad::new();
        numbers.for_each(|number| load.push(&numbered(number), entry(number)).unwrap());
        load
    };
    let mut load = load_of(0..200);
    for first in [0, 150, 199] {
        // One with an open leaf alone, and one with a full leaf.
        for size in [1, 150] {
            let refused = load.append(load_of(first..first + size));
            assert_eq!(refused, Err(OutOfOrder { accepted: 200 }));
        }
    }
    load.append(load_of(200..300)).unwrap();
    let (mut writer, _) = new(1);
    writer.install(0, load);
    check(&writer);
    let model = (0..300).map(|number| (numbered(number), entry(number)));
    check_content(&writer, 0, &model.collect());
}

#[test]
fn a_loaded_tree_takes_changes_like_any_other() {
    let (mut writer, _) = new(1);
    let mut model: BTreeMap<Vec<u8>, IndexEntry> = (0..KEYS)
        .map(|number| (numbered(number * 2), entry(number)))
        .collect();
    let mut load = BulkLoad::new();
    model
        .iter()
        .for_each(|(key, &entry)| load.push(key, entry).unwrap());
    writer.install(0, load);
    let leaves = check(&writer)[0].leaves;
    assert!(leaves <= KEYS / 120, "{leaves} leaves");
    for number in (1..KEYS).step_by(5) {
        writer.insert(0, &numbered(number), entry(number));
        model.insert(numbered(number), entry(number));
    }
    check(&writer);
    check_content(&writer, 0, &model);
}

#[test]
fn a_load_out_of_order_is_refused_and_changes_nothing() {
    let (mut writer, _) = new(1);
    writer.insert(0, b"kept", entry(1));
    for second in [b"a", b"b"] {
        let pairs = [(b"b", entry(2)), (second, entry(3))];
        assert_eq!(writer.bulk_load(0, pairs), Err(OutOfOrder { accepted: 1 }));
    }
    check(&writer);
    assert_eq!((writer.len(0), writer.get(0, b"kept")), (1, Some(entry(1))));
}
