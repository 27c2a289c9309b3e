//! Serializable reads: never behind an earlier answer of the same life of a member.

use std::collections::HashMap;

use super::{Case, answered};
use crate::{Operation, Request, Rule};

pub(super) fn check(case: &mut Case<'_>) {
    let mut lives: HashMap<(u32, u32), Vec<(&Operation, i64)>> = HashMap::new();
    for (operation, answer) in answered(case.history) {
        let shows_a_revision = !matches!(operation.request, Request::Renew { .. });
        if let Some(life) = operation.life.filter(|_| shows_a_revision) {
            let all = lives.entry((operation.member, life)).or_default();
            all.push((operation, answer.revision));
        }
    }
    let mut faults = Vec::new();
    for mut ended in lives.into_values() {
        let mut called = ended.clone();
        called.sort_by_key(|(operation, _)| operation.called);
        ended.sort_by_key(|(operation, _)| operation.returned);
        let mut ended = ended.into_iter().peekable();
        let mut newest: Option<(&Operation, i64)> = None;
        for (read, revision) in called {
            while let Some(next) = ended.next_if(|(before, _)| before.returned < read.called) {
                if newest.is_none_or(|(_, revision)| revision < next.1) {
                    newest = Some(next);
                }
            }
            if let Some((before, seen)) = newest
                && read.request.is_serializable()
                && revision < seen
            {
                faults.push((before, seen, read, revision));
            }
        }
    }
    for (before, seen, read, revision) in faults {
        let text = format!("the member showed revision {seen}, and then {revision}");
        case.blame(Rule::Backwards, text, &[before, read]);
    }
}
