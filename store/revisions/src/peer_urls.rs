//! Peer URLs in requests: etcd's rules of what is one.
//!
//! `http://host:port` or `https://host:port` without a path, `unix:…` or
//! `unixs:…`; surrounding blanks do not count. etcd does not check the URLs of
//! an update and stops when it tries to dial them; here they are checked too.

use etcd_api::Error as Refusal;

/// The URLs without blanks, in the given order.
pub(crate) fn parse(urls: &[String]) -> Result<Vec<String>, Refusal> {
    let parsed: Option<Vec<String>> = urls.iter().map(|url| one(url.trim())).collect();
    parsed
        .filter(|urls| !urls.is_empty())
        .ok_or(Refusal::MemberBadUrls)
}

fn one(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once(':')?;
    let scheme = scheme.to_ascii_lowercase();
    if url.chars().any(|it| it.is_control() || it == ' ') {
        return None;
    }
    let fits = match scheme.as_str() {
        "http" | "https" => is_address(rest.strip_prefix("//")?),
        "unix" | "unixs" => !rest.is_empty(),
        _ => false,
    };
    fits.then(|| format!("{scheme}:{rest}"))
}

/// `host:port`, an IPv6 address in brackets.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']'),
        None => Some(host).filter(|host| !host.contains(':')),
    };
    let odd = |text: &str| text.contains(['/', '?', '#', '@', '[', ']']);
    bare.is_some_and(|host| !odd(host)) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(urls: &[&str]) -> Result<Vec<String>, Refusal> {
        parse(&urls.iter().map(|&url| url.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_etcd_takes_is_taken_in_its_order() {
        let urls = [
            " http://b:2 ",
            "HTTPS://a:1",
            "http://[::1]:2380",
            "unix:x",
            "unixs://y",
        ];
        let kept = [
            "http://b:2",
            "https://a:1",
            "http://[::1]:2380",
            "unix:x",
            "unixs://y",
        ];
        assert_eq!(parsed(&urls).unwrap(), kept);
    }

    #[test]
    fn malformed_urls_are_refused() {
        assert_eq!(parsed(&[]), Err(Refusal::MemberBadUrls));
        for url in [
            "",
            ":",
            "a:1",
            "127.0.0.1:1",
            "http:a:1",
            "http://a",
            "http://a:",
            "http://a:1/",
            "http://a:1/x",
            "http://::1:1",
            "http://[::1:1",
            "http://a:65536",
            "ftp://a:1",
            "unix:",
            "http://a b:1",
            "http://u@a:1",
            "http://a:1?x",
            "http://a\n:1",
        ] {
            assert_eq!(
                parsed(&["http://b:2", url]),
                Err(Refusal::MemberBadUrls),
                "{url}"
            );
        }
    }
}
