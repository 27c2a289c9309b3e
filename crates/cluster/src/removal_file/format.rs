//! The text of the file `REMOVED`, see docs/formats/removed.md.
//!
//! ```text
//!   inkstone removed 1
//!   member 8e9e05c52164694d
//!   sha1 <40 hexadecimal digits over the lines above>
//! ```

use crate::member_file::sum;

/// The first line without the version.
const TITLE: &str = "inkstone removed ";
/// The version that this program writes, and the only one that it reads.
const VERSION: &str = "1";
const SUM: &str = "sha1 ";

/// The file's text.
pub(super) fn encode(member: u64) -> String {
    let mut text = format!("{TITLE}{VERSION}\nmember {member:016x}\n");
    let sum = sum(&text);
    text.push_str(&format!("{SUM}{sum}\n"));
    text
}

/// The member, or why the text cannot be trusted.
pub(super) fn decode(text: &str) -> Result<u64, &'static str> {
    let body = text.rfind(SUM).map_or(text, |at| &text[..at]);
    if text.strip_prefix(body) != Some(&format!("{SUM}{}\n", sum(body))) {
        return Err("does not match its checksum");
    }
    let mut lines = body.lines();
    let title = lines.next().and_then(|line| line.strip_prefix(TITLE));
    if title != Some(VERSION) {
        return Err("has another format than 1");
    }
    let member = lines.next().and_then(|line| line.strip_prefix("member "));
    let member = member.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    member.ok_or("lacks its member")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_and_every_missing_end_is_seen() {
        let text = encode(0x8e9e_05c5_2164_694d);
        assert!(text.starts_with("inkstone removed 1\nmember 8e9e05c52164694d\n"));
        assert_eq!(decode(&text), Ok(0x8e9e_05c5_2164_694d));
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(decode(&changed).is_err(), "{changed}");
            assert!(decode(&text[..place]).is_err(), "cut at {place}");
        }
    }
}
