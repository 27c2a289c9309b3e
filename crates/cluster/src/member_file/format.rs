//! The text of the file `MEMBER`, see docs/formats/member.md.
//!
//! ```text
//!   inkstone member 1
//!   member 8e9e05c52164694d
//!   cluster cdf818194e3a8c32
//!   peer http://localhost:2380
//!   sha1 <40 hexadecimal digits over the lines above>
//! ```

use sha1::{Digest, Sha1};

use super::MemberFile;

/// The first line without the version.
const TITLE: &str = "inkstone member ";
/// The version that this program writes, and the only one that it reads.
const VERSION: &str = "1";
const SUM: &str = "sha1 ";

/// The file's text.
pub(super) fn encode(content: &MemberFile) -> String {
    let (member, cluster) = (content.member, content.cluster);
    let mut text = format!("{TITLE}{VERSION}\nmember {member:016x}\ncluster {cluster:016x}\n");
    for url in &content.peer_urls {
        text.push_str(&format!("peer {url}\n"));
    }
    let sum = sum(&text);
    text.push_str(&format!("{SUM}{sum}\n"));
    text
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
    let body = text.rfind(SUM).map_or(text, |at| &text[..at]);
    if text.strip_prefix(body) != Some(&format!("{SUM}{}\n", sum(body))) {
        return Err("does not match its checksum".to_owned());
    }
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

/// Over the lines of a file: its last line.
pub(crate) fn sum(text: &str) -> String {
    let digest = Sha1::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = encode(&content());
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(decode(&changed).is_err(), "{changed}");
            assert!(decode(&text[..place]).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let error = decode("inkstone member 2\n").unwrap_err();
        assert!(error.contains("format 2"), "{error}");
    }
}
