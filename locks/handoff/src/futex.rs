//! Sleeping on a word, and waking the thread that sleeps there.
//!
//! A wake-up names only an address and never reads the word there: the sleeper may
//! have left and its stack frame may be gone. All callers of `wait` loop, because a stray
//! wake-up of a reused address must do no harm.

#[cfg(target_os = "linux")]
#[path = "futex/linux.rs"]
mod system;

// Compiled for tests on every system, so that it keeps compiling.
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", allow(dead_code))]
#[path = "futex/portable.rs"]
mod portable;

#[cfg(not(target_os = "linux"))]
use portable as system;

pub use system::Deadline;
#[cfg(target_os = "linux")]
pub(crate) use system::monotonic;
pub(crate) use system::{wait, wake_one};

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// The same tests for both implementations.
    macro_rules! tests_of {
        ($name:ident, $futex:path) => {
            mod $name {
                use super::*;
                use $futex as futex;

                #[test]
                fn a_changed_word_is_not_slept_on() {
                    let word = AtomicU32::new(1);
                    assert!(futex::wait(&word, 0, None));
                }

                #[test]
                fn a_deadline_ends_the_sleep() {
                    let word = AtomicU32::new(0);
                    let soon = futex::Deadline::after(Duration::from_millis(1));
                    while futex::wait(&word, 0, Some(&soon)) {}
                }

                #[test]
                fn a_sleeper_is_woken() {
                    let word = AtomicU32::new(0);
                    std::thread::scope(|scope| {
                        scope.spawn(|| {
                            while word.load(Ordering::Acquire) == 0 {
                                futex::wait(&word, 0, None);
                            }
                            word.store(2, Ordering::Release);
                            futex::wake_one(&raw const word);
                        });
                        word.store(1, Ordering::Release);
                        futex::wake_one(&raw const word);
                        while word.load(Ordering::Acquire) == 1 {
                            futex::wait(&word, 1, None);
                        }
                    });
                }
            }
        };
    }

    tests_of!(of_the_system, super::super::system);
    tests_of!(portable, super::super::portable);
}
