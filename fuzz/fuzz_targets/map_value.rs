//! Any bytes as a stored pair of a map: no panic, no memory without end, and a value that is
//! stored comes back, compressed or not.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((key_bytes, rest)) = data.split_first() else {
        return;
    };
    ordered_map::fuzzing::stored(rest);
    let (key, value) = rest.split_at(usize::from(*key_bytes).min(rest.len()));
    ordered_map::fuzzing::comes_back(key, value);
});
