//! The lab's side of a worker: starts the process, reads its messages, and ends it.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use harness::end_with_starter;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Job, Line, Stage};
use crate::record::{Outcome, Run};
use crate::schedule::interrupt::Interrupt;

/// Interval at which the flag of interruption is read.
const LOOK: Duration = Duration::from_millis(100);
const COMPLAINT_LINES: usize = 12;

/// A worker program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProgram {
    pub program: PathBuf,
    /// The program `handoff` that starts the worker, if any.
    pub handoff: Option<PathBuf>,
}

impl WorkerProgram {
    fn command(&self) -> Command {
        match &self.handoff {
            None => Command::new(&self.program),
            Some(handoff) => {
                let mut command = Command::new(handoff);
                command.args(["run", "--"]).arg(&self.program);
                command
            }
        }
    }
}

/// Runs a job in a new worker process, until it is done or interrupted. `progress` receives the
/// stage, the share of it that is done, and operations per second.
pub fn call(
    worker: &WorkerProgram,
    job: &Job,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Stage, f64, f64),
) -> Run {
    let outcome = match start(worker, job) {
        Ok(child) => match listen(child, interrupt, progress) {
            Ok(run) => return run,
            Err(outcome) => outcome,
        },
        Err(error) => failed(match &worker.handoff {
            None => format!(
                "cannot start the worker {}: {error}",
                worker.program.display()
            ),
            Some(handoff) => format!(
                "cannot start {}: {error}; `cargo build --release -p handoff-preload -p \
                 handoff-run` makes it",
                handoff.display()
            ),
        }),
    };
    Run {
        outcome,
        ..Run::of(job)
    }
}

fn failed(because: String) -> Outcome {
    Outcome::Failed { because }
}

/// A worker process. Dropping it kills the process and all its children.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // The worker leads a process group, so this kills its children too. If it has
        // ended, another process may have its number.
        if let Ok(None) = self.0.try_wait()
            && let Some(group) = Pid::from_raw(self.0.id().cast_signed())
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Errors are ignored: the process may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(worker: &WorkerProgram, job: &Job) -> std::io::Result<Worker> {
    let mut command = worker.command();
    command
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C must reach the lab only, which then ends its worker in an orderly way.
        .process_group(0)
        .env("INKSTONE_LAB_PADDING", "x".repeat(job.environment_bytes));
    end_with_starter(&mut command);
    let mut child = Worker(command.spawn()?);
    let mut line = serde_json::to_string(job).map_err(std::io::Error::other)?;
    line.push('\n');
    let mut input = child.0.stdin.take().expect("it is piped");
    match input.write_all(line.as_bytes()) {
        // The worker has ended already; its exit status is the better error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok(child)
}

/// Reads a worker's messages up to its run; the outcome of a worker that ends without one.
fn listen(
    mut worker: Worker,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Stage, f64, f64),
) -> Result<Run, Outcome> {
    let output = worker.0.stdout.take().expect("it is piped");
    let mut errors = worker.0.stderr.take().expect("it is piped");
    let complaint = environment::threads::spawn("worker-errors", move || {
        let mut text = String::new();
        drop(errors.read_to_string(&mut text));
        text
    });
    let lines = lines_of(output);
    let mut has_begun = false;
    let ended = loop {
        match lines.recv_timeout(LOOK) {
            Ok(Ok(Line::Done(run))) => return Ok(*run),
            Ok(Ok(Line::Progress { stage, share, rate })) => {
                has_begun = true;
                progress(stage, share, rate);
            }
            // A line that is no message: a library of the target may print.
            Ok(Err(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break worker.0.wait(),
        }
        if interrupt.is_set() {
            return Err(Outcome::Interrupted);
        }
    };
    drop(worker);
    let complaint = complaint.map(|thread| thread.join().unwrap_or_default());
    let complaint = complaint.unwrap_or_default();
    let lines: Vec<&str> = complaint.lines().collect();
    let last = lines[lines.len().saturating_sub(COMPLAINT_LINES)..].join("\n");
    Err(failed(match ended {
        Ok(status) if has_begun => {
            format!("the worker ended with {status} in the middle of a run: {last}")
        }
        Ok(status) => {
            let errors = if last.is_empty() { "nothing" } else { &last };
            format!(
                "the worker ended with {status} before it began, and wrote to standard error: \
                 {errors}; is it an inkstone-lab?"
            )
        }
        Err(error) => format!("the worker is gone: {error}: {last}"),
    }))
}

fn lines_of(output: impl Read + Send + 'static) -> Receiver<Result<Line, serde_json::Error>> {
    let (sender, receiver) = channel();
    let reading = environment::threads::spawn("worker-lines", move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { break };
            if sender.send(serde_json::from_str(&line)).is_err() {
                break;
            }
        }
    });
    // If the thread cannot be started, the channel closes, and the worker counts as ended.
    drop(reading);
    receiver
}

/// Writes a worker that reads its job and runs a script. A shell writes the file: if this
/// process had it open for writing, a child that another thread forks at the same time
/// could inherit it, and starting the script would fail as "text file busy".
#[cfg(test)]
pub(crate) fn worker_script(path: &Path, text: &str) {
    let mut shell = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod +x \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    write!(input, "#!/bin/sh\nread job\n{text}\n").unwrap();
    drop(input);
    assert!(shell.wait().unwrap().success());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> (tempfile::TempDir, WorkerProgram) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker");
        worker_script(&path, text);
        (folder, plain(&path))
    }

    fn plain(path: &Path) -> WorkerProgram {
        WorkerProgram {
            program: path.to_owned(),
            handoff: None,
        }
    }

    fn job() -> Job {
        Job::bare(crate::workload::parse("test", "name = \"a\"").unwrap())
    }

    /// Why the call of a worker has failed.
    fn because(worker: &WorkerProgram) -> String {
        let run = call(worker, &job(), &Interrupt::default(), &mut |_, _, _| {});
        match run.outcome {
            Outcome::Failed { because } => because,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_errors_of_a_worker_that_dies_are_quoted() {
        let (_folder, worker) = script("echo noise; echo out of luck >&2; exit 7");
        let words = because(&worker);
        assert!(
            words.contains("exit status: 7") && words.contains("out of luck"),
            "{words}"
        );
    }

    #[test]
    fn a_program_that_is_no_worker_is_reported() {
        let (_folder, worker) = script("exit 0");
        let words = because(&worker);
        assert!(words.contains("is it an inkstone-lab?"), "{words}");
    }

    #[test]
    fn a_missing_worker_is_named() {
        let words = because(&plain(Path::new("/nowhere/worker")));
        assert!(words.contains("/nowhere/worker"), "{words}");
    }

    #[test]
    fn an_interrupted_worker_is_ended() {
        let line = r#"{"progress":{"stage":"load","share":0.5,"rate":0.0}}"#;
        let (_folder, worker) = script(&format!("echo '{line}'; exec sleep 1000"));
        let interrupt = Interrupt::default();
        let run = call(&worker, &job(), &interrupt, &mut |_, _, _| interrupt.set());
        assert_eq!(run.outcome, Outcome::Interrupted);
    }
}
