//! The body of a request to the JSON gateway, and the answer of a call: a refusal or a message,
//! and an error or JSON. No panic, however the bytes are cut.
#![no_main]

use gateway::{Values, find};
use libfuzzer_sys::fuzz_target;

const PATHS: [&str; 6] = [
    "/v3/kv/range",
    "/v3/kv/txn",
    "/v3/watch",
    "/v3/lease/timetolive",
    "/v3/maintenance/status",
    "/v3/auth/role/grant",
];

fuzz_target!(|data: &[u8]| {
    let [path, piece_bytes, bytes @ ..] = data else {
        return;
    };
    let route = find(PATHS[usize::from(*path) % PATHS.len()]).expect("a path of the table");
    let mut values = Values::default();
    let mut transcoder = route.transcoder();
    let mut json = Vec::new();
    let mut unreadable = false;
    for piece in bytes.chunks(usize::from(*piece_bytes) + 1) {
        values.push(piece);
        while let Some(value) = values.next_value() {
            let _ = route.request(&value);
        }
        transcoder.push(piece);
        while !unreadable {
            match transcoder.write(&mut json) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => unreadable = true,
            }
        }
    }
    while let Ok(Some(value)) = values.last_value() {
        let _ = route.request(&value);
    }
});
