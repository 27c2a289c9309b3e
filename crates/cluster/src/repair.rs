//! Directories whose log is damaged in the part that a restart replays.
//!
//! ```text
//!   other voters, promises known ──► cut by the start itself: the member returns (LIFE: not whole)
//!   alone                        ──► refused, until a person has it cut (`inkstone repair`)
//!   promises unknown             ──► refused in a cluster: the member is removed and joins again
//! ```
//!
//! What is cut off was acknowledged. In a cluster the others have what counts of it, and
//! the member neither votes nor stands before it has that back (decision 0009). Its terms
//! and votes are never among what is given up: they are read from behind the damage and
//! written in front of the cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Commitment, RepairPlan};
use environment::{Clock, Disk};
use revisions::Members;

use crate::Error;
use crate::life_file::LifeFile;

/// What a repair of a directory would do.
#[derive(Debug)]
pub struct Repair {
    /// What is cut and given up.
    pub plan: RepairPlan,
    members: Arc<Members>,
}

impl Repair {
    /// Plans the repair of a directory that nothing else has open. `None`: it needs none.
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

    /// Whether members vote that have what this one gives up.
    pub fn has_others(&self) -> bool {
        self.members.voters().count() > 1
    }

    /// Whether the repair keeps all that was promised to other members.
    pub fn is_safe(&self) -> bool {
        self.plan.promises_known || !self.has_others()
    }

    /// Carries it out; returns the files that hold what was given up. From then on the
    /// directory says that it may lack what was acknowledged.
    pub fn carry_out(&self, disk: &dyn Disk, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let life = LifeFile {
            cached: false,
            whole: false,
            boot: None,
        };
        life.keep(disk, directory)
            .map_err(|error| Error::Storage(format!("{}: {error}", directory.display())))?;
        Ok(self.plan.carry_out(disk, directory)?)
    }
}

/// Cuts the log in front of its damage where the other members have what is behind.
/// False: they have not, or that is not what `refused` is about.
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
            tracing::warn!(%error, "no repair with the help of other members");
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
        "the log is damaged: it is cut in front of that, and what is behind comes from the \
         other members; until then this member does not vote"
    );
    for aside in planned.carry_out(disk, directory)? {
        tracing::warn!(file = %aside.display(), "what was cut off is kept in this file");
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
