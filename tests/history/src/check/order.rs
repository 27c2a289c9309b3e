//! Compares revisions with real time.

use super::{Case, answered};
use crate::{Request, Rule};

pub(super) fn check(case: &mut Case<'_>) {
    for (operation, answer) in answered(case.history) {
        if !is_ordered(&operation.request) {
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

/// Everything that goes through the leader and names the revision that it saw.
fn is_ordered(request: &Request) -> bool {
    !matches!(
        request,
        Request::Renew { .. }
            | Request::Get {
                serializable: true,
                ..
            }
    )
}
