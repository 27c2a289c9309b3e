//! The service Maintenance. A call that walks the whole store runs on a thread of
//! its own.

use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::downgrade_request::DowngradeAction;
use etcd_api::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    DowngradeInfo, DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest,
    HashResponse, MoveLeaderRequest, MoveLeaderResponse, ResponseHeader, StatusRequest,
    StatusResponse,
};
use revisions::Command;
use tonic::Status;
use tracing::{info, warn};

use crate::answer_body::{Answered, Handled};
use crate::backend::{Backend, answer_of};
use crate::callers::{Caller, Need};
use crate::metrics::Histogram;
use crate::refusal::{self, of_machine};

/// etcd's text for a full store, and what it means if the leader has room and this member
/// has none.
const NO_ROOM: &str = "etcdserver: mvcc: database space exceeded: the disk of this member is \
                       full, or it may open no further file; it accepts no entries until that ends";

pub(crate) async fn alarm(caller: Caller, request: AlarmRequest) -> Handled<AlarmResponse> {
    let need = match request.action == AlarmAction::Get as i32 {
        true => Need::Identity,
        false => Need::Administrator,
    };
    caller.admit(need).await?;
    let outcome = caller.execute(Command::Alarm(request)).await?;
    Ok(Answered::Small(answer_of!(Alarm, outcome)))
}

pub(crate) async fn status(caller: Caller, _: StatusRequest) -> Handled<StatusResponse> {
    let backend = &caller.backend;
    let (node, engine) = (backend.node.status(), backend.reader().engine().status());
    let quota_bytes = backend.config.node.replica.machine.quota_bytes;
    Ok(Answered::Small(StatusResponse {
        header: backend.header(),
        version: etcd_api::ETCD_VERSION.to_owned(),
        db_size: engine.log_bytes as i64,
        leader: backend.leader(),
        raft_index: node.index,
        raft_term: node.term,
        raft_applied_index: node.applied_index,
        errors: errors(backend),
        db_size_in_use: engine.live_bytes as i64,
        is_learner: backend.node.is_learner(),
        storage_version: etcd_api::STORAGE_VERSION.to_owned(),
        db_size_quota: quota_bytes.map_or(-1, |bytes| bytes as i64),
        downgrade_info: Some(downgrade_info(backend)),
    }))
}

/// Why this member is not as it should be, in etcd's texts.
pub(crate) fn errors(backend: &Backend) -> Vec<String> {
    let mut errors = Vec::new();
    if backend.leader() == 0 {
        errors.push(etcd_api::Error::NoLeader.message().to_owned());
    }
    errors.extend(backend.node.refuses_writes().map(|error| error.to_string()));
    if backend.node.status().full {
        errors.push(NO_ROOM.to_owned());
    }
    errors.extend(backend.reader().alarms().iter().map(alarm_text));
    errors
}

fn downgrade_info(backend: &Backend) -> DowngradeInfo {
    let target = backend.reader().downgrade();
    DowngradeInfo {
        enabled: target.is_some(),
        target_version: target.unwrap_or_default(),
    }
}

/// Validates, enables or cancels a downgrade. As in etcd, a cancellation succeeds if there is
/// nothing to cancel.
pub(crate) async fn downgrade(
    caller: Caller,
    request: DowngradeRequest,
) -> Handled<DowngradeResponse> {
    let Ok(action) = DowngradeAction::try_from(request.action) else {
        return Err(Status::unknown("etcdserver: unknown method"));
    };
    let target = request.version.clone();
    let outcome = caller.execute(Command::Downgrade(request)).await;
    match (&outcome, action) {
        (Ok(_), DowngradeAction::Enable) => warn!(
            target,
            "enabled a downgrade: it has no effect, because there is no older release of Inkstone; \
             etcdctl downgrade cancel ends it"
        ),
        (Ok(_), DowngradeAction::Cancel) => info!("cancelled the downgrade"),
        (Ok(_), DowngradeAction::Validate) => {}
        (Err(refused), _) => warn!(error = refused.message(), "rejected a downgrade request"),
    }
    Ok(Answered::Small(answer_of!(Downgrade, outcome?)))
}

pub(crate) async fn defragment(
    caller: Caller,
    _: DefragmentRequest,
) -> Handled<DefragmentResponse> {
    let backend = &caller.backend;
    info!("starting defragment");
    let began = backend.clock.now();
    // Counted down when the work ends, even if the client leaves before.
    let under_way = backend.metrics.defragmenting.hold();
    let outcome = backend.node.defragment().await;
    drop(under_way);
    let took = backend.clock.now().saturating_since(began);
    backend.metrics.times.defragmentations.observe(took);
    match outcome {
        Ok(()) => {
            info!(?took, "finished defragment");
            Ok(Answered::Small(DefragmentResponse::default()))
        }
        Err(error) => {
            warn!(%error, "failed to defragment");
            Err(refusal::status(&error))
        }
    }
}

/// Hands the lead to another member. A member that is alone refuses: there is no other.
pub(crate) async fn move_leader(
    caller: Caller,
    request: MoveLeaderRequest,
) -> Handled<MoveLeaderResponse> {
    let (backend, target) = (&caller.backend, request.target_id);
    if !backend.leads() {
        return Err(etcd_api::Error::NotLeader.to_status());
    }
    if target != backend.identity.member {
        let outcome = backend.in_time(backend.node.move_leader(target)).await?;
        outcome.map_err(|error| refusal::status(&error))?;
    }
    Ok(Answered::Small(MoveLeaderResponse::default()))
}

pub(crate) async fn hash(caller: Caller, _: HashRequest) -> Handled<HashResponse> {
    let read = |backend: &Backend| {
        let hash = || backend.reader().hash();
        timed(backend, &backend.metrics.times.hashes, hash)
    };
    let (hash, revision) = caller.backend.aside(read).await?;
    let header = header_at(&caller.backend, revision);
    Ok(Answered::Small(HashResponse { header, hash }))
}

pub(crate) async fn hash_kv(caller: Caller, request: HashKvRequest) -> Handled<HashKvResponse> {
    let read = move |backend: &Backend| {
        let hash = || backend.reader().hash_kv(request.revision);
        timed(backend, &backend.metrics.times.hashes_at_revision, hash)
    };
    let hash = caller.backend.aside(read).await?;
    Ok(Answered::Small(HashKvResponse {
        header: header_at(&caller.backend, hash.revision),
        hash: hash.hash,
        compact_revision: hash.compact_revision,
        hash_revision: hash.hash_revision,
    }))
}

fn header_at(backend: &Backend, revision: i64) -> Option<ResponseHeader> {
    let mut header = ResponseHeader {
        revision,
        ..ResponseHeader::default()
    };
    backend.fill(&mut header);
    Some(header)
}

fn timed<T>(
    backend: &Backend,
    times: &Histogram,
    work: impl FnOnce() -> Result<T, revisions::Error>,
) -> Result<T, Status> {
    let began = backend.clock.now();
    let outcome = work();
    times.observe(backend.clock.now().saturating_since(began));
    outcome.map_err(|error| of_machine(&error))
}

/// An alarm as Go prints the message.
fn alarm_text(alarm: &AlarmMember) -> String {
    let kind = AlarmType::try_from(alarm.alarm).unwrap_or(AlarmType::None);
    format!("memberID:{} alarm:{} ", alarm.member_id, kind.as_str_name())
}
