//! The ids of this member and its cluster, computed as etcd does ([`revisions::identity`]).

use revisions::identity;

use crate::config::{Config, Url};

/// The ids of a member and its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub member: u64,
    pub cluster: u64,
}

impl Identity {
    /// The identity of the member that `config` describes, among its founders.
    pub fn of(config: &Config) -> Identity {
        let id = |urls: &[Url]| member_id(urls, &config.cluster_token);
        let founders = config.founders.iter();
        let all: Vec<u64> = founders.map(|founder| id(&founder.peer_urls)).collect();
        Identity {
            member: id(&config.advertise_peer),
            cluster: identity::cluster_id(&all),
        }
    }

    /// Whether the cluster began with this member alone: the cluster's id is computed from
    /// its first members.
    pub(crate) fn stands_alone(self) -> bool {
        self.cluster == identity::cluster_id(&[self.member])
    }
}

/// The id of a founding member with these peer URLs.
pub(crate) fn member_id(peer_urls: &[Url], token: &str) -> u64 {
    let urls: Vec<&str> = peer_urls.iter().map(Url::as_str).collect();
    identity::member_id(&urls, token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing;

    #[test]
    fn the_default_member_has_etcd_s_well_known_ids() {
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

    /// etcd 3.7.3 gave these ids to members with these flags.
    #[test]
    fn every_member_of_three_computes_etcd_s_ids() {
        let urls = [17380, 17480, 17580].map(|port| format!("http://127.0.0.1:{port}"));
        let list = format!("a={},b={},c={}", urls[0], urls[1], urls[2]);
        let expected = [
            ("a", "aba125624fdfc62d"),
            ("b", "c579af7bebd214c6"),
            ("c", "ca6236fd59aef023"),
        ];
        for ((name, member), url) in expected.iter().zip(&urls) {
            let config = testing::config(&[
                &format!("--name={name}"),
                &format!("--initial-advertise-peer-urls={url}"),
                &format!("--initial-cluster={list}"),
                "--initial-cluster-token=hand",
            ]);
            assert!(config.cannot_begin.is_none(), "{:?}", config.cannot_begin);
            let identity = Identity::of(&config);
            assert_eq!(format!("{:x}", identity.member), *member);
            assert_eq!(format!("{:x}", identity.cluster), "500889cfad5b3cc2");
            assert!(!identity.stands_alone());
        }
        assert!(Identity::of(&testing::config(&[])).stands_alone());
    }
}
