//! Parts of requests and answers that several trials need.

use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp};

/// An operation of a transaction.
pub fn operation(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// A put in a transaction.
pub fn put(key: impl Into<bytes::Bytes>, value: impl Into<bytes::Bytes>) -> RequestOp {
    operation(Request::RequestPut(PutRequest {
        key: key.into(),
        value: value.into(),
        ..PutRequest::default()
    }))
}

/// The deletion of a key in a transaction.
pub fn delete(key: impl Into<bytes::Bytes>) -> RequestOp {
    operation(Request::RequestDeleteRange(DeleteRangeRequest {
        key: key.into(),
        ..DeleteRangeRequest::default()
    }))
}

/// A refusal as text, to be compared.
pub fn refusal(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}
