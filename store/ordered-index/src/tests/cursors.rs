//! Walks from both ends, at every bound.

use super::{any_key, entry};
use crate::{Cursor, Fanout, IndexEntry, Writer, with_fanout};
use environment::randomness::Random;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, IndexEntry>;

fn filled(keys: usize) -> (Writer, Model) {
    let mut random = Random::from_seed(keys as u64);
    let (mut writer, _) = with_fanout(1, Fanout { leaf: 4, inner: 4 });
    let mut model = Model::new();
    while model.len() < keys {
        let key = any_key(&mut random);
        let entry = entry(random.next_u64());
        writer.insert(0, &key, entry);
        model.insert(key, entry);
    }
    (writer, model)
}

/// Every key, something just below and above it, and no bound.
fn bounds(model: &Model) -> Vec<Bound<Vec<u8>>> {
    let mut bounds = vec![Bound::Unbounded];
    for key in model.keys() {
        let above = [key.as_slice(), b"\0"].concat();
        for bound in [key.clone(), above] {
            bounds.extend([Bound::Included(bound.clone()), Bound::Excluded(bound)]);
        }
    }
    bounds
}

fn within<'a>(
    model: &'a Model,
    start: Bound<&[u8]>,
    end: Bound<&[u8]>,
) -> Vec<(&'a [u8], IndexEntry)> {
    let after_start = |key: &[u8]| match start {
        Bound::Unbounded => true,
        Bound::Included(start) => key >= start,
        Bound::Excluded(start) => key > start,
    };
    let before_end = |key: &[u8]| match end {
        Bound::Unbounded => true,
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
    };
    let pairs = model.iter().map(|(key, &entry)| (key.as_slice(), entry));
    pairs
        .filter(|(key, _)| after_start(key) && before_end(key))
        .collect()
}

fn assert_at_the_end(cursor: &mut Cursor<'_>) {
    assert_eq!(cursor.remaining(), 0);
    assert_eq!(cursor.next(), None);
    assert_eq!(cursor.next_back(), None);
}

#[test]
fn every_pair_of_bounds_is_walked_forth_and_back() {
    let (writer, model) = filled(if cfg!(miri) { 5 } else { 45 });
    let bounds = bounds(&model);
    for start in &bounds {
        for end in &bounds {
            let (start, end) = (
                start.as_ref().map(Vec::as_slice),
                end.as_ref().map(Vec::as_slice),
            );
            let expected = within(&model, start, end);
            let mut forth = writer.cursor(0, start, end);
            let mut back = writer.cursor(0, start, end);
            assert_eq!(
                forth.remaining(),
                expected.len() as u64,
                "{start:?} {end:?}"
            );
            for pair in &expected {
                assert_eq!(forth.next(), Some(*pair));
            }
            for pair in expected.iter().rev() {
                assert_eq!(back.next_back(), Some(*pair));
            }
            let mut entries = writer.cursor(0, start, end);
            let entries = std::iter::from_fn(|| entries.next_entry());
            assert!(entries.eq(expected.iter().map(|(_, entry)| *entry)));
            assert_at_the_end(&mut forth);
            assert_at_the_end(&mut back);
        }
    }
}

#[test]
fn both_ends_meet_in_the_middle() {
    let (writer, model) = filled(if cfg!(miri) { 20 } else { 300 });
    let expected: Vec<_> = model
        .iter()
        .map(|(key, &entry)| (key.as_slice(), entry))
        .collect();
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut cursor = writer.cursor(0, Bound::Unbounded, Bound::Unbounded);
        let mut left = &expected[..];
        while let Some((first, rest)) = left.split_first() {
            if random.chance(1, 2) {
                assert_eq!(cursor.next(), Some(*first));
                left = rest;
            } else {
                let (last, rest) = left.split_last().unwrap();
                assert_eq!(cursor.next_back(), Some(*last));
                left = rest;
            }
            assert_eq!(cursor.remaining(), left.len() as u64);
        }
        assert_at_the_end(&mut cursor);
    }
}

#[test]
fn skipped_keys_are_not_seen_again() {
    let (writer, model) = filled(if cfg!(miri) { 20 } else { 300 });
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    for skipped in 0..keys.len() {
        let mut cursor = writer.cursor(0, Bound::Unbounded, Bound::Unbounded);
        cursor.next();
        cursor.skip(skipped as u64);
        let expected = keys.get(skipped + 1).map(|key| key.as_slice());
        assert_eq!(cursor.next().map(|(key, _)| key), expected);
    }
    let mut cursor = writer.cursor(0, Bound::Unbounded, Bound::Unbounded);
    cursor.skip(u64::MAX);
    assert_eq!((cursor.remaining(), cursor.next_back()), (0, None));
}

#[test]
fn an_empty_tree_has_nothing_to_walk() {
    let (writer, _) = filled(0);
    let mut cursor = writer.cursor(0, Bound::Unbounded, Bound::Included(b"z"));
    assert_at_the_end(&mut cursor);
}
