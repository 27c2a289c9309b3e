//! Who this member is, computed as etcd computes it ([`revisions::identity`]).

use revisions::identity;

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
        let urls: Vec<&str> = config.advertise_peer.iter().map(Url::as_str).collect();
        let member = identity::member_id(&urls, &config.cluster_token);
        Identity {
            member,
            cluster: identity::cluster_id(&[member]),
        }
    }
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
