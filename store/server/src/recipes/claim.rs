//! One claim, from its key to its turn.

use bytes::Bytes;
use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::watch_create_request::FilterType;
use etcd_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, ResponseHeader, TxnRequest, WatchCreateRequest,
};
use tokio::runtime::Handle;
use tonic::Status;
use tracing::debug;

use crate::recipes::steps::Steps;
use crate::recipes::watching::Watching;
use crate::recipes::{below, created_at, key_of, operation, range_of};

/// A claim with its key.
pub(super) struct Claim {
    pub(super) steps: Steps,
    prefix: Bytes,
    pub(super) key: Bytes,
    pub(super) lease: i64,
    /// Create revision of the key.
    pub(super) revision: i64,
    /// Header of the answer that made or found the key.
    pub(super) header: Option<ResponseHeader>,
    /// The key as it was if the lease had claimed the name before.
    pub(super) earlier: Option<EncodedKeyValue>,
}

impl Claim {
    /// Makes the claim's key, or finds it if the lease has claimed the name before. A lease
    /// of 0 stands for a new one.
    pub(super) async fn make(
        steps: Steps,
        prefix: Bytes,
        lease: i64,
        value: Bytes,
    ) -> Result<Claim, Status> {
        let lease = steps.lease(lease).await?;
        // A caller that may not read the others' keys leaves no key of its own.
        let any = RangeRequest {
            limit: 1,
            keys_only: true,
            serializable: true,
            ..below(&prefix)
        };
        steps.range(any).await?;
        let key = key_of(&prefix, lease);
        let response = steps.txn(claims(&key, lease, value)).await?;
        let header = response.header;
        let earlier = match response.succeeded {
            true => None,
            false => range_of(response).and_then(|range| range.kvs.into_iter().next()),
        };
        let revision = match &earlier {
            Some(earlier) => earlier.create_revision(),
            None => header.as_ref().map_or(0, |header| header.revision),
        };
        Ok(Claim {
            steps,
            prefix,
            key,
            lease,
            revision,
            header,
            earlier,
        })
    }

    /// Waits until no older claim exists; whether there was one. `leave` withdraws the claim if
    /// the caller goes away while it waits.
    pub(super) async fn turn(&self, leave: &mut Leave) -> Result<bool, Status> {
        loop {
            // The newest of the older ones: its end wakes only this claim.
            let older = RangeRequest {
                limit: 1,
                keys_only: true,
                max_create_revision: self.revision - 1,
                sort_target: SortTarget::Create.into(),
                sort_order: SortOrder::Descend.into(),
                ..below(&self.prefix)
            };
            let found = self.steps.range(older).await?;
            let Some(before) = found.kvs.first() else {
                return Ok(leave.waits);
            };
            leave.waits = true;
            let revision = found.header.map_or(0, |header| header.revision);
            self.deleted(before, revision).await?;
        }
    }

    /// Returns when the key is deleted, or if its history is gone so that the caller must
    /// look again.
    async fn deleted(&self, before: &EncodedKeyValue, revision: i64) -> Result<(), Status> {
        let mut watching = Watching::open(
            &self.steps,
            WatchCreateRequest {
                key: Bytes::copy_from_slice(before.key()),
                start_revision: revision,
                filters: vec![FilterType::Noput.into()],
                ..Default::default()
            },
        );
        watching.next().await.map(drop)
    }

    /// The transaction that takes the claim back, if its key is still the same.
    pub(super) fn withdrawal(&self) -> TxnRequest {
        withdrawal(&self.key, self.revision)
    }
}

/// Takes a claim back if its caller goes away while it waits.
pub(super) struct Leave {
    steps: Steps,
    withdrawal: Option<TxnRequest>,
    /// Whether the claim waits for an older one. A claim that never waited may be held by an
    /// earlier call with the same lease, and stays.
    waits: bool,
}

impl Leave {
    pub(super) fn of(claim: &Claim) -> Leave {
        Leave {
            steps: claim.steps.clone(),
            withdrawal: Some(claim.withdrawal()),
            waits: false,
        }
    }

    /// Keeps the claim.
    pub(super) fn stay(mut self) {
        self.withdrawal = None;
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        let Some(withdrawal) = self.withdrawal.take().filter(|_| self.waits) else {
            return;
        };
        let steps = self.steps.clone();
        // The call may have been dropped with its connection, so this runs beside it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Err(status) = steps.txn(withdrawal).await {
                    debug!(%status, "a claim that no caller waits for stays until its lease ends");
                }
            });
        }
    }
}

/// The transaction that deletes a claim's key if it was created at this revision.
pub(super) fn withdrawal(key: &Bytes, revision: i64) -> TxnRequest {
    let delete = DeleteRangeRequest {
        key: key.clone(),
        ..Default::default()
    };
    TxnRequest {
        compare: vec![created_at(key, revision)],
        success: vec![operation(Operation::RequestDeleteRange(delete))],
        failure: Vec::new(),
    }
}

/// The transaction that makes the key, or reads it if it exists.
fn claims(key: &Bytes, lease: i64, value: Bytes) -> TxnRequest {
    let put = PutRequest {
        key: key.clone(),
        value,
        lease,
        ..Default::default()
    };
    let get = RangeRequest {
        key: key.clone(),
        ..Default::default()
    };
    TxnRequest {
        compare: vec![created_at(key, 0)],
        success: vec![operation(Operation::RequestPut(put))],
        failure: vec![operation(Operation::RequestRange(get))],
    }
}
