//! The lab's behaviour when something fails: a clear message, the right exit code, and no
//! leftover files or processes.
#![expect(clippy::unwrap_used, reason = "a test stops where something fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "real processes are waited for in real time"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lab::record::{Outcome, Record};

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone-lab");
/// Time limit of every wait, far longer than any of them takes.
const LONGEST: Duration = Duration::from_secs(120);
/// Options for the shortest possible run.
const SHORT: [&str; 12] = [
    "--keys=100",
    "--clients=1",
    "--connections=1",
    "--measure=100ms",
    "--warmup=10ms",
    "--quiet-wait=0s",
    "--verify-keys=100",
    "--keep-disturbed",
    "--seed=1",
    "--pairs=1",
    "--out=results",
    "--directory=data",
];

struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Lab {
        Lab(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.folder()).args(words);
        command
    }

    /// Runs the lab with short runs; returns exit code and standard error.
    fn ends(&self, words: &[&str]) -> (i32, String) {
        let words = [words, &SHORT].concat();
        code_and_errors(&self.command(&words).output().unwrap())
    }

    fn record(&self) -> Record {
        Record::load(&self.folder().join("results")).unwrap()
    }

    /// Whether the folder of the runs' data still has entries.
    fn has_data(&self) -> bool {
        let entries = std::fs::read_dir(self.folder().join("data"));
        entries.is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Whether the lab left nothing behind, not even a folder.
    fn is_empty(&self) -> bool {
        std::fs::read_dir(self.folder()).unwrap().next().is_none()
    }

    /// A program in the lab's folder. A shell writes the file: if this process had it open
    /// for writing, starting it could fail as "text file busy".
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        let written = Command::new("sh")
            .args([
                "-c",
                "printf '#!/bin/sh\n%s\n' \"$1\" > \"$0\" && chmod +x \"$0\"",
            ])
            .arg(&path)
            .arg(text)
            .status();
        assert!(written.unwrap().success());
        path
    }
}

