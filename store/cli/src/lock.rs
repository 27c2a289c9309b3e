//! `inkstone lock`: holds a lock, for a while or for a command.
//!
//! ```text
//!   lease ──► key below NAME/ ──► its turn? ──► the command, or until Ctrl-C ──► lease revoked
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use bytes::Bytes;
use tokio::process::{Child, Command};

use crate::client::signals::EndSignals;
use crate::client::{
    ConnectionArguments, Endpoints, LeaseSession, OutputArguments, Printer, Turn, bytes_of,
};
use crate::failure::Failure;
use crate::get::{self, Shown};

/// Hold a lock, until Ctrl-C or while a command runs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Waits for its turn. Then it prints the lock's key and holds the lock until Ctrl-C; or it runs
the command with ETCD_LOCK_KEY and ETCD_LOCK_REV in its environment, and exits with its code.

Examples:
  inkstone lock backup
  inkstone lock backup ./backup.sh --full
  inkstone lock backup --ttl 30 -- ./backup.sh --full")]
pub(crate) struct Arguments {
    /// The lock's name
    #[arg(value_name = "NAME")]
    name: OsString,
    /// The command to run while the lock is held, with its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
    /// Seconds after which others get the lock if this program or its host dies
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(i64).range(1..))]
    ttl: i64,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let printer = Printer::new(arguments.output)?;
    let endpoints = Endpoints::new(arguments.connection)?;
    let mut signals = EndSignals::catch()?;
    let session = LeaseSession::open(&endpoints, arguments.ttl).await?;
    let name = bytes_of(arguments.name);
    let turn = tokio::select! {
        turn = wait(&session, &name) => turn,
        failure = session.lost() => Err(failure),
        _ = signals.next_is_terminate() => Err(Failure::failed("interrupted before its turn", "")),
    };
    let held = match turn {
        Ok(turn) if arguments.command.is_empty() => {
            hold(&session, &turn, printer, &mut signals).await
        }
        Ok(turn) => run_command(&session, &turn, &arguments.command, &mut signals).await,
        Err(failure) => Err(failure),
    };
    let closed = session.close().await;
    held.and(closed)
}

async fn wait<'a>(session: &LeaseSession<'a>, name: &[u8]) -> Result<Turn<'a>, Failure> {
    let turn = Turn::join(session, name, Bytes::new()).await?;
    turn.wait().await?;
    Ok(turn)
}

/// Prints the key, and holds the lock until a signal.
async fn hold(
    session: &LeaseSession<'_>,
    turn: &Turn<'_>,
    mut printer: Printer,
    signals: &mut EndSignals,
) -> Result<(), Failure> {
    let found = turn.pair().await?;
    if found.kvs.is_empty() {
        return Err(Failure::failed("lock lost on init", "Take it again."));
    }
    get::print(&mut printer, &found, Shown::default())?;
    printer.flush()?;
    tokio::select! {
        failure = session.lost() => Err(failure),
        _ = signals.next_is_terminate() => Ok(()),
    }
}

/// Runs the command, and exits with its code.
async fn run_command(
    session: &LeaseSession<'_>,
    turn: &Turn<'_>,
    words: &[OsString],
    signals: &mut EndSignals,
) -> Result<(), Failure> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command.env("ETCD_LOCK_KEY", std::ffi::OsStr::from_bytes(&turn.key));
    command.env("ETCD_LOCK_REV", turn.revision.to_string());
    let mut child = command.spawn().map_err(|error| {
        let word = words[0].to_string_lossy();
        Failure::failed(format_args!("cannot run {word}: {error}"), "")
    })?;
    let mut lost = None;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.map_err(|error| {
                Failure::failed(format_args!("cannot wait for the command: {error}"), "")
            })?,
            failure = session.lost(), if lost.is_none() => lost = Some(failure),
            // A terminal sends SIGINT to the command as well.
            terminate = signals.next_is_terminate() => if terminate { end(&child) },
        }
    };
    match (status.success(), lost) {
        (true, None) => Ok(()),
        (true, Some(_)) => Err(Failure::failed(
            "the lock was lost while the command ran",
            "Another client may have held it at the same time.",
        )),
        (false, _) => Err(Failure::Reported {
            exit: exit_code(status),
        }),
    }
}

fn end(child: &Child) {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
        // A command that has ended already cannot be ended.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

/// The code of the command, or 128 and the signal that has ended it, as shells do.
fn exit_code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map_or(1, |signal| 128 + signal);
    let code = status.code().unwrap_or_else(signal);
    u8::try_from(code).unwrap_or(1)
}
