//! The programs in a real kernel. Where it forbids that, the tests print SKIPPED.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests on the real system"
)]

use std::ffi::CString;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use handoff::Mutex;
use handoff::hints::{Page, open_file};

/// Time limit for each awaited event.
const LIMIT: Duration = Duration::from_secs(60);
const STATE: &str = "/sys/kernel/sched_ext/state";

struct Loader {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Loader {
    fn start(words: &[&str]) -> Loader {
        let mut child = Command::new(env!("CARGO_BIN_EXE_handoff-scheduler"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Loader { child, said }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The path of the page; none, after printing SKIPPED, where the kernel refuses.
    fn ready(&mut self) -> Option<String> {
        let line = self.line();
        if let Some(path) = line.strip_prefix("ready ") {
            return Some(path.to_owned());
        }
        let cannot = ["no permission", "no sched_ext", "this kernel has no"];
        assert!(cannot.iter().any(|why| line.contains(why)), "{line}");
        let mut remedy = String::new();
        self.said.read_to_string(&mut remedy).unwrap();
        assert!(!remedy.trim().is_empty(), "no remedy: {line}");
        assert!(!self.child.wait().unwrap().success());
        eprintln!("SKIPPED: {line}");
        None
    }

    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let line = self.line();
        assert!(self.child.wait().unwrap().success(), "{line}");
        line
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT, "never: {what}");
        thread::yield_now();
    }
}

#[test]
fn holders_without_a_core_are_marked() {
    let mut loader = Loader::start(&["--monitor"]);
    let Some(path) = loader.ready() else { return };
    let file = open_file(&CString::new(path).unwrap()).unwrap();
    let page = Page::open(file.as_fd()).unwrap();
    Page::open(file.as_fd()).unwrap().install().unwrap();

    let cores = thread::available_parallelism().unwrap().get();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..cores * 2 {
            scope.spawn(|| {
                let own = Mutex::new(());
                let _held = own.lock();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        wait_until("a holder is marked", || {
            page.threads().any(|t| t.is_preempted)
        });
        wait_until("a holder is marked no more", || {
            page.threads().any(|t| t.depth > 0 && !t.is_preempted)
        });
        is_over.store(true, Ordering::Relaxed);
    });
    let line = loader.end();
    let rest = line.strip_prefix("ended holders preempted ").unwrap();
    let preempted: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!(preempted > 0, "{line}");
}

/// In a PID namespace, threads write their numbers of that namespace.
#[test]
fn threads_in_a_namespace_of_their_own_are_found() {
    let unshared = |program: &Path, words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command.arg(program).args(words).output()
    };
    let can = unshared(Path::new("true"), &[]).is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED: no rights for namespaces, or no program unshare");
        return;
    }
    let test = std::env::current_exe().unwrap();
    let words = ["--exact", "holders_without_a_core_are_marked"];
    let output = unshared(&test, &words).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn a_killed_loader_leaves_nothing_loaded() {
    let mut loader = Loader::start(&["--sched", "fifo"]);
    if loader.ready().is_none() {
        return;
    }
    loader.child.kill().unwrap();
    loader.child.wait().unwrap();
    wait_until("the scheduler is gone", || {
        std::fs::read_to_string(STATE).unwrap().trim() == "disabled"
    });
}

#[test]
fn wrong_arguments_are_refused() {
    let mut loader = Loader::start(&["--sched", "batch"]);
    assert_eq!(loader.line(), "refused --sched must be fifo or hint");
    assert!(!loader.child.wait().unwrap().success());
}
