//! Programs and libraries that are refused, with their messages and exit codes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::called::{Ended, binary, ended, handoff, shell};

/// ELF's number of this machine.
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// Address of a static program's first byte.
const BASE: u64 = 0x40_0000;
const CODE_AT: usize = 0x80;

/// A static program of `code`, with its one program header at `headers_at`.
fn static_program(code: &[u8], headers_at: usize) -> Vec<u8> {
    let mut file = vec![0; headers_at + 56];
    let mut put = |place: usize, bytes: &[u8]| file[place..][..bytes.len()].copy_from_slice(bytes);
    // A 64-bit executable in little-endian order.
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &2_u16.to_le_bytes());
    put(18, &MACHINE.to_le_bytes());
    put(20, &1_u32.to_le_bytes());
    put(24, &(BASE + CODE_AT as u64).to_le_bytes());
    put(32, &(headers_at as u64).to_le_bytes());
    put(52, &64_u16.to_le_bytes());
    put(54, &56_u16.to_le_bytes());
    put(56, &1_u16.to_le_bytes());
    put(CODE_AT, code);
    // To be loaded, readable and executable, from the beginning.
    put(headers_at, &1_u32.to_le_bytes());
    put(headers_at + 4, &5_u32.to_le_bytes());
    put(headers_at + 16, &BASE.to_le_bytes());
    put(headers_at + 24, &BASE.to_le_bytes());
    put(headers_at + 32, &0x1000_u64.to_le_bytes());
    put(headers_at + 40, &0x1000_u64.to_le_bytes());
    put(headers_at + 48, &0x1000_u64.to_le_bytes());
    file
}

#[expect(clippy::disallowed_methods, reason = "a test on the real system")]
fn put(folder: &TempDir, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn run(program: &Path) -> Ended {
    ended(handoff().arg("--").arg(program))
}

#[track_caller]
fn assert_refused(ended: &Ended, code: i32, why: &str) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(ended.error.contains(why), "{ended:?}");
}

#[test]
fn static_programs_and_scripts_for_them_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = put(&folder, "static", &static_program(&[], 0x1000), 0o755);
    assert_refused(&run(&program), 125, "static is statically linked");
    let first_line = format!("#! {}\n", program.display());
    let script = put(&folder, "script", first_line.as_bytes(), 0o755);
    assert_refused(&run(&script), 125, "static is statically linked");
    assert!(run(&script).error.contains("--no-preload"), "the remedy");
}

#[test]
fn programs_of_another_architecture_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut narrow = static_program(&[], 0x1000);
    narrow[4] = 1;
    let program = put(&folder, "narrow", &narrow, 0o755);
    assert_refused(&run(&program), 125, "another architecture");
}

/// Root makes a program that would run as another user; other users look for one.
#[test]
fn setuid_programs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("setuid");
    std::fs::copy("/bin/true", &copy).unwrap();
    let program = if std::os::unix::fs::chown(&copy, Some(65_534), None).is_ok() {
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).unwrap();
        copy
    } else {
        let known = ["/usr/bin/su", "/usr/bin/passwd", "/bin/su"].map(PathBuf::from);
        let is_setuid = |path: &PathBuf| {
            let about = path.metadata();
            about.is_ok_and(|about| about.permissions().mode() & 0o4000 != 0)
        };
        let Some(found) = known.into_iter().find(is_setuid) else {
            eprintln!("SKIPPED: no setuid program here, and no right to make one");
            return;
        };
        found
    };
    assert_refused(&run(&program), 125, "is setuid");
}

/// The check does not see that this one is static: its headers are too far away.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_program_that_does_not_greet_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    // exit_group(0)
    let code = b"\xb8\xe7\x00\x00\x00\x31\xff\x0f\x05";
    let written = put(&folder, "written", &static_program(code, 0x2_0000), 0o755);
    let program = folder.path().join("program");
    // By another process, so that no child of this one has it open for writing.
    let copied = Command::new("cp").arg(&written).arg(&program).status();
    assert!(copied.unwrap().success());
    assert_refused(&run(&program), 124, "never loaded the library");
    let native = ended(
        Command::new(binary())
            .args(["run", "--no-preload", "--"])
            .arg(&program),
    );
    assert_eq!(native.code, Some(0), "it works: {native:?}");
}

#[test]
fn missing_and_not_executable_programs_are_refused() {
    assert_refused(
        &run(Path::new("no-such-program")),
        127,
        "there is no program",
    );
    assert_refused(
        &run(Path::new("/no/such/program")),
        127,
        "there is no program",
    );
    let folder = tempfile::tempdir().unwrap();
    let text = put(&folder, "text", b"text", 0o644);
    assert_refused(&run(&text), 126, "is not executable");
    assert_refused(&run(folder.path()), 126, "is not executable");
}

#[test]
fn unusable_libraries_are_refused_before_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let with = |library: &Path| {
        ended(
            Command::new(binary())
                .args(["run", "--library"])
                .arg(library)
                .args(["--", "echo", "started"]),
        )
    };
    let text = put(&folder, "text.so", b"text", 0o644);
    let spaced = put(&folder, "a b.so", b"text", 0o644);
    // A valid library, which does not greet.
    let maps = shell("cat /proc/self/maps").out;
    let c_library = maps.lines().find_map(|line| {
        line.ends_with("/libc.so.6")
            .then(|| line.split_once('/').unwrap().1)
    });
    let c_library = PathBuf::from(format!("/{}", c_library.unwrap()));
    for (library, why) in [
        (Path::new("/no/library.so"), "cannot be opened"),
        (folder.path(), "cannot be opened"),
        (&text, "text.so"),
        (&spaced, "without spaces"),
        (&c_library, "it is another library"),
    ] {
        let ended = with(library);
        assert_refused(&ended, 125, why);
        assert_eq!(ended.out, "", "{}", library.display());
    }
}

#[test]
fn wrong_arguments_end_with_exit_code_125() {
    for words in [
        &["run"][..],
        &["run", "true"],
        &["run", "--monitor", "--", "true"],
        &["run", "--sched", "fifo", "--", "true"],
        &["run", "--no-preload", "--stat", "--", "true"],
    ] {
        let ended = ended(Command::new(binary()).args(words));
        assert_eq!(ended.code, Some(125), "{words:?}: {ended:?}");
    }
    let help = ended(Command::new(binary()).args(["run", "--help"]));
    assert_eq!(help.code, Some(0));
    assert!(help.out.contains("Examples:"), "{help:?}");
}
