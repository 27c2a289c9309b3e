//! The core of a map, driven by one thread.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use engine::{Durability, Headers, KeyChange, Options, Worker};
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use environment::{Disk, OpenMode};

use crate::compression::Compression;
use crate::core::Core;
use crate::pair;
use crate::snapshot::{Snapshot, read};
use crate::stamp::Format;
use crate::upkeep::Left;
use crate::writing::{Edit, Operation};
use crate::{Error, WriteBatch};

fn options() -> Options {
    Options {
        log: engine::LogOptions {
            segment_bytes: 64 << 10,
            spare_segments: 1,
            reserve_bytes: 0,
            worker: Worker::Caller,
            ..engine::LogOptions::default()
        },
        batch_bytes_max: 32 << 10,
        ..Options::default()
    }
}

fn open(disk: &SimulatedDisk) -> Core {
    let disk = Arc::new(disk.clone());
    Core::open(disk, Path::new("/data"), options(), Compression::None).unwrap()
}

fn make(disk: &SimulatedDisk, format: Format) -> Core {
    make_with(disk, (format, Compression::None))
}

fn make_with(disk: &SimulatedDisk, form: (Format, Compression)) -> Core {
    let disk = Arc::new(disk.clone());
    Core::open_or_make(disk, Path::new("/data"), options(), form).unwrap()
}

fn put(key: &str, bytes: usize) -> Operation {
    put_with(key, &vec![b'v'; bytes], Compression::None)
}

fn put_with(key: &str, value: &[u8], compression: Compression) -> Operation {
    Operation::One(Edit::put(pair::encode(key.as_bytes(), value, compression)))
}

fn flushes(core: &Core) -> u64 {
    core.engine.status().log.flushes
}

#[test]
fn writes_that_come_together_share_a_flush() {
    let core = open(&SimulatedDisk::new(1));
    let before = flushes(&core);
    let together: Vec<Operation> = (0..20)
        .map(|number| put(&number.to_string(), 100))
        .collect();
    let answers = core.at_work(|work| work.carry_out(&together)).unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(0))));
    assert_eq!(flushes(&core) - before, 1);
}

#[test]
fn writes_that_come_together_fill_the_block_of_the_last_frame_first() {
    let disk = SimulatedDisk::new(1);
    let mut options = options();
    options.log.durability = Durability::Os;
    options.log.segment_bytes = 1 << 20;
    let shared = Arc::new(disk.clone());
    let core = Core::open(shared, Path::new("/data"), options, Compression::None).unwrap();
    let log_bytes = || core.engine.status().log_bytes;
    let (rounds, group) = (40, 10);
    let before = log_bytes();
    for round in 0..rounds {
        let together: Vec<Operation> = (0..group)
            .map(|number| put(&format!("{round:02}{number:02}"), 100))
            .collect();
        let answers = core.at_work(|work| work.carry_out(&together)).unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Ok(0))));
    }
    // 1,360 bytes a group, of which three would begin in one block and leave a gap.
    let record_bytes = KeyChange::log_bytes_with(
        pair::encode(b"0000", &[0; 100], Compression::None).kv.len(),
        Headers::Short,
    );
    let records = record_bytes * rounds * group;
    let blocks = records / 4_096 + 1;
    let bytes = log_bytes() - before;
    assert!(bytes >= records, "{bytes} of {records}");
    assert!(
        bytes < records + blocks * (88 + record_bytes),
        "{bytes} of {records}"
    );
    assert_eq!(found_keys(&core), rounds * group);
}

fn found_keys(core: &Core) -> u64 {
    let snapshot = core.engine.snapshot();
    let read = |key: &[u8]| read(&core.engine, key, i64::MAX).unwrap().unwrap();
    let versions: Vec<_> = snapshot.range(&[], None, i64::MAX).collect();
    let whole = versions
        .iter()
        .filter(|it| read(&it.key) == vec![b'v'; 100]);
    whole.count() as u64
}

#[test]
fn a_group_larger_than_a_segment_is_written_in_few_frames() {
    let core = open(&SimulatedDisk::new(1));
    let before = core.engine.applied_index();
    let together: Vec<Operation> = (0..40)
        .map(|number| put(&number.to_string(), 8_000))
        .collect();
    let answers = core.at_work(|work| work.carry_out(&together)).unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(core.engine.applied_index() - before < 20);
}

