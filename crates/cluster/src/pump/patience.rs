//! How long a caller waits awake for others that want its core, and when not.
//!
//! Giving way to another caller takes a microsecond or two, and that one gets on with what
//! this one waits for. Somebody who computes keeps the core for milliseconds: then it is
//! better to sleep, since the kernel prefers whoever has slept. What comes back late
//! tells the two apart, and a thread that has met the second kind again and again
//! sleeps at once for longer and longer.
//!
//! RocksDB's write threads wait in much the same way (`enable_write_thread_adaptive_yield`).

use std::cell::Cell;
use std::thread::yield_now;
use std::time::Duration;

use environment::Clock;
use environment::real::RealClock;

/// So often a caller gives way before it sleeps.
pub(super) const WAYS_GIVEN_MAX: usize = 50;
/// A core that is away for longer has gone to somebody who keeps it: so long, and so much
/// more for each caller that is awake.
const AWAY_MAX: Duration = Duration::from_millis(2);
const AWAY_FOR_EACH_MAX: Duration = Duration::from_micros(10);
/// Commands for which a thread sleeps at once after that, the first time and at most.
const SLEEPS_MIN: u32 = 8;
const SLEEPS_MAX: u32 = 1024;

/// What a thread has met lately.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Luck {
    /// Commands for which it still sleeps at once.
    sleeps_left: u32,
    /// Those of the next time.
    sleeps_next: u32,
}

impl Luck {
    const NEW: Luck = Luck {
        sleeps_left: 0,
        sleeps_next: SLEEPS_MIN,
    };

    fn after(self, away: Duration, awake: usize) -> Luck {
        let awake = u32::try_from(awake).unwrap_or(u32::MAX);
        let next = self.sleeps_next;
        if away > AWAY_MAX.saturating_add(AWAY_FOR_EACH_MAX.saturating_mul(awake)) {
            Luck {
                sleeps_left: next,
                sleeps_next: (next * 2).min(SLEEPS_MAX),
            }
        } else {
            Luck {
                sleeps_next: (next - next / 8).max(SLEEPS_MIN),
                ..self
            }
        }
    }
}

thread_local! {
    static LUCK: Cell<Luck> = const { Cell::new(Luck::NEW) };
}

/// Lets others have the core, of whom so many wait `awake`; false when it went to somebody
/// who keeps it.
pub(super) fn give_way(awake: usize) -> bool {
    let began = RealClock.now();
    yield_now();
    let away = RealClock.now().saturating_since(began);
    let luck = LUCK.get().after(away, awake);
    LUCK.set(luck);
    luck.sleeps_left == 0
}

/// Whether the thread sleeps at once this time.
pub(super) fn is_lost() -> bool {
    let luck = LUCK.get();
    let sleeps_left = luck.sleeps_left.saturating_sub(1);
    LUCK.set(Luck {
        sleeps_left,
        ..luck
    });
    luck.sleeps_left > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(3);
    const LATE: Duration = Duration::from_millis(3);

    #[test]
    fn whoever_meets_others_that_keep_the_core_sleeps_longer_and_longer() {
        let once = Luck::NEW.after(LATE, 4);
        assert_eq!(once.sleeps_left, SLEEPS_MIN);
        let twice = once.after(LATE, 4);
        assert_eq!(twice.sleeps_left, 2 * SLEEPS_MIN);
        let often = (0..20).fold(twice, |luck, _| luck.after(LATE, 4));
        assert_eq!(often.sleeps_left, SLEEPS_MAX);
    }

    #[test]
    fn patience_comes_back_with_cores_that_come_back() {
        let lost = (0..20).fold(Luck::NEW, |luck, _| luck.after(LATE, 4));
        let found = (0..100).fold(lost, |luck, _| luck.after(SOON, 4));
        assert_eq!(found.sleeps_next, SLEEPS_MIN);
    }

    #[test]
    fn many_callers_may_keep_each_other_waiting() {
        assert_eq!(Luck::NEW.after(LATE, 256), Luck::NEW);
    }

    #[test]
    fn a_lost_patience_ends_with_the_commands_it_was_lost_for() {
        LUCK.set(Luck::NEW.after(LATE, 1));
        let slept = (0..100).filter(|_| is_lost()).count();
        assert_eq!(slept, SLEEPS_MIN as usize);
    }
}
