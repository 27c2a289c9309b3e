//! The text of the file `REMOVED`, see docs/formats/removed.md.
//!
//! ```text
//!   inkstone removed 1
//!   member 8e9e05c52164694d
//!   sha1 <40 hexadecimal digits over the lines above>
//! ```

use crate::sealed_text::{seal, unseal};

/// The first line without the version.
const TITLE: &str = "inkstone removed ";
/// The version that this program writes, and the only one that it reads.
const VERSION: &str = "1";

/// The file's text.
pub(super) fn encode(member: u64) -> String {
    let text = format!("{TITLE}{VERSION}\nmember {member:016x}\n");
    seal(text)
}

/// The member, or why the text cannot be trusted.
pub(super) fn decode(text: &str) -> Result<u64, &'static str> {
    let title = text.lines().next().unwrap_or_default();
    if title.strip_prefix(TITLE).is_some_and(|it| it != VERSION) {
        return Err("has another format than 1");
    }
    let body = unseal(text).ok_or("does not match its checksum")?;
    let mut lines = body.lines();
    if lines.next().and_then(|line| line.strip_prefix(TITLE)) != Some(VERSION) {
        return Err("is not the file that its name says");
    }
    let member = lines.next().and_then(|line| line.strip_prefix("member "));
    let member = member.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    member.ok_or("lacks its member")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed_text::assert_trusted_whole_only;

    #[test]
    fn every_changed_byte_and_every_missing_end_is_seen() {
        let text = encode(0x8e9e_05c5_2164_694d);
        assert!(text.starts_with("inkstone removed 1\nmember 8e9e05c52164694d\n"));
        assert_eq!(decode(&text), Ok(0x8e9e_05c5_2164_694d));
        assert_trusted_whole_only(&text, |text| decode(text).is_ok());
    }

    #[test]
    fn a_newer_format_and_another_file_are_told_apart_from_damage() {
        assert_eq!(
            decode("inkstone removed 2\n"),
            Err("has another format than 1")
        );
        let other = seal("inkstone life 1\n".to_owned());
        assert_eq!(decode(&other), Err("is not the file that its name says"));
    }
}
