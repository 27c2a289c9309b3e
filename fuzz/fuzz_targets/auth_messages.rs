//! Commands about users and roles, and ranges of keys: decided and carried out without a panic, and
//! no range is permitted that no permission covers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    auth::fuzzing::command(data);
    auth::fuzzing::range(data);
});
