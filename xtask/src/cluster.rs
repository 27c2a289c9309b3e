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
use harness::{Cluster, Member, Program, Signal};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::interval,
};

use crate::process::{Outcome, inkstone_binary, root};
use layout::Layout;

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
    let mut cluster = layout.prepare(&program);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(&mut cluster, &layout))
}

async fn serve(cluster: &mut Cluster, layout: &Layout) -> Outcome {
    // An interruption ends this process, and the members with it.
    cluster.start_all()?;
    println!("{}", page::page(&cluster.members, layout));
    let ended = attend(&mut cluster.members).await;
    println!("\nstopping");
    for member in cluster.members.iter_mut().filter(|it| it.pid().is_some()) {
        member.stop()?;
        report_end(member)?;
    }
    println!(
        "stopped; the data stays in {}",
        page::short(&layout.directory)
    );
    ended
}

/// Handles typed lines and members that end, until the user types `quit` or interrupts.
async fn attend(members: &mut [Member]) -> Outcome {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut lines = typed_lines()?;
    let mut looks = interval(LOOK);
    loop {
        tokio::select! {
            _ = interrupted.recv() => return Ok(()),
            _ = terminated.recv() => return Ok(()),
            Some(line) = lines.recv() => match line.trim() {
                "quit" => return Ok(()),
                line => obey(members, line)?,
            },
            _ = looks.tick() => members.iter_mut().try_for_each(report_end)?,
        }
    }
}

/// Executes a typed line.
fn obey(members: &mut [Member], line: &str) -> Outcome {
    let (verb, name) = line.split_once(' ').unwrap_or((line, ""));
    if line == "who" {
        println!("{}", page::table(members));
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

/// Tells of a member that has ended since the last call.
fn report_end(member: &mut Member) -> Outcome {
    let Some(status) = member.status()? else {
        return Ok(());
    };
    let (name, last) = (&member.config.name, member.last_lines());
    if status.success() {
        println!("{name} has stopped");
    } else {
        println!(
            "{name} has ended with {status}; the last lines of {}:\n  {}",
            member.config.log.display(),
            last.replace('\n', "\n  ")
        );
    }
    drop(member.take_process());
    Ok(())
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
