//! Every error that a client of etcd 3.7 can receive, with etcd's exact gRPC code and text.
//!
//! Clients branch on both (retry, give up, refresh a token), so neither may
//! differ; a test compares the table with etcd's own. The variants have
//! etcd's names where those are words.

use tonic::{Code, Status};

macro_rules! table {
    ($($name:ident: $code:ident, $text:literal;)*) => {
        /// An answer of the server that is not a success.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        pub enum Error {
            $(
                #[doc = concat!("`etcdserver: ", $text, "`")]
                #[error("etcdserver: {}", $text)]
                $name,
            )*
        }

        impl Error {
            /// The whole table.
            pub const ALL: &'static [Error] = &[$(Error::$name),*];

            /// The gRPC status code that goes with the error.
            pub const fn code(self) -> Code {
                match self {
                    $(Error::$name => Code::$code,)*
                }
            }

            /// The text, with etcd's prefix.
            pub const fn message(self) -> &'static str {
                match self {
                    $(Error::$name => concat!("etcdserver: ", $text),)*
                }
            }
        }
    };
}

table! {
    EmptyKey: InvalidArgument, "key is not provided";
    KeyNotFound: InvalidArgument, "key not found";
    ValueProvided: InvalidArgument, "value is provided";
    LeaseProvided: InvalidArgument, "lease is provided";
    TooManyOperations: InvalidArgument, "too many operations in txn request";
    DuplicateKey: InvalidArgument, "duplicate key given in txn request";
    InvalidClientApiVersion: InvalidArgument, "invalid client api version";
    InvalidSortOption: InvalidArgument, "invalid sort option";
    Compacted: OutOfRange, "mvcc: required revision has been compacted";
    FutureRevision: OutOfRange, "mvcc: required revision is a future revision";
    NoSpace: ResourceExhausted, "mvcc: database space exceeded";
    LeaseNotFound: NotFound, "requested lease not found";
    LeaseExist: FailedPrecondition, "lease already exists";
    LeaseTtlTooLarge: OutOfRange, "too large lease TTL";
    WatchCanceled: Cancelled, "watch canceled";
    MemberExist: FailedPrecondition, "member ID already exist";
    PeerUrlExist: FailedPrecondition, "Peer URLs already exists";
    MemberNotEnoughStarted: FailedPrecondition, "re-configuration failed due to not enough started members";
    MemberBadUrls: InvalidArgument, "given member URLs are invalid";
    MemberNotFound: NotFound, "member not found";
    MemberNotLearner: FailedPrecondition, "can only promote a learner member";
    LearnerNotReady: FailedPrecondition, "can only promote a learner member which is in sync with leader";
    TooManyLearners: FailedPrecondition, "too many learner members in cluster";
    ClusterIdMismatch: FailedPrecondition, "cluster ID mismatch";
    RequestTooLarge: InvalidArgument, "request is too large";
    TooManyRequests: ResourceExhausted, "too many requests";
    RootUserNotExist: FailedPrecondition, "root user does not exist";
    RootRoleNotExist: FailedPrecondition, "root user does not have root role";
    UserAlreadyExist: FailedPrecondition, "user name already exists";
    UserEmpty: InvalidArgument, "user name is empty";
    UserNotFound: FailedPrecondition, "user name not found";
    RoleAlreadyExist: FailedPrecondition, "role name already exists";
    RoleNotFound: FailedPrecondition, "role name not found";
    RoleEmpty: InvalidArgument, "role name is empty";
    AuthFailed: InvalidArgument, "authentication failed, invalid user ID or password";
    PermissionNotGiven: InvalidArgument, "permission not given";
    PermissionDenied: PermissionDenied, "permission denied";
    RoleNotGranted: FailedPrecondition, "role is not granted to the user";
    PermissionNotGranted: FailedPrecondition, "permission is not granted to the role";
    AuthNotEnabled: FailedPrecondition, "authentication is not enabled";
    InvalidAuthToken: Unauthenticated, "invalid auth token";
    InvalidAuthManagement: InvalidArgument, "invalid auth management";
    AuthOldRevision: InvalidArgument, "revision of auth store is old";
    NoLeader: Unavailable, "no leader";
    NotLeader: FailedPrecondition, "not leader";
    LeaderChanged: Unavailable, "leader changed";
    NotCapable: FailedPrecondition, "not capable";
    Stopped: Unavailable, "server stopped";
    Timeout: Unavailable, "request timed out";
    TimeoutDueToLeaderFail: Unavailable, "request timed out, possibly due to previous leader failure";
    TimeoutDueToConnectionLost: Unavailable, "request timed out, possibly due to connection lost";
    TimeoutWaitAppliedIndex: Unavailable, "request timed out, waiting for the applied index took too long";
    Unhealthy: Unavailable, "unhealthy cluster";
    Corrupt: DataLoss, "corrupt cluster";
    NotSupportedForLearner: FailedPrecondition, "rpc not supported for learner";
    BadLeaderTransferee: FailedPrecondition, "bad leader transferee";
    WrongDowngradeVersionFormat: InvalidArgument, "wrong downgrade target version format";
    InvalidDowngradeTargetVersion: InvalidArgument, "invalid downgrade target version";
    ClusterVersionUnavailable: FailedPrecondition, "cluster version not found during downgrade";
    DowngradeInProcess: FailedPrecondition, "cluster has a downgrade job in progress";
    NoInflightDowngrade: FailedPrecondition, "no inflight downgrade job";
    RequestCanceled: Cancelled, "request canceled";
    DeadlineExceeded: DeadlineExceeded, "context deadline exceeded";
}

impl Error {
    /// The status a gRPC answer carries.
    pub fn to_status(self) -> Status {
        Status::new(self.code(), self.message())
    }

    /// The error with this text; `None` if etcd has no such error.
    pub fn from_message(message: &str) -> Option<Error> {
        Error::ALL
            .iter()
            .copied()
            .find(|error| error.message() == message)
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        error.to_status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_equals_etcds() {
        let golden = include_str!("../tests/errors.txt");
        let ours: Vec<String> = Error::ALL
            .iter()
            .map(|error| format!("{} {}", i32::from(error.code()), error.message()))
            .collect();
        assert_eq!(ours, golden.lines().collect::<Vec<_>>());
    }

    #[test]
    fn texts_name_one_error_each() {
        for error in Error::ALL {
            assert_eq!(Error::from_message(error.message()), Some(*error));
        }
        assert_eq!(Error::from_message("etcdserver: no such text"), None);
    }

    #[test]
    fn status_carries_code_and_text() {
        let status = Status::from(Error::Compacted);
        assert_eq!(status.code(), Code::OutOfRange);
        assert_eq!(
            status.message(),
            "etcdserver: mvcc: required revision has been compacted"
        );
    }
}
