//! Compares revisions with real time.

use super::{Case, answered, completed::Witness, evidence};
use crate::{Request, Rule, Violation};

pub(super) fn check(case: &mut Case<'_>) {
    let mut violations = Vec::new();
    for (operation, answer) in answered(case.history) {
        if !is_ordered(&operation.request) {
            continue;
        }
        let Some((newest, witness)) = case.completed.before(operation.called) else {
            continue;
        };
        let least = newest + i64::from(operation.revision_taken().is_some());
        if answer.revision < least {
            let known = match witness {
                Witness::Operation(index) => evidence(&case.history.operations[index]),
                Witness::Watch(index) => {
                    let watch = &case.history.watches[index];
                    let at = watch.deliveries.iter();
                    let at =
                        at.filter(|it| it.changes.last().is_some_and(|c| c.modified() == newest));
                    let at = at.map(|it| it.at).min().unwrap_or(watch.called);
                    let what = format!("client {} watched revision {newest}", watch.client);
                    (at, at, what)
                }
            };
            violations.push(Violation {
                rule: Rule::Order,
                text: format!(
                    "revision {} is the answer to an operation that began after revision {newest} was \
                    known; it must be at least {least}",
                    answer.revision
                ),
                evidence: vec![known, evidence(operation)],
            });
        }
    }
    case.violations.extend(violations);
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
