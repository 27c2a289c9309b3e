//! Parts of requests and answers that several trials need.

use bytes::Bytes;
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp};

/// An operation of a transaction.
pub fn operation(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: value.into(),
        ..PutRequest::default()
    }
}

/// The deletion of one key.
pub fn delete(key: impl Into<Bytes>) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.into(),
        ..DeleteRangeRequest::default()
    }
}

/// A linearizable read of one key.
pub fn range(key: impl Into<Bytes>) -> RangeRequest {
    RangeRequest {
        key: key.into(),
        ..RangeRequest::default()
    }
}

/// A refusal as text, to be compared.
pub fn refusal(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}
