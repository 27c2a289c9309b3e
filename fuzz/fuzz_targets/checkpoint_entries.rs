//! Any bytes as a block of entries of a checkpoint: no panic, and entries that can be read come
//! back from the block that is written for them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| engine::fuzzing::entries(data));
