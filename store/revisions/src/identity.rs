//! The ids of members and clusters, computed as etcd computes them.
//!
//! ```text
//!   founding member  first 8 bytes of SHA-1(peer URLs, sorted, joined ++ token)
//!   added member     first 8 bytes of SHA-1(peer URLs, sorted, joined ++ Unix seconds in decimal)
//!   cluster          first 8 bytes of SHA-1(member ids, sorted, 8 bytes each)
//! ```
//!
//! All are big-endian, as clients print them. A cluster that is moved from
//! etcd with the same URLs and token therefore keeps its names.

use sha1::{Digest, Sha1};

/// The id of a member that a cluster starts with.
pub fn member_id(peer_urls: &[&str], token: &str) -> u64 {
    hash_of_urls(peer_urls, token.as_bytes())
}

/// The id of a member that is added later. The time keeps it from being the id
/// of an earlier member at the same place.
pub fn added_member_id(peer_urls: &[&str], unix_seconds: u64) -> u64 {
    hash_of_urls(peer_urls, unix_seconds.to_string().as_bytes())
}

/// The id of the cluster that these members start.
pub fn cluster_id(members: &[u64]) -> u64 {
    let mut members = members.to_vec();
    members.sort_unstable();
    let bytes: Vec<u8> = members.iter().flat_map(|id| to_big_endian(*id)).collect();
    first_eight([bytes.as_slice()].into_iter())
}

fn hash_of_urls(peer_urls: &[&str], rest: &[u8]) -> u64 {
    let mut urls = peer_urls.to_vec();
    urls.sort_unstable();
    first_eight(urls.into_iter().map(str::as_bytes).chain([rest]))
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

    #[test]
    fn the_default_member_has_etcd_s_well_known_names() {
        let member = member_id(&["http://localhost:2380"], "etcd-cluster");
        assert_eq!(format!("{member:x}"), "8e9e05c52164694d");
        assert_eq!(format!("{:x}", cluster_id(&[member])), "cdf818194e3a8c32");
    }

    #[test]
    fn an_added_member_has_the_id_that_etcd_3_7_3_gave_it() {
        let urls = ["http://127.0.0.1:34999", "http://127.0.0.1:34998"];
        let id = added_member_id(&urls, 1_795_242_612);
        assert_eq!(format!("{id:x}"), "38a34412942165d2");
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        assert_eq!(cluster_id(&[1, 2, 3]), cluster_id(&[3, 1, 2]));
        assert_ne!(cluster_id(&[1, 2, 3]), cluster_id(&[1, 2]));
    }
}
