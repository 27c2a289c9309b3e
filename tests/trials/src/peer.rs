//! Bad frames at the peer ports of three members.
//!
//! Connections with and without a valid hello, from ids that belong to members
//! and from ids that do not, send frames that are random, mutated, cut off or
//! shorter than announced. During the attack a client may have to
//! wait: a connection in the name of a member replaces that member's own. `cargo trials
//! hostile` attacks with the *meaning* of frames, and for longer; here members must only
//! survive them.

mod frames;

use crate::attack::attack;
use crate::bystander::PATIENCE;
use crate::servers::Servers;
use crate::{Length, Outcome, Report, Subject};

const MEMBERS: usize = 3;

/// Attacks until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let servers = Servers::start(&subject.inkstone, MEMBERS)?;
    let members = &servers.cluster.members;
    let addresses: Vec<_> = members.iter().map(|it| it.config.peer.clone()).collect();
    let headers = servers.statuses().await?.into_iter();
    let headers: Vec<_> = headers.map(|it| it.header.unwrap_or_default()).collect();
    let ids = Ids {
        cluster: headers[0].cluster_id,
        members: headers.iter().map(|it| it.member_id).collect(),
    };
    let patience = length.lasting + PATIENCE;
    let write = |random: &mut _, to| frames::one(random, &ids, to);
    attack("peer", servers, &addresses, length, patience, write).await
}

/// Ids of the cluster and its members, which any client can ask for.
struct Ids {
    cluster: u64,
    members: Vec<u64>,
}
