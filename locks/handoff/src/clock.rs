//! The clock of turns, slices and patience, in microseconds.

/// Microseconds of a clock that never steps back. They wrap after 71 minutes:
/// compare them by their difference only.
#[cfg(target_os = "linux")]
pub(crate) fn micros() -> u32 {
    let now = crate::futex::monotonic();
    (now.tv_sec as u32)
        .wrapping_mul(1_000_000)
        .wrapping_add((now.tv_nsec / 1000) as u32)
}

/// Microseconds since the first call.
#[cfg(not(target_os = "linux"))]
#[expect(
    clippy::disallowed_methods,
    reason = "this crate stands alone: it has no other clock"
)]
pub(crate) fn micros() -> u32 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    start.elapsed().as_micros() as u32
}

/// Whether `moment` has come at `now`; the two are less than 35 minutes apart.
pub(crate) fn has_come(moment: u32, now: u32) -> bool {
    now.wrapping_sub(moment).cast_signed() >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_compare_across_the_wrap() {
        assert!(has_come(5, 5));
        assert!(has_come(u32::MAX - 3, 2));
        assert!(!has_come(2, u32::MAX - 3));
    }

    #[test]
    fn the_clock_does_not_step_back() {
        let before = micros();
        assert!(has_come(before, micros()));
    }
}
