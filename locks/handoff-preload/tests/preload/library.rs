//! The output of the library: counts, greetings in a page, and messages about bad pages.

use std::os::fd::AsRawFd;
use std::process::Command;

use crate::under::{Condition, Mutex, eight_wait_for_one, library, run};
use handoff::hints::Page;

const WORK: &str = "library::work_for_a_child";

/// Some contention, which other tests run in a process of its own.
#[test]
fn work_for_a_child() {
    let (mutex, condition) = (Mutex::new(), Condition::new());
    eight_wait_for_one(&mutex, &condition);
}

fn errors(preloaded: bool, variables: &[(&str, &str)]) -> String {
    let output = run(WORK, preloaded, variables);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn path_of(page: &impl AsRawFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), page.as_raw_fd())
}

#[test]
fn counts_are_printed_if_the_variable_is_set() {
    let text = errors(true, &[("HANDOFF_STAT", "1")]);
    let line = text
        .lines()
        .find(|line| line.starts_with("handoff: process"));
    let line = line.unwrap_or_else(|| panic!("no counts in `{text}`"));
    for name in ["parks", "wakes", "turns", "hand-offs 0", "moves"] {
        assert!(line.contains(name), "{line}");
    }
    assert!(
        !line.contains("parks 0"),
        "eight threads have waited: {line}"
    );
    assert!(!errors(true, &[]).contains("handoff:"));
    assert!(!errors(false, &[("HANDOFF_STAT", "1")]).contains("handoff:"));
}

#[test]
fn a_page_is_greeted_only_by_a_process_that_has_loaded_the_library() {
    let (page, file) = Page::create(0).unwrap();
    let path = path_of(&file);
    let variables = [("HANDOFF_PAGE", path.as_str())];
    errors(false, &variables);
    assert_eq!(page.greetings(), (0, 0), "nothing was loaded");
    errors(true, &variables);
    assert_eq!(page.greetings(), (1, 0));
}

/// The variables outlive `exec`, so the next program greets as well.
#[test]
fn the_library_is_loaded_again_after_exec() {
    let (page, file) = Page::create(0).unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec cat /dev/null"])
        .env("LD_PRELOAD", library())
        .env("HANDOFF_PAGE", path_of(&file));
    assert!(command.status().unwrap().success());
    assert_eq!(page.greetings(), (2, 0));
}

#[test]
fn a_page_with_slots_is_written_to() {
    let (page, file) = Page::create(64).unwrap();
    let before = page.generation();
    errors(true, &[("HANDOFF_PAGE", &path_of(&file))]);
    assert_eq!(page.greetings(), (1, 0));
    assert_ne!(page.generation(), before, "threads have taken slots");
}

#[test]
fn a_file_that_is_not_a_page_is_named() {
    let text = errors(true, &[("HANDOFF_PAGE", "/proc/self/exe")]);
    assert!(
        !text.contains("HANDOFF_PAGE"),
        "it cannot be written: {text}"
    );
    let (_, file) = Page::create(0).unwrap();
    // SAFETY: an open file.
    assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), 0) }, 0);
    let text = errors(true, &[("HANDOFF_PAGE", &path_of(&file))]);
    assert!(text.contains("HANDOFF_PAGE=/proc/"), "{text}");
    let gone = errors(true, &[("HANDOFF_PAGE", "/nowhere/page")]);
    assert!(!gone.contains("HANDOFF_PAGE"), "{gone}");
}
