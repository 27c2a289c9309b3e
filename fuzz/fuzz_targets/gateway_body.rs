//! The body of a request to the JSON gateway, and the answer of a call: a refusal or a message,
//! and an error or JSON. No panic, however the bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    gateway::fuzzing::body(data);
});
