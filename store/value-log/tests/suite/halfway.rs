//! Operations that fail halfway: flushes of names, a release, a relocation. Promised
//! groups stay, no file of unknown state is used, and the next opening finds all in
//! order.

use crate::support;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use environment::simulated::{Fault, Restart, SimulatedDisk};
use environment::{Disk, File, OpenMode};
use support::{DIRECTORY, Seen, explicit, open, payload, put, segment_path, shared};
use value_log::{Error, Log, Position, Record, SegmentKind};

/// A disk on which one flush of a directory can fail and later ones succeed, as the
/// kernel reports a failure to one caller only.
#[derive(Debug)]
struct Forgetful {
    disk: SimulatedDisk,
    /// Flushes of directories until the one that fails; 0: none will.
    fails_in: AtomicU64,
    flushes: AtomicU64,
}

impl Forgetful {
    fn new() -> Arc<Forgetful> {
        Arc::new(Forgetful {
            disk: SimulatedDisk::new(3),
            fails_in: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        })
    }

    fn fail_next(&self) {
        self.fails_in.store(1, Ordering::SeqCst);
    }

    fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::SeqCst)
    }

    fn open_log(self: &Arc<Self>) -> Log {
        let disk = Arc::clone(self);
        let opened = Log::open(
            disk,
            Path::new(DIRECTORY),
            explicit(),
            None,
            &mut |_| Ok(()),
        );
        opened.unwrap().0
    }
}

