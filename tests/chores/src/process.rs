//! Child processes: started, waited for, and their failures named.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub use crate::Outcome;

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("this crate lies in a folder of the repository")
        .to_owned()
}

/// A cargo command in the root of the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Runs to the end, output going where ours goes; fails unless it succeeds.
pub fn run(command: &mut Command) -> Outcome {
    println!("$ {}", words(command));
    let status = command
        .status()
        .map_err(|error| format!("cannot start `{}`: {error}", words(command)))?;
    if !status.success() {
        return Err(format!("`{}` ended with {status}", words(command)).into());
    }
    Ok(())
}

/// Runs to the end and gives back what it printed on its standard output.
pub fn capture(command: &mut Command) -> Outcome<String> {
    let output = command
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("cannot start `{}`: {error}", words(command)))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let words = words(command);
        return Err(format!("`{words}` ended with {}: {complaint}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The server's optimised binary, built now unless the caller has one.
pub fn inkstone_binary(given: Option<&Path>) -> Outcome<PathBuf> {
    match given {
        Some(binary) => Ok(std::fs::canonicalize(binary)
            .map_err(|error| format!("no server at {}: {error}", binary.display()))?),
        None => {
            run(&mut cargo(&["build", "--release", "--bin", "inkstone"]))?;
            Ok(root().join("target/release/inkstone"))
        }
    }
}

/// Builds the Go program in a folder of `tests/trials`; `None` if there is no Go.
pub fn go_program(folder: &str, program: PathBuf) -> Outcome<Option<PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        return Ok(None);
    }
    let mut build = Command::new("go");
    build.current_dir(root().join("tests/trials").join(folder));
    build.args(["build", "-buildvcs=false", "-o"]).arg(&program);
    run(build.arg("."))?;
    Ok(Some(program))
}

/// True when the process may mount file systems.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn words(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy()),
    );
    words.join(" ")
}
