//! `inkstone serve` as a child process, and commands that connect to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");

/// A server with a directory of its own, killed when dropped.
pub struct Server {
    child: Child,
    address: String,
    place: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Server {
        let place = tempfile::tempdir().unwrap();
        let (child, address) = Server::serve(&place);
        Server {
            child,
            address,
            place,
        }
    }

    fn serve(place: &tempfile::TempDir) -> (Child, String) {
        let mut child = serving(place).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let address = address_when_ready(log);
        (child, address)
    }

    /// Starts the server again after [`Server::stop`].
    pub fn start_again(&mut self) {
        (self.child, self.address) = Server::serve(&self.place);
    }

    /// The error of a start that must fail.
    pub fn refused_start(&self) -> String {
        let output = serving(&self.place).output().unwrap();
        assert!(!output.status.success(), "it has started and ended");
        text(&output.stderr)
    }

    pub fn directory(&self) -> PathBuf {
        self.place.path().join("data")
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Kills the server, as a crash would.
    pub fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .env("INKSTONE_ENDPOINT", &self.address)
            .stdin(Stdio::null());
        command
    }

    pub fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command, which must succeed, and returns its output.
    pub fn run(&self, words: &[&str]) -> String {
        printed(&self.output(words), words)
    }

    /// [`Server::run`] with bytes on stdin.
    pub fn feed(&self, words: &[&str], bytes: &[u8]) -> String {
        let mut command = self.command(words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        printed(&child.wait_with_output().unwrap(), words)
    }

    /// Starts a command that runs until it is ended.
    pub fn begin(&self, words: &[&str]) -> Running {
        let mut command = self.command(words);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Running { child, output }
    }
}

fn serving(place: &tempfile::TempDir) -> Command {
    let mut command = Command::new(PROGRAM);
    let directory = place.path().join("data");
    command
        .arg("serve")
        .arg(format!("--data-dir={}", directory.display()))
        .arg("--listen-client-urls=http://127.0.0.1:0")
        .arg("--advertise-client-urls=http://127.0.0.1:0")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// `inkstone repair` of a directory that no server has open.
pub fn repair(directory: &std::path::Path, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("repair").arg("--data-dir").arg(directory);
    command.args(words).output().unwrap()
}

/// Waits until the server is ready and returns its address. The system chooses the port,
/// so that servers of concurrent tests never collide.
fn address_when_ready(mut log: BufReader<ChildStderr>) -> String {
    let mut logged = String::new();
    loop {
        let start = logged.len();
        let read = log.read_line(&mut logged).unwrap();
        assert!(read > 0, "it ended before it was ready: {logged}");
        if logged[start..].contains("ready to serve client requests") {
            break;
        }
    }
    // The rest of the log is read, too, or the server would block on a full pipe.
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let open = logged.lines().find(|line| line.contains("serving client"));
    let line: serde_json::Value = serde_json::from_str(open.unwrap()).unwrap();
    format!("http://{}", line["address"].as_str().unwrap())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that runs.
pub struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// The next lines it prints.
    pub fn lines(&mut self, number: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..number {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            assert!(line.ends_with('\n'), "it ended after {lines:?}");
            lines.push(line.trim_end_matches('\n').to_owned());
        }
        lines
    }

    /// Interrupts the command as Ctrl-C does.
    pub fn interrupt(&mut self) -> (ExitStatus, String) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &id])
                .status()
                .unwrap()
                .success()
        );
        self.end()
    }

    /// Waits for the command's end.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut complaint = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut complaint)
            .unwrap();
        (self.child.wait().unwrap(), complaint)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn printed(output: &Output, words: &[&str]) -> String {
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