fn code_and_errors(output: &Output) -> (i32, String) {
    let code = output.status.code().unwrap_or(-1);
    (code, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_short_run_succeeds() {
    let lab = Lab::new();
    let (code, text) = lab.ends(&["run", "file"]);
    assert_eq!(code, 0, "{text}");
    let record = lab.record();
    assert!(record.complete && record.valid_runs().count() == 2);
    assert!(!lab.has_data());
}

/// As in `inkstone-lab run ... | head`: the page is written nevertheless.
#[test]
fn a_closed_pipe_does_not_stop_a_run() {
    let lab = Lab::new();
    let child = lab
        .command(&[&["run", "file"], &SHORT[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(lab.record().complete);
    assert!(lab.folder().join("results/report.html").exists());
    assert!(!lab.folder().join("data").exists());
}

#[test]
fn a_wrong_workload_file_is_named_with_its_line() {
    let lab = Lab::new();
    let text = "name = \"a\"\n[load]\nkyes = 7\n";
    std::fs::write(lab.folder().join("mine.toml"), text).unwrap();
    let (code, text) = lab.ends(&["run", "null", "--workload=mine.toml"]);
    assert_eq!(code, 1);
    for words in ["mine.toml", "line 3", "kyes"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn the_error_for_an_unknown_workload_lists_the_known_ones() {
    let (code, text) = Lab::new().ends(&["run", "null", "--workload=putt"]);
    assert_eq!(code, 1);
    assert!(
        text.contains("`putt`") && text.contains("put, get"),
        "{text}"
    );
}

#[test]
fn an_endpoint_without_a_listener_is_named() {
    let lab = Lab::new();
    let (code, text) = lab.ends(&["run", "endpoints:127.0.0.1:1"]);
    assert!(lab.is_empty());
    assert_eq!(code, 1);
    assert!(
        text.contains("endpoint http://127.0.0.1:1") && text.contains("refused"),
        "{text}"
    );
}

#[test]
fn a_missing_peer_is_reported_and_nothing_runs_without_it() {
    let lab = Lab::new();
    let (code, text) = lab.ends(&["run", "file", "cabinet"]);
    assert_eq!(code, 1);
    assert!(
        text.contains("no target `cabinet`") && text.contains("file"),
        "{text}"
    );
    assert!(lab.is_empty());
}

#[test]
fn a_missing_server_is_named() {
    let lab = Lab::new();
    for target in ["server:nowhere/etcd", "engine@nowhere/etcd"] {
        let (code, text) = lab.ends(&["ab", "file", target]);
        assert_eq!(code, 1);
        assert!(
            text.contains("no program at nowhere/etcd") && !text.contains("is kept"),
            "{text}"
        );
        assert!(lab.is_empty());
    }
}

#[test]
fn a_worker_that_is_no_lab_is_reported() {
    let (code, text) = Lab::new().ends(&["run", "engine@/bin/true"]);
    assert_eq!(code, 1);
    assert!(text.contains("is it an inkstone-lab?"), "{text}");
}

#[test]
fn a_budget_that_is_too_small_for_one_run_leaves_nothing_behind() {
    let lab = Lab::new();
    let (code, text) = lab.ends(&["run", "file", "--budget=0s"]);
    assert_eq!(code, 1);
    assert!(
        text.contains("nothing was measured: the budget of 0s") && text.contains("0 of 2 runs"),
        "{text}"
    );
    assert!(lab.is_empty());
}

#[test]
fn an_existing_record_is_not_overwritten() {
    let lab = Lab::new();
    let record = lab.folder().join("results/run.json.gz");
    std::fs::create_dir(lab.folder().join("results")).unwrap();
    std::fs::write(&record, "of last week").unwrap();
    let (code, text) = lab.ends(&["run", "null"]);
    assert_eq!(code, 1);
    assert!(
        text.contains("results/run.json.gz is there already") && text.contains("--out"),
        "{text}"
    );
    assert_eq!(std::fs::read_to_string(record).unwrap(), "of last week");
    assert!(!lab.folder().join("data").exists());
}

#[test]
fn folders_that_are_files_are_named_with_their_option() {
    let lab = Lab::new();
    std::fs::write(lab.folder().join("data"), "").unwrap();
    let (code, text) = lab.ends(&["run", "null"]);
    assert_eq!(code, 1);
    assert!(
        text.contains("data is no folder") && text.contains("--directory"),
        "{text}"
    );
    assert!(!lab.folder().join("results").exists());
}

#[test]
fn zero_is_refused_where_a_number_must_be_at_least_one() {
    for name in ["threads", "connections", "keys", "clients", "pairs"] {
        let option = format!("--{name}=0");
        let output = Lab::new().command(&["run", "null", &option]).output();
        let (code, text) = code_and_errors(&output.unwrap());
        assert!(code == 1 || code == 2, "{code}: {text}");
        let names_bound = text.contains("at least 1") || text.contains("from 1 to");
        assert!(text.contains(name) && names_bound, "{text}");
    }
}

#[test]
fn the_errors_of_a_server_that_ends_at_once_are_quoted() {
    let lab = Lab::new();
    let text = "[ \"$1\" = --version ] && echo version 7 && exit\necho out of luck >&2\nexit 9";
    let server = format!("server:{}", lab.script("etcd-of-ours", text).display());
    let (code, text) = lab.ends(&["run", &server]);
    assert_eq!(code, 1);
    assert!(
        text.contains("out of luck") && text.contains("exit status: 9"),
        "{text}"
    );
}

#[test]
fn a_comparison_near_the_generators_limit_is_refused() {
    let output = Lab::new()
        .command(&[&["ab", "null", "null"], &SHORT[..]].concat())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("refused"), "{text}");
}

/// Measured runs are kept, and no process stays.
#[test]
fn an_interrupted_lab_leaves_a_readable_record_and_no_process() {
    let lab = Lab::new();
    let words = [
        &["run", "file"],
        &SHORT[..9],
        &SHORT[10..],
        &["--pairs=500"],
    ]
    .concat();
    let child = lab
        .command(&words)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let child = child.unwrap();
    wait_until("a run is measured", || {
        let record = Record::load(&lab.folder().join("results"));
        record.is_ok_and(|record| record.valid_runs().any(|run| run.arm == "file"))
    });
    let below = interrupt(&child, "-INT");
    let (code, text) = code_and_errors(&child.wait_with_output().unwrap());
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("it was interrupted"), "{text}");
    let record = lab.record();
    assert!(!record.complete && record.valid_runs().count() >= 2);
    assert_eq!(
        record.incomplete_because.as_deref(),
        Some("it was interrupted")
    );
    assert!(record.runs.len() < 500);
    nothing_is_left(&lab, &below);
}

#[test]
fn an_interrupted_lab_ends_its_servers() {
    let lab = Lab::new();
    let child = beside_a_silent_server(&lab);
    let below = interrupt(&child, "-TERM");
    assert!(below.len() >= 2, "a worker and a server: {below:?}");
    let (code, text) = code_and_errors(&child.wait_with_output().unwrap());
    assert_eq!(code, 4, "{text}");
    assert_eq!(lab.record().runs[0].outcome, Outcome::Interrupted);
    nothing_is_left(&lab, &below);
}

#[test]
fn servers_of_a_killed_lab_end() {
    let lab = Lab::new();
    let mut child = beside_a_silent_server(&lab);
    let below = interrupt(&child, "-KILL");
    assert!(!child.wait().unwrap().success());
    wait_until("all processes are gone", || {
        below.iter().all(|it| !is_alive(it))
    });
    assert!(!lab.record().complete);
}

#[test]
fn leftovers_of_a_killed_lab_are_removed_by_the_next() {
    let lab = Lab::new();
    let mut child = beside_a_silent_server(&lab);
    let below = interrupt(&child, "-KILL");
    child.wait().unwrap();
    wait_until("all processes are gone", || {
        below.iter().all(|it| !is_alive(it))
    });
    assert!(lab.has_data());
    std::fs::create_dir(lab.folder().join("data/lab-of-another")).unwrap();

    let words = [&["run", "file", "--out=again"], &SHORT[..10], &SHORT[11..]].concat();
    let (code, text) = code_and_errors(&lab.command(&words).output().unwrap());
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("note: removed ") && text.contains("killed"),
        "{text}"
    );
    let kept = std::fs::read_dir(lab.folder().join("data")).unwrap();
    let kept: Vec<_> = kept.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept, ["lab-of-another"]);
}

/// Runs on a mounted disk that is too small. Where the kernel allows no mount, the test
/// does nothing; `worker::run` tests the message with a faulty target.
#[test]
fn the_error_for_a_full_disk_has_a_remedy() {
    let lab = Lab::new();
    std::fs::create_dir(lab.folder().join("data")).unwrap();
    // 1.3 GB of live values: no reclaiming makes room for them.
    let words = ["run", "engine", "--value=fixed:65536", "--durability=os"];
    let words = [&words[..], &["--keys=20000"], &SHORT[1..]].concat();
    let mount = "mount -t tmpfs -o size=448m lab data || exit 77; exec \"$@\"";
    let output = Command::new("unshare")
        .args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            mount,
            "sh",
            PROGRAM,
        ])
        .args(words)
        .current_dir(lab.folder())
        .output();
    let (code, text) = match output {
        Ok(output) => code_and_errors(&output),
        Err(error) => (77, error.to_string()),
    };
    if code == 77 || text.contains("unshare: ") {
        eprintln!("not tested: no file system can be mounted here: {text}");
        return;
    }
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("is full: make room"), "{text}");
    assert!(lab.record().complete);
}

