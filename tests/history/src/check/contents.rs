//! Compares answers with the model.

use super::{Case, answered, same};
use crate::{Answer, Operation, Request, Rule, Version};

pub(super) fn check(case: &mut Case<'_>) {
    let history = case.history;
    for (operation, answer) in answered(history) {
        // The header of a renewal need not name a revision that has happened.
        if matches!(operation.request, Request::Renew { .. }) {
            continue;
        }
        let (base, newest) = (case.ledger.base(), case.ledger.newest());
        if !(base..=newest).contains(&answer.revision) {
            // A write that is nowhere is lost, which `origins` reports.
            if operation.revision_taken().is_none() {
                let text = format!("there are the revisions {base} to {newest}");
                case.blame(Rule::Future, text, &[operation]);
            }
        } else if let Err(expected) = judge(case, operation, answer) {
            case.blame(Rule::Contents, expected, &[operation]);
        }
    }
}

/// An error says what the answer should have been.
fn judge(case: &Case<'_>, operation: &Operation, answer: &Answer) -> Result<(), String> {
    let revision = answer.revision;
    match &operation.request {
        Request::Get {
            key,
            end,
            revision: asked,
            ..
        } => {
            let at = if *asked > 0 { *asked } else { revision };
            expect(answer, &case.ledger.range(key, end, at), at)
        }
        Request::Put { key, previous, .. } => {
            let before = case.ledger.range(key, "", revision - 1);
            let before = if *previous { before } else { Vec::new() };
            expect(answer, &before, revision - 1)
        }
        Request::Delete { key } => {
            let at = revision - i64::from(answer.succeeded);
            let before = case.ledger.range(key, "", at);
            if before.is_empty() == answer.succeeded {
                return Err(format!("at revision {at} there was {before:?}"));
            }
            expect(answer, &before, at)
        }
        Request::Swap { key, expected, .. } => {
            let at = revision - i64::from(answer.succeeded);
            let found = case.ledger.at(key, at);
            let modified = found.map_or(0, |version| version.modified);
            if (modified == *expected) != answer.succeeded {
                return Err(format!(
                    "at revision {at} the key was last modified at {modified}"
                ));
            }
            let seen: Vec<&Version> = found.into_iter().filter(|_| !answer.succeeded).collect();
            expect(answer, &seen, at)
        }
        Request::Batch { .. }
        | Request::Compact { .. }
        | Request::Grant { .. }
        | Request::Revoke { .. }
        | Request::Renew { .. } => Ok(()),
    }
}

fn expect(answer: &Answer, expected: &[&Version], at: i64) -> Result<(), String> {
    if same(&answer.versions, expected) {
        return Ok(());
    }
    Err(format!("at revision {at} the ledger has {expected:?}"))
}
