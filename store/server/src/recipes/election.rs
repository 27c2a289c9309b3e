//! The service Election, except its stream (`observer.rs`).

use bytes::Bytes;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{PutRequest, ResponseHeader, TxnRequest};
use etcd_api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};
use tonic::Status;

use crate::answer_body::{Answered, Handled};
use crate::callers::Caller;
use crate::recipes::claim::{Claim, Leave, withdrawal};
pub(crate) use crate::recipes::observer::observe;
use crate::recipes::steps::Steps;
use crate::recipes::{created_at, first_below, operation, prefix_of};

const NO_LEADER: &str = "election: no leader";
const NOT_LEADER: &str = "election: not leader";
const NO_LEADER_KEY: &str = "\"leader\" field must be provided";

/// Becomes the leader; waits until there is no other.
pub(crate) async fn campaign(
    caller: Caller,
    request: CampaignRequest,
) -> Handled<CampaignResponse> {
    // The wait may be long, and the request may keep all that came with it in memory.
    let name = Bytes::copy_from_slice(&request.name);
    let claim = stand(Steps::new(caller), request).await?;
    let mut leave = Leave::of(&claim);
    let turn = claim.turn(&mut leave).await;
    // As in etcd, only a caller that goes away takes its claim with it.
    leave.stay();
    turn?;
    Ok(Answered::Small(CampaignResponse {
        header: claim.header,
        leader: Some(LeaderKey {
            name,
            key: claim.key,
            rev: claim.revision,
            lease: claim.lease,
        }),
    }))
}

/// Makes a candidate's claim, with the value it asks for.
async fn stand(steps: Steps, request: CampaignRequest) -> Result<Claim, Status> {
    let CampaignRequest { name, lease, value } = request;
    let claim = Claim::make(steps, prefix_of(&name), lease, value.clone()).await?;
    let says_else = |earlier: &etcd_api::EncodedKeyValue| earlier.value() != value;
    if claim.earlier.as_ref().is_some_and(says_else) {
        let own = (&claim.key, claim.revision, claim.lease);
        if let Err(status) = put(&claim.steps, own, value).await {
            let _ = claim.steps.txn(claim.withdrawal()).await;
            return Err(status);
        }
    }
    Ok(claim)
}

/// Changes the value of a leader.
pub(crate) async fn proclaim(
    caller: Caller,
    request: ProclaimRequest,
) -> Handled<ProclaimResponse> {
    let leader = given(request.leader)?;
    let steps = Steps::new(caller);
    let lease = steps.lease(leader.lease).await?;
    let own = (&leader.key, leader.rev, lease);
    let header = put(&steps, own, request.value).await?;
    Ok(Answered::Small(ProclaimResponse { header }))
}

/// The current leader.
pub(crate) async fn leader(caller: Caller, request: LeaderRequest) -> Handled<LeaderResponse> {
    let first = first_below(&prefix_of(&request.name));
    let found = Steps::new(caller).range(first).await?;
    let Some(kv) = found.kvs.into_iter().next() else {
        return Err(Status::unknown(NO_LEADER));
    };
    Ok(Answered::Small(LeaderResponse {
        header: found.header,
        kv: Some(kv),
    }))
}

/// Gives the lead up. A caller that does not lead changes nothing.
pub(crate) async fn resign(caller: Caller, request: ResignRequest) -> Handled<ResignResponse> {
    let leader = given(request.leader)?;
    let resigned = withdrawal(&leader.key, leader.rev);
    let header = Steps::new(caller).txn(resigned).await?.header;
    Ok(Answered::Small(ResignResponse { header }))
}

fn given(leader: Option<LeaderKey>) -> Result<LeaderKey, Status> {
    leader.ok_or_else(|| Status::unknown(NO_LEADER_KEY))
}

/// Writes a claim's value if its key, of this create revision, is still there.
async fn put(
    steps: &Steps,
    (key, revision, lease): (&Bytes, i64, i64),
    value: Bytes,
) -> Result<Option<ResponseHeader>, Status> {
    let put = PutRequest {
        key: key.clone(),
        value,
        lease,
        ..Default::default()
    };
    let request = TxnRequest {
        compare: vec![created_at(key, revision)],
        success: vec![operation(Operation::RequestPut(put))],
        failure: Vec::new(),
    };
    let response = steps.txn(request).await?;
    match response.succeeded {
        true => Ok(response.header),
        false => Err(Status::unknown(NOT_LEADER)),
    }
}
