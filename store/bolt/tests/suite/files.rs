//! Sound and damaged files.

use crate::support;

use bolt::Checksum;
use environment::randomness::Random;

use support::{Image, PAGE_BYTES, Pair, read};

/// 500 pairs, one of them larger than a page.
fn many() -> Vec<Pair> {
    let pairs = (0..500_u32).map(|number| {
        let bytes = if number == 77 { 3 * PAGE_BYTES } else { 100 };
        (number.to_be_bytes().to_vec(), vec![number as u8; bytes])
    });
    pairs.collect()
}

fn few() -> Vec<Pair> {
    vec![(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), Vec::new())]
}

fn sound() -> Image {
    Image::of(&[("empty", Vec::new()), ("key", many()), ("meta", few())])
}

#[test]
fn buckets_and_pairs_are_read_in_order() {
    let opened = sound().open().unwrap();
    opened.file.check(|_| ()).unwrap();
    let expected = [("empty", Vec::new()), ("key", many()), ("meta", few())];
    let expected = expected.map(|(name, pairs)| (name.as_bytes().to_vec(), pairs));
    assert_eq!(read(&opened.file).unwrap(), expected);
    assert!(opened.file.bucket("lease").unwrap().is_none());
}

#[test]
fn free_pages_are_counted_and_lost_ones_are_found() {
    let mut image = sound();
    let free = image.pages();
    image.bytes.resize(image.bytes.len() + PAGE_BYTES, 0);
    image.add_free_list(&[free]);
    image.open().unwrap().file.check(|_| ()).unwrap();

    let mut lost = sound();
    lost.bytes.resize(lost.bytes.len() + PAGE_BYTES, 0);
    lost.add_free_list(&[]);
    assert!(
        lost.error()
            .contains(&format!("page {free}: it is neither in use nor free"))
    );

    let mut both = sound();
    let root = both.root();
    both.add_free_list(&[root]);
    assert!(
        both.error().contains("is in use or listed twice"),
        "{}",
        both.error()
    );
}

#[test]
fn the_newer_sound_meta_page_counts() {
    let mut image = sound();
    image.page(0)[48] ^= 1;
    assert_eq!(read(&image.open().unwrap().file).unwrap().len(), 3);
    image.page(1)[48] ^= 1;
    assert!(
        image.error().contains("its meta pages are damaged"),
        "{}",
        image.error()
    );
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let mut image = sound();
    image.bytes.truncate(image.bytes.len() - 1);
    assert!(
        image.error().contains("it was cut off"),
        "{}",
        image.error()
    );
    for bytes in [0, 1, 79, PAGE_BYTES] {
        image.bytes.truncate(bytes);
        assert!(!image.error().is_empty());
    }
}

#[test]
fn a_file_that_is_written_is_refused() {
    let opened = sound().open().unwrap();
    let path = &opened.path;
    drop(opened.file);
    let writer = std::fs::File::open(path).unwrap();
    writer.try_lock().unwrap();
    let error = bolt::DatabaseFile::open(path).unwrap_err().to_string();
    assert!(error.contains("a running etcd writes it"), "{error}");
}

#[test]
fn pages_that_refer_to_each_other_are_refused() {
    // The last branch of `key` refers to itself.
    let mut image = sound();
    let root = image.root() - 1;
    let itself = root.to_le_bytes();
    image.page(root)[24..32].copy_from_slice(&itself);
    let error = image.error();
    assert!(
        error.contains(&format!("page {root}: two others refer to it")),
        "{error}"
    );
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let changes: [(&str, usize, &[u8], &str); 7] = [
        ("a count", 10, &[0xff, 0xff], "elements are more than its"),
        (
            "an overflow",
            12,
            &[0xff, 0xff, 0xff, 0xff],
            "reach beyond the last one",
        ),
        ("a page's own number", 0, &[9, 9], "it calls itself page"),
        ("the flags", 8, &[9, 0], "must be part of a tree"),
        (
            "a position",
            20,
            &[0xff, 0xff, 0xff, 0xff],
            "and its place is",
        ),
        (
            "the length of a key",
            24,
            &[0xff, 0xff, 0xff, 0xff],
            "and its place is",
        ),
        (
            "the length of a value",
            28,
            &[0xff, 0xff, 0xff, 0xff],
            "and its place is",
        ),
    ];
    for (what, at, bytes, expected) in changes {
        let mut image = sound();
        let root = image.root();
        image.page(root)[at..at + bytes.len()].copy_from_slice(bytes);
        let error = image.error();
        assert!(error.contains(expected), "{what}: {error}");
        assert!(error.contains(&format!("page {root}")), "{what}: {error}");
    }
}

