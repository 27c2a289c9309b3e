//! Takes and releases ports while a command runs, as other programs of a busy machine do.
//!
//! On a busy machine other programs get ports from the kernel, perhaps one that a test has
//! looked up and not bound yet. Two threads hold some hundred such ports at a
//! time, each for milliseconds, and the command is repeated until the time is over or it fails.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use environment::randomness::Random;

use crate::process::{Outcome, run as run_command};

const THREADS: usize = 2;
const PAUSE: Duration = Duration::from_millis(1);

#[derive(clap::Args)]
pub struct Options {
    /// Seconds for which the command is repeated; it runs once at least
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Ports that are held at a time
    #[arg(long, default_value_t = 400)]
    held: usize,
    /// What to run
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn run(options: &Options) -> Outcome {
    let neighbour = Neighbour {
        range: harness::ports::handed_out(),
        held_max: options.held.div_ceil(THREADS),
        ..Neighbour::default()
    };
    let mut random = Random::from_system()?;
    let outcome = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let random = random.split();
            scope.spawn(|| neighbour.take_and_give(random));
        }
        let outcome = repeat(options);
        neighbour.ended.store(true, Ordering::Relaxed);
        outcome
    });
    let taken = neighbour.taken.load(Ordering::Relaxed);
    println!("{taken} times a port was taken and released during the command");
    outcome
}

/// Repeats the command until its first failure.
fn repeat(options: &Options) -> Outcome {
    let began = Instant::now();
    let mut runs = 0;
    loop {
        let (program, arguments) = options.command.split_first().ok_or("no command")?;
        runs += 1;
        run_command(Command::new(program).args(arguments))
            .map_err(|error| format!("run {runs}: {error}"))?;
        if began.elapsed().as_secs() >= options.seconds {
            println!("{runs} runs succeeded");
            return Ok(());
        }
    }
}

#[derive(Default)]
struct Neighbour {
    /// The first and the last port that the kernel hands out.
    range: (u16, u16),
    /// Most ports that a thread holds.
    held_max: usize,
    taken: AtomicU64,
    ended: AtomicBool,
}

impl Neighbour {
    fn take_and_give(&self, mut random: Random) {
        let mut held: Vec<OwnedFd> = Vec::new();
        while !self.ended.load(Ordering::Relaxed) {
            if held.len() >= self.held_max.max(1) {
                held.swap_remove(random.below(held.len() as u64) as usize);
            }
            if let Some(port) = self.take(&mut random) {
                self.taken.fetch_add(1, Ordering::Relaxed);
                held.push(port);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes a port in one of the three ways of other programs: listens at a given or at any
    /// one, or connects. `None` if it was in use. Dropping the socket releases it.
    fn take(&self, random: &mut Random) -> Option<OwnedFd> {
        let (first, last) = self.range;
        let any = first + random.below(u64::from(last - first) + 1) as u16;
        let address = match random.below(4) {
            0 | 1 => ("127.0.0.1", 0),
            2 => ("0.0.0.0", any),
            _ => ("127.0.0.1", any),
        };
        let listener = TcpListener::bind(address).ok()?;
        match address.1 == 0 && random.chance(1, 2) {
            true => Some(TcpStream::connect(listener.local_addr().ok()?).ok()?.into()),
            false => Some(listener.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_ends_the_trial_with_its_number() {
        let options = |seconds, word: &str| Options {
            seconds,
            held: 4,
            command: vec![word.to_owned()],
        };
        run(&options(0, "true")).unwrap();
        let error = run(&options(60, "false")).unwrap_err();
        assert!(error.to_string().starts_with("run 1: "), "{error}");
    }
}