impl Disk for Forgetful {
    fn create_directories(&self, path: &Path) -> io::Result<()> {
        self.disk.create_directories(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.disk.open(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        match self.fails_in.swap(0, Ordering::SeqCst) {
            0 => self.disk.sync_directory(directory),
            1 => Err(io::Error::other("the journal failed")),
            more => {
                self.fails_in.store(more - 1, Ordering::SeqCst);
                self.disk.sync_directory(directory)
            }
        }
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn environment::DirectoryLock>> {
        self.disk.lock_directory(directory)
    }

    fn space(&self, directory: &Path) -> io::Result<environment::Space> {
        self.disk.space(directory)
    }
}

/// Appends until the log ends; returns the last index that was promised. The
/// whole log ends, and before it enters a third segment.
fn put_until_it_ends(log: &Log, from: u64) -> u64 {
    let before = log.segments().last().unwrap().id;
    for index in from.. {
        let Err(error) = put(log, index, &payload(index, 3000)) else {
            assert!(log.segments().last().unwrap().id <= before + 2);
            continue;
        };
        assert!(error.is_failed(), "{error}");
        assert!(error.to_string().contains("sync directory"), "{error}");
        return index - 1;
    }
    unreachable!("the log ends")
}

fn expect_all(disk: &SimulatedDisk, last: u64) -> Vec<Seen> {
    let (log, _, seen) = open(disk, explicit()).unwrap();
    let indexes: Vec<u64> = seen.iter().map(|(index, _)| *index).collect();
    assert!(
        indexes.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{indexes:?}"
    );
    assert!(indexes.last().is_some_and(|&it| it >= last), "{indexes:?}");
    for index in last + 100..last + 160 {
        put(&log, index, &payload(index, 3000)).unwrap();
    }
    log.close().unwrap();
    seen
}

#[test]
fn after_a_failed_directory_flush_no_segment_is_given_and_nothing_is_flushed_again() {
    let disk = Forgetful::new();
    let log = disk.open_log();
    put(&log, 1, b"first").unwrap();
    while log.status().spare_segments == 0 {
        std::thread::yield_now();
    }
    disk.fail_next();
    // Enters what was ready; the one after that is made under a name that may
    // not last.
    log.rotate().unwrap();
    let last = put_until_it_ends(&log, 2);
    let flushes = disk.flushes();
    assert!(log.rotate().unwrap_err().is_failed());
    assert!(log.relocate(0).is_err());
    assert_eq!(disk.flushes(), flushes);
    drop(log);
    disk.disk.crash();
    for restart in [Restart::nothing_kept(), Restart::everything_kept()] {
        expect_all(&disk.disk.restart(restart), last);
    }
}

#[test]
fn a_release_with_a_failed_directory_flush_stops_the_segment_pool() {
    let disk = Forgetful::new();
    let log = disk.open_log();
    put(&log, 1, b"first").unwrap();
    log.rotate().unwrap();
    put(&log, 2, b"second").unwrap();
    log.rotate().unwrap();
    // Its next segment is there: then this flush is the release's.
    while log.status().spare_segments == 0 {
        std::thread::yield_now();
    }
    disk.fail_next();
    let error = log.release(&[1]).unwrap_err();
    assert!(error.to_string().contains("sync directory"), "{error}");
    let flushes = disk.flushes();
    let last = put_until_it_ends(&log, 3);
    assert_eq!(disk.flushes(), flushes);
    drop(log);
    disk.disk.crash();
    for restart in [Restart::nothing_kept(), Restart::everything_kept()] {
        expect_all(&disk.disk.restart(restart), last);
    }
}

fn fill(relocation: &mut value_log::Relocation) -> Result<(), Error> {
    for number in 0..60 {
        let payload = payload(number, 3000);
        let parts: &[&[u8]] = &[&payload];
        relocation.append(Record { kind: 9, parts })?;
    }
    Ok(())
}

#[test]
fn a_sorted_segment_with_a_failed_directory_flush_is_no_spare() {
    let disk = Forgetful::new();
    let log = disk.open_log();
    put(&log, 1, b"first").unwrap();
    while log.status().spare_segments == 0 {
        std::thread::yield_now();
    }
    let mut relocation = log.relocate(0).unwrap();
    // The first flush is that of a new file's name, the second of the
    // segment's.
    disk.fails_in.store(2, Ordering::SeqCst);
    let error = fill(&mut relocation).unwrap_err();
    assert!(error.to_string().contains("sync directory"), "{error}");
    assert!(fill(&mut relocation).is_err(), "records are missing");
    assert!(relocation.finish().is_err());
    let last = put_until_it_ends(&log, 2);
    drop(log);
    let names = disk.list(Path::new(DIRECTORY)).unwrap();
    assert!(names.iter().any(|it| it.ends_with(".sorted")), "{names:?}");
    disk.disk.crash();
    for restart in [Restart::nothing_kept(), Restart::everything_kept()] {
        expect_all(&disk.disk.restart(restart), last);
    }
}

/// A relocation in which the `io`-th I/O fails, then the log goes on as far as
/// it does. Returns whether the relocation failed.
fn relocate_with(fault: Fault, io: u64) -> bool {
    let disk = SimulatedDisk::new(io);
    let (log, ..) = open(&disk, explicit()).unwrap();
    put(&log, 1, b"first").unwrap();
    while log.status().spare_segments == 0 {
        std::thread::yield_now();
    }
    disk.inject(disk.io_count() + io, fault);
    let mut relocation = log.relocate(0).unwrap();
    let done = fill(&mut relocation).and_then(|()| relocation.finish());
    let sorted = |log: &Log| -> Vec<u32> {
        let infos = log.segments().into_iter();
        let sorted = infos.filter(|it| it.kind == SegmentKind::Sorted);
        sorted.map(|it| it.id).collect()
    };
    // A file system that has gone read-only keeps what was complete.
    if let Ok(ids) = &done {
        assert_eq!(sorted(&log), *ids);
    }
    let put_well = (2..60).take_while(|&it| put(&log, it, &payload(it, 3000)).is_ok());
    let last = 1 + put_well.count() as u64;
    drop(log);
    disk.crash();
    for restart in [Restart::power_loss(), Restart::nothing_kept()] {
        let disk = disk.restart(restart);
        expect_all(&disk, last);
        let (log, ..) = open(&disk, explicit()).unwrap();
        // Whatever has a sorted segment's name is whole.
        for id in sorted(&log) {
            let found = log.read(Position::new(id, 4096 + 88), 0).unwrap();
            assert_eq!((found.kind, found.payload.len()), (9, 3000));
        }
        let there = sorted(&log);
        assert!(done.iter().flatten().all(|id| there.contains(id)));
    }
    done.is_err()
}

#[test]
fn a_relocation_that_fails_anywhere_harms_nothing() {
    let mut failed = 0;
    for io in 0..60 {
        for fault in [Fault::FailedFlush, Fault::ShortWrite { bytes: 100 }] {
            failed += u64::from(relocate_with(fault, io));
        }
    }
    assert!(failed > 30, "only {failed} failed");
}

#[test]
fn a_release_that_fails_halfway_keeps_what_it_has_recycled_and_what_it_has_not() {
    let disk = SimulatedDisk::new(1);
    let (log, ..) = open(&disk, explicit()).unwrap();
    let positions: Vec<Position> = (1..=4)
        .map(|index| {
            let position = put(&log, index, b"x").unwrap();
            log.rotate().unwrap();
            position
        })
        .collect();
    while log.status().spare_segments == 0 {
        std::thread::yield_now();
    }
    // A rename of what is not there fails.
    disk.remove(&segment_path(2)).unwrap();
    let error = log.release(&[1, 2, 3]).unwrap_err();
    assert!(error.to_string().contains("00000002.log"), "{error}");
    assert_eq!(log.status().spare_segments, 2, "the file of segment 1");
    assert!(matches!(
        log.read(positions[0], 0),
        Err(Error::NotFound { .. })
    ));
    assert!(log.read(positions[2], 0).is_ok());
    // The file of segment 2 is gone, and the handle has its bytes.
    for position in &positions[1..] {
        let place = (*position, Log::record_bytes(1));
        let seen = log.looks().at(place, |_, payload| payload.to_vec());
        assert_eq!(seen.unwrap(), b"x", "{position}");
    }
    log.release(&[3]).unwrap();
    assert!(matches!(
        log.read(positions[2], 0),
        Err(Error::NotFound { .. })
    ));
    assert!(log.read(positions[3], 0).is_ok());
}

#[test]
fn an_old_refusal_is_not_given_to_a_producer_that_finds_a_buffer_full() {
    let disk = SimulatedDisk::new(5);
    let options = value_log::Options {
        segment_bytes: 1 << 20,
        ..shared()
    };
    // One segment, and no room for another.
    disk.set_capacity(3 << 19);
    let (log, ..) = open(&disk, options).unwrap();
    let append = |bytes: usize| {
        let payload = vec![7; bytes];
        let parts: &[&[u8]] = &[&payload];
        log.append(&[Record { kind: 1, parts }])
    };
    append(300 << 10).unwrap();
    let refusal = append(900 << 10).unwrap_err();
    assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
    // Two appends fit a buffer: most find it full, often twice.
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..4 {
                    append(7 << 10).unwrap();
                }
            });
        }
    });
    let refusal = (0..).find_map(|_| append(7 << 10).err()).unwrap();
    assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
}
