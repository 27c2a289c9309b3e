//! Emptying segments: their survivors go to sorted segments, in the order of their keys.

use super::Plan;
use super::copy::{Copy, Portion};
use crate::moves::Moves;
use crate::parts::Parts;
use crate::trees::OF_VERSIONS;
use crate::{Error, directory};

/// Survivors collected under one pin, before they are copied.
const PORTION: Portion = Portion {
    entries_max: 256,
    bytes_max: u64::MAX,
};

/// Copies the survivors of the plan's victims to sorted segments and makes
/// them durable. `throttled`: at the pace of the options.
pub(crate) fn copy(parts: &Parts, plan: &Plan, throttled: bool) -> Result<Moves, Error> {
    let records = &parts.records;
    let checkpoint_bytes = directory::checkpoint_bytes(records.index.index_bytes());
    let relocation = records.log_view.log.relocate(checkpoint_bytes)?;
    let mut copy = Copy::new(parts, relocation, throttled);
    for tree in OF_VERSIONS {
        let mut start = None;
        loop {
            let victims = &plan.victims;
            let (survivors, next) = PORTION.of((parts, tree), start.as_deref(), victims);
            copy.copy_slice(tree, &survivors)?;
            if next.is_none() || records.lifecycle.is_cancelled() {
                break;
            }
            start = next;
        }
    }
    let emptied = &plan.victims - &copy.spoiled;
    copy.finish(emptied)
}
