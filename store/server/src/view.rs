//! The service View: calls of the page at `/ui` that etcd does not have.
//!
//! ```text
//!   children ──aside──► a bounded look at the index ──► small: encoded here
//!                                                 └──► large: memory claimed, as a large range
//!   overview ──► one question to the replica thread and one to each other member, then figures
//!                that are there already
//! ```
//!
//! Children are the folded keys of a range: permissions, errors, and the agreement with the
//! leader are a range's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::cluster::ToldFigures;
use etcd_api::etcdserverpb::Member;
use etcd_api::inkstonepb::{
    ChildrenRequest, ChildrenResponse, MemberFigures, MemberOverview, OverviewRequest,
    OverviewResponse,
};
use prost::Message;
use revisions::ChildrenRange;
use tonic::Status;

use crate::answer_body::{Answered, Handled};
use crate::backend::Backend;
use crate::callers::Caller;
use crate::large_reads::BYTES_HERE_MAX;
use crate::refusal::of_machine;
use crate::{cluster, encoded, maintenance, metrics};

/// How long an overview waits for the figures of members that answered in time before, or were never
/// asked.
const OTHERS_PATIENCE: Duration = Duration::from_millis(100);
const SEPARATOR_BYTES_MAX: usize = 64;
/// etcd's way to say "from here on": the smallest key, as a start or as an end.
const SMALLEST_KEY: &[u8] = &[0];

pub(crate) async fn children(
    caller: Caller,
    request: ChildrenRequest,
) -> Handled<ChildrenResponse> {
    let backend = &caller.backend;
    if !request.serializable {
        backend.refuse_at_learner()?;
    }
    if request.separator.len() > SEPARATOR_BYTES_MAX {
        return Err(Status::invalid_argument(format!(
            "inkstone: a separator has at most {SEPARATOR_BYTES_MAX} bytes"
        )));
    }
    if !request.serializable {
        backend.confirm_reads().await?;
    }
    let range = ChildrenRange::of(&request);
    if range.is_empty() {
        return Err(Status::invalid_argument(
            "inkstone: the range has no key of the prefix",
        ));
    }
    let end = range.end.as_deref().unwrap_or(SMALLEST_KEY);
    let start = match &range.start[..] {
        [] => SMALLEST_KEY,
        start => start,
    };
    let permit = caller.may_read(start, end).await?;
    backend.metrics.operations.ranges.add(1);
    caller.unsent.room().await;
    let list = move |backend: &Backend| {
        let response = backend.reader().children(&request);
        let mut response = response.map_err(|error| of_machine(&error))?;
        permit.still_holds(backend)?;
        backend.fill(response.header.get_or_insert_default());
        Ok(response)
    };
    let response = backend.aside(list).await?;
    let bytes = response.encoded_len() as u64;
    if bytes <= BYTES_HERE_MAX {
        return Ok(Answered::Small(response));
    }
    let claim = caller.claim(bytes).await?;
    let pieces = encoded::encode(&response)?;
    Ok(Answered::Large(caller.send(pieces, claim)))
}

pub(crate) async fn overview(caller: Caller, _: OverviewRequest) -> Handled<OverviewResponse> {
    let backend = &caller.backend;
    // A member with a failed log still says how it is.
    let (progress, told) = tokio::join!(
        backend.in_time(backend.node.members_progress()),
        backend.node.figures_of_others(OTHERS_PATIENCE),
    );
    let progress = progress.ok().and_then(Result::ok).unwrap_or_default();
    let matched = progress.into_iter().map(|it| (it.member, it.matched_index));
    let matched: HashMap<u64, u64> = matched.collect();
    let gather = move |backend: &Backend| {
        let members = cluster::members(backend).into_iter();
        Ok(OverviewResponse {
            header: backend.header(),
            members: members
                .map(|member| MemberOverview {
                    figures: told.get(&member.id).and_then(figures_of),
                    ..member_overview(backend, member, &matched)
                })
                .collect(),
            store: Some(metrics::store_figures(backend)),
            load: Some(metrics::load_figures(backend)),
            process: Some(metrics::process_figures(backend)),
            alarms: backend.reader().alarms(),
            errors: maintenance::errors(backend),
        })
    };
    // The figures of the process and of the file system are system calls.
    Ok(Answered::Small(backend.aside(gather).await?))
}

fn member_overview(
    backend: &Backend,
    member: Member,
    matched: &HashMap<u64, u64>,
) -> MemberOverview {
    let is_self = member.id == backend.identity.member;
    let traffic = backend.node.traffic(member.id);
    let (round_trips, round_trip_sum_seconds) = match is_self {
        true => (0, 0.0),
        false => metrics::round_trips(backend, member.id),
    };
    MemberOverview {
        id: member.id,
        name: member.name,
        peer_urls: member.peer_ur_ls,
        client_urls: member.client_ur_ls,
        is_learner: member.is_learner,
        is_leader: member.id == backend.leader(),
        is_self,
        is_connected: is_self || traffic.is_some_and(|traffic| traffic.connected),
        matched_index: matched.get(&member.id).copied(),
        round_trips,
        round_trip_sum_seconds,
        figures: None,
    }
}

/// The figures that another member has told; `None` if they cannot be decoded.
fn figures_of(told: &ToldFigures) -> Option<MemberFigures> {
    let figures = MemberFigures::decode(told.figures.clone()).ok()?;
    Some(MemberFigures {
        age_seconds: told.age.as_secs_f64(),
        ..figures
    })
}

/// Has this member answer others that ask for its figures.
pub(crate) fn tell_figures(backend: &Arc<Backend>) {
    // Weak, because the backend owns the node, which keeps this.
    let backend_of_figures = Arc::downgrade(backend);
    backend.node.tell_figures(move || {
        let figures = backend_of_figures.upgrade().map(|backend| MemberFigures {
            age_seconds: 0.0,
            store: Some(metrics::store_figures(&backend)),
            load: Some(metrics::load_figures(&backend)),
            process: Some(metrics::process_figures(&backend)),
        });
        figures.unwrap_or_default().encode_to_vec().into()
    });
}
