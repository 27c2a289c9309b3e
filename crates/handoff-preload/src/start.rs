//! When the library is loaded, and when the process ends.
//!
//! The greeting proves to whoever started the program that the library is at work in
//! it: a loader that cannot load a library says so and goes on without it. Nothing
//! here is needed for locking.

use std::ffi::CStr;
use std::fmt::Write;
use std::os::fd::AsFd;

use handoff::hints::{Page, open_file};
use handoff::raw::counts;

use crate::message::Line;
use crate::{family, fork, real};

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    real::look_up_all();
    fork::watch();
    let is_in_use = family::is_in_use();
    if variable(c"HANDOFF_STAT") == Some(c"1") {
        handoff::raw::count_from_now();
    }
    if let Some(path) = variable(c"HANDOFF_PAGE") {
        greet(path, is_in_use);
    }
}

fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a string with its zero; the environment is not changed before the
    // program runs.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: what the environment has are strings with their zeros.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// A page that is gone is none of ours: whoever made it may have ended long before
/// this process, which inherited the variable.
fn greet(path: &CStr, is_in_use: bool) {
    let Ok(file) = open_file(path) else { return };
    match Page::open(file.as_fd()) {
        Ok(page) => {
            page.greet(is_in_use);
            if is_in_use && page.wants_hints() {
                // The only page of this process.
                let _ = page.install();
            }
        }
        Err(refused) => {
            let mut line = Line::new();
            line.text(b"HANDOFF_PAGE=").text(path.to_bytes());
            let _ = write!(line, ": {refused}");
            line.print();
        }
    }
}

/// Prints the counts for those who asked for them.
extern "C" fn end() {
    if variable(c"HANDOFF_STAT") != Some(c"1") {
        return;
    }
    let counts = counts();
    let mut line = Line::new();
    // SAFETY: asks for a number.
    let process = unsafe { libc::getpid() };
    line.text(b"process ")
        .number(u64::from(process.cast_unsigned()));
    if !family::is_in_use() {
        line.text(b" stands aside: unknown C library").print();
        return;
    }
    let named = [
        (" parks ", counts.parks),
        (" wakes ", counts.wakes),
        (" turns ", counts.turns),
        (" hand-offs ", counts.hand_offs),
        (" moves ", counts.moves),
    ];
    for (name, count) in named {
        line.text(name.as_bytes()).number(count);
    }
    line.print();
}
