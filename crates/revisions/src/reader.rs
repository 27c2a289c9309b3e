//! The request tasks' handle: reads that never wait for the replica thread.

use std::sync::Arc;

use etcd_api::etcdserverpb::{
    AlarmMember, LeaseLeasesResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};

use crate::{Command, Error, KeyValueHash, RangeStream, WatchHub};

/// Reads of applied state. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader {}

impl Reader {
    /// The engine: status, sizes, reclaim.
    pub fn engine(&self) -> &engine::Engine {
        panic!("not built yet")
    }
    /// Newest applied revision; 1 when nothing was ever written.
    pub fn revision(&self) -> i64 {
        panic!("not built yet")
    }
    /// Reads below this revision are refused; -1 before the first compaction.
    pub fn compacted(&self) -> i64 {
        panic!("not built yet")
    }
    /// Answers a range.
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        panic!("not built yet")
    }
    /// Answers a range in chunks, all at one revision. `chunk_bytes`: about
    /// how large a chunk may become (etcd: max-request-bytes).
    pub fn range_stream(&self, request: RangeRequest, chunk_bytes: usize) -> RangeStream {
        panic!("not built yet")
    }
    /// Answers a transaction that holds ranges only.
    pub fn txn(&self, request: &TxnRequest) -> Result<TxnResponse, Error> {
        panic!("not built yet")
    }
    /// Remaining and granted time of a lease, its keys if asked.
    pub fn lease_time_to_live(
        &self,
        request: &LeaseTimeToLiveRequest,
    ) -> Result<LeaseTimeToLiveResponse, Error> {
        panic!("not built yet")
    }
    /// All leases, soonest to expire first.
    pub fn lease_leases(&self) -> LeaseLeasesResponse {
        panic!("not built yet")
    }
    /// Renews a lease and returns its time to live in seconds; 0 when there is
    /// no such lease. A lease that has run out but is not revoked yet: waits
    /// for the revocation, as etcd does.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<i64, Error> {
        panic!("not built yet")
    }
    /// etcd's HashKV at a revision; 0 = newest.
    pub fn hash_kv(&self, revision: i64) -> Result<KeyValueHash, Error> {
        panic!("not built yet")
    }
    /// A hash of everything the machine keeps, and the revision it is of.
    pub fn hash(&self) -> Result<(u32, i64), Error> {
        panic!("not built yet")
    }
    /// Raised alarms.
    pub fn alarms(&self) -> Vec<AlarmMember> {
        panic!("not built yet")
    }
    /// Bytes that count against the quota, and the quota.
    pub fn quota(&self) -> (u64, Option<u64>) {
        panic!("not built yet")
    }
    /// Watches.
    pub fn watch_hub(&self) -> &Arc<WatchHub> {
        panic!("not built yet")
    }
    /// Reads what evaluating the command will need, so that the replica
    /// thread finds it in memory. Best effort.
    pub fn warm(&self, command: &Command) {
        panic!("not built yet")
    }
}
