use super::super::block::BlockWriter;
use super::super::entries::EntriesWriter;
use super::super::format::put_varint;
use super::*;
use crate::history_key;
use crate::inspect::CheckpointFile;
use crate::last_changes::LastChanges;
use crate::record_pointer::RecordPointer;
use crate::sorted_changes::SortedRuns;
use crate::trees::{CURRENT, HISTORY, TREES, VersionEntry};
use environment::File;
use environment::randomness::Random;
use environment::simulated::SimulatedDisk;
use ordered_index::IndexEntry;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;
use value_log::crc32c_of as crc;

const KEYS_IN_BLOCK: u64 = 10;
/// Blocks that fill some portions.
const BLOCKS: u64 = 100;
const SEGMENTS: u32 = 300;
const RECORD_BYTES: u64 = 128;
const PATH: &str = "d/checkpoint";

/// A checkpoint's file that is being written.
struct Draft {
    disk: SimulatedDisk,
    file: Arc<dyn File>,
    blocks: BlockWriter,
    foot: Foot,
}

impl Draft {
    fn new() -> Draft {
        let disk = SimulatedDisk::new(1);
        disk.create_directories(Path::new("d")).unwrap();
        let file = disk.open(Path::new(PATH), OpenMode::CreateNew).unwrap();
        let mut blocks = BlockWriter::new(Arc::clone(&file));
        blocks.block(Kind::Head, &Head::EMPTY.encode()).unwrap();
        Draft {
            disk,
            file,
            blocks,
            foot: Foot::default(),
        }
    }

    fn block(&mut self, tree: usize, keys: &[(Vec<u8>, IndexEntry)]) {
        let mut entries = EntriesWriter::new(tree);
        for (key, entry) in keys {
            self.foot.count(tree, *entry);
            entries.push(key, *entry);
        }
        entries.flush(&mut self.blocks).unwrap();
    }

    /// Writes these blocks of CURRENT.
    fn numbered(&mut self, blocks: Range<u64>) {
        for block in blocks {
            let numbers = block * KEYS_IN_BLOCK..(block + 1) * KEYS_IN_BLOCK;
            let keys: Vec<_> = numbers.map(|number| (key(number), entry(number))).collect();
            self.block(CURRENT, &keys);
        }
    }

    fn raw(&mut self, payload: &[u8]) {
        self.blocks.block(Kind::Entries, payload).unwrap();
    }

    /// Writes a block as files before version 5 have them.
    fn words(&mut self, tree: usize, keys: &[(Vec<u8>, IndexEntry)]) {
        let mut payload = (tree as u64).to_le_bytes().to_vec();
        for (key, entry) in keys {
            self.foot.count(tree, *entry);
            put_varint(&mut payload, 0);
            put_varint(&mut payload, key.len() as u64);
            payload.extend(key);
            payload.extend(entry.value.to_le_bytes());
            payload.extend(entry.stamp.to_le_bytes());
        }
        self.raw(&payload);
    }

    fn end(mut self) -> Arc<dyn File> {
        self.blocks.block(Kind::Foot, &self.foot.encode()).unwrap();
        self.blocks.finish().unwrap();
        self.file
    }
}

fn whole() -> Draft {
    let mut draft = Draft::new();
    draft.numbered(0..BLOCKS);
    draft
}

fn key(number: u64) -> Vec<u8> {
    format!("/registry/pods/{number:06}").into_bytes()
}

fn entry_in(segment: u32, number: u64) -> IndexEntry {
    let position = Position::new(segment, 64 + 128 * number);
    let version = VersionEntry {
        pointer: RecordPointer::new(position, RECORD_BYTES),
        main: number as i64 + 2,
        tombstone: false,
    };
    version.entry()
}

fn entry(number: u64) -> IndexEntry {
    entry_in(1 + (number * 7) as u32 % SEGMENTS, number)
}

/// All that the file has.
const ALL: LoadRules = LoadRules {
    history: true,
    hashes: true,
};

fn begun(file: &Arc<dyn File>, threads: usize) -> Result<BegunCheckpoint, Unusable> {
    let blocks = BlockReader::new(Arc::clone(file))?;
    begin_with(blocks, 0, (1..=SEGMENTS).collect(), threads)
}

fn load_by(file: &Arc<dyn File>, threads: usize) -> Result<Loaded, Unusable> {
    begun(file, threads)?.load(ALL, SortedRuns::default())
}

