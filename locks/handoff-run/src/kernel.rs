//! The process `handoff-scheduler`, which keeps the monitor and the scheduler loaded in the
//! kernel while the program runs.
//!
//! It writes to its standard output when it is ready, and ends when its standard input does.
//! So it ends with this process, whatever way this one ends.

use std::ffi::CString;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use handoff::hints::{Page, open_file};

use crate::arguments::{Arguments, Sched};
use crate::failure::{Failure, UNPROVEN};
use crate::library::own_executable;
use crate::run::Greeted;

const NAME: &str = "handoff-scheduler";

/// Remedy if it cannot be started.
const MISSING: &str = "\
`cargo xtask scheduler` builds it and puts it there. It takes clang and libelf,
which that fetches if the machine has apt.";

/// The running `handoff-scheduler`, which ends when this is dropped.
pub(crate) struct InKernel {
    child: Child,
    output: BufReader<ChildStdout>,
    page: String,
}

impl InKernel {
    /// Loads what the arguments ask for; none if they ask for nothing.
    pub(crate) fn load(arguments: &Arguments) -> Result<Option<InKernel>, Failure> {
        let words = words(arguments);
        if words.is_empty() {
            return Ok(None);
        }
        let path = own_executable()?.with_file_name(NAME);
        let mut child = start(&path, &words)?;
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut loaded = InKernel {
            child,
            output,
            page: String::new(),
        };
        let line = loaded.line();
        match line.strip_prefix("ready ") {
            Some(page) => page.clone_into(&mut loaded.page),
            None => return Err(loaded.refused(&line)),
        }
        Ok(Some(loaded))
    }

    /// The hint page that it has made.
    pub(crate) fn page(&self) -> Result<Greeted, Failure> {
        let unusable = |why: &dyn std::fmt::Display| {
            Failure::not_started(
                format_args!("hint page {}: {why}", self.page),
                "Use the handoff-scheduler of the same release. The page is copied with\n\
                 pidfd_getfd; a sandbox may forbid it.",
            )
        };
        let path = CString::new(self.page.as_str()).map_err(|error| unusable(&error))?;
        let file = open_file(&path).map_err(|error| unusable(&error))?;
        let page = Page::open(file.as_fd()).map_err(|refused| unusable(&refused))?;
        Ok(Greeted {
            page,
            place: self.page.clone(),
            _file: None,
        })
    }

    /// Unloads everything; returns the counts of preempted holders. Fails if anything was
    /// unloaded before.
    pub(crate) fn unload(mut self) -> Result<String, Failure> {
        drop(self.child.stdin.take());
        let line = self.line();
        match line.strip_prefix("ended ") {
            Some(counts) => Ok(counts.to_owned()),
            None => Err(self.refused(&line).with_exit(UNPROVEN)),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        // If nothing can be read, it has ended.
        let _ = self.output.read_line(&mut line);
        line.trim_end().to_owned()
    }

    fn refused(&mut self, line: &str) -> Failure {
        let Some(what) = line.strip_prefix("refused ") else {
            return Failure::not_started(
                format_args!("{NAME} ended before its time"),
                "Use the one of the same release, and look whether something has killed it.",
            );
        };
        let mut remedy = String::new();
        // A part of the remedy is better than none.
        let _ = self.output.read_to_string(&mut remedy);
        Failure::not_started(what, remedy.trim_end())
    }
}

impl Drop for InKernel {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A failure to wait changes nothing.
        let _ = self.child.wait();
    }
}

fn words(arguments: &Arguments) -> Vec<&'static str> {
    let mut words = Vec::new();
    if arguments.monitor {
        words.push("--monitor");
    }
    match arguments.sched {
        Sched::Fifo => words.extend(["--sched", "fifo"]),
        Sched::Hint => words.extend(["--sched", "hint"]),
        Sched::None | Sched::Batch => {}
    }
    words
}

fn start(path: &Path, words: &[&str]) -> Result<Child, Failure> {
    let mut command = Command::new(path);
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // So that the signals of a terminal's keys go to the program only.
        .process_group(0);
    command.spawn().map_err(|error| {
        Failure::not_started(
            format_args!("{} cannot be started: {error}", path.display()),
            MISSING,
        )
    })
}
