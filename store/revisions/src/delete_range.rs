//! Deletions: a tombstone for every live key of a range.

use engine::KeyChange;
use etcd_api::Fields;
use etcd_api::etcdserverpb::{DeleteRangeRequest, DeleteRangeResponse};

use crate::Error;
use crate::evaluate::Evaluation;
use crate::key_range::KeyRange;
use crate::put::encode;
use crate::range::header;
use crate::view::Direction;

/// Log bytes of the deletion of a key.
pub(crate) fn deletion_bytes(key: &[u8]) -> u64 {
    // Its `KeyValue` has one field: tag, length, key.
    KeyChange::log_bytes_of(1 + prost::length_delimiter_len(key.len()) + key.len())
}

impl Evaluation<'_> {
    /// Deletes a key or a range. If no key exists, nothing changes and no revision is taken.
    pub fn delete_range(
        &mut self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Error> {
        let keys = KeyRange::of_request(&request.key, &request.range_end);
        let prev_kvs = match request.prev_kv {
            true => self
                .fetch_all(keys)?
                .into_iter()
                .map(|version| version.encoded)
                .collect(),
            false => Vec::new(),
        };
        // One key more than a command can delete is enough to refuse it.
        let limit = self.deletions_max() + 1;
        let found = self
            .view()
            .scan(keys, self.now(), Direction::Ascending, limit);
        for found in &found {
            self.delete(found.key());
            self.check_deletion_size()?;
        }
        let deleted = i64::try_from(found.len()).expect("a count of keys in memory");
        Ok(DeleteRangeResponse {
            header: header(self.now()),
            deleted,
            prev_kvs,
        })
    }

    /// Deletes a live key.
    pub fn delete(&mut self, key: &[u8]) {
        let (key, kv) = encode(&Fields {
            key,
            ..Fields::default()
        });
        let revision = self.next_revision();
        self.write(KeyChange {
            revision,
            tombstone: true,
            key,
            kv,
            created: 0,
            version: 0,
            lease: 0,
        });
    }
}
