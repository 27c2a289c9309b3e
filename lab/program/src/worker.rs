//! One run, in a process of its own.
//!
//! ```text
//!   lab ── Job, one line of JSON ──► worker's stdin
//!       ◄── Line, one of JSON each ── worker's stdout: Progress ... Done
//! ```
//!
//! Each run has a fresh process, so processor time, memory and layout of addresses are its
//! own. The processes that a worker starts end with it.

mod child;
mod job;
mod measure;
mod run;
mod space;

#[cfg(test)]
pub(crate) use child::worker_script;
pub use child::{WorkerProgram, call};
pub use job::{Job, Line, unix_ms};

pub use crate::load::Stage;

use std::io::{BufRead, Write as _};
use std::process::ExitCode;

use crate::targets::Offer;

/// The worker's `main`: reads one job from standard input and runs it.
pub fn main(offers: &[Offer]) -> ExitCode {
    let mut line = String::new();
    if let Err(error) = std::io::stdin().lock().read_line(&mut line) {
        eprintln!("worker: cannot read the job: {error}");
        return ExitCode::FAILURE;
    }
    let job: Job = match serde_json::from_str(&line) {
        Ok(job) => job,
        Err(error) => {
            eprintln!(
                "worker: this is no job ({error}). The verb `worker` is for the lab itself; \
                 call `inkstone-lab run`"
            );
            return ExitCode::FAILURE;
        }
    };
    let run = run::run(&job, offers);
    match send(&Line::Done(Box::new(run))) {
        Ok(()) => ExitCode::SUCCESS,
        // The lab that started this worker has ended.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes a line to standard output.
fn send(line: &Line) -> std::io::Result<()> {
    let text = serde_json::to_string(line).map_err(std::io::Error::other)?;
    if cfg!(test) {
        // The test harness captures only the macro's output.
        println!("{text}");
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
