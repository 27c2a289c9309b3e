//! Whether the names in a certificate fit the address that it comes from: etcd's check of the
//! members that connect.
//!
//! A certificate without names passes. One with addresses passes if the sender's is among them.
//! One with DNS names passes if the sender's address has one of these names, or one of the names
//! has this address.

use std::net::IpAddr;

use environment::names::name_of;
use tokio::net::lookup_host;
use tokio::task::spawn_blocking;

use crate::facts::Facts;

/// Checks a certificate; the error says in Go's words what does not fit.
pub(crate) async fn check(facts: &Facts, from: IpAddr) -> Result<(), String> {
    let from = from.to_canonical();
    if facts.addresses.is_empty() && facts.dns_names.is_empty() {
        return Ok(());
    }
    if facts.addresses.iter().any(|it| it.to_canonical() == from) {
        return Ok(());
    }
    if facts.dns_names.is_empty() {
        let valid: Vec<String> = facts.addresses.iter().map(IpAddr::to_string).collect();
        let valid = valid.join(", ");
        return Err(format!(
            "x509: certificate is valid for {valid}, not {from}"
        ));
    }
    if has_one_of(from, &facts.dns_names).await || is_address_of(from, &facts.dns_names).await {
        return Ok(());
    }
    Err(format!(
        "tls: \"{from}\" does not match any of DNSNames {:?}",
        facts.dns_names
    ))
}

/// Whether the address has one of these names.
async fn has_one_of(from: IpAddr, names: &[String]) -> bool {
    let Ok(Ok(found)) = spawn_blocking(move || name_of(from)).await else {
        return false;
    };
    let found = found.trim_end_matches('.');
    names.iter().any(|name| match name.strip_prefix('*') {
        Some(suffix) if suffix.starts_with('.') => found.ends_with(suffix),
        _ => name == found,
    })
}

/// Whether one of these names has the address.
async fn is_address_of(from: IpAddr, names: &[String]) -> bool {
    for name in names.iter().filter(|name| !name.starts_with("*.")) {
        let Ok(mut found) = lookup_host((name.as_str(), 0)).await else {
            continue;
        };
        if found.any(|address| address.ip().to_canonical() == from) {
            return true;
        }
    }
    false
}
