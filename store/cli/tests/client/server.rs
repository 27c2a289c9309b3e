//! `inkstone serve` as a child process, and commands that connect to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use harness::{Member, MemberConfig, Program};

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");

/// A server with a directory of its own, killed when dropped.
pub struct Server {
    member: Member,
    _place: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    pub fn start_with(flags: &[&str]) -> Server {
        let place = tempfile::tempdir().unwrap();
        let program = Program::new(PROGRAM).with(flags);
        let member = Member::alone(program, place.path()).unwrap();
        Server {
            member,
            _place: place,
        }
    }

    /// A server that has the same address after a restart.
    pub fn start_on_reserved_port() -> Server {
        let place = tempfile::tempdir().unwrap();
        let config = MemberConfig::on_reserved_ports("alone", place.path()).unwrap();
        let mut member = Member::new(Program::new(PROGRAM), config);
        member.start_and_wait().unwrap();
        Server {
            member,
            _place: place,
        }
    }

    /// Starts the server again after [`Server::stop`].
    pub fn start_again(&mut self) {
        self.member.start_and_wait().unwrap();
    }

    /// The error of a start that must fail.
    pub fn refused_start(&mut self) -> String {
        let (status, log) = self.member.refused_start().unwrap();
        assert!(!status.success(), "it has started and ended");
        log
    }

    pub fn directory(&self) -> PathBuf {
        self.member.config.data.clone()
    }

    /// Returns all lines that the server has logged.
    pub fn log(&mut self) -> String {
        self.member.process().unwrap().log()
    }

    pub fn address(&self) -> String {
        self.member.client_url()
    }

    /// Kills the server, as a crash would.
    pub fn stop(&mut self) {
        self.member.kill().unwrap();
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .env("INKSTONE_ENDPOINT", self.address())
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
        printed(&self.output_of(words, bytes), words)
    }

    /// [`Server::output`] with bytes on stdin.
    pub fn output_of(&self, words: &[&str], bytes: &[u8]) -> Output {
        let mut command = self.command(words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that needs no input may have ended.
        let _ = child.stdin.take().unwrap().write_all(bytes);
        child.wait_with_output().unwrap()
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

/// `inkstone repair` of a directory that no server has open.
pub fn repair(directory: &std::path::Path, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("repair").arg("--data-dir").arg(directory);
    command.args(words).output().unwrap()
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
