//! Random histories against `BTreeMap`.

use super::check::{check, check_content};
use super::{STEPS, any_key, entry};
use crate::{Change, Fanout, IndexEntry, Reader, Snapshot, Writer, with_fanout};
use environment::randomness::Random;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, IndexEntry>;

const TREES: usize = 2;

struct History {
    random: Random,
    writer: Writer,
    reader: Reader,
    models: [Model; TREES],
    /// Some of the states published so far, each with what it must show for ever.
    kept: VecDeque<(Snapshot, u64, [Model; TREES])>,
    mark: u64,
}

impl History {
    fn new(seed: u64, fanout: Fanout) -> History {
        let (writer, reader) = with_fanout(TREES, fanout);
        let random = Random::from_seed(seed);
        let models = [Model::new(), Model::new()];
        History {
            random,
            writer,
            reader,
            models,
            kept: VecDeque::new(),
            mark: 0,
        }
    }

    /// `growth` of 100 changes insert, the others remove.
    fn step(&mut self, step: u64, growth: u64) {
        let tree = self.random.below(TREES as u64) as usize;
        if self.random.chance(1, 100) {
            self.change_many(tree, step, growth);
        }
        let key = self.key(tree);
        match self.random.below(100) {
            0..5 => self.replace(tree, &key, step),
            roll if roll < growth => {
                let replaced = self.writer.insert(tree, &key, entry(step));
                assert_eq!(replaced, self.models[tree].insert(key, entry(step)));
            }
            _ => {
                let removed = self.writer.remove(tree, &key);
                assert_eq!(removed, self.models[tree].remove(&key));
            }
        }
        if self.random.chance(1, 20) {
            self.publish();
        }
        if step.is_multiple_of(STEPS / 20) {
            self.check_all();
        }
    }

    /// Half of the time a key that is there: removals must hit.
    fn key(&mut self, tree: usize) -> Vec<u8> {
        let key = any_key(&mut self.random);
        if self.random.chance(1, 2) {
            return key;
        }
        self.models[tree]
            .range(key.clone()..)
            .next()
            .map_or(key, |(key, _)| key.clone())
    }

    /// Changes of keys that lie close, or far from each other; some of them remove a run.
    fn change_many(&mut self, tree: usize, step: u64, growth: u64) {
        let mut keys = std::collections::BTreeSet::new();
        for _ in 0..self.random.below(60) {
            keys.insert(self.key(tree));
        }
        if self.random.chance(1, 3) {
            let start = any_key(&mut self.random);
            let run = self.models[tree].range(start..);
            keys.extend(run.take(100).map(|(key, _)| key.clone()));
        }
        let removes_all = self.random.chance(1, 3);
        let entries: Vec<Option<IndexEntry>> = keys
            .iter()
            .map(|_| (!removes_all && self.random.below(100) < growth).then(|| entry(step)))
            .collect();
        let changes: Vec<Change<'_>> = keys
            .iter()
            .zip(&entries)
            .map(|(key, &entry)| Change { key, entry })
            .collect();
        let before = self.writer.change_sorted(tree, &changes);
        let model = &mut self.models[tree];
        let expected = changes.iter().map(|change| match change.entry {
            Some(entry) => model.insert(change.key.to_vec(), entry),
            None => model.remove(change.key),
        });
        assert_eq!(before, expected.collect::<Vec<_>>());
    }

    fn replace(&mut self, tree: usize, key: &[u8], step: u64) {
        let old = self.models[tree].get(key).copied();
        assert!(
            !self
                .writer
                .replace_value(tree, key, entry(u64::MAX), entry(step))
        );
        if let Some(old) = old {
            assert!(self.writer.replace_value(tree, key, old, entry(step)));
            self.models[tree].insert(key.to_vec(), entry(step));
        }
    }

    fn publish(&mut self) {
        self.mark += 1;
        self.writer.publish(self.mark);
        if self.random.chance(1, 10) {
            self.kept
                .push_back((self.reader.pin(), self.mark, self.models.clone()));
        }
        if self.kept.len() > 5 {
            self.kept.pop_front();
        }
    }

