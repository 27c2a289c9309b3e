//! What a key costs in this index and in `std`'s `BTreeMap`: time and memory.
//!
//! `cargo run --release -p ordered-index --example index_cost [KEYS...]`
//! (default: 1000000). One process, one thread; the structures take turns on
//! the same keys. Memory is what the allocator was asked for. Ratios within
//! one run mean something, single nanoseconds on a shared machine do not.
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement needs the real clock, and no simulation runs it"
)]

use environment::randomness::Random;
use ordered_index::{IndexEntry, Reader, Writer, heap_use};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

struct Counting;

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is handed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of the blocks in use, the nodes' and all others.
fn live_bytes() -> i64 {
    let heap = heap_use();
    let of_nodes = if heap.is_own { heap.bytes } else { 0 };
    LIVE_BYTES.load(Ordering::Relaxed) + of_nodes as i64
}

const LOOKUPS: usize = 500_000;
/// Changes between two publishes while the index is filled.
const FILL_BATCH: usize = 1_000;

fn main() {
    let mut sizes: Vec<usize> = std::env::args()
        .skip(1)
        .map(|keys| keys.parse().expect("KEYS is a number"))
        .collect();
    if sizes.is_empty() {
        sizes.push(1_000_000);
    }
    for keys in sizes {
        for (kind, key) in [
            ("8-byte random", short_key as KeyOf),
            ("32-byte /tNNNNN/", long_key),
            ("66-byte names of pods", pod),
        ] {
            measure(kind, keys, key);
        }
        ascending(keys);
    }
}

type KeyOf = fn(&mut Random) -> Vec<u8>;

fn short_key(random: &mut Random) -> Vec<u8> {
    random.next_u64().to_be_bytes().to_vec()
}

/// As the prototype measured: 10,000 tables, then 24 hexadecimal digits.
fn long_key(random: &mut Random) -> Vec<u8> {
    let (table, high, low) = (
        random.below(10_000),
        random.next_u64(),
        random.next_u64() as u32,
    );
    format!("/t{table:05}/{high:016x}{low:08x}").into_bytes()
}

/// As Kubernetes keeps pods: about ten of each of 100,000 deployments, and fifty of these in a
/// namespace.
fn pod(random: &mut Random) -> Vec<u8> {
    let deployment = random.below(100_000);
    let (namespace, suffix) = (deployment / 50, random.below(1 << 20));
    let replica_set = Random::from_seed(deployment).next_u64() >> 24;
    format!("/registry/pods/namespace-{namespace:05}/deployment-{deployment:07}-{replica_set:010x}-{suffix:05x}")
        .into_bytes()
}

/// Nanoseconds per step of `work`.
fn timed(steps: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / steps as f64
}

fn collect_garbage() {
    for _ in 0..1_000 {
        crossbeam_epoch::pin().flush();
    }
}

fn measure(kind: &str, count: usize, key: KeyOf) {
    let mut random = Random::from_seed(1);
    let keys: Vec<Vec<u8>> = (0..count).map(|_| key(&mut random)).collect();
    let key_bytes = keys[0].len() as f64;
    println!("\n{count} keys, {kind}, random order");
    println!(
        "  {:<22} {:>9} {:>9} {:>9} {:>12} {:>9}",
        "", "insert", "lookup", "scan", "bytes/key", "beyond"
    );
    let row = |name: &str, cost: &Cost| {
        let per_key = cost.bytes as f64 / count as f64;
        println!(
            "  {name:<22} {:>6.0} ns {:>6.0} ns {:>6.1} ns {per_key:>12.1} {:>9.1}",
            cost.insert_ns,
            cost.lookup_ns,
            cost.scan_ns,
            per_key - key_bytes
        );
    };
    row("BTreeMap<Box<[u8]>>", &standard(&keys, &mut random));
    let (writer, reader, cost) = ours(&keys, &mut random);
    row("ordered-index", &cost);
    batches(writer, &reader, &keys, &mut random, key);
    bulk(&keys);
}

struct Cost {
    insert_ns: f64,
    lookup_ns: f64,
    scan_ns: f64,
    bytes: i64,
}

fn standard(keys: &[Vec<u8>], random: &mut Random) -> Cost {
    let before = live_bytes();
    let mut map: BTreeMap<Box<[u8]>, IndexEntry> = BTreeMap::new();
    let insert_ns = timed(keys.len(), || {
        for (number, key) in keys.iter().enumerate() {
            map.insert(key.as_slice().into(), entry(number));
        }
    });
    let bytes = live_bytes() - before;
    let lookup_ns = timed(LOOKUPS, || {
        for _ in 0..LOOKUPS {
            black_box(map.get(random.pick(keys).as_slice()));
        }
    });
    let scan_ns = timed(keys.len(), || {
        for (key, entry) in &map {
            black_box((key.len(), entry.value));
        }
    });
    Cost {
        insert_ns,
        lookup_ns,
        scan_ns,
        bytes,
    }
}

