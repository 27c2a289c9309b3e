//! Files that the writer makes, read back.

use bolt::{DatabaseFile, Measure, Writer};
use environment::randomness::Random;

type Pair = (Vec<u8>, Vec<u8>);
type Buckets = Vec<(&'static str, Vec<Pair>)>;

fn written(buckets: &Buckets) -> Vec<u8> {
    let mut measure = Measure::default();
    for (name, pairs) in buckets {
        measure.bucket(name);
        for (key, value) in pairs {
            measure.entry(key, value.len());
        }
    }
    let plan = measure.finish();
    let mut bytes = Vec::new();
    let output = &mut |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok::<(), ()>(())
    };
    let mut writer = Writer::new(plan, output).unwrap();
    for (name, pairs) in buckets {
        writer.bucket(name).unwrap();
        for (key, value) in pairs {
            writer.entry(key, value).unwrap();
        }
    }
    assert!(writer.finish().unwrap());
    assert_eq!(bytes.len() as u64, plan.file_bytes());
    bytes
}

fn check(buckets: &Buckets) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.db");
    std::fs::write(&path, written(buckets)).unwrap();
    let file = DatabaseFile::open(&path).unwrap();
    file.check(|_| ()).unwrap();
    let read: Vec<_> = file.buckets().unwrap();
    assert_eq!(read.len(), buckets.len());
    for (bucket, (name, pairs)) in read.iter().zip(buckets) {
        assert_eq!(bucket.name, name.as_bytes());
        let entries = file.entries(bucket).map(|entry| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), value.to_vec())
        });
        assert!(entries.eq(pairs.iter().cloned()), "{name}");
    }
}

#[test]
fn what_was_written_is_read_back_and_every_page_belongs_to_one_thing() {
    for count in [0, 1, 2, 100, 20_000, 150_000_u32] {
        let pair = |number: u32| {
            let value = vec![7; (number % 31) as usize];
            (number.to_be_bytes().to_vec(), value)
        };
        let pairs = |count| (0..count).map(pair).collect();
        check(&vec![
            ("a", Vec::new()),
            ("key", pairs(count)),
            ("z", pairs(3)),
        ]);
    }
}

#[test]
fn a_file_without_buckets_is_read_back() {
    check(&Vec::new());
}

#[test]
fn keys_and_values_of_all_lengths_are_read_back() {
    let mut random = Random::from_seed(22);
    for round in 0..30 {
        let lengths = [10, 100, 4_100, 32_768_u64];
        let longest = lengths[round % lengths.len()];
        let mut pairs = std::collections::BTreeMap::new();
        for _ in 0..random.below(300) {
            let mut key = vec![0; 1 + random.below(longest) as usize];
            random.fill(&mut key);
            let value_bytes = match random.below(20) {
                0 => random.below(2 << 20),
                1..5 => random.below(10_000),
                _ => random.below(100),
            };
            let mut value = vec![0; value_bytes as usize];
            random.fill(&mut value);
            pairs.insert(key, value);
        }
        check(&vec![("key", pairs.into_iter().collect())]);
    }
}

#[test]
fn a_file_with_other_lengths_than_were_measured_is_not_the_planned_one() {
    let mut measure = Measure::default();
    measure.bucket("key");
    measure.entry(b"k", 4_000);
    let plan = measure.finish();
    let output = &mut |_: &[u8]| Ok::<(), ()>(());
    let mut writer = Writer::new(plan, output).unwrap();
    writer.bucket("key").unwrap();
    writer.entry(b"k", &[7; 5_000]).unwrap();
    assert!(!writer.finish().unwrap());
}

#[test]
fn the_first_error_of_the_output_ends_the_writing() {
    let mut measure = Measure::default();
    measure.bucket("key");
    let plan = measure.finish();
    let mut pieces = 0;
    let output = &mut |_: &[u8]| {
        pieces += 1;
        if pieces < 4 { Ok(()) } else { Err("full") }
    };
    let mut writer = Writer::new(plan, output).unwrap();
    writer.bucket("key").unwrap();
    assert_eq!(writer.finish(), Err("full"));
    assert_eq!(pieces, 4);
}
