//! What a member of several does besides serving: it tells the others its name
//! and where clients reach it, and sees who leads.
//!
//! ```text
//!   start ──► publish, again and again, until a leader has taken it ──► ready
//!         └─► look for a new leader, once per heartbeat ─────────────► metrics
//! ```

use std::time::Duration;

use revisions::{Command, MemberPublishRequest};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{error, info, warn};

use crate::backend::{Backend, stopped};
use crate::config::Url;

/// Pause after an attempt that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Works until the server stops; `ready` turns true once the cluster knows
/// this member. Runs on a thread of its own.
pub(crate) fn run(backend: &Backend, ready: &watch::Sender<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return error!(%error, "this member cannot tell others its name"),
    };
    runtime.block_on(async {
        let mut stopping = backend.stopping.clone();
        let work = async { tokio::join!(publish(backend, ready), watch_leader(backend)) };
        tokio::select! {
            () = stopped(&mut stopping) => {}
            _ = work => {}
        }
    });
}

/// A proposal waits by itself until there is a leader.
async fn publish(backend: &Backend, ready: &watch::Sender<bool>) {
    let client_urls = backend.config.advertise_client.iter().map(Url::as_str);
    let request = MemberPublishRequest {
        id: backend.identity.member,
        name: backend.config.name.clone(),
        client_urls: client_urls.map(str::to_owned).collect(),
    };
    loop {
        let command = Command::MemberPublish(request.clone());
        let patience = backend.config.request_timeout();
        let reason = match timeout(patience, backend.node.execute(command)).await {
            Ok(Ok(_)) => break,
            Ok(Err(reason)) => reason.to_string(),
            Err(_) => etcd_api::Error::Timeout.message().to_owned(),
        };
        warn!(
            reason,
            "failed to publish local member to cluster; trying again"
        );
        sleep(PAUSE).await;
    }
    info!(name = request.name, "published local member to cluster");
    ready.send_replace(true);
}

/// Counts each leader that comes: also the one from before, elected again. Two
/// that come within a heartbeat count once.
async fn watch_leader(backend: &Backend) {
    let mut looks = interval(backend.config.heartbeat_interval);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = (0, 0);
    loop {
        looks.tick().await;
        let status = backend.node.status();
        let now = (status.term, status.leader);
        if status.leader != 0 && now != last {
            backend.metrics.leader_changes.add(1);
            info!(
                term = status.term,
                leader = format!("{:x}", status.leader),
                "a leader was elected"
            );
            last = now;
        }
    }
}
