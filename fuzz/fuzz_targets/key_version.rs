//! Any bytes as the record of a key version, with a long or a short header: no panic, and what
//! is accepted comes back from either form. A short record has one encoding only.
#![no_main]

use engine::{Batch, Body, Headers};
use libfuzzer_sys::fuzz_target;
use value_log::Record;

const KINDS: [u8; 2] = [1, 124];

fuzz_target!(|data: &[u8]| {
    let Some((chosen, payload)) = data.split_first() else {
        return;
    };
    let kind = KINDS[usize::from(*chosen) % KINDS.len()];
    let body = Body::encode(&[Record {
        kind,
        parts: &[payload],
    }]);
    let Ok(batch) = Batch::decode(1, 1, &body) else {
        return;
    };
    for headers in [Headers::Long, Headers::Short] {
        let Ok(again) = batch.encode_with(headers) else {
            assert_eq!(kind, KINDS[0], "a short record can be written again");
            return;
        };
        assert_eq!(Batch::decode(1, 1, &again).as_ref().ok(), Some(&batch));
        if kind == KINDS[1] && headers == Headers::Short {
            assert_eq!(again, body);
        }
    }
});
