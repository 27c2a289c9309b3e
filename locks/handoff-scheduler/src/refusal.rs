//! The error of this program: why something cannot be loaded, and what to do.

use std::fmt::Display;
use std::sync::Mutex;

use libbpf_rs::{ErrorKind, PrintLevel, set_print};

/// Number of libbpf's lines that are kept: the last ones say what was wrong.
const LINES_MAX: usize = 6;

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What is wrong, and the remedy.
#[derive(Debug)]
pub struct Refusal {
    what: String,
    remedy: String,
}

impl Refusal {
    pub fn new(what: impl Display, remedy: impl Display) -> Refusal {
        Refusal {
            what: what.to_string(),
            remedy: remedy.to_string(),
        }
    }

    /// A refusal for an error of libbpf; its warnings are the remedy.
    pub fn by_kernel(doing: &str, error: &libbpf_rs::Error) -> Refusal {
        if error.kind() == ErrorKind::PermissionDenied {
            return Refusal::no_rights(doing);
        }
        let warnings = WARNINGS.lock().map(|lines| lines.join("\n"));
        Refusal::new(
            format_args!("the kernel refuses {doing}: {error}"),
            warnings.unwrap_or_default(),
        )
    }

    /// A refusal for a failed system call.
    pub fn by_system(doing: &str, error: &std::io::Error) -> Refusal {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            return Refusal::no_rights(doing);
        }
        Refusal::new(format_args!("{doing} failed: {error}"), "")
    }

    fn no_rights(doing: &str) -> Refusal {
        Refusal::new(
            format_args!("no permission for {doing}"),
            "Programs in the kernel need root, or CAP_BPF and CAP_PERFMON; a container may\n\
             forbid them to root too. --sched batch needs no rights.",
        )
    }

    /// Prints the refusal in the lines that `handoff run` reads.
    pub fn report(&self) {
        crate::output::print_line(&format!("refused {}\n{}", self.what, self.remedy));
    }
}

/// Makes libbpf's warnings be kept for a refusal instead of printed.
pub fn keep_warnings() {
    fn keep(_: PrintLevel, line: String) {
        // The lines are usable even if a thread has panicked with the lock held.
        let mut lines = WARNINGS.lock().unwrap_or_else(|broken| broken.into_inner());
        if lines.len() == LINES_MAX {
            lines.remove(0);
        }
        lines.push(line.trim_end().to_owned());
    }
    set_print(Some((PrintLevel::Warn, keep)));
}