    fn check_all(&self) {
        check(&self.writer);
        for tree in 0..TREES {
            check_content(&self.writer, tree, &self.models[tree]);
        }
        for (snapshot, mark, models) in &self.kept {
            assert_eq!(snapshot.mark(), *mark);
            (0..TREES).for_each(|tree| check_snapshot(snapshot, tree, &models[tree]));
        }
    }
}

fn check_snapshot(snapshot: &Snapshot, tree: usize, model: &Model) {
    assert_eq!(snapshot.len(tree), model.len() as u64);
    let mut cursor = snapshot.cursor(tree, Bound::Unbounded, Bound::Unbounded);
    for (key, &entry) in model {
        assert_eq!(cursor.next(), Some((key.as_slice(), entry)));
        assert_eq!(snapshot.get(tree, key), Some(entry));
    }
    assert_eq!(cursor.next(), None);
}

fn run(seed: u64, fanout: Fanout) {
    let mut history = History::new(seed, fanout);
    for step in 0..STEPS {
        // Grow, shrink to almost nothing, grow again.
        let growth = if (STEPS / 3..STEPS * 2 / 3).contains(&step) {
            15
        } else {
            80
        };
        history.step(step, growth);
    }
    history.check_all();
}

#[test]
fn narrow_nodes_follow_the_model() {
    run(1, Fanout { leaf: 4, inner: 4 });
}

#[test]
fn merging_nodes_follow_the_model() {
    run(2, Fanout { leaf: 8, inner: 8 });
}

#[test]
fn wide_leaves_under_narrow_nodes_follow_the_model() {
    run(3, Fanout { leaf: 32, inner: 5 });
}

#[test]
fn nodes_of_the_default_width_follow_the_model() {
    run(4, Fanout::default());
}

#[test]
fn counts_ranks_and_numbers_agree_with_a_naive_count() {
    let mut history = History::new(5, Fanout { leaf: 8, inner: 8 });
    (0..STEPS / 10).for_each(|step| history.step(step + 1, 80));
    history.publish();
    let snapshot = history.reader.pin();
    let keys: Vec<&Vec<u8>> = history.models[0].keys().collect();
    for (number, key) in keys.iter().enumerate() {
        let found = snapshot.nth(0, number as u64).unwrap();
        assert_eq!(found, ((*key).clone(), history.models[0][*key]));
        assert_eq!(snapshot.rank(0, key), number as u64);
    }
    assert_eq!(snapshot.nth(0, keys.len() as u64), None);
    for _ in 0..STEPS / 20 {
        let (start, end) = (any_key(&mut history.random), any_key(&mut history.random));
        let naive = keys
            .iter()
            .filter(|key| ***key >= start && ***key < end)
            .count();
        assert_eq!(
            snapshot.count(0, &start, Some(&end)),
            naive as u64,
            "{start:?}..{end:?}"
        );
        let naive = keys.iter().filter(|key| ***key >= start).count();
        assert_eq!(snapshot.count(0, &start, None), naive as u64, "{start:?}..");
    }
}

#[test]
fn keys_of_one_and_a_half_mebibytes_are_keys_like_others() {
    let bytes = if cfg!(miri) { 10_000 } else { 1_572_864 };
    let long = |last: u64| [&vec![b'x'; bytes][..], &last.to_be_bytes()].concat();
    let (mut writer, reader) = with_fanout(1, Fanout { leaf: 4, inner: 4 });
    for number in [3, 1, 4, 0, 5, 9, 2, 6] {
        assert_eq!(writer.insert(0, &long(number), entry(number)), None);
        writer.publish(number);
    }
    check(&writer);
    let snapshot = reader.pin();
    assert_eq!(writer.remove(0, &long(4)), Some(entry(4)));
    assert_eq!(writer.get(0, &long(4)), None);
    writer.publish(10);
    check(&writer);
    assert_eq!(snapshot.get(0, &long(4)), Some(entry(4)));
    assert_eq!(reader.pin().count(0, &long(1), Some(&long(6))), 4);
}
