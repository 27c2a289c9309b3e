//! Records that join the last frame: which do, which do not, and what is left after a crash or a failed
//! flush.

use crate::support;

use environment::randomness::Random;
use environment::simulated::{Fault, Restart, SimulatedDisk};
use environment::{Disk, OpenMode};
use support::{FRAME_HEADER, explicit, open, payload, seed};
use value_log::{Appended, Body, Durability, Error, Log, Options, Position, Record, Tag, Worker};

/// Runs of the same story with other seeds.
const STORIES: u64 = 120;

fn options() -> Options {
    Options {
        worker: Worker::Caller,
        durability: Durability::Os,
        ..explicit()
    }
}

/// An appender that tries to join the last group, as the only writer of a map does.
struct Appender {
    log: Log,
    /// Index of the last group.
    index: u64,
    /// Number of the last record.
    number: u64,
}

impl Appender {
    /// Opens the log; returns the numbers of the records in it, too.
    fn open(disk: &SimulatedDisk, options: Options) -> Result<(Appender, Vec<u64>), Error> {
        let (log, recovered, seen) = open(disk, options)?;
        let payloads = seen.into_iter().flat_map(|(_, payloads)| payloads);
        let numbers: Vec<u64> = payloads.map(|it| number_of(&it)).collect();
        let appender = Appender {
            log,
            index: recovered.tag.index,
            number: recovered.tag.last,
        };
        Ok((appender, numbers))
    }

    /// Appends the next record, into the last group if that can become longer. Returns whether it did.
    fn append(&mut self, bytes: usize) -> Result<(Appended, bool), Error> {
        let number = self.number + 1;
        let payload = payload(number, bytes.max(8));
        let body = Body::encode(&[Record {
            kind: 1,
            parts: &[&payload],
        }]);
        let tag = |index| Tag {
            term: 1,
            index,
            first: number,
            last: number,
        };
        let joined = self.log.lengthen_last_group(tag(self.index), &body)?;
        let has_joined = joined.is_some();
        let appended = match joined {
            Some(appended) => appended,
            None => {
                self.index += 1;
                self.log.append_bodies(tag(self.index), &[&body])?
            }
        };
        self.number = number;
        self.log.wait_durable(appended.sequence)?;
        let read = self.log.read(appended.positions[0], 0)?;
        assert_eq!(read.payload, payload);
        Ok((appended, has_joined))
    }

    fn joins(&mut self, bytes: usize) -> bool {
        self.append(bytes).unwrap().1
    }
}

fn number_of(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload[..8].try_into().unwrap())
}

#[test]
fn small_records_share_the_frame_of_their_block() {
    let disk = SimulatedDisk::new(1);
    let (mut appender, _) = Appender::open(&disk, options()).unwrap();
    let before = appender.log.segments()[0].used_bytes;
    let positions: Vec<_> = (0..100)
        .map(|_| appender.append(100).unwrap().0.positions[0])
        .collect();
    let bytes = appender.log.segments()[0].used_bytes - before;
    // The last block is not full, and the end of each other one has no room for a record.
    let (record, blocks) = (Log::record_bytes(100) as u64, 3);
    let least = 100 * record + blocks * FRAME_HEADER;
    assert!((least..least + blocks * record).contains(&bytes), "{bytes}");
    appender.log.close().unwrap();
    drop(appender);
    let (log, recovered, seen) = open(&disk, options()).unwrap();
    assert!(recovered.clean);
    assert_eq!((seen.len() as u64, recovered.tag.last), (blocks, 100));
    let numbers = seen.iter().flat_map(|it| &it.1).map(|it| number_of(it));
    assert!(numbers.eq(1..=100));
    for (number, &position) in (1..).zip(&positions) {
        assert_eq!(log.read(position, 0).unwrap().payload, payload(number, 100));
    }
}

