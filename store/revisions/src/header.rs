//! The header of answers.

use etcd_api::etcdserverpb::ResponseHeader;

/// A header with the revision; the caller fills in the other fields.
pub fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        revision,
        ..ResponseHeader::default()
    })
}