#[test]
fn a_refused_operation_does_not_fail_the_others_of_its_group() {
    let core = open(&SimulatedDisk::new(1));
    let large = (0..5).fold(WriteBatch::new(), |batch, number| {
        batch.put(number.to_string(), vec![0; 10_000])
    });
    let together = [
        put("a", 10),
        Operation::Many(large.into_edits(Compression::None)),
        put("b", 10),
    ];
    let answers = core.at_work(|work| work.carry_out(&together)).unwrap();
    let passed: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(passed, [true, false, true]);
    assert_eq!(core.engine.snapshot().keys(), 2);
}

#[test]
fn a_deletion_counts_a_key_that_the_same_group_has_put() {
    let core = open(&SimulatedDisk::new(1));
    let delete = || Operation::One(Edit::delete(b"a"));
    let together = [delete(), put("a", 10), delete(), delete(), put("a", 20)];
    let answers = core.at_work(|work| work.carry_out(&together)).unwrap();
    let deleted: Vec<u64> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(deleted, [0, 0, 1, 0, 0]);
    assert_eq!(
        read(&core.engine, b"a", i64::MAX).unwrap().unwrap().len(),
        20
    );
}

#[test]
fn a_key_or_value_that_no_record_holds_is_refused_before_it_is_queued() {
    let core = open(&SimulatedDisk::new(1));
    for operation in [
        put("a", 40_000),
        Operation::One(Edit::delete(&[b'k'; 40_000])),
    ] {
        let error = core.carry_out(operation).unwrap_err();
        let Error::Engine(error) = error else {
            panic!("{error}");
        };
        assert!(matches!(*error, engine::Error::TooLarge { .. }), "{error}");
    }
}

#[test]
fn after_a_panic_nothing_is_written() {
    let core = open(&SimulatedDisk::new(1));
    core.carry_out(put("a", 10)).unwrap();
    let panics = || core.at_work(|_work| panic!("on purpose"));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let error = core.carry_out(put("b", 10)).unwrap_err();
    assert!(error.to_string().contains("/data"), "{error}");
    assert!(read(&core.engine, b"a", i64::MAX).unwrap().is_some());
}

#[test]
fn a_write_in_the_course_of_another_panic_is_a_write() {
    struct Writes<'a>(&'a Core);
    impl Drop for Writes<'_> {
        fn drop(&mut self) {
            self.0.carry_out(put("last words", 10)).unwrap();
        }
    }
    let core = open(&SimulatedDisk::new(1));
    let panics = || {
        let _writes = Writes(&core);
        panic!("on purpose");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    core.carry_out(put("a", 10)).unwrap();
    assert_eq!(core.engine.snapshot().keys(), 2);
}

#[test]
fn upkeep_comes_to_rest_beside_writes() {
    let disk = SimulatedDisk::new(1);
    let core = open(&disk);
    for number in 0..200 {
        core.carry_out(put(&format!("{:02}", number % 50), 10))
            .unwrap();
    }
    drop(core);
    // The opening replays replaced versions as if they might be read.
    let core = open(&disk);
    let mut steps = 0;
    loop {
        core.carry_out(put(&format!("{:02}", steps % 50), 10))
            .unwrap();
        if core.step().unwrap() == Left::Nothing {
            break;
        }
        steps += 1;
        assert!(steps < 20, "upkeep does not end while there are writes");
    }
    assert_eq!(core.engine.status().versions, 50);
    for number in 0..50 {
        core.carry_out(Operation::One(Edit::delete(
            format!("{number:02}").as_bytes(),
        )))
        .unwrap();
        assert_eq!(core.step().unwrap(), Left::Nothing);
    }
    assert_eq!(core.engine.status().versions, 0);
}

/// Bytes of log that the last write took.
fn written_by(core: &Core, operation: Operation) -> u64 {
    let live = |core: &Core| core.engine.status().live_bytes;
    let before = live(core);
    core.carry_out(operation).unwrap();
    live(core) - before
}

#[test]
fn a_put_takes_less_in_a_new_map_and_what_it_took_in_an_old_one() {
    let bytes = |format| written_by(&make(&SimulatedDisk::new(1), format), put("key", 100));
    // Header of the record 12, of the version 48 or 7, key 5, value 102; a multiple of 8.
    assert_eq!(bytes(Format::One), 168);
    assert_eq!(bytes(Format::Two), 128);
    assert_eq!(bytes(Format::Three), 128);
}

