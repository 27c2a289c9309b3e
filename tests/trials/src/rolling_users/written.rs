//! The puts of each client, compared with the keys that the members have.

use std::collections::BTreeSet;

use bytes::Bytes;
use etcd_api::etcdserverpb::RangeRequest;
use etcd_api::etcdserverpb::kv_client::KvClient;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

use crate::{Outcome, requests};

/// A connection to a member, and a token.
pub type Session = (Channel, MetadataValue<Ascii>);

/// Key and value of one of a client's puts.
pub fn key(client: usize, number: u64) -> Bytes {
    format!("c{client:05}/{number:08}").into()
}

/// The puts of one client.
#[derive(Clone, Debug, Default)]
pub struct Written {
    client: usize,
    /// Puts from 0 to this one, without it, were sent.
    sent: u64,
    /// Numbers of the puts that were not acknowledged.
    unknown: BTreeSet<u64>,
}

impl Written {
    pub fn of(client: usize) -> Written {
        Written {
            client,
            ..Written::default()
        }
    }

    /// Number of the next put.
    pub fn next(&mut self) -> u64 {
        self.sent += 1;
        self.sent - 1
    }

    pub fn note(&mut self, number: u64, acknowledged: bool) {
        if !acknowledged {
            self.unknown.insert(number);
        }
    }

    pub fn unknown(&self) -> usize {
        self.unknown.len()
    }

    /// Number of puts that are there. Fails if an acknowledged one is not, or if there is one that
    /// the client has not sent.
    fn check(&self, found: &BTreeSet<Bytes>) -> Outcome<usize> {
        let sent: BTreeSet<Bytes> = (0..self.sent).map(|it| key(self.client, it)).collect();
        if let Some(strange) = found.difference(&sent).next() {
            return Err(format!("{strange:?} was found, and no client put it").into());
        }
        let is_acknowledged = |number: &u64| !self.unknown.contains(number);
        let acknowledged = (0..self.sent).filter(is_acknowledged);
        for number in acknowledged {
            let key = key(self.client, number);
            if !found.contains(&key) {
                return Err(format!("{key:?} was acknowledged and is lost").into());
            }
        }
        Ok(found.len())
    }
}

/// Reads what each client wrote through each of `members`, with this token; returns the number of
/// puts. Fails if an acknowledged one is missing, or if members differ.
pub async fn check(members: &[Session], all: &[Written]) -> Outcome<usize> {
    let mut found = 0;
    for written in all {
        let mut counts = BTreeSet::new();
        for (member, session) in members.iter().enumerate() {
            let keys = keys_of(session, written).await;
            let keys = keys.map_err(|error| format!("member {member}: {error}"))?;
            let count = written.check(&keys);
            counts.insert(count.map_err(|error| format!("at member {member}: {error}"))?);
        }
        if counts.len() > 1 {
            return Err(format!("client {}: members differ: {counts:?}", written.client).into());
        }
        found += counts.first().copied().unwrap_or_default();
    }
    Ok(found)
}

/// Keys of one client at one member, in which values equal keys.
async fn keys_of((channel, token): &Session, written: &Written) -> Outcome<BTreeSet<Bytes>> {
    let mut request = Request::new(RangeRequest {
        range_end: format!("c{:05}0", written.client).into(),
        ..requests::range(format!("c{:05}/", written.client))
    });
    request.metadata_mut().insert("token", token.clone());
    let mut kv = KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
    let answer = kv.range(request).await?.into_inner();
    let keys = answer.kvs.iter().map(|kv| {
        let fields = kv.fields();
        match fields.key == fields.value {
            true => Ok(Bytes::copy_from_slice(fields.key)),
            false => Err(format!("{:?} has another value", fields.key).into()),
        }
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_acknowledged_put_is_detected_and_an_unknown_one_may_be_there() {
        let mut written = Written::of(7);
        for acknowledged in [true, false, false, true] {
            let number = written.next();
            written.note(number, acknowledged);
        }
        let found = |numbers: &[u64]| numbers.iter().map(|&it| key(7, it)).collect();
        assert_eq!(written.check(&found(&[0, 3])).unwrap(), 2);
        assert_eq!(written.check(&found(&[0, 2, 3])).unwrap(), 3);
        assert!(written.check(&found(&[0, 1, 2])).is_err());
        assert!(written.check(&found(&[0, 3, 4])).is_err());
    }
}
