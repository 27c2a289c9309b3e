//! Database files of etcd (docs/formats/bolt.md). Begin with store/etcd-snapshot/tests/small.db as the corpus.
#![no_main]

use libfuzzer_sys::fuzz_target;

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
    }
});
