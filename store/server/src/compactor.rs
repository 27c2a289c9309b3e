//! Automatic compaction: drops history by its age or its length.
//!
//! *Periodic* keeps the history of a period. It notes the revision ten
//! times per period (per hour, for longer periods) and compacts to the oldest
//! note once the notes reach back far enough. *Revision* keeps a number of
//! revisions and checks every five minutes. Both behave as in etcd.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb::CompactionRequest;
use revisions::Command;
use tracing::{info, warn};

use crate::backend::{Backend, stopped};
use crate::config::AutoCompaction;

const HOUR: Duration = Duration::from_secs(3600);
/// Notes taken per period.
const NOTES_PER_PERIOD: u32 = 10;
/// Interval of the checks in mode *revision*.
const REVISION_INTERVAL: Duration = Duration::from_secs(300);

/// Compacts until the server stops.
pub(crate) async fn run(backend: Arc<Backend>, kept: AutoCompaction) {
    let mut rule = Rule::of(kept);
    let mut stopping = backend.stopping.clone();
    loop {
        rule.note(backend.reader().revision());
        tokio::select! {
            () = stopped(&mut stopping) => return,
            () = tokio::time::sleep(rule.pause()) => {}
        }
        // Only the leader compacts, for all members, as in etcd.
        if backend.leads()
            && let Some(revision) = rule.due(backend.reader().revision())
            && compact(&backend, revision).await
        {
            rule.done(revision);
        }
    }
}

async fn compact(backend: &Backend, revision: i64) -> bool {
    info!(revision, "starting auto compaction");
    let request = CompactionRequest {
        revision,
        physical: false,
    };
    let command = backend
        .reader()
        .users()
        .own_command(Command::Compact(request));
    match backend.node.execute(command).await {
        Ok(_)
        | Err(cluster::Error::Refused(revisions::Error::Etcd(etcd_api::Error::Compacted))) => {
            info!(revision, "completed auto compaction");
            true
        }
        Err(error) => {
            warn!(revision, %error, "failed auto compaction");
            false
        }
    }
}

/// Decides when to compact to which revision. It has no clock: the caller notes a revision
/// once per [`Rule::pause`].
#[derive(Debug)]
struct Rule {
    kept: AutoCompaction,
    compacted: i64,
    /// With a period: revisions, a pause apart, the oldest one first.
    notes: VecDeque<i64>,
    /// Pauses since the last compaction, or since the start.
    pauses: u32,
    /// Pauses until the next compaction.
    pauses_due: u32,
}

impl Rule {
    fn of(kept: AutoCompaction) -> Rule {
        Rule {
            kept,
            compacted: 0,
            notes: VecDeque::new(),
            pauses: 0,
            pauses_due: match kept {
                AutoCompaction::Periodic(period) => pauses(period, period),
                AutoCompaction::Revision(_) => 0,
            },
        }
    }

    fn pause(&self) -> Duration {
        match self.kept {
            AutoCompaction::Periodic(period) => pause(period),
            AutoCompaction::Revision(_) => REVISION_INTERVAL,
        }
    }

    fn note(&mut self, revision: i64) {
        if let AutoCompaction::Periodic(period) = self.kept {
            self.notes.push_back(revision);
            if self.notes.len() as u64 > u64::from(pauses(period, period)) + 1 {
                self.notes.pop_front();
            }
        }
    }

    /// To be called after a pause: the revision to compact to; `None` if it is not time yet.
    fn due(&mut self, newest: i64) -> Option<i64> {
        self.pauses += 1;
        let (revision, is_time) = match self.kept {
            AutoCompaction::Revision(kept) => (newest - kept, newest > kept),
            AutoCompaction::Periodic(_) => {
                let oldest = self.notes.front();
                let oldest = oldest.expect("a note was taken before the pause");
                (*oldest, self.pauses >= self.pauses_due)
            }
        };
        (is_time && revision != self.compacted).then_some(revision)
    }

    fn done(&mut self, revision: i64) {
        (self.compacted, self.pauses) = (revision, 0);
        if let AutoCompaction::Periodic(period) = self.kept {
            // Only the first one waits for a whole period longer than an hour.
            self.pauses_due = pauses(period, HOUR.min(period));
        }
    }
}

fn pause(period: Duration) -> Duration {
    period.min(HOUR).div_f64(f64::from(NOTES_PER_PERIOD))
}

/// Pauses of a rule with this period that fit into `length`.
fn pauses(period: Duration, length: Duration) -> u32 {
    (length.as_secs_f64() / pause(period).as_secs_f64()).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Revisions compacted to when one write happens per pause.
    fn compacted(kept: AutoCompaction, pauses: i64) -> Vec<(i64, i64)> {
        let mut rule = Rule::of(kept);
        let mut compacted = Vec::new();
        for pause in 1..=pauses {
            rule.note(pause);
            if let Some(revision) = rule.due(pause + 1) {
                rule.done(revision);
                compacted.push((pause, revision));
            }
        }
        compacted
    }

    #[test]
    fn a_short_period_is_kept_and_compacted_each_time_it_has_passed() {
        let kept = AutoCompaction::Periodic(Duration::from_secs(300));
        assert_eq!(compacted(kept, 35), [(10, 1), (20, 10), (30, 20)]);
        assert_eq!(Rule::of(kept).pause(), Duration::from_secs(30));
    }

    #[test]
    fn a_long_period_is_compacted_hourly_once_it_has_passed() {
        let kept = AutoCompaction::Periodic(2 * HOUR);
        assert_eq!(compacted(kept, 45), [(20, 1), (30, 10), (40, 20)]);
        assert_eq!(Rule::of(kept).pause(), Duration::from_secs(360));
    }

    #[test]
    fn nothing_new_is_nothing_to_compact() {
        let mut rule = Rule::of(AutoCompaction::Periodic(HOUR));
        for _ in 0..10 {
            rule.note(7);
            if let Some(revision) = rule.due(7) {
                rule.done(revision);
            }
        }
        for _ in 0..30 {
            rule.note(7);
            assert_eq!(rule.due(7), None);
        }
    }

    #[test]
    fn a_number_of_revisions_is_kept() {
        assert_eq!(compacted(AutoCompaction::Revision(3), 4), [(3, 1), (4, 2)]);
    }
}
