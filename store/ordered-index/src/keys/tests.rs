use super::*;
use environment::randomness::Random;

fn block(keys: &[&[u8]]) -> Keys {
    let mut block = Keys::default();
    keys.iter().for_each(|key| block.push(key));
    block
}

fn all(block: &Keys) -> Vec<Vec<u8>> {
    (0..block.len()).map(|slot| block.key(slot)).collect()
}

#[test]
fn zero_bytes_at_the_end_of_a_head_differ_from_padding() {
    let keys: [&[u8]; 6] = [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0\0\0\0\0\0",
        b"\0\0\0\0\0\0\0\0\0",
        b"\x01",
    ];
    let block = block(&keys);
    for (slot, key) in keys.iter().enumerate() {
        assert_eq!(block.search(key), Ok(slot), "{key:?}");
    }
    assert_eq!(block.search(b"\0\0\0"), Err(3));
    assert_eq!(all(&block), keys.map(<[u8]>::to_vec));
}

#[test]
fn a_search_agrees_with_a_sorted_list_under_prefixes_of_any_length() {
    for prefix_bytes in [0, 1, 2, 7, 8, 9, 16] {
        for filler in [0, b'p', 0xff] {
            let prefix = vec![filler; prefix_bytes];
            let with = |tail: &[u8]| [&prefix[..], tail].concat();
            let keys = [&b""[..], b"\0", b"\0\0", b"a", b"ab", b"b\xff"].map(with);
            let parts = block(&keys.each_ref().map(|key| &key[..]));
            let gathered = Keys::gather(&[(&parts, 0..keys.len())]);
            assert_eq!(gathered.prefix().len(), prefix_bytes);
            let shorter = (0..prefix_bytes).map(|bytes| prefix[..bytes].to_vec());
            let others = (0..prefix_bytes).flat_map(|place| {
                let changed = |by: u8| {
                    let mut key = with(b"a");
                    key[place] = key[place].wrapping_add(by);
                    key
                };
                [changed(1), changed(0xff)]
            });
            let beside = [b"\0\0\0", b"aa\0", b"\xff\xff\xff"].map(|tail| with(tail));
            for key in keys
                .iter()
                .cloned()
                .chain(shorter)
                .chain(others)
                .chain(beside)
            {
                assert_eq!(gathered.search(&key), keys.binary_search(&key), "{key:?}");
            }
        }
    }
}

#[test]
fn gathering_finds_the_common_prefix_and_keeps_every_key() {
    let keys: [&[u8]; 3] = [
        b"/registry/pods/a",
        b"/registry/pods/b-and-a-long-name",
        b"/registry/q",
    ];
    let gathered = Keys::gather(&[(&block(&keys), 0..3)]);
    assert_eq!(gathered.prefix(), b"/registry/");
    assert_eq!(all(&gathered), keys.map(<[u8]>::to_vec));
}

#[test]
fn a_key_outside_the_prefix_shortens_it() {
    let mut tight = Keys::gather(&[(&block(&[b"pods/one", b"pods/two"]), 0..2)]);
    assert_eq!(tight.prefix(), b"pods/");
    assert_eq!(tight.search(b"pods"), Err(0));
    assert_eq!(tight.search(b"poets"), Err(2));
    tight.insert(2, b"poets");
    assert_eq!(tight.prefix(), b"po");
    assert_eq!(
        all(&tight),
        [
            b"pods/one".to_vec(),
            b"pods/two".to_vec(),
            b"poets".to_vec()
        ]
    );
}

#[test]
fn a_long_tail_is_shared_by_copies_and_survives_the_removal_of_another() {
    let long = |last: u8| [vec![7; 100_000], vec![last]].concat();
    let (one, two, three) = (long(1), long(2), long(3));
    let mut block = block(&[&one, &two, &three]);
    let mut copy = Keys::default();
    block.copy_to(&mut copy, block.len());
    block.remove(0);
    assert_eq!(all(&block), [two.clone(), three.clone()]);
    assert_eq!(all(&copy), [one, two, three]);
    assert!(
        Arc::ptr_eq(&copy.long[2], &block.long[0]),
        "the copy has its own long tail"
    );
}