#[test]
fn an_old_map_keeps_its_format_through_checkpoints_and_openings() {
    let disk = SimulatedDisk::new(1);
    let core = make(&disk, Format::One);
    core.carry_out(put("a", 100)).unwrap();
    core.at_work(|work| work.applier.checkpoint(work.format.stamp()))
        .unwrap()
        .unwrap();
    drop(core);
    let core = open(&disk);
    assert_eq!(core.at_work(|work| work.format).unwrap(), Format::One);
    assert_eq!(written_by(&core, put("b", 100)), 168);
    // From the log alone, too.
    let disk = SimulatedDisk::new(2);
    drop(make(&disk, Format::One));
    let format = open(&disk).at_work(|work| work.format);
    assert_eq!(format.unwrap(), Format::One);
}

#[test]
fn upkeep_of_all_formats_moves_what_lives_and_reads_it_again() {
    let compressed = (Format::Three, Compression::Lz4);
    let forms = [Format::One, Format::Two, Format::Three].map(|it| (it, Compression::None));
    for (format, compression) in forms.into_iter().chain([compressed]) {
        let disk = SimulatedDisk::new(1);
        let core = make(&disk, format);
        let mut noise = [0; 400];
        Random::from_seed(1).fill(&mut noise);
        for round in 0..10 {
            for number in 0..200 {
                if number % 10 == 0 || round == 0 {
                    let value = [&noise[..], &vec![b'v'; 150 + round]].concat();
                    let key = format!("{number:03}");
                    core.carry_out(put_with(&key, &value, compression)).unwrap();
                }
            }
        }
        core.at_work(|work| work.applier.defragment(format.stamp()))
            .unwrap()
            .unwrap();
        assert!(core.engine.status().upkeep.relocated_bytes > 0);
        drop(core);
        let core = open(&disk);
        for number in 0..200 {
            let expected = if number % 10 == 0 { 559 } else { 550 };
            let key = format!("{number:03}");
            let value = read(&core.engine, key.as_bytes(), i64::MAX).unwrap();
            assert_eq!(value.unwrap().len(), expected, "{key} of {format:?}");
        }
    }
}

#[test]
fn values_are_compressed_in_maps_of_the_newest_format_alone() {
    for format in [Format::One, Format::Two, Format::Three] {
        let disk = SimulatedDisk::new(1);
        let core = make_with(&disk, (format, Compression::Lz4));
        let expected = match format {
            Format::One | Format::Two => Compression::None,
            Format::Three => Compression::Lz4,
        };
        assert_eq!(core.compression, expected);
        drop(core);
        // The wish of each opening counts, not that of the one that made it.
        assert_eq!(open(&disk).compression, Compression::None);
        let again = make_with(&disk, (Format::One, Compression::Lz4));
        assert_eq!(again.compression, expected);
    }
}

#[test]
fn puts_are_measured_as_if_they_were_not_compressed() {
    for format in [Format::One, Format::NEWEST] {
        let core = make_with(&SimulatedDisk::new(1), (format, Compression::Lz4));
        let mut refused = 0;
        for value_bytes in (32 << 10) - 150..32 << 10 {
            let stored = core.carry_out(put("key", value_bytes));
            let checked = core.check_puts([("key".len(), value_bytes)].into_iter());
            assert_eq!(stored.is_ok(), checked.is_ok(), "{value_bytes}");
            refused += u64::from(checked.is_err());
        }
        assert!((1..150).contains(&refused), "{refused}");
        let half = ("key".len(), 16 << 10);
        core.check_puts([half].into_iter()).unwrap();
        let error = core.check_puts([half, half].into_iter()).unwrap_err();
        assert!(
            error.to_string().contains("the largest possible is"),
            "{error}"
        );
    }
}

/// A core with some 24 MiB of pairs, of which the device has to read all.
fn long_range(disk: &SimulatedDisk) -> Core {
    range_written(disk, 0..LONG_RANGE, 1_000)
}

