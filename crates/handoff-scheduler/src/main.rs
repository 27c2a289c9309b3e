//! `handoff-scheduler`: what `handoff run --monitor` and `--sched fifo|hint` load into
//! the kernel, for as long as the program runs.
//!
//! ```text
//!   handoff run                               handoff-scheduler
//!      │ starts ────────────────────────────────► loads, attaches
//!      │ ◄──────────── ready /proc/PROCESS/fd/NUMBER ── the hint page
//!      │ runs the program                         waits
//!      │ closes our standard input ─────────────► detaches
//!      │ ◄──────────── what holders met ───────────
//! ```
//!
//! Whatever ends `handoff run` closes that input, and whatever ends this process
//! makes the kernel detach all that was attached. So nothing stays behind.

mod counts;
mod load;
mod monitor;
mod options;
mod page;
mod refusal;
mod scheduler;

use std::io::{Read, Write};
use std::process::ExitCode;

use counts::Counts;
use options::Options;
use page::KernelPage;
use refusal::Refusal;

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)).and_then(|options| serve(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            refusal.tell();
            ExitCode::FAILURE
        }
    }
}

/// Loads what was asked for and keeps it loaded until standard input ends.
fn serve(options: &Options) -> Result<(), Refusal> {
    refusal::listen();
    load::check_kernel()?;
    if options.scheduler.is_some() {
        scheduler::check_kernel()?;
    }
    let page = KernelPage::create()?;
    let monitor = options.monitor.then(|| monitor::load(&page)).transpose()?;
    let scheduler = options.scheduler.map(|rule| scheduler::load(rule, &page));
    let scheduler = scheduler.transpose()?;
    say(&format!("ready {}", page.path()));
    wait_for_the_end();
    let mut counts = Counts::default();
    if let Some(monitor) = &monitor {
        counts.add(monitor)?;
    }
    if let Some(scheduler) = scheduler {
        counts.add(scheduler.loaded())?;
        scheduler.unload()?;
    }
    say(&format!("ended {counts}"));
    Ok(())
}

/// Whoever has started us may have ended.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn wait_for_the_end() {
    let mut bytes = [0; 64];
    // An input that cannot be read has ended too.
    while matches!(std::io::stdin().read(&mut bytes), Ok(1..)) {}
}
