//! Waiting for something that another process does.

use std::time::{Duration, Instant};

use crate::Outcome;

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Calls `look` until it returns a value. Fails with `what` after `limit`, and with the
/// error of `look`.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Outcome<Option<T>>,
) -> Outcome<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begun.elapsed() > limit {
            return Err(format!("not after {} s: {what}", limit.as_secs()).into());
        }
        std::thread::sleep(LOOK);
    }
}
