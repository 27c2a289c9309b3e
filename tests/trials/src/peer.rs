//! Bad frames at the peer ports of three members.
//!
//! Connections with and without a valid hello, from ids that belong to members
//! and from ids that do not, send frames that are random, mutated, cut off or
//! shorter than announced. All members must stay up, all must serve after the attack,
//! and memory and descriptors must fall again. During the attack a client may have to
//! wait: a connection in the name of a member replaces that member's own. `cargo trials
//! hostile` attacks with the *meaning* of frames, and for longer; here members must only
//! survive them.

mod frames;

use std::collections::BTreeMap;
use std::sync::Arc;

use environment::randomness::Random;
use etcd_api::etcdserverpb::StatusRequest;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;

use crate::attack::{Counts, crowd};
use crate::bystander::{Bystander, PATIENCE};
use crate::peaks::{Idle, KEPT_BYTES_MAX, mebibytes, peak_during};
use crate::servers::{Servers, channel};
use crate::{Length, Outcome, Report, Subject};

const MEMBERS: usize = 3;

/// Attacks until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let mut servers = Servers::start(&subject.inkstone, MEMBERS, &["--log-level=error"])?;
    let mut report = Report::default();
    let again = format!("again: cargo trials fuzz peer --seed {}", length.seed);
    let outcome = attack(&servers, length, &mut report).await;
    // The end of a process explains every other failure.
    servers
        .check()
        .map_err(|error| format!("{error}\n{again}"))?;
    outcome.map_err(|error| format!("{error}\n{again}"))?;
    Ok(report)
}

async fn attack(servers: &Servers, length: Length, report: &mut Report) -> Outcome {
    let mut random = Random::from_seed(length.seed);
    let ids = ids(servers).await?;
    let bystander = Bystander::start(servers.first(), length.lasting + PATIENCE).await?;
    let idle = Idle::of(servers)?;
    let counts = Arc::new(Counts::default());
    let mut kinds: BTreeMap<&'static str, u64> = BTreeMap::new();
    let addresses: Vec<String> = servers
        .cluster
        .members
        .iter()
        .map(|it| it.config.peer.clone())
        .collect();
    let attacks = crowd(
        &addresses,
        length.lasting,
        &mut random,
        &counts,
        |random, to| {
            let script = frames::one(random, &ids, to);
            *kinds.entry(script.name).or_default() += 1;
            script
        },
    );
    let peak = peak_during(servers, attacks).await?;
    report.add("connections", counts.connections());
    report.add("bytes sent", counts.bytes());
    report.add("ended or not read by a member", counts.ended());
    for (kind, count) in kinds {
        report.add(kind, count);
    }
    report.add("most memory of a member", mebibytes(peak));
    idle.wait_for(servers, KEPT_BYTES_MAX, report).await?;
    bystander.stop(report).await?;
    for server in &servers.cluster.members {
        // After the attack each member serves by itself.
        let served = Bystander::start(server, PATIENCE).await?;
        served.stop(&mut Report::default()).await?;
    }
    Ok(())
}

/// Ids of the cluster and its members, which any client can ask for.
struct Ids {
    cluster: u64,
    members: Vec<u64>,
}

async fn ids(servers: &Servers) -> Outcome<Ids> {
    let mut ids = Ids {
        cluster: 0,
        members: Vec::new(),
    };
    for server in &servers.cluster.members {
        let mut client = MaintenanceClient::new(channel(server).await?);
        let status = client.status(StatusRequest::default()).await?.into_inner();
        let header = status.header.unwrap_or_default();
        ids.cluster = header.cluster_id;
        ids.members.push(header.member_id);
    }
    Ok(ids)
}
