//! Planning the repair of a directory: what is left of the state in front of the damage.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use engine::{RepairPlan, Replayed};
use environment::{Clock, Disk};

use crate::apply::AppliedState;
use crate::member::Members;
use crate::{Error, Options};

/// Plans a repair; writes nothing. `None`: the directory can be opened as it is. Besides
/// the plan the members of the cluster, as far as the log is left.
pub fn plan_repair(
    disk: &dyn Disk,
    directory: &Path,
    options: &Options,
    clock: &Arc<dyn Clock>,
) -> Result<Option<(RepairPlan, Arc<Members>)>, Error> {
    let applied = RefCell::new(AppliedState::new(Arc::clone(clock)));
    let mut begin = || *applied.borrow_mut() = AppliedState::new(Arc::clone(clock));
    let mut replay = |replayed: Replayed<'_>| applied.borrow_mut().replay(&replayed);
    let plan = RepairPlan::of(disk, directory, &options.engine, &mut begin, &mut replay)?;
    let members = Arc::clone(&applied.borrow().members);
    Ok(plan.map(|plan| (plan, members)))
}
