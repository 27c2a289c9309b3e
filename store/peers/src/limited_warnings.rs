//! Rate limit for warnings that an outsider can cause as often as it likes.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use environment::Instant;

use crate::lock::lock;

/// Pause before the same line is written again.
const SAME_LINE_PAUSE: Duration = Duration::from_secs(60);
/// Different lines that are written within [`SAME_LINE_PAUSE`].
const LINES_MAX: usize = 20;

/// Writes the same warning at most once a minute, and at most twenty different ones in that
/// time. The next line that is written has the number of lines that were left out before it.
#[derive(Debug, Default)]
pub struct LimitedWarnings {
    state: Mutex<LimiterState>,
}

#[derive(Debug, Default)]
struct LimiterState {
    /// When each line of the last minute was written.
    written: HashMap<String, Instant>,
    left_out: u64,
}

impl LimitedWarnings {
    /// Writes `line` as a warning, or at level debug if the limit is reached.
    pub fn warn(&self, now: Instant, line: String) {
        match self.permit(now, line.clone()) {
            None => tracing::debug!("{line}"),
            Some(0) => tracing::warn!("{line}"),
            Some(left_out) => tracing::warn!(left_out, "{line}"),
        }
    }

    /// Returns the number of lines that were left out before this one, or `None` if this one
    /// is left out too.
    fn permit(&self, now: Instant, line: String) -> Option<u64> {
        let mut state = lock(&self.state);
        let is_recent = |at: &Instant| now.saturating_since(*at) < SAME_LINE_PAUSE;
        state.written.retain(|_, at| is_recent(at));
        if state.written.len() >= LINES_MAX || state.written.contains_key(&line) {
            state.left_out += 1;
            return None;
        }
        state.written.insert(line, now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_is_written_once_a_minute() {
        let seldom = LimitedWarnings::default();
        let start = Instant::default();
        assert_eq!(seldom.permit(start, "a".into()), Some(0));
        assert_eq!(seldom.permit(start, "a".into()), None);
        assert_eq!(seldom.permit(start, "b".into()), Some(1));
        let later = start + SAME_LINE_PAUSE;
        assert_eq!(seldom.permit(later, "a".into()), Some(0));
    }

    #[test]
    fn ever_different_lines_are_bounded() {
        let seldom = LimitedWarnings::default();
        let start = Instant::default();
        let permitted = |number: usize| seldom.permit(start, number.to_string()).is_some();
        assert_eq!((0..1000).filter(|&number| permitted(number)).count(), 20);
        let later = start + SAME_LINE_PAUSE;
        assert_eq!(seldom.permit(later, "x".into()), Some(980));
    }
}
