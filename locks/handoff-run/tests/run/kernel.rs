//! `--monitor` and `--sched fifo|hint`, for which `handoff-scheduler` loads programs into the
//! kernel. Where it is not built, or the kernel forbids it, the tests print SKIPPED.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::called::{Ended, binary, ended, handoff, library};

/// `handoff-scheduler` as built for this profile or for release.
fn loader() -> Option<PathBuf> {
    let beside = binary().with_file_name("handoff-scheduler");
    let target = binary().ancestors().nth(2).unwrap();
    [beside, target.join("release/handoff-scheduler")]
        .into_iter()
        .find(|path| path.exists())
}

/// `handoff` in a folder of its own, with or without the loader.
struct Folder(tempfile::TempDir);

#[expect(clippy::disallowed_methods, reason = "a test on the real system")]
fn copy(from: &Path, to: &Path) {
    if std::fs::hard_link(from, to).is_err() {
        std::fs::write(to, std::fs::read(from).unwrap()).unwrap();
        let rights = std::fs::metadata(from).unwrap().permissions();
        std::fs::set_permissions(to, rights).unwrap();
    }
}

impl Folder {
    fn new(loader: Option<&Path>) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        copy(binary(), &folder.path().join("handoff"));
        if let Some(loader) = loader {
            copy(loader, &folder.path().join("handoff-scheduler"));
        }
        Folder(folder)
    }

    fn run(&self, options: &[&str], line: &str) -> Ended {
        let mut command = Command::new(self.0.path().join("handoff"));
        command.arg("run").args(options);
        if !options.contains(&"--no-preload") {
            command.arg("--library").arg(library());
        }
        for inherited in ["LD_PRELOAD", "HANDOFF_STAT", "HANDOFF_PAGE"] {
            command.env_remove(inherited);
        }
        ended(command.args(["--", "sh", "-c", line]))
    }
}

/// Runs a line with the loader; none, after printing SKIPPED, where the loader cannot work.
fn with_loader(options: &[&str], line: &str) -> Option<Ended> {
    let Some(loader) = loader() else {
        eprintln!("SKIPPED: handoff-scheduler is not built: cargo xtask scheduler");
        return None;
    };
    let ended = Folder::new(Some(&loader)).run(options, line);
    let cannot = ["no permission", "no sched_ext", "this kernel has no"];
    if ended.code == Some(125) && cannot.iter().any(|why| ended.error.contains(why)) {
        eprintln!("SKIPPED: {}", ended.error.trim());
        return None;
    }
    Some(ended)
}

#[test]
fn without_the_loader_the_error_says_how_to_build_it() {
    for options in [
        ["--monitor", "--stat"],
        ["--sched", "fifo"],
        ["--sched", "hint"],
    ] {
        let ended = Folder::new(None).run(&options, "exit 3");
        assert_eq!(ended.code, Some(125), "{ended:?}");
        assert!(
            ended.error.contains("handoff-scheduler cannot be started"),
            "{ended:?}"
        );
        assert!(ended.error.contains("cargo xtask scheduler"), "{ended:?}");
    }
}

#[test]
fn a_monitored_program_has_the_locks_and_its_exit_code() {
    let Some(ended) = with_loader(&["--monitor", "--stat"], "echo here; exit 3") else {
        return;
    };
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.out, "here\n");
    assert!(
        ended.error.contains("handoff: holders preempted"),
        "{ended:?}"
    );
    assert!(
        ended.error.contains("programs with the locks 1,"),
        "{ended:?}"
    );
}

#[test]
fn a_monitored_program_may_crash() {
    if let Some(ended) = with_loader(&["--monitor"], "kill -SEGV $$") {
        assert_eq!(ended.code, Some(128 + libc::SIGSEGV), "{ended:?}");
    }
}

#[test]
fn another_loader_is_noticed() {
    let folder = Folder::new(Some(Path::new("/bin/true")));
    let ended = folder.run(&["--monitor"], "exit 3");
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.error.contains("ended before its time"), "{ended:?}");
}

#[test]
fn a_program_runs_under_each_scheduler() {
    for sched in ["fifo", "hint"] {
        if let Some(ended) = with_loader(&["--sched", sched, "--stat"], "exit 3") {
            assert_eq!(ended.code, Some(3), "{ended:?}");
        }
    }
}

#[test]
fn the_monitor_is_refused_without_the_library() {
    let refused = ended(handoff().args(["--monitor", "--no-preload", "--", "true"]));
    assert_eq!(refused.code, Some(125), "{refused:?}");
}

#[test]
fn a_scheduler_works_without_the_library() {
    for sched in ["fifo", "hint"] {
        if let Some(ended) = with_loader(&["--no-preload", "--sched", sched], "exit 3") {
            assert_eq!(ended.code, Some(3), "{ended:?}");
        }
    }
}