fn beside_a_silent_server(lab: &Lab) -> Child {
    let text = "[ \"$1\" = --version ] && echo version 7 && exit\nexec sleep 1000";
    let server = format!("server:{}", lab.script("etcd-of-ours", text).display());
    let words = [&["run", &server], &SHORT[..]].concat();
    let child = lab
        .command(&words)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the server runs", || {
        below(child.id()).iter().any(|it| it.name == "sleep")
    });
    child
}

/// Sends a signal to the lab; returns its descendants at that time.
fn interrupt(child: &Child, signal: &str) -> BTreeSet<Process> {
    let below = below(child.id());
    let sent = Command::new("kill")
        .arg(signal)
        .arg(child.id().to_string())
        .status();
    assert!(sent.unwrap().success());
    below
}

fn nothing_is_left(lab: &Lab, below: &BTreeSet<Process>) {
    wait_until("all processes are gone", || {
        below.iter().all(|it| !is_alive(it))
    });
    assert!(!lab.has_data());
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONGEST;
    while !holds() {
        assert!(Instant::now() < deadline, "not in {LONGEST:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process. Its start time distinguishes it from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: u32,
    name: String,
    started: String,
}

fn process(pid: u32) -> Option<(u32, Process)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (front, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let process = Process {
        pid,
        name: front.split_once('(')?.1.to_owned(),
        started: (*fields.get(19)?).to_owned(),
    };
    // A zombie has ended.
    (*fields.first()? != "Z").then_some((fields.get(1)?.parse().ok()?, process))
}

fn is_alive(known: &Process) -> bool {
    process(known.pid).is_some_and(|(_, now)| now.started == known.started)
}

/// All descendants of a process.
fn below(root: u32) -> BTreeSet<Process> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, Process)> = pids.filter_map(process).collect();
    let mut parents = BTreeSet::from([root]);
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for (parent, process) in &all {
            if parents.contains(parent) {
                parents.insert(process.pid);
                found.insert(process.clone());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}
