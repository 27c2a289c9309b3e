//! `inkstone backup run` as a child process, and what it has stored.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use etcd_snapshot::{FileState, LeaseRecord};
use serde_json::Value;
use tempfile::TempDir;

use crate::changes::Store;

pub fn inkstone() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkstone"));
    for variable in ["INKSTONE_ENDPOINT", "INKSTONE_BACKUP_PLACE"] {
        command.env_remove(variable);
    }
    command
}

pub fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process that makes a backup, killed when dropped.
pub struct Runner(Child);

impl Runner {
    pub fn start(store: &Store, place: &Path) -> Runner {
        let rhythm = ["--tail-every=50ms", "--base-every=2s", "--hash-every=500ms"];
        let child = inkstone()
            .args(["backup", "run", "--to"])
            .arg(place)
            .args(rhythm)
            .arg(store.endpoint())
            .stderr(Stdio::piped())
            .spawn();
        Runner(child.unwrap())
    }

    /// Ends it without a warning; the revision of the server then, and what the process said.
    pub async fn kill(mut self, store: &Store) -> String {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        let mut said = String::new();
        let mut errors = self.0.stderr.take().unwrap();
        errors.read_to_string(&mut said).unwrap();
        format!("{}; it said:\n{said}", store.revision().await)
    }

    /// Waits until it says a line with these words.
    pub fn wait_for(&mut self, words: &str) {
        let errors = self.0.stderr.as_mut().unwrap();
        // A reader with a buffer would take what is said later, too.
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !text(&line).contains(words) {
            if line.last() == Some(&b'\n') {
                line.clear();
            }
            assert_eq!(errors.read(&mut byte).unwrap(), 1, "it ended by itself");
            line.extend(byte);
        }
    }

    /// Asks it to end; its status, and what it said.
    pub fn interrupt(mut self) -> (ExitStatus, String) {
        let interrupt = ["-INT", &self.0.id().to_string()];
        let sent = Command::new("kill").args(interrupt).status();
        assert!(sent.unwrap().success());
        let mut said = String::new();
        let mut errors = self.0.stderr.take().unwrap();
        errors.read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap(), said)
    }

    /// Waits until the newest revision is restored with these leases.
    pub fn wait_for_leases(&mut self, place: &Path, leases: &[(i64, i64)], folder: &TempDir) {
        let file = folder.path().join("leases.db");
        loop {
            let words = ["backup", "restore", file.to_str().unwrap(), "--from"];
            let restored = output(inkstone().args(words).arg(place));
            if restored.status.success() {
                let opened = etcd_snapshot::open(&file, false, |_, _| ()).unwrap();
                let state = FileState::read(&opened).unwrap();
                let pair = |lease: &LeaseRecord| (lease.id, lease.ttl_seconds);
                if state.leases.iter().map(pair).eq(leases.iter().copied()) {
                    return;
                }
            }
            assert!(self.0.try_wait().unwrap().is_none(), "it ended by itself");
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `backup run --once`; what it said.
pub fn once(store: &Store, place: &Path) -> String {
    let words = ["backup", "run", "--once", "--to"];
    let done = output(inkstone().args(words).arg(place).arg(store.endpoint()));
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    said
}

/// The histories of a place; none while it has none.
pub fn list(place: &Path) -> Vec<Value> {
    let words = ["backup", "list", "--json", "--from"];
    let listed = output(inkstone().args(words).arg(place));
    let lines = text(&listed.stdout);
    let parse = |line: &str| serde_json::from_str(line).unwrap();
    lines.lines().map(parse).collect()
}

/// Waits until a revision is stored.
pub fn wait_until_stored(place: &Path, revision: i64) {
    let ends = |history: &Value| {
        let ranges = history["revisions"].as_array().unwrap();
        ranges.last().and_then(|range| range[1].as_i64())
    };
    while list(place).last().and_then(ends).unwrap_or(0) < revision {}
}
