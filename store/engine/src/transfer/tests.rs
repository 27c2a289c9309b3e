//! Pieces with right checksums and contents that no member should send.

use super::format::{ENVELOPE_BYTES, Envelope, Foot, Kind, encode_head};
use super::{Import, SnapshotInfo};
use crate::format::KeyHeader;
use crate::{Applier, Engine, Options, Worker};
use bytes::Bytes;
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use std::path::Path;
use std::sync::Arc;

const INFO: SnapshotInfo = SnapshotInfo {
    id: 4,
    index: 50,
    term: 2,
    revision: 40,
    compacted: 10,
};

fn engine(disk: &SimulatedDisk) -> (Engine, Applier) {
    let options = Options {
        log: crate::LogOptions {
            segment_bytes: 64 << 10,
            reserve_bytes: 0,
            worker: Worker::Caller,
            salt: Some(1),
            ..crate::LogOptions::default()
        },
        ..Options::default()
    };
    let disk = Arc::new(disk.clone());
    let opened = Engine::open(disk, Path::new("/data"), options, &mut |_| Ok(()));
    let (engine, applier, _) = opened.unwrap();
    (engine, applier)
}

/// A version of `key`, written at `main`.
fn version(key: &str, main: u64, tombstone: bool) -> Vec<u8> {
    let kv = [&[0x0a, key.len() as u8], key.as_bytes()].concat();
    let header = KeyHeader {
        main,
        created: 1,
        version: 1,
        lease: 0,
        sub: 0,
        kv_bytes: kv.len() as u32,
        key_bytes: key.len() as u32,
        key_offset: 2,
        tombstone,
    };
    [&header.encode()[..], &kv].concat()
}

/// Offers pieces one after the other, each with a right envelope.
struct Sender {
    import: Import,
    number: u64,
    previous_crc: u32,
}

impl Sender {
    fn new(engine: &Engine) -> Sender {
        Sender {
            import: engine.import(Box::new(|| ())).unwrap(),
            number: 0,
            previous_crc: 0,
        }
    }

    fn offer(&mut self, kind: Kind, payload: &[u8]) -> Result<(), String> {
        let envelope = Envelope {
            kind,
            id: INFO.id,
            number: self.number,
            previous_crc: self.previous_crc,
        };
        let mut piece = vec![0; ENVELOPE_BYTES];
        piece.extend(payload);
        let crc = envelope.seal(&mut piece);
        let offered = self.import.offer(Bytes::from(piece));
        offered.map_err(|error| error.to_string())?;
        self.number += 1;
        self.previous_crc = crc;
        let progress = self.import.progress();
        progress.map(drop).map_err(|error| error.to_string())
    }
}

/// Whether a receiver takes these versions.
fn verdict(kind: Kind, versions: &[Vec<u8>]) -> Result<(), String> {
    let (engine, _applier) = engine(&SimulatedDisk::new(1));
    let mut sender = Sender::new(&engine);
    sender.offer(Kind::Head, &encode_head(&INFO)).unwrap();
    sender.offer(kind, &versions.concat())
}

#[test]
fn versions_in_order_that_a_compaction_leaves_are_taken() {
    let versions = [
        version("a", 30, false),
        version("a", 20, true),
        version("a", 4, false),
        version("b", 10, true),
        version("c", 40, true),
    ];
    assert_eq!(verdict(Kind::Versions, &versions), Ok(()));
    let hidden = [version("b", 11, false), version("a", 11, true)];
    assert_eq!(verdict(Kind::Hidden, &hidden), Ok(()));
}