/// The error, which is the same for any number of threads.
fn error_of(file: &Arc<dyn File>) -> Unusable {
    let errors = [1, 2, 3].map(|threads| load_by(file, threads).expect_err("it loads"));
    let [one, ..] = &errors;
    for error in &errors {
        assert_eq!(error.what, one.what);
        assert_eq!(error.names_lost_segment, one.names_lost_segment);
    }
    let [one, ..] = errors;
    one
}

type Content = Vec<(Vec<u8>, IndexEntry)>;
/// Writes a block of a tree with these entries.
type WriteBlock = fn(&mut Draft, usize, &[(Vec<u8>, IndexEntry)]);

fn content(trees: Loads) -> [Content; OF_VERSIONS.len()] {
    let (mut writer, _reader) = ordered_index::new(TREES);
    for (tree, load) in OF_VERSIONS.into_iter().zip(trees) {
        writer.install(tree, load);
    }
    OF_VERSIONS.map(|tree| {
        let mut cursor = writer.cursor(tree, Bound::Unbounded, Bound::Unbounded);
        let mut found = Vec::new();
        while let Some((key, entry)) = cursor.next() {
            found.push((key.to_vec(), entry));
        }
        found
    })
}

#[test]
fn any_number_of_threads_loads_the_same() {
    let mut draft = whole();
    // Trees alternate where a snapshot was received.
    let of_history = |number| (history_key::encode(&key(number), 1), entry(number));
    for number in 0..40 {
        draft.block(HISTORY, &[of_history(number)]);
        draft.numbered(BLOCKS + number..BLOCKS + number + 1);
    }
    let file = draft.end();
    let keys = (BLOCKS + 40) * KEYS_IN_BLOCK;
    for threads in 1..5 {
        let loaded = load_by(&file, threads).unwrap();
        assert_eq!(loaded.last_main, keys as i64 + 1);
        assert_eq!(loaded.live.live_bytes(), (keys + 40) * RECORD_BYTES);
        let own = (0..keys).chain(0..40).filter(|number| number % 300 == 0);
        assert_eq!(
            loaded.live.of(1).live_bytes,
            own.count() as u64 * RECORD_BYTES
        );
        let sum =
            (0..keys).map(|number| crate::state_hash::of_key(&key(number), number as i64 + 2));
        assert_eq!(loaded.keys, sum.fold(0, u64::wrapping_add));
        assert_eq!(loaded.file_bytes, file.size().unwrap());
        let [current, history, hidden] = content(loaded.trees);
        let expected: Content = (0..keys)
            .map(|number| (key(number), entry(number)))
            .collect();
        assert_eq!(current, expected);
        assert_eq!(history, (0..40).map(of_history).collect::<Vec<_>>());
        assert!(hidden.is_empty());
    }
}

/// Writes another version into the file's header.
fn set_version(file: &Arc<dyn File>, version: u32) {
    let mut header = [0; 16];
    file.read_at(&mut header, 0).unwrap();
    header[8..12].copy_from_slice(&version.to_le_bytes());
    let sum = crc(&[&header[..12]]);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    file.write_at(&[&header], 0).unwrap();
}

#[test]
fn files_of_earlier_versions_load_the_same() {
    let numbers = |block: u64| block * KEYS_IN_BLOCK..(block + 1) * KEYS_IN_BLOCK;
    let of_history = |number| (history_key::encode(&key(number), 1), entry(number));
    let write = |block: WriteBlock| {
        let mut draft = Draft::new();
        for number in 0..BLOCKS {
            let keys: Vec<_> = numbers(number).map(|it| (key(it), entry(it))).collect();
            block(&mut draft, CURRENT, &keys);
        }
        (0..40).for_each(|number| block(&mut draft, HISTORY, &[of_history(number)]));
        draft.end()
    };
    let (file, old_file) = (write(Draft::block), write(Draft::words));
    let expected = load_by(&file, 1).unwrap();
    let (keys, live) = (expected.keys, expected.live.live_bytes());
    let expected = content(expected.trees);
    assert_eq!(expected.each_ref().map(Vec::len), [1_000, 40, 0]);
    for version in [3, 4] {
        set_version(&old_file, version);
        for threads in 1..4 {
            let loaded = load_by(&old_file, threads).unwrap();
            assert_eq!((loaded.keys, loaded.live.live_bytes()), (keys, live));
            // It counts as a file that would be written now.
            assert_eq!(loaded.file_bytes, old_file.size().unwrap() / 5 * 3);
            assert_eq!(content(loaded.trees), expected);
        }
    }
    set_version(&old_file, 6);
    let refused = BlockReader::new(old_file).unwrap_err();
    assert_eq!(refused, "it has version 6, this program reads 3 to 5");
}

