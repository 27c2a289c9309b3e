//! Compares revisions with real time.

use super::{Case, answered};
use crate::{Request, Rule};

pub(super) fn check(case: &mut Case<'_>) {
    for (operation, answer) in answered(case.history) {
        // Everything else goes through the leader and names the revision that it saw.
        let request = &operation.request;
        if request.is_serializable() || matches!(request, Request::Renew { .. }) {
            continue;
        }
        let Some(known) = case.completed.before(operation.called) else {
            continue;
        };
        let newest = known.revision;
        let least = newest + i64::from(operation.revision_taken().is_some());
        if answer.revision < least {
            let text = format!(
                "revision {} is the answer to an operation that began after revision {newest} was \
                 known; it must be at least {least}",
                answer.revision
            );
            case.blame_known(Rule::Order, text, &[operation], Some(known));
        }
    }
}
