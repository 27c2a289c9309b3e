//! Background work of a member of several: it publishes its name and client URLs, logs
//! changes of the leader, and ends the server when the cluster has removed it.
//!
//! ```text
//!   start ──► publish, again and again, until a leader has taken it ──► ready
//!         ├─► each change of the leader ──────────────────────────────► log
//!         └─► check whether it was removed, once per heartbeat ───────► the end
//! ```

use std::sync::Arc;
use std::time::Duration;

use cluster::Status;
use revisions::{Command, MemberPublishRequest};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{error, info, warn};

use crate::backend::{Backend, stopped};

/// Pause after an attempt that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs until the server stops. `ready` turns true once the cluster knows this member,
/// `removed` once the cluster has removed it.
pub(crate) async fn run(
    backend: Arc<Backend>,
    ready: watch::Sender<bool>,
    removed: watch::Sender<bool>,
) {
    let mut stopping = backend.stopping.clone();
    let work = async {
        tokio::join!(
            publish(&backend, &ready),
            watch_leader(&backend),
            watch_removal(&backend, &removed)
        )
    };
    tokio::select! {
        () = stopped(&mut stopping) => {}
        _ = work => {}
    }
}

/// Proposes this member's name and client URLs until a leader has taken them. A proposal
/// waits for a leader by itself.
async fn publish(backend: &Backend, ready: &watch::Sender<bool>) {
    let client_urls = backend.config.addresses.advertise_client.iter();
    let request = MemberPublishRequest {
        id: backend.identity.member,
        name: backend.config.name.clone(),
        client_urls: client_urls.map(|url| url.as_str().to_owned()).collect(),
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

/// Logs each change of the leader.
async fn watch_leader(backend: &Backend) {
    let mut notices = backend.node.leadership();
    let mut before = 0;
    loop {
        let Status { term, leader, .. } = *notices.borrow_and_update();
        if leader != 0 {
            info!(term, leader = format!("{leader:x}"), "a leader was elected");
        } else if before != 0 {
            warn!(term, leader = format!("{before:x}"), "the leader is lost");
        }
        before = leader;
        // The node has stopped, so no change follows.
        if notices.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Waits until the cluster has removed this member, which then has to stop.
async fn watch_removal(backend: &Backend, removed: &watch::Sender<bool>) {
    let mut looks = interval(backend.config.node.replica.heartbeat_interval);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !backend.node.is_removed() {
        looks.tick().await;
    }
    error!("the member has been permanently removed from the cluster");
    removed.send_replace(true);
    std::future::pending().await
}
