//! Puts: a new version of one key.

use engine::{KeyChange, Lineage};
use etcd_api::Error as Refusal;
use etcd_api::Fields;
use etcd_api::etcdserverpb::{PutRequest, PutResponse};

use crate::Error;
use crate::evaluate::Evaluation;
use crate::header::header;
use crate::key_value::encode;
use crate::view::KeyVersion;

impl Evaluation<'_> {
    /// Checks a put and performs it.
    pub fn put(&mut self, request: &PutRequest) -> Result<PutResponse, Error> {
        self.check_lease(request.lease)?;
        self.put_checked(request)
    }

    /// Checks a put of a transaction, before the transaction writes anything.
    pub fn check_put(&self, request: &PutRequest) -> Result<(), Error> {
        self.check_lease(request.lease)?;
        if keeps_something(request) && self.view().get(&request.key, self.now()).is_none() {
            return Err(Refusal::KeyNotFound.into());
        }
        Ok(())
    }

    /// Performs a put. The caller has checked that its lease exists.
    pub fn put_checked(&mut self, request: &PutRequest) -> Result<PutResponse, Error> {
        let (before, lineage) = self.before(request)?;
        if keeps_something(request) && lineage.is_none() {
            return Err(Refusal::KeyNotFound.into());
        }
        let held = lineage.map(|lineage| lineage.lease);
        if request.lease != 0 && held != Some(request.lease) {
            self.check_lease_room(request.lease, &request.key)?;
        }
        let kept = before.as_ref().filter(|_| request.ignore_value);
        let value = kept.map_or(&request.value[..], KeyVersion::value);
        self.write(self.new_version(request, value, lineage));
        let prev_kv = before
            .filter(|_| request.prev_kv)
            .map(|before| before.encoded);
        Ok(PutResponse {
            header: header(self.base + 1),
            prev_kv,
        })
    }

    /// Returns the lineage of the version that the put replaces, and the version itself if the
    /// request needs its value.
    fn before(&self, request: &PutRequest) -> Result<(Option<KeyVersion>, Option<Lineage>), Error> {
        if request.prev_kv || request.ignore_value {
            let version = self.fetch(&request.key)?;
            let lineage = version.as_ref().map(|version| version.lineage);
            return Ok((version, lineage));
        }
        Ok((None, self.view().lineage(&request.key, self.now())?))
    }

    fn new_version(
        &self,
        request: &PutRequest,
        value: &[u8],
        before: Option<Lineage>,
    ) -> KeyChange {
        let revision = self.next_revision();
        let lease = match before {
            Some(before) if request.ignore_lease => before.lease,
            _ => request.lease,
        };
        let created = before.map_or(revision.main, |before| before.created);
        let version = before.map_or(1, |before| before.version + 1);
        assert!(
            (1..=revision.main).contains(&created) && version >= 1,
            "a version before its creation"
        );
        let (key, kv) = encode(&Fields {
            key: &request.key,
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
