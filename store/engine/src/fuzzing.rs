//! Fuzz targets in `fuzz/`: blocks of files that may be damaged.

use ordered_index::IndexEntry;

use crate::checkpoint::entries::{EntriesWriter, read_entries};

/// Reads `payload` as a block of entries of a checkpoint, and checks that entries which can be
/// read come back from the block that is written for them.
pub fn entries(payload: &[u8]) {
    let Ok(read) = all_of(payload) else {
        return;
    };
    let Some((tree, _, _)) = read.first() else {
        return;
    };
    let mut writer = EntriesWriter::new(*tree);
    for (_, key, entry) in &read {
        writer.push(key, *entry);
    }
    assert_eq!(all_of(writer.take_payload()).as_ref(), Ok(&read));
}

type Entries = Vec<(usize, Vec<u8>, IndexEntry)>;

fn all_of(payload: &[u8]) -> Result<Entries, &'static str> {
    let mut entries = Entries::new();
    read_entries(payload, |tree, key, entry| {
        entries.push((tree, key.to_vec(), entry));
        Ok::<(), &'static str>(())
    })?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use environment::randomness::Random;

    use super::*;
    use crate::trees::CURRENT;

    #[test]
    fn damaged_blocks_of_entries_are_refused_or_read() {
        let mut writer = EntriesWriter::new(CURRENT);
        for number in 0..40_u64 {
            let entry = IndexEntry {
                value: 3 << 48 | (number * 4_211 % 97),
                stamp: 1_000 + number * 7 % 11,
            };
            writer.push(format!("a key, {number:04}").as_bytes(), entry);
        }
        let block = writer.take_payload().to_vec();
        assert_eq!(all_of(&block).unwrap().len(), 40);
        entries(&block);
        let mut random = Random::from_seed(1);
        let mut read = 0;
        for _ in 0..20_000 {
            let damaged = random.damaged(&block);
            read += usize::from(all_of(&damaged).is_ok());
            entries(&damaged);
        }
        assert!(
            read > 1_000,
            "most damage was refused: {read} of 20,000 read"
        );
    }
}