#[test]
fn the_prefix_is_bounded_so_that_a_node_stays_cheap_to_copy() {
    let long = |last: u8| [vec![7; 100_000], vec![last]].concat();
    let gathered = Keys::gather(&[(&block(&[&long(1), &long(2)]), 0..2)]);
    assert_eq!(gathered.prefix_bytes(), PREFIX_BYTES_MAX);
    assert_eq!(all(&gathered), [long(1), long(2)]);
}

#[test]
fn tails_at_the_inline_limit_keep_their_length() {
    for bytes in [255, 256, 257] {
        let key = vec![b'k'; HEAD_BYTES + bytes];
        let block = block(&[b"a", &key]);
        assert_eq!(block.search(&key), Ok(1));
        assert_eq!(block.key(1), key);
        assert_eq!(block.long.len(), usize::from(bytes > INLINE_TAIL_BYTES_MAX));
    }
}

#[test]
fn holes_of_removed_tails_are_closed() {
    let mut block = Keys::default();
    for round in 0..1_000u32 {
        let key = [&round.to_be_bytes()[..], &[b'x'; 60]].concat();
        block.push(&key);
        if block.len() > 4 {
            block.remove(0);
        }
    }
    assert_eq!(block.len(), 4);
    assert!(
        block.bytes.len() < 4_000,
        "{} bytes for four keys",
        block.bytes.len()
    );
}

#[test]
fn the_separator_is_the_shortest_one() {
    assert_eq!(separator(b"pods/a", b"pods/c-long-name"), b"pods/c");
    assert_eq!(separator(b"pods", b"pods/a"), b"pods/");
}

#[test]
fn a_block_that_began_with_one_key_learns_what_all_share() {
    let mut keys = Keys::default();
    for number in 0..8 {
        keys.push(format!("/registry/pods/{number}").as_bytes());
    }
    assert_eq!(keys.prefix(), b"/registry/pods/");
    keys.push(b"/s");
    assert_eq!(keys.prefix(), b"/");
    assert_eq!(keys.search(b"/registry/pods/7"), Ok(7));
}

#[test]
fn a_head_is_the_first_eight_bytes_with_zeros_behind_a_shorter_suffix() {
    let mut random = Random::from_seed(9);
    for bytes in (0..20).chain(0..20) {
        let mut suffix = vec![0; bytes];
        random.fill(&mut suffix);
        let mut padded = suffix.clone();
        padded.resize(bytes.max(HEAD_BYTES), 0);
        let expected = u64::from_be_bytes(*padded.first_chunk().unwrap());
        assert_eq!(head_of(&suffix), expected, "{suffix:x?}");
    }
}

#[test]
fn a_run_of_short_keys_of_long_ones_and_of_both_becomes_the_same_block() {
    let runs: [&[&[u8]]; 7] = [
        &[b""],
        &[b"a longer key alone"],
        &[b"", b"\0", b"\0\0", b"a"],
        &[b"abcdefgh", b"abcdefgi"],
        &[b"abc", b"abc\0", b"abcdefgh", b"abcdefghi", b"b"],
        &[b"abcdefgh", b"abcdefgh\0", b"abcdefgh\0\0"],
        &[b"/pods/blue/1", b"/pods/blue/10", b"/pods/red"],
    ];
    let mut run = KeyRun::default();
    for keys in runs {
        assert_eq!((run.first(), run.last(), run.len()), (None, None, 0));
        for (number, &key) in keys.iter().enumerate() {
            assert!(run.ends_before(key));
            run.push(key);
            assert!(!run.ends_before(key) && !run.ends_before(keys[number / 2]));
            assert_eq!((run.first(), run.last()), (Some(keys[0]), Some(key)));
        }
        let packed = Keys::of_run(&run, keys.len(), &mut Vec::new());
        assert_eq!(
            all(&packed),
            keys.iter().map(|key| key.to_vec()).collect::<Vec<_>>()
        );
        for (slot, key) in keys.iter().enumerate() {
            assert_eq!(packed.search(key), Ok(slot), "{key:?}");
        }
        run.clear();
    }
}
