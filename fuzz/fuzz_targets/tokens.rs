//! Tokens of both kinds, the claims of a signed one, and files of its keys.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    auth::fuzzing::token(data);
    auth::fuzzing::key_file(data);
});
