//! The lab's side of a worker: started, listened to, ended.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Job, Line, Stage};
use crate::record::Run;
use crate::targets::dies_with_its_parent;

/// How often the watcher is asked whether to go on.
const LOOK: Duration = Duration::from_millis(100);
const COMPLAINT_LINES: usize = 12;

/// Whoever watches a worker.
pub trait Watcher {
    /// Where it is.
    fn progress(&mut self, stage: Stage, share: f64, rate: f64);
    /// Whether the worker shall be ended now.
    fn is_interrupted(&self) -> bool;
}

/// How a worker ended.
#[derive(Debug)]
pub enum Ended {
    /// With a run, good or bad.
    Run(Box<Run>),
    /// Because the watcher wanted it.
    Interrupted,
    /// Without a word; what is known for people.
    Died(String),
}

/// A program that does jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProgram {
    /// The file.
    pub program: PathBuf,
    /// The program `handoff`, which it is started under.
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

/// Runs a job in a worker.
pub fn call(worker: &WorkerProgram, job: &Job, watcher: &mut dyn Watcher) -> Ended {
    match start(worker, job) {
        Ok(child) => listen(child, watcher),
        Err(error) => Ended::Died(match &worker.handoff {
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
    }
}

/// Ended with everything below it when dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // It leads a group: whatever it has started goes with it. Of one that has
        // ended the number may be somebody else's.
        if let Ok(None) = self.0.try_wait()
            && let Some(group) = Pid::from_raw(self.0.id().cast_signed())
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Already gone is fine.
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
        // Ctrl-C is for the lab, which ends its worker in good order.
        .process_group(0)
        .env("INKSTONE_LAB_PADDING", "x".repeat(job.environment_bytes));
    dies_with_its_parent(&mut command);
    let mut child = Worker(command.spawn()?);
    let mut line = serde_json::to_string(job).map_err(std::io::Error::other)?;
    line.push('\n');
    let mut input = child.0.stdin.take().expect("it is piped");
    match input.write_all(line.as_bytes()) {
        // It has ended already; its end says more than ours could.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok(child)
}

fn listen(mut worker: Worker, watcher: &mut dyn Watcher) -> Ended {
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
            Ok(Ok(Line::Done(run))) => return Ended::Run(run),
            Ok(Ok(Line::Progress { stage, share, rate })) => {
                has_begun = true;
                watcher.progress(stage, share, rate);
            }
            // A library of a target that prints; it is no message.
            Ok(Err(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break worker.0.wait(),
        }
        if watcher.is_interrupted() {
            return Ended::Interrupted;
        }
    };
    drop(worker);
    let complaint = complaint.map(|thread| thread.join().unwrap_or_default());
    let complaint = complaint.unwrap_or_default();
    let lines: Vec<&str> = complaint.lines().collect();
    let last = lines[lines.len().saturating_sub(COMPLAINT_LINES)..].join("\n");
    Ended::Died(match ended {
        Ok(status) if has_begun => {
            format!("the worker ended with {status} in the middle of a run: {last}")
        }
        Ok(status) => {
            let said = if last.is_empty() { "nothing" } else { &last };
            format!(
                "the worker ended with {status} before it began, and said: {said}; is it an \
                 inkstone-lab?"
            )
        }
        Err(error) => format!("the worker is gone: {error}: {last}"),
    })
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
    // Without the thread the channel is closed, and the worker counts as dead.
    drop(reading);
    receiver
}

/// A worker that takes its job and does what a script says. A shell writes it: a
/// file that this process had open for writing could be busy when it is started,
/// held by whatever another thread forked meanwhile.
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

    struct Nobody;

    impl Watcher for Nobody {
        fn progress(&mut self, _: Stage, _: f64, _: f64) {}

        fn is_interrupted(&self) -> bool {
            false
        }
    }

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

    #[test]
    fn a_worker_that_dies_is_quoted() {
        let (_folder, path) = script("echo noise; echo out of luck >&2; exit 7");
        let Ended::Died(words) = call(&path, &job(), &mut Nobody) else {
            panic!("it died");
        };
        assert!(
            words.contains("exit status: 7") && words.contains("out of luck"),
            "{words}"
        );
    }

    #[test]
    fn a_program_that_is_no_worker_is_asked_about() {
        let (_folder, path) = script("exit 0");
        let Ended::Died(words) = call(&path, &job(), &mut Nobody) else {
            panic!("it died");
        };
        assert!(words.contains("is it an inkstone-lab?"), "{words}");
    }

    #[test]
    fn a_worker_that_is_not_there_is_named() {
        let Ended::Died(words) = call(&plain(Path::new("/nowhere/worker")), &job(), &mut Nobody)
        else {
            panic!("there is none");
        };
        assert!(words.contains("/nowhere/worker"), "{words}");
    }

    #[test]
    fn an_interrupted_worker_is_ended() {
        struct Impatient(bool);
        impl Watcher for Impatient {
            fn progress(&mut self, _: Stage, _: f64, _: f64) {
                self.0 = true;
            }
            fn is_interrupted(&self) -> bool {
                self.0
            }
        }
        let line = r#"{"progress":{"stage":"load","share":0.5,"rate":0.0}}"#;
        let (_folder, path) = script(&format!("echo '{line}'; exec sleep 1000"));
        let ended = call(&path, &job(), &mut Impatient(false));
        assert!(matches!(ended, Ended::Interrupted), "{ended:?}");
    }
}
