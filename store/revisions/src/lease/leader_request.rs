//! Requests about leases that only the leader can answer, because only it has the deadlines.

use etcd_api::etcdserverpb::{
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};

/// A request of a member to the leader about a lease. It may be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseRequest {
    /// Renews the lease.
    KeepAlive(LeaseKeepAliveRequest),
    /// Asks for the remaining time.
    TimeToLive(LeaseTimeToLiveRequest),
}

/// The leader's answer to a [`LeaseRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseResponse {
    /// The full time in seconds; 0 if there is no such lease.
    KeepAlive(LeaseKeepAliveResponse),
    /// The remaining and the granted seconds; -1 if there is no such lease.
    TimeToLive(LeaseTimeToLiveResponse),
}
