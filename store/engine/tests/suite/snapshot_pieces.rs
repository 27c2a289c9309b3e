//! Pieces that do not fit are refused with an error that says what and where, and the
//! right piece is still taken.

use crate::store;

use bytes::Bytes;
use engine::{Import, Options, Piece, Worker};
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use store::model::Model;
use store::snapshots::{feed, pieces};
use store::{Store, options, seed};

fn store(disk: &SimulatedDisk) -> Store {
    let options = Options {
        log: engine::LogOptions {
            worker: Worker::Caller,
            ..options().log
        },
        ..options()
    };
    Store::open(disk, options, Model::default()).unwrap()
}

fn sent(seed: u64, piece_bytes: usize) -> (Store, Vec<Piece>) {
    let mut source = store(&SimulatedDisk::new(1));
    source.fill(seed, 60 + seed % 10).unwrap();
    source.compact(20).unwrap();
    let all = pieces(&mut source.export(piece_bytes));
    (source, all)
}

fn refusal(import: &mut Import, piece: &[u8]) -> String {
    let wanted = import.wanted();
    let error = import.offer(Bytes::copy_from_slice(piece)).unwrap_err();
    assert_eq!(import.wanted(), wanted, "nothing has changed");
    let error = error.to_string();
    let named = error.contains(&format!("piece {wanted} of the snapshot, byte "));
    assert!(named, "{error}");
    error
}

#[test]
fn any_piece_but_the_whole_next_one_is_refused_and_the_import_goes_on() {
    let (source, all) = sent(seed(1), 2000);
    let (_, foreign) = sent(seed(2), 2000);
    let mut receiver = store(&SimulatedDisk::new(2));
    let mut import = receiver.import();
    let refuse = |import: &mut Import, piece: &[u8], what: &str| {
        let refusal = refusal(import, piece);
        assert!(refusal.contains(what), "{refusal}");
    };
    refuse(&mut import, &all[1].bytes, "comes too early");
    refuse(&mut import, b"", "ends within its envelope");
    refuse(&mut import, &[7; 100], "does not start like a piece");
    for piece in &all {
        let bytes = &piece.bytes[..];
        refuse(&mut import, &bytes[..bytes.len() - 1], "bytes follow");
        refuse(&mut import, &[bytes, b"x"].concat(), "bytes follow");
        let mut corrupt = bytes.to_vec();
        corrupt[bytes.len() - 1] ^= 1;
        refuse(&mut import, &corrupt, "fails its checksum");
        corrupt = bytes.to_vec();
        corrupt[8] = 2;
        refuse(&mut import, &corrupt, "has version 2, this program reads 1");
        if piece.number > 0 {
            let other = foreign.get(piece.number as usize).unwrap_or(&foreign[0]);
            refuse(&mut import, &other.bytes, "it is of snapshot");
            let before = &all[piece.number as usize - 1];
            refuse(&mut import, &before.bytes, "has been taken already");
        }
        if let Some(later) = all.get(piece.number as usize + 1) {
            refuse(&mut import, &later.bytes, "comes too early");
        }
        import.offer(piece.bytes.clone()).unwrap();
    }
    let first = &all[0].bytes;
    refuse(&mut import, first, "has been taken already");
    assert!(import.progress().unwrap().complete);
    receiver.install(import, &source.picture()).unwrap();
    receiver.check_everything();
}

/// The same state, but one of the pieces comes from another export of it.
#[test]
fn a_piece_that_goes_on_from_another_one_is_refused() {
    let (_, all) = sent(seed(3), 2000);
    let receiver = store(&SimulatedDisk::new(2));
    let mut import = receiver.import();
    feed_some(&mut import, &all[..4]);
    // Its checksum, and that of the piece before, are no longer those.
    let mut other = all[4].bytes.to_vec();
    other[32] ^= 1;
    assert!(refusal(&mut import, &other).contains("fails its checksum"));
    import.offer(all[4].bytes.clone()).unwrap();
}

fn feed_some(import: &mut Import, pieces: &[Piece]) {
    for piece in pieces {
        import.offer(piece.bytes.clone()).unwrap();
    }
}

#[test]
fn random_bytes_and_random_damage_never_panic() {
    let (_, all) = sent(seed(4), 3000);
    let mut random = Random::from_seed(seed(4));
    let receiver = store(&SimulatedDisk::new(2));
    let mut import = receiver.import();
    for _ in 0..3000 {
        let mut bytes = all[random.below(all.len() as u64) as usize].bytes.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = bytes[at].wrapping_add(1 + random.below(255) as u8);
        }
        if random.chance(1, 3) {
            bytes.truncate(random.below(bytes.len() as u64) as usize);
        }
        assert!(import.offer(bytes.into()).is_err(), "damage passed");
    }
    feed(&mut import, &all).unwrap();
}

/// The format of version 1, as it was sent once.
#[test]
fn a_snapshot_of_version_1_is_read_for_ever() {
    let golden = include_str!("golden/snapshot_v1.hex");
    let golden: Vec<Vec<u8>> = golden.lines().map(bytes_of).collect();
    let mut source = store(&SimulatedDisk::new(1));
    golden_story(&mut source);
    let written: Vec<Vec<u8>> = pieces(&mut source.export(120))
        .iter()
        .map(|piece| piece.bytes.to_vec())
        .collect();
    assert_eq!(written, golden, "what is written now");
    let mut receiver = store(&SimulatedDisk::new(2));
    let mut import = receiver.import();
    for piece in golden {
        import.offer(piece.into()).unwrap();
    }
    assert!(import.progress().unwrap().complete);
    receiver.install(import, &source.picture()).unwrap();
    receiver.check_everything();
}

fn golden_story(source: &mut Store) {
    use store::{delete, put};
    source.write(&[put("a", "old"), put("b", "1")]).unwrap();
    source
        .write(&[put("a", "new"), delete("a"), put("c", "3")])
        .unwrap();
    source.compact(2).unwrap();
    source.write(&[delete("b")]).unwrap();
}

fn bytes_of(line: &str) -> Vec<u8> {
    let digits: Vec<u8> = line.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
