//! The service Lease. Grants and revocations go through the log; renewals
//! only move a deadline in the leader's memory, and other members forward them to the leader.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use revisions::Command;
use tonic::{Status, Streaming};

use crate::answer_body::{Answered, Handled};
use crate::backend::{Backend, answer_of, stopped};
use crate::callers::Caller;
use crate::calls::{self, Answers, Call};
use crate::leader_check::LeaderCheck;
use crate::read_ahead::ReadAhead;
use crate::{large_writes, refusal};

/// Most concurrent renewals of one stream. At a follower each waits for the leader.
const UNDER_WAY_MAX: usize = 1024;

pub(crate) async fn grant(
    caller: Caller,
    request: LeaseGrantRequest,
) -> Handled<LeaseGrantResponse> {
    let outcome = caller.execute(Command::LeaseGrant(request)).await?;
    let response = answer_of!(LeaseGrant, outcome);
    let metrics = &caller.backend.metrics;
    metrics.leases.granted.add(1);
    metrics.times.leases.add(response.ttl as f64);
    Ok(Answered::Small(response))
}

pub(crate) async fn revoke(
    caller: Caller,
    request: LeaseRevokeRequest,
) -> Handled<LeaseRevokeResponse> {
    let outcome = caller.execute(Command::LeaseRevoke(request)).await?;
    caller.backend.metrics.leases.revoked.add(1);
    Ok(Answered::Small(answer_of!(LeaseRevoke, outcome)))
}

pub(crate) async fn time_to_live(
    caller: Caller,
    request: LeaseTimeToLiveRequest,
) -> Handled<LeaseTimeToLiveResponse> {
    let backend = &caller.backend;
    let asked = async {
        backend.node.read_index().await?;
        backend.node.lease_time_to_live(request).await
    };
    let mut response = match backend.in_time_of_leader(asked).await? {
        Ok(response) => response,
        Err(error) if is_not_found(&error) => LeaseTimeToLiveResponse {
            id: request.id,
            ttl: -1,
            ..Default::default()
        },
        Err(error) => return Err(refusal::status(&error)),
    };
    caller.may_read_all(&response.keys).await?;
    backend.fill(response.header.get_or_insert_default());
    // An answer with the lease's keys may be large.
    large_writes::made(&caller, response).await
}

pub(crate) async fn leases(caller: Caller, _: LeaseLeasesRequest) -> Handled<LeaseLeasesResponse> {
    let backend = &caller.backend;
    let standing = caller.newest_standing().await?;
    let list = move |backend: &Backend| {
        if let Some(standing) = standing {
            let identity = standing.identity.as_deref();
            backend
                .reader()
                .users()
                .check_all_leases(&standing.users, identity)?;
        }
        let mut response = backend.reader().lease_leases();
        backend.fill(response.header.get_or_insert_default());
        Ok(response)
    };
    large_writes::made(&caller, backend.aside(list).await?).await
}

pub(crate) fn keep_alive(
    caller: Caller,
    call: Call,
    requests: Streaming<LeaseKeepAliveRequest>,
) -> impl Stream<Item = Result<LeaseKeepAliveResponse, Status>> + use<> {
    let backend = &caller.backend;
    calls::answers(Renewals {
        stopping: backend.stopping.clone(),
        leader_check: LeaderCheck::new(Arc::clone(backend)),
        caller: Arc::new(caller),
        call,
        requested: Requested {
            requests: ReadAhead::new(requests),
            requests_open: true,
            under_way: FuturesOrdered::new(),
        },
    })
}

/// A renewal that has begun.
type Renewal = BoxFuture<'static, Result<LeaseKeepAliveResponse, Status>>;

/// One stream of renewals. Many run at a time; answers are sent in the order of the
/// requests.
struct Renewals {
    caller: Arc<Caller>,
    call: Call,
    requested: Requested,
    stopping: tokio::sync::watch::Receiver<bool>,
    /// Ends the stream of a client that requires a leader if there is none.
    leader_check: LeaderCheck,
}

/// Renewals that are asked for and not answered.
struct Requested {
    requests: ReadAhead<LeaseKeepAliveRequest>,
    requests_open: bool,
    under_way: FuturesOrdered<Renewal>,
}

fn is_not_found(error: &cluster::Error) -> bool {
    let not_found = etcd_api::Error::LeaseNotFound;
    matches!(error, cluster::Error::Refused(revisions::Error::Etcd(error)) if *error == not_found)
}

impl Answers for Renewals {
    type Answer = LeaseKeepAliveResponse;

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    async fn next(&mut self) -> Result<Option<LeaseKeepAliveResponse>, Status> {
        let (caller, call, requested) = (&self.caller, &self.call, &mut self.requested);
        let answered = poll_fn(|context| requested.poll_next(caller, call, context));
        tokio::select! {
            biased;
            () = stopped(&mut self.stopping) => Err(etcd_api::Error::Stopped.to_status()),
            outcome = answered => outcome,
            () = self.leader_check.lost(), if call.requires_leader => {
                Err(etcd_api::Error::NoLeader.to_status())
            }
        }
    }
}

impl Requested {
    /// The next answer; `None` if the client sends no more requests and all are answered.
    fn poll_next(
        &mut self,
        caller: &Arc<Caller>,
        call: &Call,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<LeaseKeepAliveResponse>, Status>> {
        self.requests.poll_fill(context);
        while self.requests_open && self.under_way.len() < UNDER_WAY_MAX {
            match self.requests.poll_next(context)? {
                Poll::Pending => break,
                Poll::Ready(Some(request)) => {
                    call.received();
                    let renewal = renew(Arc::clone(caller), request.id);
                    self.under_way.push_back(Box::pin(renewal));
                }
                Poll::Ready(None) => self.requests_open = false,
            }
        }
        match Pin::new(&mut self.under_way).poll_next(context) {
            Poll::Ready(Some(outcome)) => Poll::Ready(outcome.map(Some)),
            Poll::Ready(None) if !self.requests_open => Poll::Ready(Ok(None)),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Renews a lease. The header is made before the renewal: a client must not see a lease
/// alive at a revision at which it was revoked already.
async fn renew(caller: Arc<Caller>, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
    let backend = &caller.backend;
    caller.may_renew(id).await?;
    let header = backend.header();
    let renewal = backend.node.renew_lease(id);
    let ttl = match backend.in_time_of_leader(renewal).await? {
        Ok(ttl) => ttl,
        Err(error) if is_not_found(&error) => 0,
        Err(error) => return Err(refusal::status(&error)),
    };
    backend.metrics.leases.renewed.add(u64::from(ttl > 0));
    Ok(LeaseKeepAliveResponse { header, id, ttl })
}
