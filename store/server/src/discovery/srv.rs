//! The members of a new cluster from SRV records of the DNS, by etcd's rules.
//!
//! ```text
//!   _etcd-server-ssl._tcp.DOMAIN  SRV  0 0 2380 a.DOMAIN.   ──►  0=https://a.DOMAIN:2380
//!   _etcd-server._tcp.DOMAIN      SRV  0 0 2380 b.DOMAIN.   ──►  NAME=http://b.DOMAIN:2380
//! ```
//!
//! The records have no names of members. This member finds its own record by the address of
//! its advertised peer URLs and gives it its own name; the others get numbers, which do not
//! count: ids are computed from URLs.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::RData;
use tracing::{info, warn};

use crate::config::{Address, Config, Url};

/// etcd's services, each with the scheme of its URLs.
const SERVICES: [(&str, &str); 2] = [("etcd-server-ssl", "https"), ("etcd-server", "http")];

/// One record: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    host: String,
    port: u16,
    /// Addresses of the host; empty if its name is not known.
    addresses: Vec<SocketAddr>,
}

/// Text for `--initial-cluster`: all members that the records of `--discovery-srv` name.
pub(crate) fn initial_cluster(config: &Config) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start a runtime: {error}"))?;
    runtime.block_on(look_up(config))
}

async fn look_up(config: &Config) -> Result<String, String> {
    let domain = &config.cluster.discovery.srv_domain;
    let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
    let resolver = resolver.map_err(|error| format!("the system's DNS settings: {error}"))?;
    let own = own_addresses(&config.addresses.advertise_peer).await;
    let (mut members, mut failures, mut number) = (Vec::new(), Vec::new(), 0);
    for (service, scheme) in SERVICES {
        let query = query(service, &config.cluster.discovery.srv_name, domain);
        match targets(&resolver, &query).await {
            Ok(found) => {
                let names = &config.name;
                members.extend(named(&found, scheme, names, &own, &mut number));
            }
            Err(error) => failures.push(format!("{query}: {error}")),
        }
    }
    if members.is_empty() {
        return Err(failures.join("; "));
    }
    let text = members.join(",");
    info!(
        initial_cluster = text,
        "got the members of the cluster from the DNS"
    );
    Ok(text)
}

/// `_etcd-server._tcp.DOMAIN`, or `_etcd-server-NAME._tcp.DOMAIN`.
fn query(service: &str, name: &str, domain: &str) -> String {
    let service = match name {
        "" => service.to_owned(),
        name => format!("{service}-{name}"),
    };
    // The name is complete: the domains of the system's search list do not apply.
    format!("_{service}._tcp.{}.", domain.trim_end_matches('.'))
}

async fn targets(resolver: &TokioResolver, query: &str) -> Result<Vec<Target>, String> {
    let found = resolver
        .srv_lookup(query)
        .await
        .map_err(|error| error.to_string())?;
    let mut targets = Vec::new();
    for record in found.answers() {
        let RData::SRV(service) = &record.data else {
            continue;
        };
        let host = service.target.to_utf8().trim_end_matches('.').to_owned();
        let addresses = addresses(&host, service.port).await;
        if addresses.is_empty() {
            warn!(
                host,
                query, "no address is known for the host of an SRV record"
            );
        }
        targets.push(Target {
            host,
            port: service.port,
            addresses,
        });
    }
    // The order of answers differs between queries.
    targets.sort_unstable_by(|one, other| (&one.host, one.port).cmp(&(&other.host, other.port)));
    Ok(targets)
}

async fn addresses(host: &str, port: u16) -> Vec<SocketAddr> {
    let found = tokio::net::lookup_host((host, port)).await;
    found.map(Iterator::collect).unwrap_or_default()
}

async fn own_addresses(urls: &[Url]) -> BTreeSet<SocketAddr> {
    let mut own = BTreeSet::new();
    for url in urls {
        if let Address::Tcp { host, port } = url.address() {
            own.extend(addresses(host, *port).await);
        }
    }
    own
}

/// `name=scheme://host:port` for each target that has an address.
fn named(
    targets: &[Target],
    scheme: &str,
    own_name: &str,
    own: &BTreeSet<SocketAddr>,
    number: &mut usize,
) -> Vec<String> {
    let reachable = targets.iter().filter(|it| !it.addresses.is_empty());
    let members = reachable.map(|target| {
        let name = match target.addresses.iter().any(|it| own.contains(it)) {
            true => own_name.to_owned(),
            false => {
                *number += 1;
                (*number - 1).to_string()
            }
        };
        let host = match target.host.contains(':') {
            true => format!("[{}]", target.host),
            false => target.host.clone(),
        };
        format!("{name}={scheme}://{host}:{}", target.port)
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, address: Option<&str>) -> Target {
        Target {
            host: host.to_owned(),
            port: 2380,
            addresses: address.map(|it| it.parse().unwrap()).into_iter().collect(),
        }
    }

    #[test]
    fn queries_are_etcd_s() {
        assert_eq!(
            query("etcd-server", "", "x.org"),
            "_etcd-server._tcp.x.org."
        );
        assert_eq!(
            query("etcd-server-ssl", "blue", "x.org."),
            "_etcd-server-ssl-blue._tcp.x.org."
        );
    }

    #[test]
    fn this_member_is_found_by_its_address_and_the_others_get_numbers() {
        let targets = [
            target("a.x.org", Some("10.0.0.1:2380")),
            target("b.x.org", Some("10.0.0.2:2380")),
            target("gone.x.org", None),
            target("c.x.org", Some("10.0.0.3:2380")),
        ];
        let own = BTreeSet::from(["10.0.0.2:2380".parse().unwrap()]);
        let mut number = 4;
        let members = named(&targets, "http", "me", &own, &mut number);
        let expected = [
            "4=http://a.x.org:2380",
            "me=http://b.x.org:2380",
            "5=http://c.x.org:2380",
        ];
        assert_eq!(members, expected);
    }
}
