//! A client with etcd's own Go library, built from `tests/trials/go-client`: these tests depend on
//! how that library handles flow control, renewals and lost connections.
//!
//! It is built once for all test binaries, in cargo's directory for tests: the first
//! process that needs it holds a lock while it builds, and the others find the program there.
//! It is built again when its sources are newer.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// If the modules are not downloaded within this time, the test is skipped.
const DOWNLOAD_MAX: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
/// Name prefix of programs that earlier versions of this file left behind.
const LEFT_BEHIND: &str = "go-client-";

/// Runs the client to its end and returns the JSON that it prints. `None`, with a message, if
/// Go is not installed or the modules cannot be downloaded.
pub fn run(arguments: &[&str]) -> Option<serde_json::Value> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(program).as_ref()?;
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn program() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = File::create(place.join("go-client.lock")).unwrap();
    // The kernel releases the lock when this process ends.
    lock.lock().unwrap();
    remove_left_behind(place);
    let program = place.join("go-client");
    if is_current(&program) {
        return Some(program);
    }
    let fresh = place.join("go-client.new");
    build(&fresh)?;
    std::fs::rename(&fresh, &program).unwrap();
    Some(program)
}

fn remove_left_behind(place: &Path) {
    for entry in std::fs::read_dir(place).unwrap().flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(LEFT_BEHIND) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/trials/go-client")
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// Whether the program exists and none of its sources is newer.
fn is_current(program: &Path) -> bool {
    let Some(built) = changed(program) else {
        return false;
    };
    let sources = std::fs::read_dir(source()).unwrap();
    let mut times = sources.map(|entry| changed(&entry.unwrap().path()));
    times.all(|time| time.is_some_and(|time| time <= built))
}

fn go(arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.current_dir(source()).args(arguments);
    command
}

fn build(program: &Path) -> Option<()> {
    download()?;
    let program = program.to_str().unwrap();
    let arguments = ["build", "-buildvcs=false", "-o", program, "."];
    let built = go(&arguments).output().unwrap();
    let error = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{error}");
    Some(())
}

fn download() -> Option<()> {
    let mut command = go(&["mod", "download"]);
    let begun = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = match begun {
        Ok(child) => child,
        Err(error) => {
            eprintln!("SKIPPED: there is no Go on this machine ({error}): https://go.dev/dl");
            return None;
        }
    };
    match end_in_time(child) {
        Ok(()) => Some(()),
        Err(reason) => {
            eprintln!("SKIPPED: the modules of etcd's Go client cannot be downloaded: {reason}");
            None
        }
    }
}

/// Waits for a download; kills it if it takes too long.
fn end_in_time(mut child: Child) -> Result<(), String> {
    let mut waited = Duration::ZERO;
    while child.try_wait().unwrap().is_none() {
        if waited >= DOWNLOAD_MAX {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("the download was not done after {DOWNLOAD_MAX:?}"));
        }
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
