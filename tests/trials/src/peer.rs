//! Bad frames at the peer ports of three members.
//!
//! Connections with and without a valid hello, from ids that belong to members
//! and from ids that do not, send frames that are random, mutated, cut off or
//! shorter than announced. During the attack a client may have to
//! wait: a connection in the name of a member replaces that member's own. `cargo trials
//! hostile` attacks with the *meaning* of frames, and for longer; here members must only
//! survive them.

mod frames;

use etcd_api::etcdserverpb::StatusRequest;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;

use crate::attack::attack;
use crate::bystander::PATIENCE;
use crate::servers::{Servers, channel};
use crate::{Length, Outcome, Report, Subject};

const MEMBERS: usize = 3;

/// Attacks until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let servers = Servers::start(&subject.inkstone, MEMBERS, &["--log-level=error"])?;
    let (mut ids, mut addresses) = (Ids::default(), Vec::new());
    for server in &servers.cluster.members {
        let mut client = MaintenanceClient::new(channel(server).await?);
        let status = client.status(StatusRequest::default()).await?.into_inner();
        let header = status.header.unwrap_or_default();
        ids.cluster = header.cluster_id;
        ids.members.push(header.member_id);
        addresses.push(server.config.peer.clone());
    }
    let patience = length.lasting + PATIENCE;
    let write = |random: &mut _, to| frames::one(random, &ids, to);
    attack("peer", servers, &addresses, length, patience, write).await
}

/// Ids of the cluster and its members, which any client can ask for.
#[derive(Default)]
struct Ids {
    cluster: u64,
    members: Vec<u64>,
}
