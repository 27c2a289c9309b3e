//! What is passed on: arguments, environment, exit codes, counts.

use crate::called::{binary, ended, handoff, library, shell};

#[test]
fn the_exit_code_is_the_programs() {
    for code in [0, 1, 7, 255] {
        let ended = shell(&format!("exit {code}"));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(ended.error, "", "no message");
    }
}

#[test]
fn a_killed_program_ends_as_in_a_shell() {
    assert_eq!(shell("kill -TERM $$").code, Some(128 + 15));
    assert_eq!(shell("kill -KILL $$").code, Some(128 + 9));
}

#[test]
fn arguments_are_untouched() {
    let words = ["--sched", "a b", "", "--", "$HOME", "-x"];
    let ended = ended(
        handoff()
            .args(["--", "sh", "-c", "printf '[%s]' \"$@\"", "name"])
            .args(words),
    );
    assert_eq!(ended.out, "[--sched][a b][][--][$HOME][-x]");
}

#[test]
fn the_program_has_the_name_that_was_typed() {
    let ended = ended(handoff().args(["--", "cat", "/proc/self/cmdline"]));
    assert_eq!(ended.out, "cat\0/proc/self/cmdline\0");
}

#[test]
fn standard_input_is_the_programs() {
    let line = format!(
        "printf hello | {} run --library {} -- cat",
        binary().display(),
        library().display()
    );
    let ended = ended(std::process::Command::new("sh").args(["-c", &line]));
    assert_eq!(ended.out, "hello", "{ended:?}");
}

#[test]
fn the_library_comes_before_those_that_are_preloaded_already() {
    let show = ["--", "sh", "-c", "printf %s \"$LD_PRELOAD\""];
    let own = library().display().to_string();
    assert_eq!(ended(handoff().args(show)).out, own);
    let both = ended(handoff().args(show).env("LD_PRELOAD", "libm.so.6"));
    assert_eq!(both.out, format!("{own}:libm.so.6"));
    let empty = ended(handoff().args(show).env("LD_PRELOAD", ""));
    assert_eq!(empty.out, own);
}

#[test]
fn counts_are_printed_with_stat() {
    // Coreutils close standard error themselves, and a shell leaves by `_exit`.
    let ended = ended(handoff().args(["--stat", "--"]).arg(binary()).arg("-V"));
    assert_eq!(ended.code, Some(0));
    assert!(ended.error.contains("handoff: process"), "{ended:?}");
    let said = "handoff: programs with the locks 1, standing aside 0";
    assert!(ended.error.contains(said), "{ended:?}");
}

#[test]
fn a_program_without_the_library_has_its_environment() {
    let mut command = std::process::Command::new(binary());
    command
        .args(["run", "--no-preload", "--", "sh", "-c"])
        .arg("printf %s \"$LD_PRELOAD,$HANDOFF_PAGE\"; exit 4")
        .env_remove("HANDOFF_PAGE")
        .env("LD_PRELOAD", "libm.so.6");
    let ended = ended(&mut command);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), "libm.so.6,"));
}

#[test]
fn the_library_is_found_beside_the_binary() {
    let folder = tempfile::tempdir_in(binary().parent().unwrap()).unwrap();
    let own = folder.path().join("handoff");
    // Linked, not copied: a file that is being written cannot be executed.
    std::fs::hard_link(binary(), &own).unwrap();
    let run = || ended(std::process::Command::new(&own).args(["run", "--", "true"]));
    let missing = run();
    assert_eq!(missing.code, Some(125), "{missing:?}");
    assert!(
        missing
            .error
            .contains("libhandoff_preload.so cannot be opened")
    );
    assert!(missing.error.contains("--library PATH"), "{missing:?}");
    let beside = folder.path().join("libhandoff_preload.so");
    std::fs::hard_link(library(), beside).unwrap();
    assert_eq!(run().code, Some(0), "{:?}", run());
}
