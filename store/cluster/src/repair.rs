//! Repairs directories with a log that is damaged in the part that a restart replays.
//!
//! ```text
//!   other voters, promises known ──► cut by the start itself: the member returns (LIFE: not whole)
//!   the only voter               ──► refused, until an operator cuts it (`inkstone repair`)
//!   promises unknown             ──► refused in a cluster: the member is removed and joins again
//! ```
//!
//! The entries that are cut off were acknowledged. In a cluster the other members have those
//! of them that were committed, and the member neither votes nor stands for election before
//! it has them back (decision 0009). Its terms and votes are never given up: the repair reads
//! them from behind the damage and writes them in front of the cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Commitment, RepairPlan};
use environment::{Clock, Disk};
use revisions::Members;

use crate::Error;
use crate::identity_files::LifeFile;

/// A plan for the repair of a directory.
#[derive(Debug)]
pub struct Repair {
    /// What is cut off and given up.
    pub plan: RepairPlan,
    members: Arc<Members>,
}

impl Repair {
    /// Plans the repair of a directory that no other process has open; `None` if it needs none.
    pub fn plan(
        disk: &dyn Disk,
        directory: &Path,
        options: &revisions::Options,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Repair>, Error> {
        let mut options = options.clone();
        options.engine.commitment = Commitment::Quorum;
        let planned = revisions::plan_repair(disk, directory, &options, clock)?;
        Ok(planned.map(|(plan, members)| Repair { plan, members }))
    }

    /// Whether there are other voters, which have the committed entries that this member gives
    /// up.
    pub fn has_others(&self) -> bool {
        self.members.voters().count() > 1
    }

    /// Whether the repair keeps the terms and votes that this member has promised to others.
    pub fn is_safe(&self) -> bool {
        self.plan.promises_known || !self.has_others()
    }

    /// Carries out the repair, and returns the files that hold what was given up. From then on
    /// the directory says that it may lack acknowledged entries.
    pub fn carry_out(&self, disk: &dyn Disk, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let life = LifeFile {
            cached: false,
            whole: false,
            boot: None,
        };
        life.keep(disk, directory)?;
        Ok(self.plan.carry_out(disk, directory)?)
    }
}

/// Cuts the log in front of its damage, if other members have what is behind it. Returns
/// false if they do not, or if `refused` is not about a damaged log.
pub(crate) fn with_others_help(
    refused: &revisions::Error,
    disk: &dyn Disk,
    directory: &Path,
    options: &revisions::Options,
    clock: &Arc<dyn Clock>,
) -> Result<bool, Error> {
    if !is_of_the_log(refused) {
        return Ok(false);
    }
    let planned = match Repair::plan(disk, directory, options, clock) {
        Ok(Some(repair)) => repair,
        Ok(None) => return Ok(false),
        Err(error) => {
            tracing::warn!(%error, "the log cannot be repaired with the help of other members");
            return Ok(false);
        }
    };
    if !planned.has_others() || !planned.plan.promises_known {
        return Ok(false);
    }
    let given_up = planned.plan.lost.len();
    tracing::error!(
        %refused,
        given_up,
        revision = planned.plan.revision,
        "the log is damaged: this member cuts it in front of the damage and gets the entries \
         behind that from the other members; until it has them, it does not vote"
    );
    for aside in planned.carry_out(disk, directory)? {
        tracing::warn!(file = %aside.display(), "this file keeps what was cut off");
    }
    Ok(true)
}

fn is_of_the_log(error: &revisions::Error) -> bool {
    let revisions::Error::Storage(error) = error else {
        return false;
    };
    matches!(
        **error,
        engine::Error::LogDamaged { .. } | engine::Error::LogCutShort { .. }
    )
}
