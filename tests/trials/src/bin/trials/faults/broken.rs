//! Test of the trial itself: members that serve reads without confirming that they
//! still lead.
//!
//! ```text
//!   leader   slow clock ── cut off ────── still leads, by its own clock ──► healed
//!   others                     elect another, acknowledge writes
//!   clients  read at the old leader: its data are stale
//! ```
//!
//! With confirmation, clocks do not matter: the cut-off leader answers no read.

use std::{path::PathBuf, sync::Arc, time::Duration};

use history::{Rule, Violation};

use super::{cross_check::Verdict, injector::flows, trial::Trial};
use crate::process::{Outcome, cargo, root, run};

/// Millionths that the leader's clock loses.
const SLOWER: i64 = -800_000;
const CUT_OFF: Duration = Duration::from_secs(5);

/// Builds the broken program in a separate folder, so that no other verb uses it by
/// mistake.
pub fn build() -> Outcome<PathBuf> {
    let folder = root().join("target/broken-reads");
    let mut build = cargo(&["build", "--release", "--bin", "inkstone", "--target-dir"]);
    build.arg(&folder);
    run(build.env("RUSTFLAGS", "--cfg inkstone_broken_reads"))?;
    Ok(folder.join("release/inkstone"))
}

/// One round of the scene.
pub async fn slow_leader_cut_off(trial: &Arc<Trial>) -> Outcome {
    let Some(leader) = trial.leader().await else {
        return Ok(());
    };
    let (outward, inward) = flows(leader);
    trial.clocks[leader].set(SLOWER, 0)?;
    let _cut = trial.links.cut([outward, inward].concat(), false);
    tokio::time::sleep(CUT_OFF).await;
    trial.clocks[leader].set(0, 0)
}

/// Succeeds if both judges have found stale reads.
pub fn verdict(violations: &[Violation], other: Option<Verdict>) -> Outcome {
    let stale = violations
        .iter()
        .filter(|it| it.rule == Rule::Order)
        .count();
    match (stale, other) {
        (0, _) => Err("NOT CAUGHT: the checker found no stale read of the broken build".into()),
        (_, Some(Verdict::Impossible)) => {
            println!("verdict: caught by both judges, {stale} stale reads");
            Ok(())
        }
        (_, other) => Err(format!(
            "HALF CAUGHT: the checker found {stale} stale reads; porcupine said {other:?}"
        )
        .into()),
    }
}
