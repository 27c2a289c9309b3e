//! Logs of etcd (store/etcd-wal). The first byte says whether the others are a file, or requests, each with
//! its length before it, that become a file with checksums that fit and are carried out.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::simulated::{SimulatedClock, SimulatedDisk};
use etcd_snapshot::FileState;
use etcd_wal::{Base, Tail};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use revisions::Options;

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(uint32, tag = "2")]
    crc: u32,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(uint64, tag = "3")]
    index: u64,
    #[prost(bytes = "vec", tag = "4")]
    data: Vec<u8>,
}

/// Kind of a record with an entry.
const ENTRY: i64 = 2;

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else {
        return;
    };
    let database = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/etcd-snapshot/tests/small.db");
    let database = etcd_snapshot::open(&database, false, |_, _| ()).expect("a sound file");
    let state = FileState::read(&database).expect("a sound file");
    let base = Base {
        index: state.index,
        term: 0,
    };
    let folder = folder();
    let bytes = match first % 4 {
        0 => data.to_owned(),
        _ => framed(base.index, data),
    };
    let file = folder.join("0000000000000000-0000000000000000.wal");
    std::fs::write(file, bytes).expect("a temporary file");
    let Ok(tail) = Tail::read(&folder, base) else {
        return;
    };
    replay(&database, &tail);
});

fn folder() -> PathBuf {
    let name = format!("etcd-wal-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// A log of these requests.
fn framed(base: u64, mut data: &[u8]) -> Vec<u8> {
    let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let mut bytes = Vec::new();
    for index in base + 1.. {
        let Some((length, rest)) = data.split_first_chunk() else {
            break;
        };
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (request, rest) = rest.split_at(length);
        data = rest;
        let entry = Entry {
            index,
            data: request.to_owned(),
        };
        let entry = entry.encode_to_vec();
        sum.update(&entry);
        let record = Record {
            kind: ENTRY,
            crc: sum.finalize() as u32,
            data: entry,
        };
        let record = record.encode_to_vec();
        bytes.extend((record.len() as u64).to_le_bytes());
        bytes.extend(record);
    }
    bytes
}

fn replay(database: &bolt::DatabaseFile, tail: &Tail) {
    let mut options = Options::default();
    options.engine.log.segment_bytes = 1 << 20;
    options.engine.log.reserve_bytes = 0;
    options.engine.log.worker = engine::Worker::Caller;
    options.lease_id_seed = Some(1);
    let (disk, clock) = (SimulatedDisk::new(1), Arc::new(SimulatedClock::stepped()));
    options.engine.clock = Arc::clone(&clock) as _;
    let replayed = revisions::replay_etcd(
        Arc::new(disk),
        Path::new("/replayed"),
        options,
        clock,
        (database, tail),
        &mut |_| true,
    );
    let Ok((mut machine, held, _)) = replayed else {
        return;
    };
    if let Ok(plan) = held.plan(|| true) {
        let written = held.write(&plan, &mut |_| Ok::<(), revisions::Error>(()));
        written.expect("what was carried out can be written");
    }
    drop(held);
    machine.close().expect("a sound disk");
}
