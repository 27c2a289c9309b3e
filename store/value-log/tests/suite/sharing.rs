//! Many producers: nothing is lost, and they share flushes.

use crate::support;

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use environment::simulated::SimulatedDisk;
use environment::{DirectoryLock, Disk, File, Lent, OpenMode, Space, threads};
use support::{explicit, open, payload, shared};
use value_log::{Durability, Log, Options, Position, Record, Seal, Sequence};

const PRODUCERS: u64 = 8;

/// A disk on which durable writes wait at a gate.
#[derive(Clone, Debug)]
struct GatedDisk {
    disk: SimulatedDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    closed: bool,
    waiting: usize,
}

impl Gate {
    fn set_closed(&self, closed: bool) {
        self.state.lock().unwrap().closed = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let mut state = self
            .changed
            .wait_while(state, |state| state.closed)
            .unwrap();
        state.waiting -= 1;
    }

    fn wait_for_one(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |state| state.waiting == 0)
                .unwrap(),
        );
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl File for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.file.write_at(parts, offset)
    }
    fn write_durable_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.gate.pass();
        self.file.write_durable_at(parts, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }
    fn keep_size(&self) {
        self.file.keep_size();
    }
    fn is_cached(&self, offset: u64, bytes: u64) -> bool {
        self.file.is_cached(offset, bytes)
    }
    fn announce(&self, offset: u64, bytes: u64) {
        self.file.announce(offset, bytes);
    }
    fn prefetch(&self, offset: u64, bytes: usize) {
        self.file.prefetch(offset, bytes);
    }
    fn lend(&self, offset: u64, bytes: usize) -> Option<Lent<'_>> {
        self.file.lend(offset, bytes)
    }
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }
    fn reserve(&self, size: u64) -> io::Result<()> {
        self.file.reserve(size)
    }
}

impl Disk for GatedDisk {
    fn create_directories(&self, path: &Path) -> io::Result<()> {
        self.disk.create_directories(path)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(GatedFile {
            file,
            gate: Arc::clone(&self.gate),
        }))
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
        self.disk.sync_directory(directory)
    }
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock_directory(directory)
    }
    fn space(&self, directory: &Path) -> io::Result<Space> {
        self.disk.space(directory)
    }
}

/// While the first group is at the gate, the others arrive; opened, the gate
/// lets one more flush through for all of them.
fn flushes_for_all(options: Options) {
    let gate = Arc::new(Gate::default());
    let disk = GatedDisk {
        disk: SimulatedDisk::new(1),
        gate: Arc::clone(&gate),
    };
    let opened = Log::open(
        Arc::new(disk),
        Path::new(support::DIRECTORY),
        options.clone(),
        None,
        &mut |_| Ok(()),
    );
    let (log, _) = opened.unwrap();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&notices);
    log.on_durable(Box::new(move |result| {
        listener.lock().unwrap().push(result.unwrap())
    }));
    while log.status().spare_segments < options.spare_segments {
        std::thread::yield_now();
    }
    let before = log.status().flushes;
    gate.set_closed(true);
    let append = |number| {
        log.append(&[Record {
            kind: 0,
            parts: &[&payload(number, 500)],
        }])
        .unwrap()
    };
    let first = append(0);
    gate.wait_for_one();
    let rest: Vec<_> = (1..PRODUCERS).map(append).collect();
    assert!(
        log.durable() < first.sequence,
        "nothing is promised before its flush"
    );
    gate.set_closed(false);
    rest.iter()
        .for_each(|appended| log.wait_durable(appended.sequence).unwrap());
    assert_eq!(
        log.status().flushes - before,
        2,
        "one for the first, one for the other seven"
    );
    let last = rest.last().unwrap().sequence;
    assert_eq!(*notices.lock().unwrap(), [first.sequence, last]);
    let distinct = rest
        .windows(2)
        .all(|pair| pair[0].sequence < pair[1].sequence);
    assert_eq!(
        distinct,
        options.seal == Seal::Explicit,
        "explicit groups have a frame each"
    );
}

#[test]
fn groups_that_arrive_during_a_flush_share_the_next() {
    flushes_for_all(explicit());
    flushes_for_all(shared());
}

fn many_producers(options: Options, records: u64) {
    let disk = SimulatedDisk::new(9);
    let (log, _, _) = open(&disk, options.clone()).unwrap();
    let log = Arc::new(log);
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let log = Arc::clone(&log);
            threads::spawn("producer", move || produce(&log, producer, records)).unwrap()
        })
        .collect();
    let written: Vec<Vec<Position>> = producers.into_iter().map(|it| it.join().unwrap()).collect();
    for (producer, positions) in written.iter().enumerate() {
        for (number, position) in positions.iter().enumerate() {
            let record = log.read(*position, 0).unwrap();
            assert_eq!(
                record.payload,
                content(producer as u64, number as u64)[..],
                "{producer}/{number}"
            );
        }
    }
    check_order(
        log.groups(Position::NONE)
            .flat_map(|group| group.unwrap().records)
            .map(|it| it.2.to_vec()),
        records,
    );
    Arc::into_inner(log).unwrap().close().unwrap();
    let (_log, _, seen) = open(&disk, options).unwrap();
    check_order(seen.into_iter().flat_map(|(_, payloads)| payloads), records);
}

fn content(producer: u64, number: u64) -> Vec<u8> {
    let mut content = payload(number, 8 + (number * 37 % 900) as usize);
    content.push(producer as u8);
    content
}

fn produce(log: &Log, producer: u64, records: u64) -> Vec<Position> {
    let mut last = Sequence::default();
    let mut positions = Vec::new();
    for number in 0..records {
        let appended = log
            .append(&[Record {
                kind: 0,
                parts: &[&content(producer, number)],
            }])
            .unwrap();
        assert!(
            appended.sequence >= last,
            "a producer's groups are in order"
        );
        last = appended.sequence;
        positions.push(appended.positions[0]);
        if number % 50 == 0 {
            log.wait_durable(last).unwrap();
        }
    }
    log.wait_durable(last).unwrap();
    positions
}

/// Every producer's records are all there, in its order.
fn check_order(records: impl Iterator<Item = Vec<u8>>, expected: u64) {
    let mut next = [0; PRODUCERS as usize];
    for record in records {
        let producer = *record.last().unwrap() as usize;
        assert_eq!(record, content(producer as u64, next[producer]));
        next[producer] += 1;
    }
    assert_eq!(next, [expected; PRODUCERS as usize]);
}

#[test]
fn eight_producers_of_shared_groups_lose_nothing() {
    many_producers(shared(), 1500);
}

#[test]
fn eight_producers_of_explicit_groups_lose_nothing() {
    many_producers(explicit(), 800);
}

#[test]
fn eight_producers_without_flushes_lose_nothing() {
    many_producers(
        Options {
            durability: Durability::Os,
            segment_bytes: 1 << 20,
            ..shared()
        },
        3000,
    );
}