#[test]
fn versions_that_no_member_has_are_refused_with_their_place() {
    let first = version("b", 20, false);
    let at = ENVELOPE_BYTES + first.len();
    let cases = [
        (version("a", 20, false), "its keys do not ascend"),
        (version("b", 20, false), "its keys do not ascend"),
        (version("b", 25, true), "its keys do not ascend"),
        (version("c", 41, false), "behind the snapshot's revision"),
        (version("c", 9, true), "that the compaction has dropped"),
        (version("c", 20, false)[..50].to_vec(), "beyond its end"),
        (vec![1; 47], "shorter than its header"),
    ];
    for (second, what) in cases {
        let refused = verdict(Kind::Versions, &[first.clone(), second]).unwrap_err();
        let place = format!("piece 1 of the snapshot, byte {at}: ");
        assert!(refused.contains(what), "{refused}");
        assert!(refused.contains(&place), "{refused}");
    }
    let two_left = [version("a", 9, false), version("a", 8, false)];
    let refused = verdict(Kind::Versions, &two_left).unwrap_err();
    assert!(refused.contains("has dropped"), "{refused}");
    for odd in [[12, 11], [10, 12]] {
        let hidden = odd.map(|main| version("a", main, false));
        let refused = verdict(Kind::Hidden, &hidden).unwrap_err();
        assert!(refused.contains("out of order, or compacted"), "{refused}");
    }
}

#[test]
fn pieces_in_no_order_and_wrong_sums_are_refused() {
    let (engine, _applier) = engine(&SimulatedDisk::new(1));
    let mut sender = Sender::new(&engine);
    let refused = sender.offer(Kind::State, b"x").unwrap_err();
    assert!(refused.contains("kind State behind None"), "{refused}");
    let refused = sender.offer(Kind::Head, b"x").unwrap_err();
    assert!(refused.contains("a head of 1 bytes"), "{refused}");
    sender.offer(Kind::Head, &encode_head(&INFO)).unwrap();
    sender
        .offer(Kind::Hidden, &version("a", 20, false))
        .unwrap();
    for kind in [Kind::Head, Kind::State, Kind::Versions] {
        let refused = sender.offer(kind, &[]).unwrap_err();
        assert!(refused.contains("behind Some(Hidden)"), "{refused}");
    }
    let refused = sender.offer(Kind::Foot, &Foot::default().encode());
    let refused = refused.unwrap_err();
    assert!(refused.contains("it ends with Foot"), "{refused}");
}

/// Damaged contents lead to a value or to an error.
#[test]
fn damaged_contents_under_right_checksums_never_panic() {
    let (engine, mut applier) = engine(&SimulatedDisk::new(1));
    let mut random = Random::from_seed(5);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..400 {
        let mut sender = Sender::new(&engine);
        let pieces = random_pieces(&mut random);
        let outcome = pieces
            .iter()
            .try_for_each(|(kind, payload)| sender.offer(*kind, payload));
        if outcome.is_err() {
            refused += 1;
            continue;
        }
        taken += 1;
        // A newer state that fits is installed.
        let applied = engine.applied_index();
        let index = sender.import.info().unwrap().index;
        let installed = applier.install(sender.import, &mut |_| Ok(()));
        assert_eq!(installed.is_ok(), index > applied, "{installed:?}");
    }
    assert!(
        taken > 20 && refused > 100,
        "{taken} taken, {refused} refused"
    );
}

fn random_pieces(random: &mut Random) -> Vec<(Kind, Vec<u8>)> {
    let mut head = encode_head(&INFO).to_vec();
    let mut versions = [
        version("a", 30, false),
        version("a", 4, false),
        version("c", 40, true),
    ]
    .concat();
    let mut hidden = version("b", 11, false);
    let foot = Foot {
        versions: 3,
        hidden: 1,
        state_bytes: 2,
    };
    let mut foot = foot.encode().to_vec();
    let target = match random.below(8) {
        0 => &mut head,
        1 => &mut hidden,
        2 => &mut foot,
        _ => &mut versions,
    };
    for _ in 0..random.below(3) {
        let at = random.below(target.len() as u64) as usize;
        target[at] = random.next_u64() as u8;
    }
    if random.chance(1, 8) {
        target.truncate(random.below(target.len() as u64) as usize);
    }
    vec![
        (Kind::Head, head),
        (Kind::State, b"xy".to_vec()),
        (Kind::Versions, versions),
        (Kind::Hidden, hidden),
        (Kind::Foot, foot),
    ]
}
