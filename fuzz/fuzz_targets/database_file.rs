//! Database files of etcd (docs/formats/bolt.md). Begin with store/etcd-snapshot/tests/small.db as the corpus.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use environment::simulated::{SimulatedClock, SimulatedDisk};
use libfuzzer_sys::fuzz_target;
use revisions::{HeldState, Machine, Member, Options, RevisionBump};

/// Where the checksum of the first page is, and what it covers.
const SUM_AT: usize = 72;
const SUMMED: std::ops::Range<usize> = 16..SUM_AT;

fuzz_target!(|data: &[u8]| {
    let mut data = data.to_owned();
    // A checksum that fits leads into the file.
    if data.len() > SUM_AT + 8 {
        let sum = data[SUMMED].iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        data[SUM_AT..SUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
    }
    let name = format!("database-file-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, data).expect("a temporary file");
    if let Ok(file) = etcd_snapshot::open(&path, true, |_, _| ()) {
        let _ = etcd_snapshot::status(&file, |_| ());
        let _ = etcd_snapshot::hash(&file, 0, |_| ());
        restore(&file);
    }
});

/// A directory that was made of a file can be opened, and written as a file again.
fn restore(file: &bolt::DatabaseFile) {
    let mut options = Options::default();
    options.engine.log.segment_bytes = 1 << 20;
    options.engine.log.reserve_bytes = 0;
    options.engine.log.worker = engine::Worker::Caller;
    options.lease_id_seed = Some(1);
    options.initial_members = vec![Member {
        id: 1,
        peer_urls: vec!["http://localhost:2380".into()],
        ..Member::default()
    }];
    let (disk, clock) = (SimulatedDisk::new(1), Arc::new(SimulatedClock::stepped()));
    options.engine.clock = Arc::clone(&clock) as _;
    let path = Path::new("/restored");
    let source = (file, RevisionBump::default());
    let restored = revisions::restore(
        Arc::new(disk.clone()),
        path,
        options.clone(),
        Arc::clone(&clock) as _,
        source,
        &mut |_| true,
    );
    let Ok(restored) = restored else { return };
    options.engine.commitment = engine::Commitment::Quorum;
    let opened = Machine::open(Arc::new(disk), path, options, clock);
    let (_machine, reader, _) = opened.expect("what was restored can be opened");
    assert_eq!(reader.revision(), restored.revision);
    let held = HeldState::of(&reader);
    if let Ok(plan) = held.plan(|| true) {
        let written = held.write(&plan, &mut |_| Ok::<(), revisions::Error>(()));
        written.expect("what was restored can be written");
    }
}