#[test]
fn a_frame_fills_its_block_to_the_last_byte_and_no_further() {
    let disk = SimulatedDisk::new(1);
    let (mut appender, _) = Appender::open(&disk, options()).unwrap();
    let room = |log: &Log| (4096 - log.segments()[0].used_bytes % 4096) as usize;
    /// The longest payload of a record of `bytes`.
    fn payload_bytes(bytes: usize) -> usize {
        let longest = (0..bytes).rev().find(|&it| Log::record_bytes(it) == bytes);
        longest.unwrap()
    }
    assert_eq!(appender.log.room_in_last_group(), 0);
    assert!(!appender.joins(100), "the opening's frame takes no records");
    let left = room(&appender.log);
    assert_eq!(appender.log.room_in_last_group(), left);
    assert!(!appender.joins(payload_bytes(left) + 1), "a byte too many");
    while room(&appender.log) > 200 {
        assert!(appender.joins(100));
    }
    let left = room(&appender.log);
    assert!(appender.joins(payload_bytes(left)));
    assert_eq!(room(&appender.log), 4096, "the block is full");
    assert!(!appender.joins(8));
    let last = appender.number;
    drop(appender);
    let (_, numbers) = Appender::open(&disk, options()).unwrap();
    assert!(numbers.into_iter().eq(1..=last));
}

#[test]
fn a_frame_is_sealed_by_a_flush_a_seal_a_walk_another_frame_and_a_rotation() {
    type Act = fn(&Log);
    let acts: [(&str, Act); 4] = [
        ("flush", |log| log.flush().unwrap()),
        ("seal", |log| log.seal_last_group()),
        ("another frame", |log| {
            let appended = log.append_group(Tag::default(), &[]).unwrap();
            log.wait_durable(appended.sequence).unwrap();
        }),
        ("rotation", |log| log.rotate().unwrap()),
    ];
    let disk = SimulatedDisk::new(1);
    let (mut appender, _) = Appender::open(&disk, options()).unwrap();
    for (name, act) in acts {
        appender.append(8).unwrap();
        assert!(appender.joins(8), "before a {name}");
        act(&appender.log);
        assert_eq!(appender.log.room_in_last_group(), 0, "after a {name}");
        assert!(!appender.joins(8), "after a {name}");
        assert!(appender.joins(8), "behind the next frame");
    }
    let mut groups = appender.log.groups(Position::NONE);
    while groups.next().is_some() {}
    assert!(!appender.joins(8), "a walk stands behind the last frame");
    assert!(!appender.joins(8), "and may go on to the next");
    let walked: Vec<_> = groups.map(Result::unwrap).collect();
    assert_eq!(walked.len(), 2, "it goes on with what came later");
}

#[test]
fn only_numbers_that_follow_in_the_same_entry_join_a_frame() {
    let disk = SimulatedDisk::new(1);
    let (mut appender, _) = Appender::open(&disk, options()).unwrap();
    assert!(!appender.joins(8));
    let body = Body::encode(&[Record {
        kind: 1,
        parts: &[b"body"],
    }]);
    let right = Tag {
        term: 1,
        index: 1,
        first: 2,
        last: 4,
    };
    let lengthened = |tag, body: &Body| appender.log.lengthen_last_group(tag, body).unwrap();
    for wrong in [
        Tag { term: 2, ..right },
        Tag { index: 2, ..right },
        Tag { first: 3, ..right },
        Tag { first: 1, ..right },
    ] {
        assert_eq!(lengthened(wrong, &body), None);
    }
    assert_eq!(
        lengthened(right, &Body::default()),
        None,
        "nothing to append"
    );
    assert!(lengthened(right, &body).is_some());
    assert_eq!(lengthened(right, &body), None, "the numbers have been used");
}

#[test]
fn no_frame_becomes_longer_where_each_is_flushed_or_a_thread_writes() {
    for options in [
        Options {
            durability: Durability::Durable,
            ..options()
        },
        Options {
            worker: Worker::Threads,
            ..options()
        },
    ] {
        let disk = SimulatedDisk::new(1);
        let (mut appender, _) = Appender::open(&disk, options).unwrap();
        for _ in 0..10 {
            assert!(!appender.joins(8));
        }
    }
}

