//! Clocks of single members: faster, slower, or with another time of day.
//!
//! ```text
//!   page (a file, mapped by the member)
//!     readings   u64   how often the member read a clock
//!     stretches  u64   how many there are
//!     stretch    from, ahead, rate, wall: i64 each; nanoseconds, but the rate:
//!                      millionths
//! ```
//!
//! The monotonic clock never jumps: each stretch begins at the value at which the previous
//! one ends. It begins a moment after it was written, so that no
//! thread of the member has read a time after its beginning.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use rustix::time::{ClockId, clock_gettime};

use crate::process::{Outcome, capture};

const SOURCE: &str = include_str!("clock_shim.c");
const STRETCHES_MAX: usize = 4096;
const STRETCH_BYTES: usize = 32;
const HEAD_BYTES: usize = 16;
const MILLION: i128 = 1_000_000;
/// Between a stretch's writing and its beginning.
const NOTICE_NANOSECONDS: i64 = 20_000_000;

/// The most that a member's clock runs faster, in percent.
pub const FASTER_PERCENT_MAX: u64 = 25;

/// The library that replaces the clock calls of a member.
#[derive(Clone, Debug)]
pub struct Shim {
    pub library: PathBuf,
}

/// One member's clock.
#[derive(Debug)]
pub struct SkewedClock {
    pub path: PathBuf,
    page: File,
    stretches: Mutex<Vec<Stretch>>,
}

/// From, ahead, rate and wall, as in the page.
#[derive(Clone, Copy, Debug)]
struct Stretch([i64; 4]);

impl Shim {
    /// Compiles the library.
    pub fn build(folder: &Path) -> Outcome<Shim> {
        let (source, library) = (folder.join("clock_shim.c"), folder.join("clock_shim.so"));
        std::fs::write(&source, SOURCE)?;
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl");
        capture(&mut compiler)?;
        Ok(Shim { library })
    }
}

impl SkewedClock {
    /// A clock that runs like that of the machine.
    pub fn new(path: PathBuf) -> Outcome<SkewedClock> {
        let page = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        page.set_len((HEAD_BYTES + STRETCHES_MAX * STRETCH_BYTES) as u64)?;
        Ok(SkewedClock {
            path,
            page,
            stretches: Mutex::new(Vec::new()),
        })
    }

    /// Makes the clock run faster by `rate` millionths from now on, with the wall clock
    /// `wall` nanoseconds ahead in addition.
    pub fn set(&self, rate: i64, wall: i64) -> Outcome {
        let mut stretches = self.stretches.lock().expect("no holder panics");
        let now = clock_gettime(ClockId::Monotonic);
        let from = now.tv_sec * 1_000_000_000 + now.tv_nsec + NOTICE_NANOSECONDS;
        let ahead = stretches.last().map_or(0, |last| last.ahead_at(from));
        let index = stretches.len();
        if index == STRETCHES_MAX {
            return Err("the page of a member's clock is full".into());
        }
        let stretch = Stretch([from, ahead, rate, wall]);
        let place = HEAD_BYTES + index * STRETCH_BYTES;
        let bytes: Vec<u8> = stretch.0.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.page.write_all_at(&bytes, place as u64)?;
        self.page
            .write_all_at(&(index as u64 + 1).to_le_bytes(), 8)?;
        stretches.push(stretch);
        Ok(())
    }

    /// Number of readings by all processes of the member.
    pub fn readings(&self) -> Outcome<u64> {
        let mut bytes = [0; 8];
        self.page.read_exact_at(&mut bytes, 0)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl Stretch {
    fn ahead_at(&self, moment: i64) -> i64 {
        let [from, ahead, rate, _] = self.0;
        let since = i128::from(moment - from);
        ahead + (since * i128::from(rate) / MILLION) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that `date` and a condition variable see under the library.
    #[test]
    fn a_process_with_the_library_sees_the_skewed_clock() {
        let folder = tempfile::tempdir().unwrap();
        let Ok(shim) = Shim::build(folder.path()) else {
            eprintln!("SKIPPED: no C compiler");
            return;
        };
        let clock = SkewedClock::new(folder.path().join("clock")).unwrap();
        clock.set(0, 86_400_000_000_000).unwrap();
        std::thread::sleep(std::time::Duration::from_nanos(
            2 * NOTICE_NANOSECONDS as u64,
        ));
        let mut date = Command::new("date");
        date.arg("+%s")
            .env("LD_PRELOAD", &shim.library)
            .env("FAULTS_CLOCK", &clock.path);
        let seen: i64 = capture(&mut date).unwrap().trim().parse().unwrap();
        let now = clock_gettime(ClockId::Realtime).tv_sec;
        assert!((86_300..86_500).contains(&(seen - now)), "{seen} at {now}");
        assert!(clock.readings().unwrap() > 0);
    }

    #[test]
    fn a_new_stretch_begins_at_the_end_of_the_last_one() {
        let first = Stretch([1_000_000, 5, 250_000, 0]);
        assert_eq!(first.ahead_at(1_000_000), 5);
        assert_eq!(first.ahead_at(5_000_000), 1_000_005);
    }
}
