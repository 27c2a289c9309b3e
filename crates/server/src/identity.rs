//! Who this member is, computed as etcd computes it.
//!
//! ```text
//!   member  = first 8 bytes of SHA-1(peer URLs, sorted, joined ++ token)
//!   cluster = first 8 bytes of SHA-1(member ids, sorted, 8 bytes each)
//! ```
//!
//! Both are big-endian, as clients print them. A cluster that is moved from
//! etcd with the same URLs and token therefore keeps its names.

use sha1::{Digest, Sha1};

use crate::config::{Config, Url};

/// The names of a member and its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The member's id.
    pub member: u64,
    /// The cluster's id.
    pub cluster: u64,
}

impl Identity {
    /// The identity of the one member that `config` describes.
    pub fn of(config: &Config) -> Identity {
        let member = member_id(&config.advertise_peer, &config.cluster_token);
        Identity {
            member,
            cluster: cluster_id(&[member]),
        }
    }
}

fn member_id(peers: &[Url], token: &str) -> u64 {
    let mut urls: Vec<&str> = peers.iter().map(Url::as_str).collect();
    urls.sort_unstable();
    first_eight(urls.into_iter().chain([token]).map(str::as_bytes))
}

fn cluster_id(members: &[u64]) -> u64 {
    let mut members = members.to_vec();
    members.sort_unstable();
    let bytes: Vec<u8> = members.iter().flat_map(|id| to_big_endian(*id)).collect();
    first_eight([bytes.as_slice()].into_iter())
}

fn first_eight<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Sha1::new();
    parts.for_each(|part| hash.update(part));
    hash.finalize()
        .iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The most significant byte first.
fn to_big_endian(number: u64) -> [u8; 8] {
    std::array::from_fn(|place| (number >> (56 - 8 * place)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing;

    #[test]
    fn the_default_member_has_etcd_s_well_known_names() {
        let identity = Identity::of(&testing::config(&[]));
        assert_eq!(format!("{:x}", identity.member), "8e9e05c52164694d");
        assert_eq!(format!("{:x}", identity.cluster), "cdf818194e3a8c32");
    }

    #[test]
    fn the_order_of_urls_does_not_matter_but_the_token_does() {
        let of = |urls, token: &str| {
            let peers = format!("--initial-advertise-peer-urls={urls}");
            let token = format!("--initial-cluster-token={token}");
            Identity::of(&testing::config(&[&peers, &token]))
        };
        let forward = of("http://a:1,http://b:2", "t");
        assert_eq!(forward, of("http://b:2,http://a:1", "t"));
        assert_ne!(forward, of("http://b:2,http://a:1", "u"));
    }
}
