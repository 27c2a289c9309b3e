//! Small text files with a checksum over the whole text.
//!
//! ```text
//!   inkstone member 1
//!   ...
//!   sha1 <40 hexadecimal digits over the lines above>
//! ```

use sha1::{Digest, Sha1};

const SUM: &str = "sha1 ";

/// Appends the checksum of the lines.
pub(crate) fn seal(mut lines: String) -> String {
    let sum = sum(&lines);
    lines.push_str(&sum);
    lines
}

/// The lines before the checksum; none if the text is not exactly what [`seal`] made.
pub(crate) fn unseal(text: &str) -> Option<&str> {
    let lines = &text[..text.rfind(SUM)?];
    (text.strip_prefix(lines)? == sum(lines)).then_some(lines)
}

fn sum(lines: &str) -> String {
    let digest = Sha1::digest(lines.as_bytes());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{SUM}{digits}\n")
}

/// Panics if a reader accepts a text with a changed byte or a missing end.
#[cfg(test)]
pub(crate) fn assert_trusted_whole_only(text: &str, is_taken: impl Fn(&str) -> bool) {
    assert!(is_taken(text), "{text}");
    for place in 0..text.len() {
        let mut bytes = text.as_bytes().to_vec();
        bytes[place] ^= 1;
        let changed = String::from_utf8(bytes).expect("ASCII with its lowest bit changed");
        assert!(!is_taken(&changed), "{changed}");
        assert!(!is_taken(&text[..place]), "cut at {place}");
    }
}
