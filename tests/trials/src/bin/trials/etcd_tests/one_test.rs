//! One test of a suite, in a process of its own: one that hangs takes no other along, and
//! servers that it leaves behind are ended before the next one takes their ports.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use procfs::process::all_processes;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};

use crate::process::{Outcome, root};

/// How a test or a row of it ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Pass,
    /// By the suite itself.
    Skip,
    Fail,
    /// There was no verdict within the time limit, or the program of the test broke down.
    Hang,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Verdict::Pass => "PASS",
            Verdict::Skip => "SKIP",
            Verdict::Fail => "FAIL",
            Verdict::Hang => "HANG",
        })
    }
}

/// A test that has run.
pub struct Ran {
    pub name: String,
    pub verdict: Verdict,
    pub seconds: u64,
    /// Verdicts of its innermost rows by their whole names; empty for a test without rows.
    pub rows: BTreeMap<String, Verdict>,
}

impl fmt::Display for Ran {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} {:4} s  {}",
            self.verdict, self.seconds, self.name
        )
    }
}

/// Runs tests of one suite.
pub struct Runner {
    program: PathBuf,
    folder: PathBuf,
    binaries: PathBuf,
    /// Directory of each test's output, by the test's name.
    logs: PathBuf,
    seconds_max: u64,
    verbose: bool,
}

