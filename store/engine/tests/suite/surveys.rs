//! Surveys of ranges: exact where the steps suffice, and bounded where they do not.

use crate::store;

use engine::{First, Snapshot};
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use store::{Store, Write, delete, put, seed};

type Bounds<'a> = (&'a [u8], Option<&'a [u8]>);

const BOUNDS: [Bounds<'static>; 4] = [
    (b"", None),
    (b"k1", Some(b"k3")),
    (b"k3", None),
    (b"x", Some(b"y")),
];

/// Keys and bytes, found by a walk over all of them.
fn walked(snapshot: &Snapshot, (start, end): Bounds<'_>, at: i64) -> (u64, u64) {
    let sizes = snapshot
        .range(start, end, at)
        .map(|version| version.log_bytes());
    sizes.fold((0, 0), |(keys, bytes), size| (keys + 1, bytes + size))
}

fn random_writes(random: &mut Random) -> Vec<Write> {
    let mut writes = Vec::new();
    for _ in 0..=random.below(3) {
        let key = format!("k{}", random.below(40));
        writes.push(match random.chance(1, 3) {
            true => delete(key),
            false => put(key, vec![7; random.below(200) as usize]),
        });
    }
    writes
}

/// Deletions of keys that do not exist are no changes.
fn write(store: &mut Store, writes: Vec<Write>) {
    let mut keys = Vec::new();
    let mut kept = Vec::new();
    for write in writes {
        let key = match &write {
            Write::Put(key, _) | Write::Delete(key) => key.clone(),
        };
        let exists = store.model.visible(&key, store.model.revision).is_some();
        if !keys.contains(&key) && (exists || matches!(write, Write::Put(..))) {
            keys.push(key);
            kept.push(write);
        }
    }
    if !kept.is_empty() {
        store.write(&kept).unwrap();
    }
}

#[test]
fn a_survey_with_enough_steps_is_a_walk_at_each_revision() {
    let mut random = Random::from_seed(seed(3));
    let mut store = Store::new(&SimulatedDisk::new(1));
    for _ in 0..300 {
        write(&mut store, random_writes(&mut random));
    }
    store.compact(store.model.revision / 3).unwrap();
    let snapshot = store.engine.snapshot();
    for at in snapshot.compacted()..=snapshot.revision() {
        for bounds in BOUNDS {
            let mut steps = 100_000;
            let surveyor = store.engine.surveyor(&snapshot, at);
            let survey = surveyor.survey(bounds, &mut steps);
            let expected = walked(&snapshot, bounds, at);
            assert_eq!(
                (survey.keys, survey.log_bytes),
                expected,
                "{bounds:?} at {at}"
            );
            assert!(!survey.is_lower_bound && !survey.is_estimate);
            assert!(surveyor.count(bounds).is_none_or(|keys| keys == expected.0));
            let mut all = snapshot.range(bounds.0, bounds.1, at);
            let first = snapshot.first(bounds.0, bounds.1, at, &mut steps);
            assert_eq!(first, all.next().map_or(First::Empty, First::Found));
        }
    }
}

#[test]
fn a_survey_with_few_steps_counts_right_or_says_that_it_does_not() {
    let mut random = Random::from_seed(seed(4));
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    for _ in 0..200 {
        write(&mut store, random_writes(&mut random));
    }
    // Creations and deletions before this are not noted.
    let mut store = store.reopen(&disk);
    for _ in 0..50 {
        write(&mut store, random_writes(&mut random));
    }
    let snapshot = store.engine.snapshot();
    let (mut corrected, mut bounded) = (0, 0);
    for at in 1..=snapshot.revision() {
        for steps in [0, 3, 20] {
            let mut left = steps;
            let surveyor = store.engine.surveyor(&snapshot, at);
            let survey = surveyor.survey((b"", None), &mut left);
            let (keys, _) = walked(&snapshot, (b"", None), at);
            assert!(left <= steps && survey.keys <= keys);
            match survey.is_lower_bound {
                true => bounded += 1,
                false => {
                    assert_eq!(survey.keys, keys, "at {at} with {steps} steps");
                    corrected += u64::from(survey.is_estimate);
                }
            }
        }
    }
    assert!(corrected > 0 && bounded > 0, "{corrected} {bounded}");
}

#[test]
fn an_estimate_of_equal_sizes_is_exact_and_one_of_alternating_sizes_is_near() {
    let mut store = Store::new(&SimulatedDisk::new(1));
    for batch in 0..100 {
        let key = |number: u64| format!("{:06}", batch * 40 + number);
        let size = |number: u64| if number.is_multiple_of(2) { 8 } else { 808 };
        let writes = (0..40).map(|number| put(key(number), vec![7; size(number)]));
        store.write(&writes.collect::<Vec<_>>()).unwrap();
    }
    let snapshot = store.engine.snapshot();
    let (keys, bytes) = walked(&snapshot, (b"", None), snapshot.revision());
    let mut steps = 3000;
    let surveyor = store.engine.surveyor(&snapshot, snapshot.revision());
    let survey = surveyor.survey((b"", None), &mut steps);
    assert!(survey.is_estimate && survey.keys == keys && steps < 100);
    let ratio = survey.log_bytes as f64 / bytes as f64;
    assert!((0.75..1.25).contains(&ratio), "{ratio}");
}

/// A key with a long history takes a seek and not a walk.
#[test]
fn a_long_history_of_one_key_takes_few_steps() {
    let mut store = Store::new(&SimulatedDisk::new(1));
    for round in 0..3000 {
        store.write(&[put("hot", round.to_string())]).unwrap();
    }
    store.write(&[put("last", "1")]).unwrap();
    let snapshot = store.engine.snapshot();
    for at in [1, 2, 3, 20, 1500, snapshot.revision() - 1] {
        let mut steps = 100;
        let survey = store
            .engine
            .surveyor(&snapshot, at)
            .survey((b"", None), &mut steps);
        let (keys, bytes) = walked(&snapshot, (b"", None), at);
        assert_eq!((survey.keys, survey.log_bytes), (keys, bytes), "at {at}");
        assert!(steps >= 60, "{steps} steps are left at {at}");
    }
}

/// Keys that are not visible cost steps, too.
#[test]
fn a_search_for_a_visible_key_stops_where_its_steps_end() {
    let mut store = Store::new(&SimulatedDisk::new(1));
    store.write(&[put("a", "1")]).unwrap();
    for number in 0..100 {
        store.write(&[put(format!("b{number:03}"), "1")]).unwrap();
    }
    let snapshot = store.engine.snapshot();
    let mut steps = 10;
    let stopped = snapshot.first(b"b", None, 2, &mut steps);
    assert_eq!((stopped, steps), (First::Stopped("b010".into()), 0));
    let mut steps = 1000;
    assert_eq!(snapshot.first(b"b", None, 2, &mut steps), First::Empty);
    let now = snapshot.revision();
    let first = snapshot.first(b"b", None, now, &mut 1);
    assert!(matches!(first, First::Found(version) if version.key == "b000"));
    let stopped = snapshot.first(b"b", None, now, &mut 0);
    assert_eq!(stopped, First::Stopped("b".into()));
}
