use super::super::block::BlockReader;
use super::*;
use crate::trees::{CURRENT, HIDDEN, HISTORY};
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use environment::{Disk, OpenMode};
use std::path::Path;
use std::slice;

type Content = Vec<(Vec<u8>, IndexEntry)>;

fn entry(position: u64, class: u64, stamp: u64) -> IndexEntry {
    IndexEntry {
        value: class << 48 | position,
        stamp,
    }
}

/// The payloads that these entries become.
fn payloads(tree: usize, content: &[(Vec<u8>, IndexEntry)]) -> Vec<Vec<u8>> {
    let disk = SimulatedDisk::new(1);
    disk.create_directories(Path::new("d")).unwrap();
    let file = disk.open(Path::new("d/f"), OpenMode::CreateNew).unwrap();
    let mut blocks = BlockWriter::new(file.clone());
    let mut entries = EntriesWriter::new(tree);
    let mut count = 0;
    for (key, entry) in content {
        entries.push(key, *entry);
        if entries.is_full() {
            entries.flush(&mut blocks).unwrap();
            count += 1;
        }
    }
    if !entries.rows.is_empty() {
        count += 1;
    }
    entries.flush(&mut blocks).unwrap();
    entries.flush(&mut blocks).unwrap();
    blocks.finish().unwrap();
    let mut blocks = BlockReader::new(file).unwrap();
    let payloads = (0..count).map(|_| blocks.block().unwrap().1.to_vec());
    let payloads = payloads.collect();
    assert!(blocks.at_end().unwrap(), "an empty block was written");
    payloads
}

fn read(payload: &[u8]) -> Result<(Vec<usize>, Content), &'static str> {
    let (mut trees, mut content) = (Vec::new(), Vec::new());
    read_entries(payload, |tree, key, entry| {
        trees.push(tree);
        content.push((key.to_vec(), entry));
        Ok::<(), &'static str>(())
    })?;
    Ok((trees, content))
}

fn assert_comes_back(tree: usize, content: &[(Vec<u8>, IndexEntry)]) {
    let payloads = payloads(tree, content);
    let mut found = Content::new();
    for payload in &payloads {
        let (trees, content) = read(payload).unwrap();
        assert!(trees.iter().all(|it| *it == tree));
        let first = content.first().map(|(key, _)| (tree, key.clone()));
        assert_eq!(first_key(payload), first);
        assert_eq!(
            last_key(payload),
            content.last().map(|(key, _)| key.clone())
        );
        found.extend(content);
    }
    assert_eq!(found, content);
}

#[test]
fn a_block_has_these_bytes() {
    let content = [
        (b"ab".to_vec(), entry(0x1_0000, 0x12, 5)),
        (b"abc".to_vec(), entry(0x1_0003, 0x12, 9)),
        (vec![b'b'; 17], entry(0x1_0001, 0x12, 5 | 1 << 63)),
    ];
    let [payload] = &payloads(CURRENT, &content)[..] else {
        panic!("not one block");
    };
    // Positions 2 bits, classes none, stamps (10, 18 and 11) 4 bits: a row has one byte.
    let mut expected = vec![0, 2, 0, 4, 3, 0, 0, 0];
    expected.extend([0, 0, 1, 0, 0, 0, 0x12, 0]);
    expected.extend([10, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0, 8 << 2 | 3, 1 << 2 | 1]);
    expected.extend([0x02, b'a', b'b', 0x21, b'c', 0x0f, 2]);
    expected.extend([b'b'; 17]);
    assert_eq!(payload, &expected);
    assert_comes_back(CURRENT, &content);
}

#[test]
fn entries_that_have_nothing_in_common_come_back() {
    let greatest = (1 << 48) - 1;
    for tree in [CURRENT, HISTORY, HIDDEN] {
        let content = [
            (vec![], entry(0, 0, 0)),
            (vec![0], entry(greatest, 0xffff, u64::MAX)),
            (vec![0; 300], entry(1, 0x8000, 1 << 63)),
            (vec![0; 301], entry(greatest, 0, i64::MAX as u64)),
        ];
        assert_comes_back(tree, &content);
        content
            .iter()
            .for_each(|one| assert_comes_back(tree, slice::from_ref(one)));
    }
}

#[test]
fn random_entries_of_many_blocks_come_back() {
    let mut random = Random::from_seed(3);
    for round in 0..24 {
        let widths = [random.below(49), random.below(17), random.below(65)];
        let mut number = |bits: u64| match bits {
            0 => 0,
            _ => random.next_u64() >> (64 - bits),
        };
        let mut content = Content::new();
        let mut key = Vec::new();
        for _ in 0..if round % 4 == 0 { 20_000 } else { 50 } {
            key.truncate(number(5) as usize);
            (0..=number(6) >> (round % 3)).for_each(|_| key.push(number(8) as u8));
            let [position, class, stamp] = widths.map(&mut number);
            content.push((key.clone(), entry(position, class, stamp)));
        }
        assert_comes_back(HISTORY, &content);
    }
}