#[test]
fn the_first_group_of_a_segment_has_its_last_tag_in_the_seal_note() {
    let disk = SimulatedDisk::new(1);
    let (mut appender, _) = Appender::open(&disk, options()).unwrap();
    for _ in 0..5 {
        appender.append(8).unwrap();
    }
    let tag = Tag {
        term: 1,
        index: 1,
        first: 1,
        last: 5,
    };
    let tags = |log: &Log| (log.segments()[0].first_tag, log.segments()[0].last_tag);
    assert_eq!(tags(&appender.log), (tag, tag));
    appender.log.rotate().unwrap();
    appender.append(8).unwrap();
    assert_eq!(tags(&appender.log), (tag, tag));
    appender.log.close().unwrap();
    drop(appender);
    // Replayed from the second segment on, so the tags of the first are those of its seal note.
    let from = Some(Position::new(2, 0));
    let (log, ..) = support::open_from(&disk, options(), from).unwrap();
    assert_eq!(tags(&log), (tag, tag));
}

#[test]
fn after_a_failed_write_no_flush_succeeds() {
    let disk = SimulatedDisk::new(1);
    let (mut appender, _) = Appender::open(&disk, options()).unwrap();
    appender.append(100).unwrap();
    disk.inject(disk.io_count(), Fault::ShortWrite { bytes: 100 });
    appender.append(100).unwrap_err();
    appender.log.flush().unwrap_err();
    appender.log.close().unwrap_err();
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default)]
struct Story {
    /// Number of the last record that was handed over.
    appended: u64,
    /// Number of the last one in the page cache.
    written: u64,
    /// Number of the last one that a flush has promised.
    flushed: u64,
    /// Records that joined a frame.
    joined: u64,
}

/// Appends up to 150 small records, and sometimes flushes, seals, rotates or walks.
fn run(disk: &SimulatedDisk, seed: u64, story: &mut Story) -> Result<(), Error> {
    let (mut appender, numbers) = Appender::open(disk, options())?;
    assert!(
        numbers.iter().copied().eq(1..=appender.number),
        "{numbers:?}"
    );
    story.written = appender.number;
    story.flushed = story.written;
    let mut random = Random::from_seed(seed);
    for _ in 0..150 {
        let bytes = match random.below(20) {
            0 => 3_000 + random.below(8_000),
            _ => random.below(200),
        };
        story.appended = appender.number + 1;
        let (_, joined) = appender.append(bytes as usize)?;
        story.written = appender.number;
        story.joined += u64::from(joined);
        match random.below(60) {
            0 => {
                appender.log.flush()?;
                story.flushed = story.written;
            }
            1 => appender.log.seal_last_group(),
            2 => appender.log.rotate()?,
            _ => {}
        }
    }
    appender.log.close()?;
    story.flushed = story.written;
    Ok(())
}

/// Opens the log, checks that it holds the first records and at least `least` of them, and writes
/// some more, which it flushes. Returns how many it has then.
fn go_on(disk: &SimulatedDisk, (least, most): (u64, u64), what: &str) -> u64 {
    let opened = Appender::open(disk, options());
    let (mut appender, numbers) =
        opened.unwrap_or_else(|error| panic!("{what}: {error}\n{}", disk.trace()));
    let last = appender.number;
    assert!(numbers.iter().copied().eq(1..=last), "{what}: {numbers:?}");
    assert!(
        (least..=most).contains(&last),
        "{what}: {last} of {least} to {most}\n{}",
        disk.trace()
    );
    for _ in 0..3 {
        appender.append(60).unwrap();
    }
    appender.log.flush().unwrap();
    appender.number
}

/// [`go_on`], and once more after a loss of power.
fn outlives(disk: &SimulatedDisk, range: (u64, u64), what: &str) {
    let last = go_on(disk, range, what);
    disk.crash();
    let disk = disk.restart(Restart::nothing_kept());
    go_on(
        &disk,
        (last, last),
        &format!("{what}, and then a loss of power"),
    );
}