#[test]
fn a_block_that_is_not_behind_the_one_before_is_refused() {
    // Within a portion, and where one portion ends and the next begins.
    for at in [3, 15, 16, 17, 32, 99] {
        for instead in [0, at - 1] {
            let mut draft = Draft::new();
            draft.numbered(0..at);
            draft.numbered(instead..instead + 1);
            draft.numbered(at + 1..BLOCKS);
            let error = error_of(&draft.end());
            assert!(error.what.contains("is not greater"), "{at}: {error:?}");
        }
    }
}

#[test]
fn a_file_that_ends_early_is_refused() {
    let file = whole().end();
    for size in (0..file.size().unwrap()).rev().step_by(31) {
        file.set_size(size).unwrap();
        let error = match BlockReader::new(Arc::clone(&file)) {
            Ok(_) => error_of(&file).what,
            Err(what) => what,
        };
        assert!(error.contains("ends in the middle"), "{size}: {error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let file = whole().end();
    for at in (16..file.size().unwrap()).step_by(61) {
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[&[byte[0] ^ 4]], at).unwrap();
        error_of(&file);
        file.write_at(&[&byte], at).unwrap();
    }
    load_by(&file, 2).unwrap();
}

#[test]
fn the_first_thing_that_is_wrong_is_reported() {
    let cut_off = [0; 9];
    let gone = [(key(500), entry_in(SEGMENTS + 1, 500))];
    for (first, second) in [(20, 60), (20, 36), (4, 5), (15, 16)] {
        let mut draft = Draft::new();
        draft.numbered(0..first);
        draft.raw(&cut_off);
        draft.numbered(first..second);
        draft.block(CURRENT, &gone);
        draft.numbered(60..BLOCKS);
        let error = error_of(&draft.end());
        assert_eq!(error.what, "an entry is cut off");
        assert!(!error.names_lost_segment);
    }
    let mut draft = Draft::new();
    draft.numbered(0..50);
    draft.block(CURRENT, &gone);
    draft.numbered(60..70);
    draft.raw(&cut_off);
    assert!(error_of(&draft.end()).names_lost_segment);
}

#[test]
fn an_unusable_portion_ends_all_threads() {
    let mut draft = Draft::new();
    draft.raw(&[]);
    draft.numbered(0..BLOCKS);
    let begun = begun(&draft.end(), 1).unwrap();
    let mut portions = Portions::new(begun.entries, SortedRuns::default());
    let mut builders = build(&mut portions, &begun.tables.present, ALL, 1);
    assert_eq!(builders[0].built.len(), 1, "no portion was taken after it");
    let error = join(&mut builders).unwrap_err();
    assert_eq!(error.what, "a block of entries is cut off");
    assert!(portions.foot().is_err());
}

#[test]
fn a_foot_that_counts_otherwise_is_refused() {
    let wrong: [fn(&mut Foot); 5] = [
        |foot| foot.entries[CURRENT] += 1,
        |foot| foot.entries[CURRENT] -= 1,
        |foot| foot.entries[HISTORY] += 1,
        |foot| foot.last_main += 1,
        |foot| foot.state_bytes += 1,
    ];
    for change in wrong {
        let mut draft = whole();
        change(&mut draft.foot);
        let error = error_of(&draft.end());
        assert!(error.what.contains("where its foot says"), "{error:?}");
    }
}

#[test]
fn bytes_behind_the_foot_are_refused() {
    let file = whole().end();
    let end = file.size().unwrap();
    file.write_at(&[&[0]], end).unwrap();
    assert_eq!(error_of(&file).what, "something follows its foot");
}

#[test]
fn small_files_and_simulations_are_loaded_by_one_thread() {
    let (threads, small, large) = (Worker::Threads, 2 * PORTION_BYTES as u64 - 1, 1 << 40);
    assert_eq!(threads_for(0, threads), 1);
    assert_eq!(threads_for(small, threads), 1);
    assert_eq!(threads_for(large, Worker::Caller), 1);
    assert!((1..=THREADS_MAX).contains(&threads_for(u64::MAX, threads)));
}

/// Changes of some of the keys, of keys between and around them, and the state behind them.
fn changes(
    random: &mut Random,
    state: &mut BTreeMap<Vec<u8>, IndexEntry>,
    count: u64,
) -> Vec<(Vec<u8>, VersionEntry)> {
    let mut gathered = Vec::new();
    for number in 0..count {
        let mut key = match random.below(20) {
            0 => vec![b'a'; random.below(10) as usize],
            1 => vec![b'z'; random.below(10) as usize],
            _ => key(random.below(BLOCKS * KEYS_IN_BLOCK)),
        };
        if random.chance(1, 3) {
            key.push(b'+');
        }
        let place = Position::new(SEGMENTS, 64 + 128 * number);
        let version = VersionEntry {
            pointer: RecordPointer::new(place, RECORD_BYTES),
            main: 10_000 + number as i64,
            tombstone: random.chance(1, 4),
        };
        gathered.push((key.clone(), version));
        match version.tombstone {
            true => drop(state.remove(&key)),
            false => drop(state.insert(key, version.entry())),
        }
    }
    gathered
}

#[test]
fn changes_are_merged_as_if_they_were_applied_behind() {
    let mut random = Random::from_seed(5);
    let of_history = |number| (history_key::encode(&key(number), 1), entry(number));
    let mut draft = whole();
    (0..40).for_each(|number| draft.block(HISTORY, &[of_history(number)]));
    let in_turn = draft.end();
    // As a snapshot that was received: trees alternate, also within portions and between them.
    let mut draft = Draft::new();
    for number in 0..BLOCKS {
        draft.numbered(number..number + 1);
        if number % 3 > 0 || number > 60 {
            draft.block(HISTORY, &[of_history(number)]);
        }
    }
    let alternating = draft.end();
    for (file, count) in [0, 1, 7, 300, 5_000]
        .into_iter()
        .flat_map(|count| [(&in_turn, count), (&alternating, count)])
    {
        let keys = 0..BLOCKS * KEYS_IN_BLOCK;
        let mut state = keys.map(|number| (key(number), entry(number))).collect();
        let gathered = changes(&mut random, &mut state, count);
        for threads in 1..4 {
            let mut again = LastChanges::default();
            gathered
                .iter()
                .for_each(|(key, version)| again.push(key, *version));
            let rules = LoadRules {
                history: false,
                hashes: true,
            };
            let loaded = begun(file, threads)
                .unwrap()
                .load(rules, again.take())
                .unwrap();
            let mut live = BTreeMap::new();
            for entry in state.values() {
                let segment = VersionEntry::from(*entry).pointer.segment();
                *live.entry(segment).or_insert(0) += RECORD_BYTES;
            }
            let found = loaded.live.iter();
            assert!(found.map(|(id, life)| (id, life.live_bytes)).eq(live));
            let sums = state.iter().map(|(key, entry)| {
                crate::state_hash::of_key(key, VersionEntry::from(*entry).main)
            });
            assert_eq!(loaded.keys, sums.fold(0, u64::wrapping_add));
            let [current, history, hidden] = content(loaded.trees);
            assert!(current.into_iter().eq(state.clone()), "{count} {threads}");
            assert!(history.is_empty() && hidden.is_empty());
        }
    }
}

#[test]
fn changes_alone_become_a_tree() {
    let mut state = BTreeMap::new();
    let mut gathered = LastChanges::default();
    for (key, version) in changes(&mut Random::from_seed(6), &mut state, 3_000) {
        gathered.push(&key, version);
    }
    let rules = LoadRules {
        history: false,
        hashes: false,
    };
    let begun = begun(&Draft::new().end(), 2).unwrap();
    let loaded = begun.load(rules, gathered.take()).unwrap();
    assert_eq!(loaded.keys, 0, "nothing is hashed");
    let [current, ..] = content(loaded.trees);
    assert!(current.into_iter().eq(state));
}

#[test]
fn an_entry_that_is_replaced_must_point_into_a_segment_too() {
    let mut draft = Draft::new();
    draft.block(CURRENT, &[(key(1), entry_in(SEGMENTS + 1, 1))]);
    let file = draft.end();
    let mut gathered = LastChanges::default();
    gathered.push(&key(1), VersionEntry::from(entry(2)));
    let rules = LoadRules {
        history: false,
        hashes: true,
    };
    let refused = begun(&file, 1)
        .unwrap()
        .load(rules, gathered.take())
        .unwrap_err();
    assert!(refused.names_lost_segment);
}

#[test]
fn a_table_behind_the_entries_is_refused() {
    let mut draft = whole();
    draft.blocks.block(Kind::State, b"late").unwrap();
    draft.foot.state_bytes = 4;
    let disk = draft.disk.clone();
    let error = error_of(&draft.end());
    assert_eq!(error.what, "a table follows its entries");
    // `inkstone check` says what an opening would say.
    let file = CheckpointFile {
        number: 1,
        path: PATH.into(),
    };
    let damage = file.verify(&disk, &mut |_| ()).unwrap_err();
    assert_eq!(damage.what, "a table follows its entries");
}
