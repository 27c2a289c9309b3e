//! Calling the binary, and its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary that cargo has built for this test.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_handoff"))
}

/// The library that cargo has built for this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libhandoff_preload.so");
    assert!(library.exists(), "{} was not built", library.display());
    library.canonicalize().unwrap()
}

/// `handoff run --library ..`, to which options, `--` and a program are added.
pub fn handoff() -> Command {
    let mut command = Command::new(binary());
    command.args(["run", "--library"]).arg(library());
    for inherited in ["LD_PRELOAD", "HANDOFF_STAT", "HANDOFF_PAGE"] {
        command.env_remove(inherited);
    }
    command
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

pub fn ended(command: &mut Command) -> Ended {
    of(&command.output().unwrap())
}

pub fn of(output: &Output) -> Ended {
    Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        error: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs a line of shell.
pub fn shell(line: &str) -> Ended {
    ended(handoff().args(["--", "sh", "-c", line]))
}
