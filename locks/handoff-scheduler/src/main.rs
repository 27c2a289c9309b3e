//! `handoff-scheduler`: loads the monitor (`handoff run --monitor`) and the scheduler
//! (`--sched fifo|hint`) into the kernel, and keeps them there while the program runs.
//!
//! ```text
//!   handoff run                               handoff-scheduler
//!      │ starts ────────────────────────────────► loads, attaches
//!      │ ◄──────────── ready /proc/PROCESS/fd/NUMBER ── the hint page
//!      │ runs the program                         waits
//!      │ closes its standard input ─────────────► detaches
//!      │ ◄──────────── ended, with the counts ───────
//! ```
//!
//! That input is closed whenever `handoff run` ends, also by a signal, and the kernel detaches
//! everything when this process ends. So nothing stays loaded.

mod counts;
mod load;
mod monitor;
mod options;
mod output;
mod page;
mod refusal;
mod scheduler;

use std::io::Read;
use std::process::ExitCode;

use counts::Counts;
use options::Options;
use output::print_line;
use page::KernelPage;
use refusal::Refusal;

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)).and_then(|options| serve(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            refusal.report();
            ExitCode::FAILURE
        }
    }
}

/// Loads what the options ask for and keeps it loaded until standard input ends.
fn serve(options: &Options) -> Result<(), Refusal> {
    refusal::keep_warnings();
    load::check_kernel()?;
    if options.scheduler.is_some() {
        scheduler::check_kernel()?;
    }
    let page = KernelPage::create()?;
    let monitor = options.monitor.then(|| monitor::load(&page)).transpose()?;
    let scheduler = options.scheduler.map(|rule| scheduler::load(rule, &page));
    let scheduler = scheduler.transpose()?;
    print_line(&format!("ready {}", page.path()));
    wait_for_the_end();
    let mut counts = Counts::default();
    if let Some(monitor) = &monitor {
        counts.add(monitor)?;
    }
    if let Some(scheduler) = scheduler {
        counts.add(scheduler.loaded())?;
        scheduler.unload()?;
    }
    print_line(&format!("ended {counts}"));
    Ok(())
}

fn wait_for_the_end() {
    let mut bytes = [0; 64];
    // An input that cannot be read counts as ended.
    while matches!(std::io::stdin().read(&mut bytes), Ok(1..)) {}
}
