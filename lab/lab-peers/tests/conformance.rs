//! Behaviour that every peer must have before it is measured.
//!
//! A peer with a library that is missing on this machine is named in the output and counts
//! as passed. With `INKSTONE_LAB_PEERS=required`, `every_library_is_present` fails then.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::Path;

use lab::targets::{Embedded, Offer, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;

const LARGE_BYTES: usize = 256 << 10;

fn options(durability: DurabilityLevel) -> OpenOptions {
    OpenOptions {
        durability,
        keys: 1000,
        entry_bytes_max: LARGE_BYTES as u64 + 16,
        buffer_bytes: 0,
        segment_bytes: 0,
    }
}

/// Opens a target; `None` when its library is missing.
fn open(offer: &Offer, directory: &Path, durability: DurabilityLevel) -> Option<Box<dyn Embedded>> {
    match (offer.open)(directory, &options(durability)) {
        Ok(target) => Some(target),
        Err(what)
            if what
                .to_string()
                .contains("its library is not on this machine") =>
        {
            eprintln!("not tested: {what}");
            None
        }
        Err(what) => panic!("{}: {what}", offer.name),
    }
}

/// Every offer at every level that it promises, in a directory of its own.
fn with_each(case: impl Fn(&Offer, DurabilityLevel, &Path)) {
    for offer in lab_peers::offers() {
        for durability in offer.promises.iter().chain(&[DurabilityLevel::None]) {
            let directory = tempfile::tempdir().unwrap();
            case(&offer, *durability, directory.path());
        }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

fn value(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|at| (at.wrapping_mul(31) ^ number) as u8)
        .collect()
}

fn got(session: &mut dyn Session, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = b"kept".to_vec();
    let found = session.get(key, &mut value).unwrap();
    assert_eq!(&value[..4], b"kept", "a read appends");
    let value = value.split_off(4);
    assert!(found || value.is_empty(), "a miss appends nothing");
    found.then_some(value)
}

#[test]
fn present_keys_are_read_and_missing_ones_are_not_found() {
    with_each(|offer, durability, directory| {
        let Some(target) = open(offer, directory, durability) else {
            return;
        };
        let mut session = target.session().unwrap();
        assert_eq!(got(session.as_mut(), &key(1)), None, "{}", offer.name);
        session.put(&key(1), &value(1, 100)).unwrap();
        session.put(&key(2), b"").unwrap();
        session.put(&key(1), &value(7, 50)).unwrap();
        assert_eq!(got(session.as_mut(), &key(1)), Some(value(7, 50)));
        assert_eq!(got(session.as_mut(), &key(2)), Some(Vec::new()));
        assert_eq!(got(session.as_mut(), &key(3)), None);
        drop(session);
        target.close().unwrap();
    });
}

#[test]
fn ranges_are_in_order_from_a_key_up_to_a_limit() {
    with_each(|offer, durability, directory| {
        let Some(target) = open(offer, directory, durability) else {
            return;
        };
        let mut session = target.session().unwrap();
        let backwards = (0..100).rev();
        let entries: Vec<_> = backwards.map(|at| (key(at), value(at, 20))).collect();
        session.load(&entries).unwrap();
        let each = key(0).len() as u64 + 20;
        let seen = |keys: u64| Seen {
            keys,
            bytes: keys * each,
        };
        assert_eq!(
            session.range(&key(0), 0).unwrap(),
            seen(100),
            "{}",
            offer.name
        );
        assert_eq!(
            session.range(&key(90), 0).unwrap(),
            seen(10),
            "{}",
            offer.name
        );
        assert_eq!(
            session.range(&key(90), 3).unwrap(),
            seen(3),
            "{}",
            offer.name
        );
        assert_eq!(session.range(b"key-00000089x", 0).unwrap(), seen(10));
        assert_eq!(session.range(b"z", 0).unwrap(), seen(0), "{}", offer.name);
        target.compact().unwrap();
        let after = session.range(&key(0), 0).unwrap();
        assert_eq!(after, seen(100), "{} after its compaction", offer.name);
        drop(session);
        target.close().unwrap();
    });
}

#[test]
fn all_pairs_are_there_after_closing_and_opening() {
    with_each(|offer, durability, directory| {
        let Some(target) = open(offer, directory, durability) else {
            return;
        };
        let mut session = target.session().unwrap();
        session.put(b"large", &value(9, LARGE_BYTES)).unwrap();
        for number in 0..50 {
            let length = 10 + number as usize;
            session.put(&key(number), &value(number, length)).unwrap();
        }
        drop(session);
        target.close().unwrap();

        let target = open(offer, directory, durability).unwrap();
        let mut session = target.session().unwrap();
        let large = got(session.as_mut(), b"large").unwrap();
        assert!(large == value(9, LARGE_BYTES), "{}", offer.name);
        for number in 0..50 {
            let expected = value(number, 10 + number as usize);
            assert_eq!(got(session.as_mut(), &key(number)), Some(expected));
        }
        drop(session);
        target.close().unwrap();
    });
}

#[test]
fn threads_have_sessions_of_their_own() {
    const THREADS: u64 = 8;
    const PUTS: u64 = 25;
    with_each(|offer, durability, directory| {
        let Some(target) = open(offer, directory, durability) else {
            return;
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let mut session = target.session().unwrap();
                scope.spawn(move || {
                    for put in 0..PUTS {
                        let number = put * THREADS + thread;
                        session.put(&key(number), &value(number, 64)).unwrap();
                        let read = got(session.as_mut(), &key(number));
                        assert_eq!(read, Some(value(number, 64)));
                    }
                });
            }
        });
        let mut session = target.session().unwrap();
        let seen = session.range(b"", 0).unwrap();
        assert_eq!(seen.keys, THREADS * PUTS, "{}", offer.name);
        drop(session);
        target.close().unwrap();
    });
}

#[test]
fn every_library_is_present() {
    for offer in lab_peers::offers() {
        let directory = tempfile::tempdir().unwrap();
        let is_present = open(&offer, directory.path(), DurabilityLevel::Durable)
            .is_some_and(|target| target.close().is_ok());
        let required =
            std::env::var_os("INKSTONE_LAB_PEERS").is_some_and(|word| word == "required");
        assert!(is_present || !required, "{} is missing", offer.name);
    }
}
