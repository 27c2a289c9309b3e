//! From what the node refuses to what a client is told.

use tonic::Status;

/// The status for an error of the node.
pub(crate) fn status(error: &cluster::Error) -> Status {
    match error {
        cluster::Error::Refused(error) => of_machine(error),
        cluster::Error::TooManyRequests { .. } => etcd_api::Error::TooManyRequests.to_status(),
        cluster::Error::Stopped => etcd_api::Error::Stopped.to_status(),
        cluster::Error::LogFailed { .. } => Status::unavailable(format!("inkstone: {error}")),
        cluster::Error::Storage(_) => Status::unknown(format!("inkstone: {error}")),
    }
}

/// The status for an error of the state machine. What is not in etcd's table
/// is Unknown, as etcd does with errors of its storage.
pub(crate) fn of_machine(error: &revisions::Error) -> Status {
    match error {
        revisions::Error::Etcd(error) => error.to_status(),
        other => Status::unknown(format!("inkstone: {other}")),
    }
}

/// The status for a call that etcd answers and this release does not.
pub(crate) fn not_yet(what: &str) -> Status {
    Status::unimplemented(format!("inkstone: {what} is not supported yet"))
}
