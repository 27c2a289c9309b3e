//! The service Lease. Grants and revocations go through the log; renewals
//! only move a deadline in the leader's memory, and other members forward them to the leader.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use etcd_api::etcdserverpb::lease_server::Lease;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{Stream, stream};
use revisions::{Command, Response as Outcome};
use tokio::task::coop::unconstrained;
use tonic::{Request, Response, Status, Streaming};

use crate::backend::{Backend, stopped};
use crate::calls::Call;
use crate::client::Client;
use crate::large_reads::{self, Answered};
use crate::large_writes;
use crate::leader_check::LeaderCheck;
use crate::methods::Method;
use crate::read_ahead::ReadAhead;
use crate::refusal;

/// Most concurrent renewals of one stream. At a follower each waits for the leader.
const UNDER_WAY_MAX: usize = 1024;

#[derive(Clone)]
pub(crate) struct LeaseService {
    client: Arc<Client>,
}

impl LeaseService {
    pub(crate) fn new(client: Arc<Client>) -> LeaseService {
        LeaseService { client }
    }

    async fn answer_grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Status> {
        match self
            .client
            .backend
            .execute(Command::LeaseGrant(request))
            .await?
        {
            Outcome::LeaseGrant(response) => {
                let metrics = &self.client.backend.metrics;
                metrics.leases_granted.add(1);
                metrics.times.leases.add(response.ttl as f64);
                Ok(response)
            }
            _ => unreachable!("a grant is answered by a grant"),
        }
    }

    async fn answer_revoke(
        &self,
        request: LeaseRevokeRequest,
    ) -> Result<LeaseRevokeResponse, Status> {
        match self
            .client
            .backend
            .execute(Command::LeaseRevoke(request))
            .await?
        {
            Outcome::LeaseRevoke(response) => {
                self.client.backend.metrics.leases_revoked.add(1);
                Ok(response)
            }
            _ => unreachable!("a revocation is answered by a revocation"),
        }
    }

    async fn answer_time_to_live(
        &self,
        request: LeaseTimeToLiveRequest,
    ) -> Result<Answered<LeaseTimeToLiveResponse>, Status> {
        let node = &self.client.backend.node;
        let asked = async {
            node.read_index().await?;
            node.lease_time_to_live(request).await
        };
        let mut response = match self.client.backend.in_time_of_leader(asked).await? {
            Ok(response) => response,
            Err(error) if is_not_found(&error) => LeaseTimeToLiveResponse {
                id: request.id,
                ttl: -1,
                ..Default::default()
            },
            Err(error) => return Err(refusal::status(&error)),
        };
        self.client
            .backend
            .fill(response.header.get_or_insert_default());
        // An answer with the lease's keys may be large.
        large_writes::made(&self.client, response).await
    }

    async fn answer_leases(&self) -> Result<Answered<LeaseLeasesResponse>, Status> {
        let backend = &self.client.backend;
        backend.confirm_reads().await?;
        let list = |backend: &Backend| {
            let mut response = backend.reader().lease_leases();
            backend.fill(response.header.get_or_insert_default());
            Ok(response)
        };
        large_writes::made(&self.client, backend.aside(list).await?).await
    }
}

#[tonic::async_trait]
impl Lease for LeaseService {
    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let call = Call::begin(&self.client.backend, Method::LeaseGrant, request.metadata())?;
        call.end(self.answer_grant(request.into_inner()).await)
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let call = Call::begin(
            &self.client.backend,
            Method::LeaseRevoke,
            request.metadata(),
        )?;
        call.end(self.answer_revoke(request.into_inner()).await)
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let call = Call::begin(
            &self.client.backend,
            Method::LeaseKeepAlive,
            request.metadata(),
        )?;
        let renewals = Renewals::new(Arc::clone(&self.client.backend), call, request.into_inner());
        Ok(Response::new(Box::pin(stream::unfold(
            Some(renewals),
            step,
        ))))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let call = Call::begin(
            &self.client.backend,
            Method::LeaseTimeToLive,
            request.metadata(),
        )?;
        large_reads::end(call, self.answer_time_to_live(request.into_inner()).await)
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let call = Call::begin(
            &self.client.backend,
            Method::LeaseLeases,
            request.metadata(),
        )?;
        large_reads::end(call, self.answer_leases().await)
    }
}

