//! The flags of discovery through another cluster: where it is, and how it is reached.

use std::path::PathBuf;
use std::time::Duration;

use tls::{NamedFile, Pair, Settings};

use super::configuration::{Login, Registry};
use super::error::Error;
use super::gather::Gathered;
use super::values;

const TOKEN: &str = "discovery-token";
const ENDPOINTS: &str = "discovery-endpoints";
const USER: &str = "discovery-user";
/// Clients of etcd send their pings no more often than this.
const KEEPALIVE_MIN: Duration = Duration::from_secs(10);

/// Reads the flags; `None` if the members are not to be found this way.
pub(super) fn read(gathered: &Gathered) -> Result<Option<Registry>, Error> {
    let (token, endpoints) = (gathered.text(TOKEN), gathered.text(ENDPOINTS));
    if token.is_empty() != endpoints.is_empty() {
        let what = "both --discovery-token and --discovery-endpoints must be set";
        return Err(Error::Conflict(what.to_owned()));
    }
    if token.is_empty() {
        return Ok(None);
    }
    let duration = |name: &'static str| values::duration(name, gathered.text(name));
    let (tls, scheme) = tls(gathered)?;
    let endpoints = endpoints.split(',').map(|text| endpoint(text, scheme));
    Ok(Some(Registry {
        token: token.to_owned(),
        endpoints: endpoints.collect::<Result<_, _>>()?,
        dial_timeout: duration("discovery-dial-timeout")?,
        request_timeout: duration("discovery-request-timeout")?,
        keepalive_interval: duration("discovery-keepalive-time")?.max(KEEPALIVE_MIN),
        keepalive_timeout: duration("discovery-keepalive-timeout")?,
        login: login(gathered)?,
        tls,
    }))
}

/// Completes an endpoint that is written without a scheme.
fn endpoint(text: &str, scheme: &str) -> Result<String, Error> {
    let text = text.trim();
    if text.is_empty() {
        let what = "--discovery-endpoints must not contain empty endpoints";
        return Err(Error::Conflict(what.to_owned()));
    }
    match text.split_once("://") {
        None => Ok(format!("{scheme}://{text}")),
        Some(("http" | "https", rest)) if !rest.is_empty() => Ok(text.to_owned()),
        Some(_) => {
            let remedy = "write http://host:port or https://host:port, separated by commas";
            Err(Error::bad(ENDPOINTS, text, remedy))
        }
    }
}

/// The settings, and the scheme of an endpoint that is written without one, by the rules of
/// etcd's client.
fn tls(gathered: &Gathered) -> Result<(Settings, &'static str), Error> {
    let file = |option: &'static str| {
        let path = gathered.text(option);
        (!path.is_empty()).then(|| NamedFile {
            option,
            path: PathBuf::from(path),
        })
    };
    let boolean = |name: &'static str| values::boolean(name, gathered.text(name));
    let verifies_nothing = boolean("discovery-insecure-skip-tls-verify")?;
    let is_plain = boolean("discovery-insecure-transport")?;
    let trusted = file("discovery-cacert");
    let pair = match (file("discovery-cert"), file("discovery-key")) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(Pair { certificate, key }),
        _ => {
            let what = "--discovery-cert and --discovery-key belong together: name both files";
            return Err(Error::Conflict(what.to_owned()));
        }
    };
    let names_a_file = trusted.is_some() || pair.is_some();
    let scheme = match names_a_file || verifies_nothing || !is_plain {
        true => "https",
        false => "http",
    };
    let settings = Settings {
        pair,
        trusted,
        verifies_nothing,
        ..Settings::default()
    };
    Ok((settings, scheme))
}

/// The user, as `--discovery-user` and `--discovery-password`, or both in the former.
fn login(gathered: &Gathered) -> Result<Option<Login>, Error> {
    let (user, password) = (gathered.text(USER), gathered.text("discovery-password"));
    let login = |user: &str, password: &str| Login {
        user: user.to_owned(),
        password: password.to_owned(),
    };
    match (user, password, user.split_once(':')) {
        ("", "", _) => Ok(None),
        ("", _, _) => {
            let what = "--discovery-password without --discovery-user: name the user";
            Err(Error::Conflict(what.to_owned()))
        }
        (_, "", Some((user, password))) if !password.is_empty() => Ok(Some(login(user, password))),
        (_, "", _) => {
            let remedy = "add --discovery-password: a server cannot ask for it";
            Err(Error::bad(USER, user, remedy))
        }
        _ => Ok(Some(login(user, password))),
    }
}
