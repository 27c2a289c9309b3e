//! Bad HTTP/2 and bad gRPC at the client port of one server.
//!
//! Connections with many kinds of attacks are made for a while. The server
//! must stay up, none of its threads may panic, another client must be served, and
//! afterwards memory and descriptors must fall to about what an idle server
//! needs.

mod attacks;
mod messages;

use std::collections::BTreeMap;
use std::sync::Arc;

use environment::randomness::Random;

use crate::attack::{Counts, crowd};
use crate::bystander::{Bystander, PATIENCE};
use crate::peaks::{Idle, KEPT_BYTES_MAX, mebibytes, peak_during};
use crate::servers::Servers;
use crate::{Length, Outcome, Report, Subject};

/// Attacks until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let mut servers = Servers::start(&subject.inkstone, 1, &["--log-level=error"])?;
    let mut report = Report::default();
    let again = format!("again: cargo trials fuzz http2 --seed {}", length.seed);
    let outcome = attack(&servers, length, &mut report).await;
    // If a process ended, that explains every other failure.
    servers
        .check()
        .map_err(|error| format!("{error}\n{again}"))?;
    outcome.map_err(|error| format!("{error}\n{again}"))?;
    Ok(report)
}

async fn attack(servers: &Servers, length: Length, report: &mut Report) -> Outcome {
    let mut random = Random::from_seed(length.seed);
    let bystander = Bystander::start(servers.first(), PATIENCE).await?;
    let idle = Idle::of(servers)?;
    let counts = Arc::new(Counts::default());
    let mut kinds: BTreeMap<&'static str, u64> = BTreeMap::new();
    let addresses = [servers.first().client_address().to_owned()];
    let attacks = crowd(
        &addresses,
        length.lasting,
        &mut random,
        &counts,
        |random, _| {
            let script = attacks::one(random);
            *kinds.entry(script.name).or_default() += 1;
            script
        },
    );
    let peak = peak_during(servers, attacks).await?;
    report.add("connections", counts.connections());
    report.add("bytes sent", counts.bytes());
    report.add("ended or not read by the server", counts.ended());
    for (kind, count) in kinds {
        report.add(kind, count);
    }
    report.add("most memory", mebibytes(peak));
    idle.wait_for(servers, KEPT_BYTES_MAX, report).await?;
    bystander.stop(report).await
}
