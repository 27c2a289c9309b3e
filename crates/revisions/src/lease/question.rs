//! Questions that only the leader can answer: deadlines are in its memory.

use etcd_api::etcdserverpb::{
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};

/// What a member asks the leader about a lease. Asking twice does no harm.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseQuestion {
    /// To give it its full time again.
    KeepAlive(LeaseKeepAliveRequest),
    /// How much time it has left.
    TimeToLive(LeaseTimeToLiveRequest),
}

/// What the leader says.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseAnswer {
    /// The seconds that it has again; 0: there is no such lease.
    KeepAlive(LeaseKeepAliveResponse),
    /// The seconds left and granted; -1: there is no such lease.
    TimeToLive(LeaseTimeToLiveResponse),
}
