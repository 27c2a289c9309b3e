//! How the library shows itself: counts, greetings, and what it says to bad pages.

use std::os::fd::AsRawFd;
use std::process::Command;

use crate::under::{Condition, Mutex, eight_wait_for_one, library, run};
use handoff::hints::Page;

const WORK: &str = "library::work_for_a_child";

/// Contends a little; other tests run it in processes of their own.
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
fn counts_are_printed_for_those_who_ask() {
    let said = errors(true, &[("HANDOFF_STAT", "1")]);
    let line = said
        .lines()
        .find(|line| line.starts_with("handoff: process"));
    let line = line.unwrap_or_else(|| panic!("no counts in `{said}`"));
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
fn a_page_is_greeted_by_those_who_have_loaded_the_library() {
    let (page, file) = Page::create(0).unwrap();
    let path = path_of(&file);
    let variables = [("HANDOFF_PAGE", path.as_str())];
    errors(false, &variables);
    assert_eq!(page.greetings(), (0, 0), "nothing was loaded");
    errors(true, &variables);
    assert_eq!(page.greetings(), (1, 0));
}

/// The variables outlive `exec`, so the next program is greeted from, too.
#[test]
fn a_program_that_becomes_another_stays_preloaded() {
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
fn a_page_that_is_none_is_named() {
    let said = errors(true, &[("HANDOFF_PAGE", "/proc/self/exe")]);
    assert!(!said.contains("HANDOFF_PAGE"), "not ours to write: {said}");
    let (_, file) = Page::create(0).unwrap();
    // SAFETY: a file of ours.
    assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), 0) }, 0);
    let said = errors(true, &[("HANDOFF_PAGE", &path_of(&file))]);
    assert!(said.contains("HANDOFF_PAGE=/proc/"), "{said}");
    let gone = errors(true, &[("HANDOFF_PAGE", "/nowhere/page")]);
    assert!(!gone.contains("HANDOFF_PAGE"), "{gone}");
}
