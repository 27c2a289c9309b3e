//! The state that all services share: the node, the configuration, metrics and limits.
//!
//! One object for all runtimes. No request takes a lock in it:
//! the node's handle queues by itself, reads go through epoch
//! snapshots, and counters are atomics.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::{MemberFile, Node};
use environment::{Clock, Throttle};
use etcd_api::etcdserverpb::ResponseHeader;
use revisions::{Command, Reader, Response};
use tokio::sync::watch;
use tonic::Status;
use tonic_health::server::HealthService;

use crate::authentication::Authentication;
use crate::callers::signed::Signed;
use crate::config::Config;
use crate::metrics::{EvaluationMetrics, Metrics};
use crate::resources::Resources;
use crate::spans::Spans;
use crate::{lock, refusal};

/// Takes the answer of a command's own kind out of an outcome.
macro_rules! answer_of {
    ($variant:ident, $outcome:expr) => {
        match $outcome {
            revisions::Response::$variant(response) => response,
            _ => unreachable!("a command is answered by an answer of its kind"),
        }
    };
}

pub(crate) use answer_of;

/// A command that needs more bytes read is warmed on a thread of its own.
const BYTES_WARMED_HERE_MAX: u64 = 128 << 10;

/// Returns once the server stops.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender means that the server has stopped, too.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Shared by all services on all runtimes.
#[derive(Debug)]
pub(crate) struct Backend {
    /// The replica and its threads.
    pub(crate) node: Node,
    /// Ids of this member and its cluster, in every answer's header. Its peer URLs are those
    /// that the member list shows if it is alone; otherwise the log has them.
    pub(crate) identity: MemberFile,
    /// Whether this is the only member and it has no peer port, so that no other can join: it
    /// leads without elections.
    pub(crate) alone: bool,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    /// The service of health: the server serves as long as it runs.
    pub(crate) health: HealthService,
    /// Limits that connections and answers share.
    pub(crate) resources: Resources,
    /// Metrics that the replica thread reports.
    pub(crate) evaluations: Arc<EvaluationMetrics>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Turns true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Limits the log lines about requests that failed because of the server.
    pub(crate) failed_requests: Mutex<Throttle>,
    /// Hashing of passwords, and tokens that are being renewed.
    pub(crate) authentication: Authentication,
    /// Accepting sides with TLS by the kind of port, `client` or `peer`.
    pub(crate) acceptors: Vec<(&'static str, Arc<tls::Acceptor>)>,
    /// `None` if calls are not traced.
    pub(crate) spans: Option<Arc<Spans>>,
}

/// Shortest time between two log lines about failed requests.
pub(crate) const FAILURE_LOGGED_EVERY: Duration = Duration::from_secs(1);

impl Backend {
    /// Reads the applied state.
    pub(crate) fn reader(&self) -> &Reader {
        self.node.reader()
    }

    /// Proposes a command and waits until it is durable and applied.
    pub(crate) async fn execute(self: &Arc<Self>, command: Signed) -> Result<Response, Status> {
        let mut response = self.decide(command).await?;
        self.fill(response.header_mut());
        Ok(response)
    }

    /// [`Backend::execute`] for commands about members: as in etcd, the header of the answer
    /// has no revision.
    pub(crate) async fn execute_for_members(
        self: &Arc<Self>,
        command: Signed,
    ) -> Result<Response, Status> {
        let mut response = self.decide(command).await?;
        self.sign(response.header_mut());
        Ok(response)
    }

    /// [`Backend::execute`] for a command that was [warmed](Backend::warm).
    pub(crate) async fn execute_warm(&self, command: Signed) -> Result<Response, Status> {
        let mut response = self.propose(command).await?;
        self.fill(response.header_mut());
        Ok(response)
    }

    async fn decide(self: &Arc<Self>, command: Signed) -> Result<Response, Status> {
        let command = match self.warm_here(command.command())? {
            true => command,
            // On the heap: the future of every other command stays small.
            false => Box::pin(self.aside(|backend| Ok(backend.warm(command)))).await?,
        };
        self.propose(command).await
    }

    /// Proposes commands at once, to be evaluated in their order, and waits for all of them. Returns the
    /// last answer, or the first refusal.
    pub(crate) async fn execute_in_order(
        &self,
        commands: Vec<Signed>,
    ) -> Result<Option<Response>, Status> {
        let proposed = commands
            .into_iter()
            .map(|it| self.node.propose(it.into_command()));
        let proposed: Vec<_> = proposed.collect();
        let mut last = None;
        for proposed in proposed {
            last = Some(self.outcome(proposed).await?);
        }
        if let Some(response) = &mut last {
            self.fill(response.header_mut());
        }
        Ok(last)
    }

    async fn propose(&self, command: Signed) -> Result<Response, Status> {
        self.outcome(self.node.propose(command.into_command()))
            .await
    }