#[test]
fn a_block_ends_when_it_is_full() {
    let content: Content = (0..40_000_u64)
        .map(|number| {
            (
                number.to_be_bytes().to_vec(),
                entry(number * 25, 25, number),
            )
        })
        .collect();
    let payloads = payloads(CURRENT, &content);
    let (last, full) = payloads.split_last().unwrap();
    let row_and_key = 8..BLOCK_BYTES + 24 + 20;
    assert!(
        full.iter()
            .all(|it| (BLOCK_BYTES..row_and_key.end).contains(&it.len()))
    );
    assert!(row_and_key.contains(&last.len()));
    // Less than a half of the 22 bytes that words take.
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    assert!(bytes < content.len() * 11, "{bytes}");
}

#[test]
fn blocks_of_words_are_read() {
    let mut payload = 1_u64.to_le_bytes().to_vec();
    for (head, own, value, stamp) in [
        (&[0, 2][..], &b"ab"[..], 7, 8),
        (&[2, 1], b"c", u64::MAX, 1 << 63),
        (&[1, 0x81, 0x01], &[b'z'; 129], 9, 10),
    ] {
        payload.extend(head);
        payload.extend(own);
        payload.extend(u64::to_le_bytes(value));
        payload.extend(u64::to_le_bytes(stamp));
    }
    let long = [&b"a"[..], &[b'z'; 129]].concat();
    let (trees, content) = read(&payload).unwrap();
    assert_eq!(trees, [HISTORY; 3]);
    let of = |value, stamp| IndexEntry { value, stamp };
    let expected = [
        (b"ab".to_vec(), of(7, 8)),
        (b"abc".to_vec(), of(u64::MAX, 1 << 63)),
        (long.clone(), of(9, 10)),
    ];
    assert_eq!(content, expected);
    assert_eq!(first_key(&payload), Some((HISTORY, b"ab".to_vec())));
    assert_eq!(last_key(&payload), Some(long));
    for end in 9..payload.len() {
        let cut = read(&payload[..end]);
        // The ends of the first and of the second entry.
        match end == 8 + 20 || end == 8 + 20 + 19 {
            true => assert!(cut.is_ok()),
            false => assert_eq!(cut, Err("an entry is cut off")),
        }
    }
    assert_eq!(read(&payload[..8]).unwrap().1, []);
}

#[test]
fn blocks_that_do_not_hold_what_they_say_are_refused() {
    let content = [
        (b"ab".to_vec(), entry(4, 7, 5)),
        (b"abc".to_vec(), entry(9, 7, 9)),
    ];
    let [payload] = &payloads(CURRENT, &content)[..] else {
        panic!("not one block");
    };
    let changed = |at: usize, byte: u8| {
        let mut payload = payload.clone();
        payload[at] = byte;
        read(&payload).unwrap_err()
    };
    assert_eq!(changed(0, 3), "a block of entries is of no tree");
    let too_wide = "a block of entries has fields that are too wide";
    for (at, bits) in [(1, 49), (2, 17), (3, 65)] {
        assert_eq!(changed(at, bits), too_wide);
    }
    let longer = [&payload[..], &[0]].concat();
    assert_eq!(
        read(&longer),
        Err("something follows the entries of a block")
    );
    for number in [1, 3] {
        changed(4, number);
    }
    assert_eq!(changed(7, 0xff), "a block of entries is cut off");
    let beyond = "an entry is beyond what its fields can hold";
    let mut least_position = payload.clone();
    least_position[8..14].fill(0xff);
    assert_eq!(read(&least_position), Err(beyond));
    let mut least_stamp = payload.clone();
    least_stamp[16..24].fill(0xff);
    assert_eq!(read(&least_stamp), Err(beyond));
    // Shares bytes with no key, and more bytes than the key before has.
    for (at, halves) in [(26, 0x12), (29, 0x31)] {
        assert_eq!(changed(at, halves), "an entry is cut off");
    }
    for end in 8..payload.len() {
        read(&payload[..end]).unwrap_err();
    }
}

#[test]
fn a_number_of_entries_without_bytes_ends_with_the_keys() {
    let mut payload = vec![0; 24];
    payload[4..8].fill(0xff);
    assert_eq!(read(&payload), Err("an entry is cut off"));
    payload.extend([0; 3]);
    assert_eq!(read(&payload), Err("an entry is cut off"));
}

#[test]
fn damaged_blocks_are_refused_or_read_to_their_end() {
    let mut random = Random::from_seed(4);
    let keys = |number: u64| format!("/registry/{number}/{}", "x".repeat(number as usize % 40));
    let content: Content = (0..60)
        .map(|number| {
            (
                keys(number).into_bytes(),
                entry(number << (number % 40), number, number),
            )
        })
        .collect();
    let packed = payloads(HISTORY, &content).remove(0);
    let words = [
        &1_u64.to_le_bytes()[..],
        b"\x00\x01a",
        &[7; 16],
        b"\x01\x01b",
        &[8; 16],
    ]
    .concat();
    for _ in 0..20_000 {
        for payload in [&packed, &words] {
            let damaged = random.damaged(payload);
            let _ = read(&damaged);
            let _ = first_key(&damaged);
            let _ = last_key(&damaged);
        }
    }
}
