//! One server process: signals, its end, and its log.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Outcome, wait_for};

/// Time limit for an end after SIGTERM, on a busy machine.
const END_MAX: Duration = Duration::from_secs(60);
/// Time limit for a line in the log, long enough for the recovery of a large log.
const LINE_MAX: Duration = Duration::from_secs(120);
/// Lines of the log that an error shows.
const LOG_LINES: usize = 12;

/// A process that was started; killed when dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    /// How it ended, once that was seen: its id may be another process's by then.
    ended: Option<ExitStatus>,
    log: PathBuf,
    /// Length of the log file when the process started.
    log_start: u64,
}

impl ServerProcess {
    /// Starts a command, and appends its output to the file `log`.
    pub fn spawn(mut command: Command, log: &Path) -> Outcome<ServerProcess> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.map_err(|error| format!("{}: {error}", log.display()))?;
        let log_start = file.metadata()?.len();
        command.stdout(file.try_clone()?).stderr(file);
        let child = command.stdin(Stdio::null()).spawn();
        let program = command.get_program().to_string_lossy();
        let child = child.map_err(|error| format!("cannot start {program}: {error}"))?;
        Ok(ServerProcess {
            child,
            ended: None,
            log: log.to_owned(),
            log_start,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Exit status of a process that has ended; `None` while it runs.
    pub fn status(&mut self) -> Outcome<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Fails with the last lines of the log if the process has ended.
    pub fn check_running(&mut self) -> Outcome {
        match self.status()? {
            None => Ok(()),
            Some(status) => Err(self.error(&format!("the server ended with {status}"))),
        }
    }

    /// Fails if the process has ended, or if one of its threads panicked.
    pub fn check_healthy(&mut self) -> Outcome {
        self.check_running()?;
        match self.line_with("panicked") {
            None => Ok(()),
            Some(line) => Err(format!("a thread of the server panicked: {line}").into()),
        }
    }

    /// Sends a signal to the process, which must run.
    pub fn signal(&mut self, signal: Signal) -> Outcome {
        self.check_running()?;
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Sends SIGKILL and waits for the end. Does nothing if the process has ended.
    pub fn kill(&mut self) -> Outcome {
        if self.status()?.is_none() {
            self.child.kill()?;
            self.ended = Some(self.child.wait()?);
        }
        Ok(())
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&mut self) -> Outcome<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait_for_end()
    }

    /// Waits until the process ends by itself.
    pub fn wait_for_end(&mut self) -> Outcome<ExitStatus> {
        let ended = wait_for("the end of the server", END_MAX, || self.status());
        ended.map_err(|error| self.error(&error.to_string()))
    }

    /// Waits for a line of the log that contains `text`; returns the line.
    pub fn wait_for_line(&mut self, text: &str) -> Outcome<String> {
        let what = format!("a line with `{text}`");
        let line = wait_for(&what, LINE_MAX, || match self.line_with(text) {
            Some(line) => Ok(Some(line)),
            None => self.check_running().map(|()| None),
        });
        line.map_err(|error| self.error(&error.to_string()))
    }

    /// The first whole line of the log that contains `text`.
    pub fn line_with(&self, text: &str) -> Option<String> {
        let log = self.log();
        let mut lines = log.split_inclusive('\n');
        let line = lines.find(|line| line.ends_with('\n') && line.contains(text));
        line.map(|line| line.trim_end().to_owned())
    }

    /// The lines that the process has written to its log.
    pub fn log(&self) -> String {
        let read = || {
            let file = File::open(&self.log)?;
            let length = file.metadata()?.len().saturating_sub(self.log_start);
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, self.log_start)?;
            std::io::Result::Ok(bytes)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
    }

    /// The last lines of the log.
    pub fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// `what`, and the last lines of the log.
    pub(crate) fn error(&self, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        match self.last_lines() {
            lines if lines.trim().is_empty() => format!("{what}; its log is empty").into(),
            lines => format!("{what}; the end of its log:\n{lines}").into(),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.error(&format!("server process {}", self.pid())));
        }
        // An error means that the process has ended already.
        drop(self.kill());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> ServerProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ServerProcess::spawn(command, log).unwrap()
    }

    #[test]
    fn a_process_that_ends_shows_its_status_and_only_its_own_log() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, "of an earlier process\n").unwrap();
        let mut process = shell("echo one; echo two >&2; exit 3", &log);
        assert_eq!(process.wait_for_end().unwrap().code(), Some(3));
        assert_eq!(process.log(), "one\ntwo\n");
        let error = process.wait_for_line("three").unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("two"), "{error}");
        assert!(process.signal(Signal::TERM).is_err(), "it has ended");
        process.kill().unwrap();
    }

    #[test]
    fn a_process_is_stopped_by_signals_and_killed_when_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut process = shell("trap 'exit 0' TERM; echo ready; while :; do :; done", &log);
        assert_eq!(process.wait_for_line("ready").unwrap(), "ready");
        process.check_healthy().unwrap();
        assert!(process.stop().unwrap().success());
        let process = shell("exec sleep 600", &log);
        let running = PathBuf::from(format!("/proc/{}", process.pid()));
        assert!(running.exists());
        drop(process);
        assert!(!running.exists());
    }

    #[test]
    fn a_panic_in_the_log_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let script = "echo thread x panicked at y; exec sleep 600";
        let mut process = shell(script, &directory.path().join("log"));
        process.wait_for_line("panicked").unwrap();
        let error = process.check_healthy().unwrap_err().to_string();
        assert!(error.contains("thread x panicked at y"), "{error}");
    }
}