/// A core with the pairs of these numbers, written in this order, of which the device has to read all.
fn range_written(
    disk: &SimulatedDisk,
    numbers: impl Iterator<Item = u64>,
    value_bytes: usize,
) -> Core {
    let mut options = options();
    options.log.segment_bytes = 8 << 20;
    options.batch_bytes_max = 2 << 20;
    let directory = Path::new("/data");
    let core = Core::open(
        Arc::new(disk.clone()),
        directory,
        options,
        Compression::None,
    )
    .unwrap();
    let all: Vec<_> = numbers
        .map(|number| put(&format!("{number:05}"), value_bytes))
        .collect();
    for together in all.chunks(20_000_usize.div_ceil(value_bytes)) {
        let answers = core.at_work(|work| work.carry_out(together)).unwrap();
        assert!(answers.iter().all(Result::is_ok));
    }
    disk.cache_nothing();
    disk.take_announced();
    core
}

const LONG_RANGE: u64 = 24 << 10;

fn announced_bytes(disk: &SimulatedDisk) -> u64 {
    disk.take_announced().iter().map(|(_, bytes)| bytes).sum()
}

/// Visits all pairs, and returns for each of them the bytes that were announced to the device before it.
fn announced_before_each(disk: &SimulatedDisk, core: Core) -> Vec<u64> {
    let (mut seen, mut announced) = (0, Vec::new());
    let snapshot = Snapshot::new(Arc::new(core));
    let visited = snapshot.range::<&[u8]>(..).visit(|key, _| {
        assert_eq!(key, format!("{seen:05}").as_bytes());
        let before = announced.last().copied().unwrap_or(0);
        announced.push(before + announced_bytes(disk));
        seen += 1;
        ControlFlow::Continue(())
    });
    visited.unwrap();
    announced
}

#[test]
fn a_visit_of_many_pages_sees_each_pair_and_the_device_reads_ahead_of_it() {
    let disk = SimulatedDisk::new(1);
    let core = long_range(&disk);
    let announced = announced_before_each(&disk, core);
    assert_eq!(announced.len() as u64, LONG_RANGE);
    let a_pair = announced[announced.len() - 1] / LONG_RANGE;
    for (number, &announced) in (0..).zip(&announced) {
        let ahead = announced - number * a_pair;
        // A frame begins in front of some pairs, so these take more bytes than others.
        assert!(ahead <= 3 * (512 << 10) + 4_096, "{ahead} at {number}");
        // By then the visit is long, and pairs are left that can be read ahead.
        if (2_000..LONG_RANGE - 600).contains(&number) {
            assert!(ahead >= 500 << 10, "{ahead} at {number}");
        }
    }
}

/// Numbers of the pairs in front of which something was announced, and the bytes that this was.
fn portions(announced: &[u64]) -> Vec<(usize, u64)> {
    let before = |number: usize| if number > 0 { announced[number - 1] } else { 0 };
    let all = (0..announced.len()).map(|number| (number, announced[number] - before(number)));
    all.filter(|&(_, bytes)| bytes > 0).collect()
}

#[test]
fn a_visit_of_the_device_reads_little_more_than_the_pairs_that_it_sees() {
    let disk = SimulatedDisk::new(1);
    let core = range_written(&disk, 0..2_000, 1_000);
    let announced = announced_before_each(&disk, core);
    let firsts = &portions(&announced)[..3];
    let (numbers, bytes): (Vec<usize>, Vec<u64>) = firsts.iter().copied().unzip();
    assert_eq!(numbers[..2], [0, 16], "{firsts:?}");
    for (bytes, most) in bytes.iter().zip([18 << 10, 66 << 10, 132 << 10]) {
        assert!((most * 3 / 4..=most).contains(bytes), "{firsts:?}");
    }
}

#[test]
fn a_visit_of_short_pairs_waits_for_no_rest_of_a_list() {
    let disk = SimulatedDisk::new(1);
    let core = range_written(&disk, 0..2_000, 100);
    let announced = announced_before_each(&disk, core);
    let numbers: Vec<usize> = portions(&announced).iter().map(|it| it.0).collect();
    let first = numbers[1];
    assert!((80..130).contains(&first), "{numbers:?}");
    assert!((4 * first..6 * first).contains(&numbers[2]), "{numbers:?}");
}

#[test]
fn a_visit_of_scattered_pairs_reads_twice_as_many_each_time() {
    let disk = SimulatedDisk::new(1);
    // None of the neighbours is near another.
    let core = range_written(&disk, (0..900).map(|number| number * 577 % 900), 1_000);
    let announced = announced_before_each(&disk, core);
    let numbers: Vec<usize> = portions(&announced).iter().map(|it| it.0).collect();
    assert_eq!(numbers[..4], [0, 16, 48, 112], "{numbers:?}");
}