fn ours(keys: &[Vec<u8>], random: &mut Random) -> (Writer, Reader, Cost) {
    // The index measured before may still be waiting for the collector.
    collect_garbage();
    let before = live_bytes();
    let (mut writer, reader) = ordered_index::new(1);
    let insert_ns = timed(keys.len(), || {
        for (number, key) in keys.iter().enumerate() {
            writer.insert(0, key, entry(number));
            if number % FILL_BATCH == 0 {
                writer.publish(number as u64);
            }
        }
        writer.publish(keys.len() as u64);
    });
    (0..100).for_each(|_| writer.collect());
    let bytes = live_bytes() - before;
    println!(
        "  (memory_bytes says {}, spare_bytes {}, the allocator {bytes})",
        writer.memory_bytes(),
        writer.spare_bytes()
    );
    let lookup_ns = timed(LOOKUPS, || {
        for _ in 0..LOOKUPS {
            black_box(reader.pin().get(0, random.pick(keys).as_slice()));
        }
    });
    let scan_ns = timed(keys.len(), || {
        let snapshot = reader.pin();
        let mut cursor = snapshot.cursor(0, Bound::Unbounded, Bound::Unbounded);
        while let Some((key, entry)) = cursor.next() {
            black_box((key.len(), entry.value));
        }
    });
    (
        writer,
        reader,
        Cost {
            insert_ns,
            lookup_ns,
            scan_ns,
            bytes,
        },
    )
}

/// As the engine's: the length and the place of a record in a log, and a revision.
fn entry(number: usize) -> IndexEntry {
    let number = number as u64;
    IndexEntry {
        value: (20 << 48) | (1 << 24) | (number * 20),
        stamp: number,
    }
}

/// Random inserts of new keys, published in batches of several sizes; then counts and short
/// ranges.
fn batches(mut writer: Writer, reader: &Reader, keys: &[Vec<u8>], random: &mut Random, key: KeyOf) {
    for batch in [1usize, 10, 100, 1_000] {
        let rounds = 20_000 / batch;
        let fresh: Vec<Vec<u8>> = (0..rounds * batch).map(|_| key(random)).collect();
        let ns = timed(rounds, || {
            for (round, keys) in fresh.chunks(batch).enumerate() {
                keys.iter()
                    .for_each(|key| _ = writer.insert(0, key, entry(round)));
                writer.publish(round as u64);
            }
        });
        let per_key = ns / batch as f64;
        println!(
            "  batch of {batch:>4}: {:>8.2} us, {per_key:>6.0} ns a key",
            ns / 1_000.0
        );
    }
    let count_ns = timed(LOOKUPS / 10, || {
        for _ in 0..LOOKUPS / 10 {
            let (start, end) = (random.pick(keys), random.pick(keys));
            black_box(reader.pin().count(0, start, Some(end)));
        }
    });
    let limited_ns = timed(LOOKUPS / 10, || {
        for _ in 0..LOOKUPS / 10 {
            let snapshot = reader.pin();
            let start = Bound::Included(random.pick(keys).as_slice());
            let mut cursor = snapshot.cursor(0, start, Bound::Unbounded);
            black_box((cursor.remaining(), cursor.next().map(|(key, _)| key.len())));
        }
    });
    println!("  count of a random range {count_ns:.0} ns; first key and count {limited_ns:.0} ns");
}

fn bulk(keys: &[Vec<u8>]) {
    let mut sorted: Vec<&Vec<u8>> = keys.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let (mut writer, _) = ordered_index::new(1);
    let ns = timed(sorted.len(), || {
        let scattered = |place| entry(place * 7_777_777 % sorted.len());
        let keys = sorted.iter().enumerate();
        let pairs = keys.map(|(place, key)| (key, scattered(place)));
        writer
            .bulk_load(0, pairs)
            .expect("the keys are sorted and distinct");
    });
    let per_key = writer.memory_bytes() as f64 / sorted.len() as f64;
    let beyond = per_key - keys[0].len() as f64;
    println!("  bulk load {ns:.0} ns a key, {per_key:.1} bytes a key, {beyond:.1} beyond");
}

/// How revisions and generated names arrive.
fn ascending(count: usize) {
    let (mut writer, _) = ordered_index::new(1);
    let mut key = Vec::new();
    let ns = timed(count, || {
        for number in 0..count {
            key.clear();
            key.extend_from_slice(b"/registry/pods/blue/");
            key.extend_from_slice(format!("web-{number:08}").as_bytes());
            writer.insert(0, &key, entry(number));
            if number % 10 == 0 {
                writer.publish(number as u64);
            }
        }
    });
    let per_key = writer.memory_bytes() as f64 / count as f64;
    println!("\n{count} keys of 32 bytes in ascending order, batches of 10");
    println!("  insert {ns:.0} ns, {per_key:.1} bytes a key (the key alone has 32)");
}