impl Runner {
    /// Makes this process the parent of all that the tests leave behind.
    pub fn new(
        program: PathBuf,
        folder: PathBuf,
        binaries: PathBuf,
        seconds_max: u64,
        verbose: bool,
    ) -> Outcome<Runner> {
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let suite = program.file_name().unwrap_or_default();
        let logs = root().join("target/etcd/logs").join(suite);
        fs::create_dir_all(&logs)?;
        Ok(Runner {
            program,
            folder,
            binaries,
            logs,
            seconds_max,
            verbose,
        })
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The folder of what the tests print.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps what a test has printed when it runs again.
    pub fn keep_log(&self, name: &str) -> Outcome {
        let kept = self.logs.join(format!("{name}.first.log"));
        Ok(fs::rename(self.log(name), kept)?)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// Runs one test, or only its rows that match a pattern.
    pub fn run(&self, name: &str, rows: Option<&str>) -> Outcome<Ran> {
        let log = self.log(name);
        let begun = Instant::now();
        let ended = self.wait_for(self.command(name, rows, &log)?)?;
        end_children()?;
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if self.verbose {
            println!("{output}");
        }
        let mut verdicts = verdicts(&output);
        let verdict = match ended {
            true => verdicts.remove(name).unwrap_or(Verdict::Hang),
            false => Verdict::Hang,
        };
        let rows = innermost(verdicts);
        Ok(Ran {
            name: name.to_owned(),
            verdict: of_its_rows(verdict, &rows),
            seconds: begun.elapsed().as_secs(),
            rows,
        })
    }

    fn command(&self, name: &str, rows: Option<&str>, log: &Path) -> Outcome<Command> {
        let rows = rows.map(|it| format!("/{it}")).unwrap_or_default();
        let log = File::create(log)?;
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder)
            .env_remove("ETCDCTL_API")
            .arg("-test.v")
            .arg(format!("-test.timeout={}s", self.seconds_max))
            .arg(format!("-test.run=^{name}${rows}"))
            .arg(format!("-bin-dir={}", self.binaries.display()))
            .stdout(log.try_clone()?)
            .stderr(log);
        if self.verbose {
            command.env("EXPECT_DEBUG", "1");
        }
        Ok(command)
    }

    /// Whether the program has ended by itself. Go's own limit ends it first, unless it cannot.
    fn wait_for(&self, mut command: Command) -> Outcome<bool> {
        let mut child = command.spawn()?;
        let limit = Instant::now() + Duration::from_secs(self.seconds_max + 10);
        while child.try_wait()?.is_none() {
            if Instant::now() > limit {
                child.kill()?;
                child.wait()?;
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(true)
    }
}

/// Kills what a test has left behind, and waits for its end. Children of a killed process become
/// this one's, so that this ends when there is none.
fn end_children() -> Outcome {
    loop {
        let own = rustix::process::getpid().as_raw_pid();
        let all = all_processes()?.filter_map(|it| it.ok()?.stat().ok());
        let children = all.filter(|it| it.ppid == own).map(|it| it.pid);
        let children: Vec<Pid> = children.filter_map(Pid::from_raw).collect();
        if children.is_empty() {
            return Ok(());
        }
        for child in children {
            // It may have ended by now; then only the wait is left to do.
            let _ = kill_process(child, Signal::KILL);
            waitpid(Some(child), WaitOptions::empty())?;
        }
    }
}

/// Verdicts by whole names, as Go prints them.
fn verdicts(output: &str) -> BTreeMap<String, Verdict> {
    let rows = output.lines().map(str::trim_start);
    rows.filter_map(|row| {
        let (verdict, name) = row.strip_prefix("--- ")?.split_once(": ")?;
        let (name, _) = name.split_once(" (")?;
        let verdict = match verdict {
            "PASS" => Verdict::Pass,
            "SKIP" => Verdict::Skip,
            _ => Verdict::Fail,
        };
        Some((name.to_owned(), verdict))
    })
    .collect()
}

/// To Go a test passes if all of its rows are skipped.
fn of_its_rows(verdict: Verdict, rows: &BTreeMap<String, Verdict>) -> Verdict {
    let none_ran = !rows.is_empty() && rows.values().all(|row| *row == Verdict::Skip);
    match verdict {
        Verdict::Pass if none_ran => Verdict::Skip,
        verdict => verdict,
    }
}

/// The rows that have no rows of their own.
fn innermost(verdicts: BTreeMap<String, Verdict>) -> BTreeMap<String, Verdict> {
    let outer: Vec<String> = verdicts.keys().map(|it| format!("{it}/")).collect();
    let is_outer = |name: &String| {
        let inside = format!("{name}/");
        outer
            .iter()
            .any(|it| *it != inside && it.starts_with(&inside))
    };
    let mut inner = verdicts.clone();
    inner.retain(|name, _| !is_outer(name));
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "=== RUN   TestA\n    --- PASS: TestA/x (0.50s)\n    \
        --- FAIL: TestA/y (0.00s)\n        --- SKIP: TestA/y/one (0.00s)\n        \
        --- FAIL: TestA/y/two (0.00s)\n--- FAIL: TestA (1.00s)\n";

    #[test]
    fn verdicts_are_read_from_gos_output() {
        let verdicts = verdicts(OUTPUT);
        assert_eq!(verdicts.len(), 5);
        assert_eq!(verdicts["TestA"], Verdict::Fail);
        assert_eq!(verdicts["TestA/x"], Verdict::Pass);
    }

    #[test]
    fn a_test_is_skipped_if_all_of_its_rows_are() {
        let rows = |verdicts: &[Verdict]| {
            let rows = verdicts.iter().enumerate();
            rows.map(|(place, it)| (place.to_string(), *it)).collect()
        };
        let skipped = rows(&[Verdict::Skip, Verdict::Skip]);
        assert_eq!(of_its_rows(Verdict::Pass, &skipped), Verdict::Skip);
        let one_ran = rows(&[Verdict::Skip, Verdict::Pass]);
        assert_eq!(of_its_rows(Verdict::Pass, &one_ran), Verdict::Pass);
        assert_eq!(of_its_rows(Verdict::Pass, &rows(&[])), Verdict::Pass);
        assert_eq!(of_its_rows(Verdict::Hang, &skipped), Verdict::Hang);
    }

    #[test]
    fn rows_that_have_rows_are_left_out() {
        let mut verdicts = verdicts(OUTPUT);
        verdicts.remove("TestA");
        let rows = innermost(verdicts);
        let names: Vec<&str> = rows.keys().map(String::as_str).collect();
        assert_eq!(names, ["TestA/x", "TestA/y/one", "TestA/y/two"]);
    }
}
