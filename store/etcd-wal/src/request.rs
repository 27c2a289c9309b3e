//! Requests as they stand in Raft's entries.

use std::fmt;

use bytes::{Buf, Bytes};
use etcd_api::etcdserverpb::{
    AlarmRequest, AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest,
    AuthRoleGrantPermissionRequest, AuthRoleRevokePermissionRequest, AuthUserAddRequest,
    AuthUserChangePasswordRequest, AuthUserDeleteRequest, AuthUserGrantRoleRequest,
    AuthUserRevokeRoleRequest, CompactionRequest, DeleteRangeRequest, LeaseGrantRequest,
    LeaseRevokeRequest, PutRequest, TxnRequest,
};
use prost::Message;

/// The user in the name of which a request was made, as `etcdserverpb.RequestHeader`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RequestHeader {
    /// Number of the request.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Empty: no user.
    #[prost(string, tag = "2")]
    pub username: String,
    /// Revision of users and roles when the user was checked; 0: no user.
    #[prost(uint64, tag = "3")]
    pub auth_revision: u64,
}

/// A change of the version that a downgrade goes to, as `membershippb.DowngradeInfoSetRequest`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DowngradeInfo {
    /// False: the downgrade is cancelled.
    #[prost(bool, tag = "1")]
    pub enabled: bool,
    /// Such as `3.6.0`.
    #[prost(string, tag = "2")]
    pub ver: String,
}

/// A request of a client or of a member, as `etcdserverpb.InternalRaftRequest`.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct InternalRaftRequest {
    /// The user in the name of which it was made.
    #[prost(message, optional, tag = "100")]
    pub header: Option<RequestHeader>,
    /// Number of the request, in releases before 3.0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// A request of the store that etcd had before its version 3.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub v2: Option<Bytes>,
    /// `None` for one that changes neither keys nor leases nor users: a read, the proof of a user, and
    /// what members tell of themselves.
    #[prost(
        oneof = "Request",
        tags = "4, 5, 6, 7, 8, 9, 10, 1000, 1011, 1100, 1101, 1103, 1104, 1105, 1200, 1201, 1203, 1204, 1302"
    )]
    pub request: Option<Request>,
}

/// The kinds of [`InternalRaftRequest`].
#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
pub enum Request {
    #[prost(message, tag = "4")]
    Put(PutRequest),
    #[prost(message, tag = "5")]
    DeleteRange(DeleteRangeRequest),
    #[prost(message, tag = "6")]
    Txn(TxnRequest),
    #[prost(message, tag = "7")]
    Compaction(CompactionRequest),
    #[prost(message, tag = "8")]
    LeaseGrant(LeaseGrantRequest),
    #[prost(message, tag = "9")]
    LeaseRevoke(LeaseRevokeRequest),
    #[prost(message, tag = "10")]
    Alarm(AlarmRequest),
    #[prost(message, tag = "1000")]
    AuthEnable(AuthEnableRequest),
    #[prost(message, tag = "1011")]
    AuthDisable(AuthDisableRequest),
    #[prost(message, tag = "1100")]
    AuthUserAdd(AuthUserAddRequest),
    #[prost(message, tag = "1101")]
    AuthUserDelete(AuthUserDeleteRequest),
    #[prost(message, tag = "1103")]
    AuthUserChangePassword(AuthUserChangePasswordRequest),
    #[prost(message, tag = "1104")]
    AuthUserGrantRole(AuthUserGrantRoleRequest),
    #[prost(message, tag = "1105")]
    AuthUserRevokeRole(AuthUserRevokeRoleRequest),
    #[prost(message, tag = "1200")]
    AuthRoleAdd(AuthRoleAddRequest),
    #[prost(message, tag = "1201")]
    AuthRoleDelete(AuthRoleDeleteRequest),
    #[prost(message, tag = "1203")]
    AuthRoleGrantPermission(AuthRoleGrantPermissionRequest),
    #[prost(message, tag = "1204")]
    AuthRoleRevokePermission(AuthRoleRevokePermissionRequest),
    #[prost(message, tag = "1302")]
    DowngradeInfoSet(DowngradeInfo),
}

/// Without contents: some have hashes of passwords.
impl fmt::Debug for InternalRaftRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("InternalRaftRequest")
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}

/// Without contents, as [`InternalRaftRequest`].
impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Request")
    }
}

/// A request as releases up to 3.5 write it for the store that etcd had before its version 3: names
/// and addresses of members, the version of the cluster.
#[derive(Clone, PartialEq, Message)]
struct OldRequest {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    method: String,
    #[prost(string, tag = "3")]
    path: String,
}

impl InternalRaftRequest {
    /// Number of the request.
    pub fn number(&self) -> u64 {
        self.header.as_ref().map_or(self.id, |header| header.id)
    }

    /// Reads the data of an entry. `None` without anything that changes keys, leases or users.
    pub(crate) fn read(data: &Bytes) -> Result<Option<InternalRaftRequest>, RequestError> {
        if data.is_empty() || is_old(data) {
            return Ok(None);
        }
        if let Some(tag) = unknown_field(data)? {
            return Err(RequestError::Unknown(tag));
        }
        let request = InternalRaftRequest::decode(data.clone())?;
        Ok(Some(request).filter(|request| request.v2.is_none()))
    }
}

/// Why the data of an entry is no request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("it is no request of etcd 3: {0}")]
    Unreadable(#[from] prost::DecodeError),
    #[error("it is a request of a kind that releases up to 3.7 do not have (field {0})")]
    Unknown(u32),
}

/// Fields of requests that are not read: reads, remaining times of leases, proofs of users, and what
/// members tell of themselves.
const UNREAD: [u32; 11] = [3, 11, 1012, 1013, 1102, 1106, 1107, 1202, 1300, 1301, 9900];
const READ: [u32; 22] = [
    1, 2, 4, 5, 6, 7, 8, 9, 10, 100, 1000, 1011, 1100, 1101, 1103, 1104, 1105, 1200, 1201, 1203,
    1204, 1302,
];

/// The first field that this release does not know: what it asks for would be missing.
fn unknown_field(data: &Bytes) -> Result<Option<u32>, prost::DecodeError> {
    let mut rest = data.clone();
    while rest.has_remaining() {
        let (tag, kind) = prost::encoding::decode_key(&mut rest)?;
        if !READ.contains(&tag) && !UNREAD.contains(&tag) {
            return Ok(Some(tag));
        }
        let context = prost::encoding::DecodeContext::default();
        prost::encoding::skip_field(kind, tag, &mut rest, context)?;
    }
    Ok(None)
}

fn is_old(data: &Bytes) -> bool {
    const METHODS: [&str; 6] = ["GET", "PUT", "POST", "DELETE", "QGET", "SYNC"];
    let old = OldRequest::decode(data.clone());
    old.is_ok_and(|old| METHODS.contains(&old.method.as_str()))
}
