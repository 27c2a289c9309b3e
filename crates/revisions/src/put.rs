//! Puts: a new version of one key.

use bytes::{Bytes, BytesMut};
use engine::KeyChange;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{PutRequest, PutResponse};
use etcd_api::mvccpb::KeyValue;
use prost::Message;

use crate::Error;
use crate::evaluate::Evaluation;
use crate::range::header;
use crate::view::KeyVersion;

impl Evaluation<'_> {
    /// Checks a put and does it.
    pub fn put(&mut self, request: &PutRequest) -> Result<PutResponse, Error> {
        self.check_lease(request.lease)?;
        self.put_checked(request)
    }

    /// What a transaction checks before it writes anything.
    pub fn check_put(&self, request: &PutRequest) -> Result<(), Error> {
        self.check_lease(request.lease)?;
        if keeps_something(request) && self.view().get(&request.key, self.now()).is_none() {
            return Err(Refusal::KeyNotFound.into());
        }
        Ok(())
    }

    /// A put whose lease is known to exist.
    pub fn put_checked(&mut self, request: &PutRequest) -> Result<PutResponse, Error> {
        let previous = self.fetch(&request.key)?;
        if keeps_something(request) && previous.is_none() {
            return Err(Refusal::KeyNotFound.into());
        }
        let held = previous.as_ref().map(|previous| previous.lease);
        if request.lease != 0 && held != Some(request.lease) {
            self.check_lease_room(request.lease, &request.key)?;
        }
        self.write(self.new_version(request, previous.as_ref()));
        let prev_kv = previous
            .filter(|_| request.prev_kv)
            .map(|previous| previous.encoded);
        Ok(PutResponse {
            header: header(self.base + 1),
            prev_kv,
        })
    }

    fn new_version(&self, request: &PutRequest, previous: Option<&KeyVersion>) -> KeyChange {
        let revision = self.next_revision();
        let value = match previous {
            Some(previous) if request.ignore_value => Bytes::copy_from_slice(previous.value()),
            _ => request.value.clone(),
        };
        let lease = match previous {
            Some(previous) if request.ignore_lease => previous.lease,
            _ => request.lease,
        };
        let created = previous.map_or(revision.main, |previous| previous.created);
        let version = previous.map_or(1, |previous| previous.version + 1);
        assert!(
            created <= revision.main && version >= 1,
            "a version before its creation"
        );
        let (key, kv) = encode(&KeyValue {
            key: request.key.clone(),
            create_revision: created,
            mod_revision: revision.main,
            version,
            value,
            lease,
        });
        KeyChange {
            revision,
            tombstone: false,
            key,
            kv,
            created,
            version,
            lease,
        }
    }
}

fn keeps_something(request: &PutRequest) -> bool {
    request.ignore_value || request.ignore_lease
}

/// Encodes a version once for the log, ranges, watches and hashes. The key
/// comes back as a slice of the same bytes.
pub(crate) fn encode(version: &KeyValue) -> (Bytes, Bytes) {
    assert!(
        !version.key.is_empty(),
        "requests without a key are refused before"
    );
    let mut kv = BytesMut::with_capacity(version.encoded_len());
    version.encode(&mut kv).expect("the buffer grows as needed");
    let kv = kv.freeze();
    // Field 1 comes first: tag, length, key.
    let start = 1 + prost::length_delimiter_len(version.key.len());
    let key = kv.slice(start..start + version.key.len());
    assert_eq!(key, version.key, "the key is the first field");
    (key, kv)
}
