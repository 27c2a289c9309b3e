//! The service Lock.

use bytes::Bytes;
use etcd_api::etcdserverpb::RangeRequest;
use etcd_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use tonic::Status;

use crate::answer_body::{Answered, Handled};
use crate::callers::Caller;
use crate::recipes::claim::{Claim, Leave};
use crate::recipes::prefix_of;
use crate::recipes::steps::Steps;

/// The claim's own key was gone when its turn came: its lease has ended.
const EXPIRED: &str = "mutex: session is expired";

/// Acquires a lock; waits until it is free.
pub(crate) async fn lock(caller: Caller, request: LockRequest) -> Handled<LockResponse> {
    let steps = Steps::new(caller);
    let LockRequest { name, lease } = request;
    let prefix = prefix_of(&name);
    // The wait may be long, and the name may keep all that came with it in memory.
    drop(name);
    let claim = Claim::make(steps, prefix, lease, Bytes::new()).await?;
    let mut leave = Leave::of(&claim);
    let header = match claim.turn(&mut leave).await? {
        false => claim.header,
        true => {
            let own = RangeRequest {
                key: claim.key.clone(),
                ..Default::default()
            };
            let own = claim.steps.range(own).await?;
            if own.kvs.is_empty() {
                return Err(Status::unknown(EXPIRED));
            }
            own.header
        }
    };
    leave.stay();
    Ok(Answered::Small(LockResponse {
        header,
        key: claim.key,
    }))
}

/// Releases a lock: deletes its key, whether or not it is there.
pub(crate) async fn unlock(caller: Caller, request: UnlockRequest) -> Handled<UnlockResponse> {
    let deleted = Steps::new(caller).delete(request.key).await?;
    Ok(Answered::Small(UnlockResponse {
        header: deleted.header,
    }))
}
