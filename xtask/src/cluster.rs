//! A local cluster to try things on: started, explained, watched, stopped.
//!
//! ```text
//!   build ──► layout ──► members ──► ready ──► the page ──► lines typed, members that end
//!             (kept)      a b c                              └─ Ctrl-C: all stop, gracefully
//! ```
//!
//! Data, logs and the choice of ports stay below one directory, so that the next
//! call continues with the same cluster.

mod layout;
mod page;

use std::{io::BufRead, path::PathBuf, time::Duration};

use environment::threads;
use harness::{Member, Program, Signal};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Interval, MissedTickBehavior, interval, timeout},
};

use crate::process::{Outcome, inkstone_binary, root};
use layout::Layout;

/// Time limit for a member to find a leader, or to stop, in seconds.
const PATIENCE_SECONDS: u64 = 60;
/// Pause between two checks for processes that have ended.
const LOOK: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct Options {
    /// Number of members: 1, 3 or 5 [default: 3, or that of the existing data]
    #[arg(long, value_parser = odd)]
    members: Option<usize>,
    /// Client port of the first member; the next one is its peer port, the two after that
    /// belong to the second member, and so on [default: the first of 2379, 12379,
    /// 22379, ... with enough free ports, or that of the existing data]
    #[arg(long, value_name = "PORT")]
    base_port: Option<u16>,
    /// Directory for data and logs [default: target/cluster]
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// Remove an earlier cluster there
    #[arg(long)]
    fresh: bool,
    /// The server to run [default: ours, built now]
    #[arg(long, value_name = "BINARY")]
    server: Option<PathBuf>,
    /// Flags for each server, after `--`
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

fn odd(text: &str) -> Result<usize, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err("a cluster has 1, 3 or 5 members".to_owned()),
    }
}

pub fn run(options: &Options) -> Outcome {
    let binary = inkstone_binary(options.server.as_deref())?;
    let default = || root().join("target/cluster");
    let directory = options.data_dir.clone().unwrap_or_else(default);
    if options.fresh {
        layout::remove(&directory)?;
    }
    let layout = Layout::choose(&directory, options.members, options.base_port)?;
    let program = Program::new(binary).with(&["--initial-cluster-token=xtask-cluster"]);
    let mut program = program.with(&options.flags);
    // Ctrl-C then reaches only this process, which stops the members.
    program.own_process_group = true;
    let mut members = layout.prepare(&program);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(&mut members, &layout))
}

async fn serve(members: &mut [Member], layout: &Layout) -> Outcome {
    let mut end = signal(SignalKind::terminate())?;
    for member in members.iter_mut() {
        member.start()?;
    }
    let ended = tokio::select! {
        outcome = attend(members, layout) => outcome,
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = end.recv() => Ok(()),
    };
    println!("\nstopping");
    stop_all(members).await?;
    println!(
        "stopped; the data stays in {}",
        page::short(&layout.directory)
    );
    ended
}

/// Handles typed lines and members that end, until the user types `quit`. The caller
/// cancels it on an interruption.
async fn attend(members: &mut [Member], layout: &Layout) -> Outcome {
    wait_until_ready(members).await?;
    println!("{}", page::page(members, layout).await);
    let mut lines = typed_lines()?;
    let mut looks = looks();
    let mut reads = true;
    loop {
        tokio::select! {
            line = lines.recv(), if reads => match line.as_deref().map(str::trim) {
                Some("quit") => return Ok(()),
                Some(line) => obey(members, line).await?,
                // The standard input is closed.
                None => reads = false,
            },
            _ = looks.tick() => {
                for member in members.iter_mut() {
                    if let Some(story) = report_end(member)? {
                        println!("{story}");
                    }
                }
            }
        }
    }
}

fn looks() -> Interval {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// Executes a typed line.
async fn obey(members: &mut [Member], line: &str) -> Outcome {
    let (verb, name) = line.split_once(' ').unwrap_or((line, ""));
    if line == "who" {
        println!("{}", page::table(members).await);
        return Ok(());
    }
    let Some(member) = members.iter_mut().find(|it| it.config.name == name.trim()) else {
        if !line.is_empty() {
            println!("{}", page::WORDS);
        }
        return Ok(());
    };
    match (verb, member.is_running()) {
        ("kill", true) => member.kill(),
        ("stop", true) => member.signal(Signal::TERM),
        ("start", false) => member.start(),
        ("start", true) => told(format!("{} runs already", member.config.name)),
        ("kill" | "stop", false) => told(format!("{} does not run", member.config.name)),
        _ => told(page::WORDS.to_owned()),
    }
}

fn told(what: String) -> Outcome {
    println!("{what}");
    Ok(())
}

/// A message for a member that has ended since the last call.
fn report_end(member: &mut Member) -> Outcome<Option<String>> {
    let Some(status) = member.status()? else {
        return Ok(None);
    };
    let (name, last) = (&member.config.name, member.last_lines());
    let story = match status.success() {
        true => format!("{name} has stopped"),
        false => format!(
            "{name} has ended with {status}; the last lines of {}:\n  {}",
            member.config.log.display(),
            last.replace('\n', "\n  ")
        ),
    };
    drop(member.take_process());
    Ok(Some(story))
}

/// Whether the member has a leader and serves.
async fn is_ready(member: &Member) -> bool {
    let address = member.config.client.clone();
    let page = tokio::task::spawn_blocking(move || harness::page::get(&address, "/readyz"));
    matches!(page.await, Ok(Ok(page)) if page.status == 200)
}

/// Lines of the standard input. The thread ends with the process.
fn typed_lines() -> Outcome<mpsc::Receiver<String>> {
    let (sender, lines) = mpsc::channel(1);
    threads::spawn("typed-lines", move || {
        let typed = std::io::stdin().lock().lines().map_while(Result::ok);
        for line in typed {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(lines)
}

async fn wait_until_ready(members: &mut [Member]) -> Outcome {
    let ready = async {
        let mut looks = looks();
        for member in members.iter_mut() {
            while !is_ready(member).await {
                looks.tick().await;
                if let Some(story) = report_end(member)? {
                    println!("{story}");
                    return Err(format!("{} does not start", member.config.name).into());
                }
            }
        }
        Ok(())
    };
    let patience = Duration::from_secs(PATIENCE_SECONDS);
    match timeout(patience, ready).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no leader was found in {PATIENCE_SECONDS} s; see the logs").into()),
    }
}

/// Asks all members to stop, waits, and kills those that do not.
async fn stop_all(members: &mut [Member]) -> Outcome {
    for member in members.iter_mut().filter(|it| it.pid().is_some()) {
        report_end(member)?;
        if member.is_running() {
            member.signal(Signal::TERM)?;
        }
    }
    let mut looks = looks();
    let all_ended = async {
        while members.iter_mut().any(Member::is_running) {
            looks.tick().await;
            for member in members.iter_mut() {
                report_end(member)?;
            }
        }
        Ok(())
    };
    let patience = Duration::from_secs(PATIENCE_SECONDS);
    match timeout(patience, all_ended).await {
        Ok(outcome) => outcome,
        Err(_) => Err("a member does not stop; it is killed".into()),
    }
}
