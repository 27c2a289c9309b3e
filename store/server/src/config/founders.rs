//! The members that a new cluster starts with: `--initial-cluster`.
//!
//! ```text
//!   a=http://h1:2380,b=http://h2:2380,b=http://h3:2380
//!   └ member a, one URL  └─────── member b, two URLs
//! ```
//!
//! All members must get the same list, because their ids and the cluster's id are
//! computed from it. A list that cannot be parsed is an error at once; a list that
//! contradicts other flags is an error, in etcd's words, only when a new data directory
//! begins.

use std::collections::{BTreeMap, BTreeSet};

use super::configuration::{Config, Discovery, Founder};
use super::error::Error;
use super::gather::Gathered;
use super::registry;
use super::urls::{self, Address, Url};

const CLUSTER: &str = "initial-cluster";
const STATE: &str = "initial-cluster-state";
const SRV: &str = "discovery-srv";
const ADVERTISED: &str = "initial-advertise-peer-urls";

/// Reads the flags.
pub(super) fn read(gathered: &Gathered, config: &mut Config) -> Result<(), Error> {
    let state = gathered.text(STATE);
    if !matches!(state, "new" | "existing") {
        return Err(Error::bad(STATE, state, "write new or existing"));
    }
    config.cluster.joins = state == "existing";
    discovery(gathered, config)?;
    describe(gathered.text(CLUSTER), config)
}

/// The flags that find the members without a list of them.
fn discovery(gathered: &Gathered, config: &mut Config) -> Result<(), Error> {
    let discovery = Discovery {
        srv_domain: gathered.text(SRV).to_owned(),
        srv_name: gathered.text("discovery-srv-name").to_owned(),
        registry: registry::read(gathered)?,
    };
    let sources = [CLUSTER, "discovery-endpoints", SRV];
    let given = sources
        .into_iter()
        .filter(|flag| !gathered.text(flag).is_empty());
    if let [one, other, ..] = given.collect::<Vec<_>>()[..] {
        return Err(Error::Conflict(format!(
            "--{other} and --{one} both say which members the cluster has: leave one out"
        )));
    }
    if let Some(registry) = &discovery.registry {
        // As in etcd: the name of the cluster, which its ids are made of.
        config.cluster.token.clone_from(&registry.token);
    }
    config.cluster.discovery = discovery;
    Ok(())
}

/// Takes the members from a text in the form of `--initial-cluster`. Says in the configuration
/// why a new data directory cannot begin with them.
pub(crate) fn describe(text: &str, config: &mut Config) -> Result<(), Error> {
    let (name, advertised) = (&*config.name, &config.addresses.advertise_peer);
    let founders = match text {
        "" => vec![Founder {
            name: name.to_owned(),
            peer_urls: advertised.clone(),
        }],
        text => listed(text)?,
    };
    let joins = config.cluster.joins;
    // The cluster knows the URLs of a joining member since `member add`.
    let advertised = (!joins).then_some(&advertised[..]);
    let misfit = misfit(text, &founders, name, advertised).err();
    let lonely = (joins && misfit.is_none() && founders.len() == 1).then(|| {
        let rule = "write name=http://host:port of every member, those that run included";
        Error::bad(CLUSTER, text, rule)
    });
    let cluster = &mut config.cluster;
    let sought = (joins && cluster.discovery.registry.is_some()).then(|| {
        let what = "--discovery-token cannot be used with --initial-cluster-state=existing: list \
                    the members with --initial-cluster";
        Error::Conflict(what.to_owned())
    });
    cluster.founders = founders;
    cluster.cannot_begin = sought.or(misfit).or(lonely);
    Ok(())
}

/// Parses the flag; a URL that is listed twice stays there twice.
fn listed(text: &str) -> Result<Vec<Founder>, Error> {
    let refuse = || Error::bad(CLUSTER, text, "write name=http://host:port");
    let mut by_name: BTreeMap<&str, Vec<Url>> = BTreeMap::new();
    for part in text.split(',').map(str::trim) {
        // As in etcd, where a list may end with a comma.
        if part.is_empty() {
            continue;
        }
        let (name, url) = part.split_once('=').ok_or_else(refuse)?;
        let url = urls::list(CLUSTER, url)?;
        if url.is_empty() {
            return Err(refuse());
        }
        by_name.entry(name).or_default().extend(url);
    }
    let founders = by_name.into_iter().map(|(name, mut peer_urls)| {
        peer_urls.sort();
        Founder {
            name: name.to_owned(),
            peer_urls,
        }
    });
    Ok(founders.collect())
}

/// etcd's checks of the list for a new cluster and for a joining member, in etcd's order.
fn misfit(
    text: &str,
    founders: &[Founder],
    name: &str,
    advertised: Option<&[Url]>,
) -> Result<(), Error> {
    let Some(own) = founders.iter().find(|founder| founder.name == name) else {
        return Err(Error::Conflict(format!(
            "couldn't find local name {name:?} in the initial cluster configuration: \
             --{CLUSTER}={text} must name this member (--name)"
        )));
    };
    if let Some(advertised) = advertised {
        advertises_what_is_listed(own, advertised)?;
    }
    let mut seen = BTreeSet::new();
    for url in founders.iter().flat_map(|founder| &founder.peer_urls) {
        if !seen.insert(url.as_str()) {
            let what = format!("initial cluster {text} has duplicate url {}", url.as_str());
            return Err(Error::Conflict(what));
        }
        let remedy = match url.address() {
            _ if founders.len() == 1 => continue,
            Address::Unix { .. } => {
                "members of a cluster meet over TCP: write name=http://host:port"
            }
            Address::Tcp { port: 0, .. } => {
                "the other members must know the port: write one that is not 0"
            }
            Address::Tcp { .. } => continue,
        };
        return Err(Error::bad(CLUSTER, text, remedy));
    }
    Ok(())
}

fn advertises_what_is_listed(own: &Founder, advertised: &[Url]) -> Result<(), Error> {
    let texts = |prefix: &str, urls: &[Url], without: &[Url]| {
        let urls = urls.iter().filter(|url| !without.contains(url));
        let texts = urls.map(|url| format!("{prefix}{}", url.as_str()));
        texts.collect::<Vec<_>>().join(",")
    };
    let (name, listed) = (format!("{}=", own.name), &own.peer_urls[..]);
    let unadvertised = texts(&name, listed, advertised);
    let unlisted = texts("", advertised, listed);
    let what = if !unadvertised.is_empty() {
        let advertised = texts("", advertised, &[]);
        format!("--{CLUSTER} has {unadvertised} but missing from --{ADVERTISED}={advertised}")
    } else if !unlisted.is_empty() {
        let listed = texts(&name, listed, &[]);
        format!("--{ADVERTISED} has {unlisted} but missing from --{CLUSTER}={listed}")
    } else {
        return Ok(());
    };
    Err(Error::Conflict(what))
}