/// A renewal that has begun.
type Renewal = BoxFuture<'static, Result<LeaseKeepAliveResponse, Status>>;

/// One stream of renewals. Many run at a time; answers are sent in the order of the
/// requests.
struct Renewals {
    backend: Arc<Backend>,
    call: Call,
    requests: ReadAhead<LeaseKeepAliveRequest>,
    requests_open: bool,
    under_way: FuturesOrdered<Renewal>,
    stopping: tokio::sync::watch::Receiver<bool>,
    /// Ends the stream of a client that requires a leader if there is none.
    leader_check: LeaderCheck,
}

fn is_not_found(error: &cluster::Error) -> bool {
    let not_found = etcd_api::Error::LeaseNotFound;
    matches!(error, cluster::Error::Refused(revisions::Error::Etcd(error)) if *error == not_found)
}

async fn step(
    renewals: Option<Renewals>,
) -> Option<(Result<LeaseKeepAliveResponse, Status>, Option<Renewals>)> {
    let mut renewals = renewals?;
    // The stream has bounds of its own. With tokio's budget of a task's steps, requests would
    // be read faster than they are answered.
    match unconstrained(renewals.next()).await {
        Ok(Some(response)) => {
            renewals.call.sent();
            Some((Ok(response), Some(renewals)))
        }
        Ok(None) => {
            renewals.call.close(Ok(()));
            None
        }
        Err(status) => {
            renewals.call.close(Err(&status));
            Some((Err(status), None))
        }
    }
}

impl Renewals {
    fn new(
        backend: Arc<Backend>,
        call: Call,
        requests: Streaming<LeaseKeepAliveRequest>,
    ) -> Renewals {
        Renewals {
            stopping: backend.stopping.clone(),
            leader_check: LeaderCheck::new(Arc::clone(&backend)),
            backend,
            call,
            requests: ReadAhead::new(requests),
            requests_open: true,
            under_way: FuturesOrdered::new(),
        }
    }

    async fn next(&mut self) -> Result<Option<LeaseKeepAliveResponse>, Status> {
        let Renewals {
            backend,
            call,
            requests,
            requests_open,
            under_way,
            stopping,
            leader_check,
        } = self;
        let answered = poll_fn(|context| {
            begin(backend, call, requests, requests_open, under_way, context)?;
            match Pin::new(&mut *under_way).poll_next(context) {
                Poll::Ready(Some(outcome)) => Poll::Ready(outcome.map(Some)),
                Poll::Ready(None) if !*requests_open => Poll::Ready(Ok(None)),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        });
        tokio::select! {
            biased;
            () = stopped(stopping) => Err(etcd_api::Error::Stopped.to_status()),
            outcome = answered => outcome,
            () = leader_check.lost(), if call.requires_leader() => {
                Err(etcd_api::Error::NoLeader.to_status())
            }
        }
    }
}

/// Begins requested renewals, as many as may run at a time.
fn begin(
    backend: &Arc<Backend>,
    call: &Call,
    requests: &mut ReadAhead<LeaseKeepAliveRequest>,
    requests_open: &mut bool,
    under_way: &mut FuturesOrdered<Renewal>,
    context: &mut Context<'_>,
) -> Result<(), Status> {
    requests.poll_fill(context);
    while *requests_open && under_way.len() < UNDER_WAY_MAX {
        match requests.poll_next(context)? {
            Poll::Pending => break,
            Poll::Ready(Some(request)) => {
                call.received();
                under_way.push_back(Box::pin(renew(Arc::clone(backend), request.id)));
            }
            Poll::Ready(None) => *requests_open = false,
        }
    }
    Ok(())
}

/// Renews a lease. The header is made before the renewal: a client must not see a lease
/// alive at a revision at which it was revoked already.
async fn renew(backend: Arc<Backend>, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
    let header = backend.header();
    let renewal = backend.node.renew_lease(id);
    let ttl = match backend.in_time_of_leader(renewal).await? {
        Ok(ttl) => ttl,
        Err(error) if is_not_found(&error) => 0,
        Err(error) => return Err(refusal::status(&error)),
    };
    backend.metrics.leases_renewed.add(u64::from(ttl > 0));
    Ok(LeaseKeepAliveResponse { header, id, ttl })
}