#[test]
fn a_crash_at_every_io_takes_no_more_than_was_not_flushed() {
    for io in 0.. {
        let disk = SimulatedDisk::new(seed(11_000) + io);
        disk.keep_pages_whole();
        disk.crash_at(io);
        let mut story = Story::default();
        let ended = run(&disk, io, &mut story);
        if !disk.has_crashed() {
            assert!(ended.is_ok() && io > 150, "{io}: {ended:?}");
            assert!(story.joined > 50, "{story:?}");
            return;
        }
        for restart in [
            Restart::ProcessCrash,
            Restart::power_loss(),
            Restart::power_loss_without_journal(),
            Restart::power_loss_within_a_sector(),
            Restart::nothing_kept(),
            Restart::everything_kept(),
        ] {
            let least = match restart {
                Restart::ProcessCrash => story.written,
                _ => story.flushed,
            };
            let what = format!("{story:?}, crash at {io}, {restart:?}");
            outlives(&disk.restart(restart), (least, story.appended), &what);
        }
    }
}

/// The machine goes on, and its page cache shows pages that the device has in an older version.
#[test]
fn after_a_failed_flush_an_opening_keeps_what_the_device_has() {
    let (mut failed, mut shorter) = (0, 0);
    for number in 0..STORIES {
        let seed = seed(12_000) + number;
        let mut ios = Random::from_seed(seed);
        let disk = SimulatedDisk::new(seed);
        disk.inject(ios.below(200), Fault::FailedFlush);
        let mut story = Story::default();
        let ended = run(&disk, seed, &mut story);
        // A directory's flush that fails leaves the file system read-only.
        let is_readonly = disk.trace().to_string().contains("the journal failed");
        if ended.is_ok() || is_readonly {
            continue;
        }
        failed += 1;
        shorter += u64::from(has_a_shorter_last_frame(&disk));
        let what = format!("seed {seed}, {story:?}");
        outlives(&disk, (story.flushed, story.appended), &what);
    }
    assert!(failed > STORIES / 6, "{failed} runs met a failed flush");
    assert!(shorter > 0, "{shorter} left a shorter frame on the device");
}

/// Whether the device has a frame of records with another header than the page cache.
fn has_a_shorter_last_frame(disk: &SimulatedDisk) -> bool {
    let headers = |mode| {
        let mut bytes = vec![0; 64 << 10];
        // Some runs end before there is a segment.
        if let Ok(file) = disk.open(&support::segment_path(1), mode) {
            file.read_at(&mut bytes, 0).unwrap();
        }
        let starts = (0..bytes.len() - 88).step_by(8);
        starts
            .filter(|&at| bytes[at..].starts_with(b"IKFR"))
            .map(|at| (at, bytes[at..at + 88].to_vec()))
            .collect::<Vec<_>>()
    };
    let (device, cached) = (headers(OpenMode::ReadDevice), headers(OpenMode::Read));
    device
        .iter()
        .any(|(at, header)| cached.iter().any(|it| it.0 == *at && it.1 != *header))
}

#[test]
fn a_shorter_last_frame_of_the_device_stays_when_the_next_one_is_written() {
    let mut numbers = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed);
        let (mut appender, _) = Appender::open(&disk, options()).unwrap();
        for _ in 0..5 {
            appender.append(60).unwrap();
        }
        disk.inject(disk.io_count(), Fault::FailedFlush);
        appender.log.flush().unwrap_err();
        drop(appender);
        let (mut appender, found) = Appender::open(&disk, options()).unwrap();
        numbers.insert(found.len());
        appender.append(60).unwrap();
        appender.log.flush().unwrap();
        disk.crash();
        let disk = disk.restart(Restart::nothing_kept());
        let (_, then) = Appender::open(&disk, options()).unwrap();
        assert_eq!(then.len(), found.len() + 1, "seed {seed}");
    }
    assert!(
        numbers.into_iter().eq(0..=5),
        "any version was on the device"
    );
}