#[test]
fn pairs_of_any_length_in_any_order_are_read_ahead() {
    for (value_bytes, pairs) in [
        (200, 40_000),
        (1_000, 8_000),
        (4_000, 2_000),
        (20_000, 400),
        (50_000, 200),
        (150_000, 80),
        (300_000, 40),
        (1 << 20, 20),
    ] {
        // The second factor has no divisor in common with any of these numbers.
        for factor in [1, 577] {
            let disk = SimulatedDisk::new(1);
            let numbers = (0..pairs).map(|number| number * factor % pairs);
            let core = range_written(&disk, numbers, value_bytes);
            let announced = announced_before_each(&disk, core);
            assert_eq!(announced.len() as u64, pairs);
            let all = announced[announced.len() - 1];
            // A first pair that is read at once is not announced.
            let unannounced = u64::from(announced[0] == 0);
            let a_pair = all / (pairs - unannounced);
            for (number, announced) in (0..pairs).zip(announced) {
                let (seen, known) = ((number + 1) * a_pair, announced + unannounced * a_pair);
                let of = format!("{known} of {seen}, {value_bytes} {factor}");
                assert!(known <= 4 * seen.max(512 << 10), "{of}");
                if (pairs / 2..pairs - 2).contains(&number) {
                    assert!(known >= seen + a_pair / 2, "{of}");
                }
            }
        }
    }
}

#[test]
fn an_iterator_fetches_larger_pages_behind_one_that_the_device_read_in_order() {
    let pages = |order: &mut dyn Iterator<Item = u64>, backward: bool| {
        let disk = SimulatedDisk::new(1);
        let core = range_written(&disk, order, 200);
        let snapshot = Snapshot::new(Arc::new(core));
        let mut range = snapshot.range::<&[u8]>(..);
        let mut fetched = Vec::new();
        for number in 0..400 {
            let pair = if backward {
                range.next_back()
            } else {
                range.next()
            };
            pair.unwrap().unwrap();
            if announced_bytes(&disk) > 0 {
                fetched.push(number);
            }
        }
        fetched
    };
    for backward in [false, true] {
        assert_eq!(pages(&mut (0..900), backward), [0, 16, 80, 336]);
        let mut scattered = (0..900).map(|number| number * 577 % 900);
        assert_eq!(pages(&mut scattered, backward), [0, 16, 48, 112, 240]);
    }
}

#[test]
fn a_visit_ends_where_its_caller_breaks_on_any_page() {
    let disk = SimulatedDisk::new(1);
    let snapshot = Snapshot::new(Arc::new(long_range(&disk)));
    // Pages have as many pairs as the device reads at once.
    for last in [1, 16, 17, 79, 80, 81, 1_009, 4_065, 9_000] {
        let mut seen = 0;
        let visited = snapshot.range::<&[u8]>(..).visit(|key, _| {
            assert_eq!(key, format!("{seen:05}").as_bytes());
            seen += 1;
            match seen == last {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        visited.unwrap();
        assert_eq!(seen, last);
    }
}

/// Damages the files where they have these bytes.
fn flip_a_bit_of(disk: &SimulatedDisk, wanted: &[u8]) {
    for name in disk.list(Path::new("/data")).unwrap() {
        let path = Path::new("/data").join(name);
        let file = disk.open(&path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        let read = file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(read, bytes.len());
        let mut places = bytes.windows(wanted.len());
        if let Some(place) = places.position(|place| place == wanted) {
            disk.flip_bit(&path, place as u64, 0);
        }
    }
}

#[test]
fn a_visit_of_many_pages_ends_at_a_pair_that_is_damaged() {
    let disk = SimulatedDisk::new(1);
    let core = Arc::new(long_range(&disk));
    let damaged = 10_000;
    flip_a_bit_of(&disk, format!("{damaged:05}").as_bytes());
    let snapshot = Snapshot::new(core);
    let mut seen = 0;
    let visited = snapshot.range::<&[u8]>(..).visit(|_, _| {
        seen += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(seen, damaged);
    let iterated = snapshot.range(damaged.to_string()..).next().unwrap();
    assert_eq!(
        visited.unwrap_err().to_string(),
        iterated.unwrap_err().to_string()
    );
}
