//! Lists of URLs: where to listen and what to advertise.
//!
//! Only what etcd accepts: `http://host:port` without a path, `unix://path`, and the same with
//! TLS, `https` and `unixs`. The list is sorted and free of doubles, because the
//! member's identity is computed from it.

use std::net::IpAddr;
use std::path::PathBuf;

use super::error::Error;

/// One URL of a form that etcd accepts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Url {
    /// The URL as it was written, without surrounding blanks: hashed and advertised.
    text: String,
    address: Address,
}

/// Target of a URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// `http://host:port` or `https://host:port`.
    Tcp {
        /// Name or address, without the brackets of an IPv6 address.
        host: String,
        /// Port; 0 lets the system choose when listening.
        port: u16,
    },
    /// `unix://path` or `unixs://path`.
    Unix {
        /// The socket's file.
        path: PathBuf,
    },
}

impl Url {
    /// The URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether connections to it have TLS.
    pub fn is_secure(&self) -> bool {
        self.text.starts_with("https:") || self.text.starts_with("unixs:")
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Host of a URL with port 0, which lets the system choose the port.
    pub(crate) fn host_with_any_port(&self) -> Option<&str> {
        match &self.address {
            Address::Tcp { host, port: 0 } => Some(host),
            _ => None,
        }
    }

    /// The URL with the port that the system chose: the one of the same host, or else the
    /// first. A URL that has a port keeps it.
    pub(crate) fn with_chosen_port(&self, chosen: &[ChosenPort]) -> Url {
        let Some(host) = self.host_with_any_port() else {
            return self.clone();
        };
        let same_host = chosen.iter().find(|it| it.host == host);
        let Some(&ChosenPort { port, .. }) = same_host.or(chosen.first()) else {
            return self.clone();
        };
        let (start, _) = self.text.rsplit_once(':').expect("the URL has a port");
        let host = host.to_owned();
        Url {
            text: format!("{start}:{port}"),
            address: Address::Tcp { host, port },
        }
    }
}

/// The port that the system chose for a URL with port 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Reads a comma-separated list; an empty text is an empty list.
pub(super) fn list(flag: &'static str, text: &str) -> Result<Vec<Url>, Error> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut urls = text
        .split(',')
        .map(|part| one(flag, part.trim()))
        .collect::<Result<Vec<_>, _>>()?;
    urls.sort();
    urls.dedup();
    Ok(urls)
}

fn one(flag: &'static str, text: &str) -> Result<Url, Error> {
    // `unix:path` without the slashes is accepted as well.
    let parts = text.split_once("://").or_else(|| text.split_once(':'));
    let address = match parts {
        Some(("http" | "https", address)) if text.contains("://") => tcp(flag, text, address)?,
        Some(("unix" | "unixs", path)) if !path.is_empty() => Address::Unix {
            path: PathBuf::from(path),
        },
        _ => {
            return Err(Error::bad(
                flag,
                text,
                "write http://host:port, https://host:port, unix://path or unixs://path",
            ));
        }
    };
    Ok(Url {
        text: text.to_owned(),
        address,
    })
}

fn tcp(flag: &'static str, text: &str, address: &str) -> Result<Address, Error> {
    let refuse = |why| Err(Error::bad(flag, text, why));
    if address.contains('/') {
        return refuse("a URL must not contain a path");
    }
    let Some((host, port)) = address.rsplit_once(':') else {
        return refuse("a URL needs a port: http://host:port");
    };
    let Ok(port) = port.parse() else {
        return refuse("the port is a number from 0 to 65535");
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    if bare.is_none() && host.contains(':') {
        return refuse("write an IPv6 address in brackets: http://[::1]:2379");
    }
    Ok(Address::Tcp {
        host: bare.unwrap_or(host).to_owned(),
        port,
    })
}

/// Refuses host names to listen at: a name resolves to whatever DNS says, so listening
/// needs an IP address or `localhost`.
pub(super) fn check_bind(flag: &'static str, urls: &[Url]) -> Result<(), Error> {
    for url in urls {
        if let Address::Tcp { host, .. } = &url.address
            && host != "localhost"
            && host.parse::<IpAddr>().is_err()
        {
            let why = "listening needs an IP address or localhost, not a name";
            return Err(Error::bad(flag, url.as_str(), why));
        }
    }
    Ok(())
}

/// Refuses a URL without a host: clients could not connect to it.
pub(super) fn check_host(flag: &'static str, urls: &[Url]) -> Result<(), Error> {
    for url in urls {
        if matches!(&url.address, Address::Tcp { host, .. } if host.is_empty()) {
            return Err(Error::bad(flag, url.as_str(), "the URL has no host"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        list("f", text)
            .unwrap()
            .iter()
            .map(|url| url.as_str().to_owned())
            .collect()
    }

    #[test]
    fn a_list_is_sorted_and_free_of_doubles() {
        assert_eq!(
            texts("http://b:2, http://a:1,http://b:2"),
            ["http://a:1".to_owned(), "http://b:2".to_owned()]
        );
        assert!(texts("").is_empty());
    }

    #[test]
    fn tcp_and_unix_urls_are_parsed() {
        let written = "http://[::1]:2379,unix:///run/x.sock,unix://localhost:20000,unix:b";
        let urls = list("f", written).unwrap();
        let unix = |path: &str| Address::Unix { path: path.into() };
        let tcp = Address::Tcp {
            host: "::1".into(),
            port: 2379,
        };
        let addresses: Vec<_> = urls.iter().map(|url| url.address().clone()).collect();
        assert_eq!(
            addresses,
            [tcp, unix("/run/x.sock"), unix("localhost:20000"), unix("b")]
        );
    }

    #[test]
    fn the_scheme_says_whether_there_is_tls() {
        for (text, is_secure) in [
            ("http://a:1", false),
            ("https://a:1", true),
            ("unix://https", false),
            ("unixs://a", true),
            ("unixs:a", true),
        ] {
            assert_eq!(list("f", text).unwrap()[0].is_secure(), is_secure, "{text}");
        }
    }

    #[test]
    fn an_advertised_port_0_becomes_the_chosen_port_of_the_same_host() {
        let chosen = |host: &str, port| ChosenPort {
            host: host.to_owned(),
            port,
        };
        let chosen = [chosen("127.0.0.1", 7), chosen("::1", 8)];
        let filled = |text, chosen: &[ChosenPort]| {
            let urls = list("f", text).unwrap();
            urls[0].with_chosen_port(chosen).as_str().to_owned()
        };
        assert_eq!(filled("http://[::1]:0", &chosen), "http://[::1]:8");
        assert_eq!(
            filled("http://example.com:0", &chosen),
            "http://example.com:7"
        );
        assert_eq!(filled("http://[::1]:9", &chosen), "http://[::1]:9");
        assert_eq!(filled("unix://a", &chosen), "unix://a");
        assert_eq!(
            filled("https://127.0.0.1:0", &chosen),
            "https://127.0.0.1:7"
        );
        assert_eq!(filled("http://a:0", &[]), "http://a:0");
    }

    #[test]
    fn malformed_urls_are_refused() {
        for text in [
            "localhost:2379",
            "http://localhost",
            "http://localhost:2379/",
            "http://localhost:99999",
            "http://::1:2379",
            "ftp://a:1",
            "unix://",
            "http://a:1,",
            "https:a:1",
            "https://a",
            "unixs://",
        ] {
            assert!(list("f", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_listener_takes_addresses_only() {
        let check = |text| check_bind("f", &list("f", text).unwrap());
        assert!(check("http://localhost:1,http://0.0.0.0:1,http://[::]:1,unix://x").is_ok());
        assert!(check("http://example.com:1").is_err());
        assert!(check_host("f", &list("f", "http://:1").unwrap()).is_err());
    }
}
