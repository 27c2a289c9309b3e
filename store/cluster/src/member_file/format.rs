//! The text of the file `MEMBER`, see docs/formats/member.md.
//!
//! ```text
//!   inkstone member 1
//!   member 8e9e05c52164694d
//!   cluster cdf818194e3a8c32
//!   peer http://localhost:2380
//!   sha1 <40 hexadecimal digits over the lines above>
//! ```

use super::MemberFile;
use crate::sealed_text::{seal, unseal};

/// The first line without the version.
const TITLE: &str = "inkstone member ";
/// The version that this program writes, and the only one that it reads.
const VERSION: &str = "1";

/// The file's text.
pub(super) fn encode(content: &MemberFile) -> String {
    let (member, cluster) = (content.member, content.cluster);
    let mut text = format!("{TITLE}{VERSION}\nmember {member:016x}\ncluster {cluster:016x}\n");
    for url in &content.peer_urls {
        text.push_str(&format!("peer {url}\n"));
    }
    seal(text)
}

/// What the text says, or why it cannot be trusted.
pub(super) fn decode(text: &str) -> Result<MemberFile, String> {
    let title = text.lines().next().unwrap_or_default();
    match title.strip_prefix(TITLE) {
        Some(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "has format {version}, this program reads {VERSION}"
            ));
        }
        None => return Err("does not begin with \"inkstone member\"".to_owned()),
    }
    let body = unseal(text).ok_or("does not match its checksum")?;
    fields(body).ok_or_else(|| "lacks a field".to_owned())
}

fn fields(body: &str) -> Option<MemberFile> {
    let mut lines = body.lines().skip(1);
    let mut id = |name| u64::from_str_radix(lines.next()?.strip_prefix(name)?, 16).ok();
    let (member, cluster) = (id("member ")?, id("cluster ")?);
    let peer_urls = lines.map(|line| line.strip_prefix("peer ").map(str::to_owned));
    Some(MemberFile {
        member,
        cluster,
        peer_urls: peer_urls.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed_text::assert_trusted_whole_only;

    fn content() -> MemberFile {
        MemberFile {
            member: 0x8e9e_05c5_2164_694d,
            cluster: 0x0df8_1819_4e3a_8c32,
            peer_urls: vec!["http://a:1".into(), "http://b:2".into()],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = encode(&content());
        assert!(text.starts_with("inkstone member 1\nmember 8e9e05c52164694d\n"));
        assert_eq!(decode(&text), Ok(content()));
    }

    #[test]
    fn every_changed_byte_and_every_missing_end_is_seen() {
        assert_trusted_whole_only(&encode(&content()), |text| decode(text).is_ok());
    }

    #[test]
    fn a_newer_format_is_named() {
        let error = decode("inkstone member 2\n").unwrap_err();
        assert!(error.contains("format 2"), "{error}");
    }
}