    async fn outcome(
        &self,
        proposed: Result<cluster::Pending, cluster::Error>,
    ) -> Result<Response, Status> {
        let outcome = match proposed {
            Ok(pending) => tokio::time::timeout(self.config.request_timeout(), pending).await,
            Err(error) => Ok(Err(error)),
        };
        match outcome {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                self.metrics.count_failed_proposal(&error);
                Err(refusal::status(&error))
            }
            Err(_) => {
                self.metrics.proposals_failed.add(1);
                Err(etcd_api::Error::Timeout.to_status())
            }
        }
    }

    /// Reads what the evaluation of the command will need, if this member evaluates it; false if that
    /// is so much that [`Backend::warm`] has to read it on another thread. An error if the command
    /// itself is too large.
    pub(crate) fn warm_here(&self, command: &Command) -> Result<bool, Status> {
        if command.size_bytes() > self.config.node.replica.command_limits.request_bytes_max {
            return Err(etcd_api::Error::RequestTooLarge.to_status());
        }
        let (reader, bytes_max) = (self.reader(), BYTES_WARMED_HERE_MAX);
        Ok(match self.alone || self.leads() {
            true => reader.warm(command, bytes_max),
            false => !reader.reads_above(command, bytes_max),
        })
    }

    /// Reads what the evaluation of the command will need.
    pub(crate) fn warm(&self, command: Signed) -> Signed {
        let reader = self.reader();
        reader.warm(command.command(), revisions::READ_BYTES_MAX);
        command
    }

    /// Returns once a read sees every write acknowledged before this call.
    pub(crate) async fn confirm_reads(&self) -> Result<(), Status> {
        let outcome = self.in_time(self.node.read_index()).await?;
        outcome.map_err(|error| refusal::status(&error))
    }

    /// The outcome of `work`; etcd's timeout if it takes longer than a request may.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Status> {
        let outcome = tokio::time::timeout(self.config.request_timeout(), work).await;
        outcome.map_err(|_| etcd_api::Error::Timeout.to_status())
    }

    /// [`Backend::in_time`] for work that asks the leader: as in etcd, the error is `no
    /// leader` if there is none at the end of that time.
    pub(crate) async fn in_time_of_leader<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Status> {
        let outcome = self.in_time(work).await;
        outcome.map_err(|late| match self.leader() {
            0 => etcd_api::Error::NoLeader.to_status(),
            _ => late,
        })
    }

    /// Counts a failed request. Returns how many failed since the last log line if it is time
    /// for another line.
    pub(crate) fn note_failed_request(&self) -> Option<u64> {
        lock(&self.failed_requests).note(self.clock.now(), 1)
    }

    /// Runs long work on a thread of its own, where it delays no request.
    pub(crate) async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Backend) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let backend = Arc::clone(self);
        match tokio::task::spawn_blocking(move || work(&backend)).await {
            Ok(outcome) => outcome,
            // Not `Stopped`: a client would send the same request again.
            Err(error) if error.is_panic() => Err(Status::internal(
                "inkstone: this request broke an invariant",
            )),
            Err(_) => Err(etcd_api::Error::Stopped.to_status()),
        }
    }

    /// Adds ids and term to a header, and the revision if it has none.
    pub(crate) fn fill(&self, header: &mut ResponseHeader) {
        self.sign(header);
        if header.revision == 0 {
            header.revision = self.reader().revision();
        }
    }

    /// Adds ids and term to a header.
    pub(crate) fn sign(&self, header: &mut ResponseHeader) {
        header.cluster_id = self.identity.cluster;
        header.member_id = self.identity.member;
        header.raft_term = self.node.term();
    }

    /// A full header at the newest revision.
    pub(crate) fn header(&self) -> Option<ResponseHeader> {
        let mut header = ResponseHeader::default();
        self.fill(&mut header);
        Some(header)
    }

    /// Id of the leader; 0 if this member knows none. A member that is alone is its own
    /// leader. A member with a failed log reports none.
    pub(crate) fn leader(&self) -> u64 {
        match self.node.refuses_writes() {
            None if self.alone => self.identity.member,
            None => self.node.status().leader,
            Some(_) => 0,
        }
    }

    pub(crate) fn leads(&self) -> bool {
        self.leader() == self.identity.member
    }

    /// An error if this member is a learner.
    pub(crate) fn refuse_at_learner(&self) -> Result<(), Status> {
        match self.node.is_learner() {
            true => Err(etcd_api::Error::NotSupportedForLearner.to_status()),
            false => Ok(()),
        }
    }

    /// An error if the cluster has removed this member.
    pub(crate) fn refuse_if_removed(&self) -> Result<(), Status> {
        let member = self.identity.member;
        match self.node.is_removed() {
            true => Err(refusal::status(&cluster::Error::Removed { member })),
            false => Ok(()),
        }
    }
}
