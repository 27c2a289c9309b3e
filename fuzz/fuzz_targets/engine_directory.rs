//! A directory of foreign bytes under our names: opening refuses it with an
//! error. No panic, no endless loop, no memory without end.
#![no_main]

use std::{path::Path, sync::Arc};

use engine::{Engine, Options};
use environment::{Disk, OpenMode, simulated::SimulatedDisk};
use libfuzzer_sys::fuzz_target;

const DIRECTORY: &str = "/data";
const NAMES: [&str; 3] = [
    "00000001.log",
    "00000002.sorted",
    "0000000000000001.checkpoint",
];

fuzz_target!(|data: &[u8]| {
    let Some((chosen, bytes)) = data.split_first() else {
        return;
    };
    let disk = SimulatedDisk::new(1);
    let directory = Path::new(DIRECTORY);
    disk.create_directories(directory)
        .expect("the disk is fine");
    let name = NAMES[usize::from(*chosen) % NAMES.len()];
    let file = disk
        .open(&directory.join(name), OpenMode::CreateNew)
        .expect("the disk is fine");
    file.write_durable_at(&[bytes], 0)
        .expect("the disk is fine");
    disk.sync_directory(directory).expect("the disk is fine");
    let options = Options { log: engine::LogOptions { segment_bytes: 64 << 10, reserve_bytes: 0, ..engine::LogOptions::default() }, ..Options::default() };
    let _ = Engine::open(Arc::new(disk), directory, options, &mut |_| Ok(()));
});
