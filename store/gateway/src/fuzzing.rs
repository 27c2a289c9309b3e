//! The fuzz target in `fuzz/`: the body of a request, and the answer of a call.

use crate::{Values, find};

const PATHS: [&str; 6] = [
    "/v3/kv/range",
    "/v3/kv/txn",
    "/v3/watch",
    "/v3/lease/timetolive",
    "/v3/maintenance/status",
    "/v3/auth/role/grant",
];

/// Reads `bytes`, which arrive in pieces, as JSON values of a request and as an answer: a refusal
/// or a message, and an error or JSON. The first two bytes choose the path and the pieces.
pub fn body(bytes: &[u8]) {
    let [path, piece_bytes, bytes @ ..] = bytes else {
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
}

#[cfg(test)]
mod tests {
    use environment::randomness::Random;

    use super::*;

    const BODIES: [&str; 6] = [
        r#"{"key":"Zm9v","range_end":"","limit":"10","sort_order":"ASCEND"}"#,
        r#"{"compare":[{"key":"Zm9v","target":"VERSION","version":"1"}],
            "success":[{"request_put":{"key":"Zm9v","value":"YmFy","lease":"\u0037"}}]}"#,
        r#"{"create_request":{"key":"Zm9v","startRevision":3}} {"cancel_request":{}}"#,
        r#"{"ID":"7587","keys":true}"#,
        "null 12e3 \"\\ud83d\" [[{}]]",
        r#"{"name":"r","perm":{"permType":"READWRITE","key":"YQ==","range_end":"AA=="}}"#,
    ];
    /// A range's answer with one pair.
    const ANSWER: &[u8] = b"\x0a\x04\x18\x07\x20\x02\x12\x0a\x0a\x03foo\x2a\x03bar\x20\x01";

    #[test]
    fn damaged_bodies_and_answers_are_refused_or_read() {
        let mut random = Random::from_seed(1);
        for _ in 0..20_000 {
            let choice = random.below(BODIES.len() as u64) as usize;
            let piece = random.next_u64() as u8;
            let contents = match random.below(4) {
                0 => ANSWER.to_vec(),
                1 => {
                    let mut bytes = vec![0; random.below(60) as usize];
                    random.fill(&mut bytes);
                    bytes
                }
                _ => BODIES[choice].as_bytes().to_vec(),
            };
            let head = [choice as u8, piece];
            body(&[&head[..], &random.damaged(&contents)].concat());
        }
    }
}
