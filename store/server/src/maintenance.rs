//! The service Maintenance. A call that walks the whole store runs on a thread of
//! its own.

use std::pin::Pin;
use std::sync::Arc;

use etcd_api::etcdserverpb::maintenance_server::Maintenance;
use etcd_api::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    DowngradeInfo, DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest,
    HashResponse, MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse,
    StatusRequest, StatusResponse,
};
use futures_util::Stream;
use revisions::{Command, Response as Outcome};
use tonic::{Request, Response, Status};
use tracing::{info, warn};

use crate::backend::Backend;
use crate::calls::Call;
use crate::methods::Method;
use crate::metrics::Histogram;
use crate::refusal::{self, of_machine};
use crate::unsupported;

/// etcd's text for a full store, and what it means if the leader has room and this member
/// has none.
const NO_ROOM: &str = "etcdserver: mvcc: database space exceeded: the disk of this member is \
                       full, or it may open no further file; it accepts no entries until that ends";

#[derive(Clone)]
pub(crate) struct MaintenanceService {
    backend: Arc<Backend>,
}

impl MaintenanceService {
    pub(crate) fn new(backend: Arc<Backend>) -> MaintenanceService {
        MaintenanceService { backend }
    }

    async fn answer_alarm(&self, request: AlarmRequest) -> Result<AlarmResponse, Status> {
        match self.backend.execute(Command::Alarm(request)).await? {
            Outcome::Alarm(response) => Ok(response),
            _ => unreachable!("an alarm is answered by an alarm"),
        }
    }

    fn answer_status(&self) -> StatusResponse {
        let backend = &self.backend;
        let (node, engine) = (backend.node.status(), backend.reader().engine().status());
        let leader = backend.leader();
        let mut errors = Vec::new();
        if leader == 0 {
            errors.push(etcd_api::Error::NoLeader.message().to_owned());
        }
        errors.extend(backend.node.refuses_writes().map(|error| error.to_string()));
        if node.full {
            errors.push(NO_ROOM.to_owned());
        }
        errors.extend(backend.reader().alarms().iter().map(alarm_text));
        StatusResponse {
            header: backend.header(),
            version: etcd_api::ETCD_VERSION.to_owned(),
            db_size: engine.log_bytes as i64,
            leader,
            raft_index: node.index,
            raft_term: node.term,
            raft_applied_index: node.applied_index,
            errors,
            db_size_in_use: engine.live_bytes as i64,
            is_learner: backend.is_learner(),
            storage_version: etcd_api::STORAGE_VERSION.to_owned(),
            db_size_quota: backend
                .config
                .node
                .replica
                .machine
                .quota_bytes
                .map_or(-1, |bytes| bytes as i64),
            downgrade_info: Some(DowngradeInfo::default()),
        }
    }

    async fn answer_defragment(&self) -> Result<DefragmentResponse, Status> {
        info!("starting defragment");
        let began = self.backend.clock.now();
        // Counted down when the work ends, even if the client leaves before.
        let under_way = self.backend.metrics.defragmenting.hold();
        let outcome = self.backend.node.defragment().await;
        drop(under_way);
        let took = self.backend.clock.now().saturating_since(began);
        self.backend.metrics.times.defragmentations.observe(took);
        match outcome {
            Ok(()) => {
                info!(?took, "finished defragment");
                Ok(DefragmentResponse::default())
            }
            Err(error) => {
                warn!(%error, "failed to defragment");
                Err(refusal::status(&error))
            }
        }
    }

    async fn answer_move_leader(&self, target: u64) -> Result<MoveLeaderResponse, Status> {
        let backend = &self.backend;
        if !backend.leads() {
            return Err(etcd_api::Error::NotLeader.to_status());
        }
        if target == backend.identity.member {
            return Ok(MoveLeaderResponse::default());
        }
        let outcome = backend.in_time(backend.node.move_leader(target)).await?;
        outcome.map_err(|error| refusal::status(&error))?;
        Ok(MoveLeaderResponse::default())
    }

    async fn answer_hash(&self) -> Result<HashResponse, Status> {
        let read = |backend: &Backend| {
            timed(backend, &backend.metrics.times.hashes, || {
                backend.reader().hash()
            })
            .map_err(|error| of_machine(&error))
        };
        let (hash, revision) = self.backend.aside(read).await?;
        let mut response = HashResponse {
            hash,
            ..HashResponse::default()
        };
        let header = response.header.get_or_insert_default();
        header.revision = revision;
        self.backend.fill(header);
        Ok(response)
    }

    async fn answer_hash_kv(&self, revision: i64) -> Result<HashKvResponse, Status> {
        let read = move |backend: &Backend| {
            timed(backend, &backend.metrics.times.hashes_at_revision, || {
                backend.reader().hash_kv(revision)
            })
            .map_err(|error| of_machine(&error))
        };
        let hash = self.backend.aside(read).await?;
        let mut response = HashKvResponse {
            hash: hash.hash,
            compact_revision: hash.compact_revision,
            hash_revision: hash.hash_revision,
            ..HashKvResponse::default()
        };
        let header = response.header.get_or_insert_default();
        header.revision = hash.revision;
        self.backend.fill(header);
        Ok(response)
    }
}

fn timed<T>(backend: &Backend, times: &Histogram, work: impl FnOnce() -> T) -> T {
    let began = backend.clock.now();
    let outcome = work();
    times.observe(backend.clock.now().saturating_since(began));
    outcome
}

/// An alarm as Go prints the message.
fn alarm_text(alarm: &AlarmMember) -> String {
    let kind = AlarmType::try_from(alarm.alarm).unwrap_or(AlarmType::None);
    format!("memberID:{} alarm:{} ", alarm.member_id, kind.as_str_name())
}

#[tonic::async_trait]
impl Maintenance for MaintenanceService {
    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<SnapshotResponse, Status>> + Send>>;

    async fn alarm(
        &self,
        request: Request<AlarmRequest>,
    ) -> Result<Response<AlarmResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Alarm, request.metadata())?;
        call.end(self.answer_alarm(request.into_inner()).await)
    }

    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Status, request.metadata())?;
        call.end(Ok(self.answer_status()))
    }

    async fn defragment(
        &self,
        request: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Defragment, request.metadata())?;
        call.end(self.answer_defragment().await)
    }

    async fn hash(&self, request: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Hash, request.metadata())?;
        call.end(self.answer_hash().await)
    }

    async fn hash_kv(
        &self,
        request: Request<HashKvRequest>,
    ) -> Result<Response<HashKvResponse>, Status> {
        let call = Call::begin(&self.backend, Method::HashKv, request.metadata())?;
        call.end(self.answer_hash_kv(request.into_inner().revision).await)
    }

    async fn snapshot(
        &self,
        request: Request<SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        let call = Call::begin(&self.backend, Method::Snapshot, request.metadata())?;
        call.end(Err(unsupported::status(unsupported::SNAPSHOT)))
    }

    /// Hands the lead to another member. A member that is alone refuses: there is no other.
    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        let call = Call::begin(&self.backend, Method::MoveLeader, request.metadata())?;
        call.end(
            self.answer_move_leader(request.into_inner().target_id)
                .await,
        )
    }

    async fn downgrade(
        &self,
        request: Request<DowngradeRequest>,
    ) -> Result<Response<DowngradeResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Downgrade, request.metadata())?;
        call.end(Err(unsupported::status(unsupported::DOWNGRADE)))
    }
}