#[test]
fn elements_that_share_bytes_are_refused() {
    // The position of the second element is that of the first one's key.
    let mut image = sound();
    let root = image.root();
    let first = u32::from_le_bytes(image.page(root)[20..24].try_into().unwrap());
    image.page(root)[36..40].copy_from_slice(&(first - 16).to_le_bytes());
    let error = image.error();
    assert!(error.contains("element 1 lies at"), "{error}");
}

#[test]
fn keys_that_are_longer_than_bbolt_takes_are_refused_with_a_short_message() {
    let long = [(vec![1; 40_000], Vec::new())];
    let error = Image::of(&[("key", long.to_vec())]).error();
    assert!(
        error.contains("the key of element 0 has 40000 bytes"),
        "{error}"
    );
    let name = "n".repeat(20_000);
    let mut image = Image::of(&[(&name, many())]);
    let root = image.root();
    // The bucket becomes a value.
    image.page(root)[16] = 0;
    let error = image.error();
    assert!(error.contains("... is a value among buckets"), "{error}");
    assert!(error.len() < 300, "{error}");
}

#[test]
fn an_inline_bucket_with_a_branch_is_refused() {
    let mut image = Image::of(&[("meta", few())]);
    let root = image.root();
    let page = image.page(root);
    let inline = page.windows(4).position(|bytes| bytes == b"meta").unwrap() + 4 + 16;
    page[inline + 8] = 1;
    let error = image.error();
    assert!(
        error.contains("bucket meta has a branch inside of it"),
        "{error}"
    );
}

#[test]
fn a_checksum_is_right_wrong_or_missing() {
    let mut image = sound();
    let of = |image: &Image| image.open().unwrap().file.checksum(|_, _| ()).unwrap();
    assert_eq!(of(&image), Checksum::Missing);
    image.bytes.push(b'\n');
    assert_eq!(of(&image), Checksum::Broken, "a line feed was added");
    image.bytes.pop();
    image.bytes.extend([7; 32]);
    assert_eq!(of(&image), Checksum::Broken);
    image.bytes.pop();
    assert_eq!(of(&image), Checksum::Broken, "the last byte is missing");
}

#[test]
fn a_pipe_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let error = bolt::DatabaseFile::open(&path).unwrap_err().to_string();
    assert!(error.contains("it is no file"), "{error}");
}

#[test]
fn keys_out_of_order_are_refused() {
    let mut pairs = many();
    pairs.swap(3, 4);
    let error = Image::of(&[("key", pairs)]).error();
    assert!(error.contains("its keys are not in order"), "{error}");
    let mut pairs = many();
    pairs.swap(3, 300);
    let error = Image::of(&[("key", pairs)]).error();
    assert!(error.contains("its keys are not in order"), "{error}");
    let mut pairs = many();
    pairs[4] = pairs[3].clone();
    let error = Image::of(&[("key", pairs)]).error();
    assert!(error.contains("its keys are not in order"), "{error}");
}

#[test]
fn a_small_file_that_claims_to_be_huge_is_refused() {
    for (pages, expected) in [
        (u64::MAX, "are the most that are read"),
        (1 << 52, "are the most that are read"),
        (1 << 28, "it was cut off"),
    ] {
        let mut image = sound();
        image.write_meta_with(image.root(), bolt::format::NO_FREE_LIST, pages);
        assert!(image.error().contains(expected), "{}", image.error());
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    let image = sound();
    let mut random = Random::from_seed(1);
    let mut refused = 0;
    for _ in 0..3_000 {
        let damaged = Image {
            bytes: random.damaged(&image.bytes),
        };
        if let Ok(opened) = damaged.open() {
            let checked = opened.file.check(|_| ());
            refused += u32::from(checked.is_err());
            let _ = read(&opened.file);
        }
    }
    assert!(refused > 100, "{refused}");
}
