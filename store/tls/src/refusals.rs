//! Limit of the lines about refused connections, of which there may be thousands a second.
//!
//! ```text
//!   refused ──► first of its kind in 10 s ───────────► one line at once
//!           └─► more of that kind ──► counted ─ 10 s ─► one line for all of them
//! ```
//!
//! A kind is an address with a remedy: what an operator has to look at.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use environment::Instant;

use crate::remedy::Remedy;

/// Time for which further refusals of a kind are counted and not logged.
const PERIOD: Duration = Duration::from_secs(10);
/// Kinds that have a line of their own within a period.
const KINDS_MAX: usize = 20;

/// Where a refused connection came from, and what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RefusalKind {
    /// `None` at a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) remedy: Remedy,
}

/// Outcome of noting a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It is logged now.
    Line,
    /// It is counted; the caller must call [`Refusals::due`] after this time.
    Later(Duration),
    /// It is counted, and an earlier caller logs the count.
    Counted,
}

/// Refusals of a kind that are logged as one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// `None` for refusals of several kinds.
    pub(crate) kind: Option<RefusalKind>,
    /// The reason of the last one.
    pub(crate) reason: String,
    pub(crate) connections: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    kinds: HashMap<RefusalKind, Repeats>,
    /// Those beyond [`KINDS_MAX`] kinds.
    others: Repeats,
}

/// Refusals since the last line about them.
#[derive(Debug, Default)]
struct Repeats {
    /// When the last line was logged, or counting began.
    since: Instant,
    unlogged: u64,
    reason: String,
}

impl Repeats {
    fn count(&mut self, now: Instant, reason: &str) -> Noted {
        self.unlogged += 1;
        reason.clone_into(&mut self.reason);
        match self.unlogged {
            1 => Noted::Later(PERIOD.saturating_sub(now.saturating_since(self.since))),
            _ => Noted::Counted,
        }
    }

    /// The refusals to be logged at `now`.
    fn due(&mut self, now: Instant, kind: Option<RefusalKind>) -> Option<Summary> {
        if self.unlogged == 0 || now.saturating_since(self.since) < PERIOD {
            return None;
        }
        self.since = now;
        Some(Summary {
            kind,
            reason: std::mem::take(&mut self.reason),
            connections: std::mem::take(&mut self.unlogged),
        })
    }
}

impl Refusals {
    /// Decides whether a refusal is logged now.
    pub(crate) fn note(&mut self, now: Instant, kind: RefusalKind, reason: &str) -> Noted {
        let is_quiet = |it: &Repeats| it.unlogged == 0 && now.saturating_since(it.since) >= PERIOD;
        self.kinds.retain(|_, repeats| !is_quiet(repeats));
        if let Some(repeats) = self.kinds.get_mut(&kind) {
            return repeats.count(now, reason);
        }
        if self.kinds.len() >= KINDS_MAX {
            if self.others.unlogged == 0 {
                self.others.since = now;
            }
            return self.others.count(now, reason);
        }
        let first = Repeats {
            since: now,
            ..Repeats::default()
        };
        self.kinds.insert(kind, first);
        Noted::Line
    }

    /// The counted refusals after their period.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Summary> {
        let kinds = self.kinds.iter_mut();
        let mut due: Vec<Summary> = kinds
            .filter_map(|(kind, repeats)| repeats.due(now, Some(*kind)))
            .collect();
        due.extend(self.others.due(now, None));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(last: u8, remedy: Remedy) -> RefusalKind {
        RefusalKind {
            address: Some(IpAddr::from([10, 0, 0, last])),
            remedy,
        }
    }

    #[test]
    fn a_crowd_is_one_line_at_once_and_one_with_its_number() {
        let mut refusals = Refusals::default();
        let (start, crowd) = (Instant::default(), kind(1, Remedy::Crowd));
        assert_eq!(refusals.note(start, crowd, "a"), Noted::Line);
        let later = start + PERIOD / 2;
        assert_eq!(
            refusals.note(later, crowd, "b"),
            Noted::Later(PERIOD - PERIOD / 2)
        );
        for _ in 0..9_998 {
            assert_eq!(refusals.note(later, crowd, "c"), Noted::Counted);
        }
        assert_eq!(refusals.due(later), []);
        let summary = Summary {
            kind: Some(crowd),
            reason: "c".to_owned(),
            connections: 9_999,
        };
        assert_eq!(refusals.due(start + PERIOD), [summary]);
        assert_eq!(refusals.due(start + PERIOD * 2), []);
    }

    #[test]
    fn a_crowd_that_goes_on_is_one_line_in_each_period() {
        let mut refusals = Refusals::default();
        let crowd = kind(1, Remedy::Late);
        let (mut now, mut lines, mut look_at) = (Instant::default(), 0, None);
        for _ in 0..100 {
            match refusals.note(now, crowd, "late") {
                Noted::Line => lines += 1,
                Noted::Later(wait) => look_at = Some(now + wait),
                Noted::Counted => {}
            }
            now = now + PERIOD / 10;
            if look_at.is_some_and(|at| now >= at) {
                (lines, look_at) = (lines + refusals.due(now).len(), None);
            }
        }
        assert_eq!(lines, 11);
    }

    #[test]
    fn other_addresses_and_other_remedies_have_lines_of_their_own() {
        let mut refusals = Refusals::default();
        let now = Instant::default();
        for kind in [
            kind(1, Remedy::Late),
            kind(2, Remedy::Late),
            kind(1, Remedy::Renew),
        ] {
            assert_eq!(refusals.note(now, kind, "r"), Noted::Line);
        }
    }

    #[test]
    fn ever_different_addresses_share_one_line() {
        let mut refusals = Refusals::default();
        let now = Instant::default();
        let noted: Vec<Noted> = (0..=255)
            .map(|last| refusals.note(now, kind(last, Remedy::Late), "late"))
            .collect();
        let lines = noted.iter().filter(|noted| **noted == Noted::Line).count();
        assert_eq!(lines, KINDS_MAX);
        let summaries = refusals.due(now + PERIOD);
        let [summary] = &summaries[..] else {
            panic!("{summaries:?}")
        };
        assert_eq!(summary.kind, None);
        assert_eq!(summary.connections, 256 - KINDS_MAX as u64);
        // The next one is a line at once again.
        let next = refusals.note(now + PERIOD, kind(9, Remedy::Late), "late");
        assert_eq!(next, Noted::Line);
    }
}
