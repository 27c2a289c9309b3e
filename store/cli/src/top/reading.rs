//! Answers of all members at one moment.

use std::collections::HashMap;
use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Instant};
use etcd_api::etcdserverpb::{MemberListRequest, StatusRequest, StatusResponse};
use futures_util::future::join_all;

use super::metrics::Metrics;
use crate::client::{Connection, Endpoints, NamedEndpoint};
use crate::failure::Failure;

/// The members' answers at one moment.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    at: Instant,
    /// One for each endpoint, in their order.
    pub(super) members: Vec<MemberReading>,
    /// Names of the members by id.
    pub(super) names: HashMap<u64, String>,
}

/// The answers of one endpoint.
#[derive(Clone, Debug)]
pub(super) struct MemberReading {
    pub(super) endpoint: String,
    /// The status, or why there is none.
    pub(super) status: Result<StatusResponse, String>,
    /// `None` if the page does not answer.
    pub(super) metrics: Option<Metrics>,
}

/// Connections to the members, kept from reading to reading.
pub(super) struct Members {
    connections: Vec<Option<Connection>>,
}

impl Reading {
    /// The time since an earlier reading.
    pub(super) fn since(&self, before: &Reading) -> Duration {
        self.at.saturating_since(before.at)
    }

    /// Index of the log's newest entry: the leader's, or the highest that a member knows.
    pub(super) fn newest_index(&self) -> u64 {
        let statuses = self.members.iter().filter_map(|it| it.status.as_ref().ok());
        let indices = statuses.map(|status| match is_leader(status) {
            true => (true, status.raft_index),
            false => (false, status.raft_index.max(status.raft_applied_index)),
        });
        indices.max().map_or(0, |(_, index)| index)
    }
}

pub(super) fn is_leader(status: &StatusResponse) -> bool {
    let member = status.header.map_or(0, |header| header.member_id);
    member != 0 && member == status.leader
}

impl Members {
    pub(super) fn of(endpoints: &Endpoints) -> Members {
        Members {
            connections: endpoints.iter().map(|_| None).collect(),
        }
    }

    /// Asks all members at the same time.
    pub(super) async fn read(&mut self, endpoints: &Endpoints) -> Reading {
        let slots = endpoints.iter().zip(&mut self.connections);
        let asked = slots.map(|(endpoint, slot)| read_one(endpoints, endpoint, slot));
        let members = join_all(asked).await;
        Reading {
            at: RealClock.now(),
            members,
            names: self.names().await,
        }
    }

    /// The names that the first connected member knows; none if it does not answer.
    async fn names(&self) -> HashMap<u64, String> {
        let Some(connection) = self.connections.iter().flatten().next() else {
            return HashMap::new();
        };
        let message = MemberListRequest {
            linearizable: false,
        };
        let send = async |request| connection.cluster().member_list(request).await;
        let members = match connection.call(message, send).await {
            Ok(answer) => answer.members,
            Err(_) => Vec::new(),
        };
        members.into_iter().map(|it| (it.id, it.name)).collect()
    }
}

async fn read_one(
    endpoints: &Endpoints,
    endpoint: &NamedEndpoint,
    slot: &mut Option<Connection>,
) -> MemberReading {
    let status = async {
        let connection = match slot.take() {
            Some(connection) => connection,
            None => endpoints.connect(endpoint).await?,
        };
        let send = async |request| connection.maintenance().status(request).await;
        let status = connection.call(StatusRequest {}, send).await?;
        *slot = Some(connection);
        Ok::<_, Failure>(status)
    };
    let page = endpoints.page(endpoint, "/metrics");
    let (status, page) = tokio::join!(status, page);
    MemberReading {
        endpoint: endpoint.name.clone(),
        status: status.map_err(|failure| failure.what()),
        metrics: page.ok().map(|page| Metrics::parse(&page)),
    }
}
