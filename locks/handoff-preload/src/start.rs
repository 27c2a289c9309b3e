//! Work of the library when it is loaded, and when the process ends.
//!
//! The greeting in the page proves to the process that started the program that the library
//! is in use: a loader that cannot load a library prints a warning and goes on without it.
//! Locking does not depend on this module.

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
    // SAFETY: a string that ends with a zero; the environment is not changed before the
    // program runs.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: values in the environment are strings that end with a zero.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Counts this process in the page, and installs the page if it has slots. A page that cannot be
/// opened is ignored: its maker may have ended long before this process, which has inherited
/// the variable.
fn greet(path: &CStr, is_in_use: bool) {
    let Ok(file) = open_file(path) else { return };
    match Page::open(file.as_fd()) {
        Ok(page) => {
            page.greet(is_in_use);
            if is_in_use && page.wants_hints() {
                // It cannot fail: this is the only page of the process.
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

/// Prints the counts if `HANDOFF_STAT=1` is set.
extern "C" fn end() {
    if variable(c"HANDOFF_STAT") != Some(c"1") {
        return;
    }
    let counts = counts();
    let mut line = Line::new();
    // SAFETY: returns a number.
    let process = unsafe { libc::getpid() };
    // A line takes everything: it cuts off what has no room.
    let _ = write!(line, "process {process}");
    let _ = match family::is_in_use() {
        false => line.write_str(" stands aside: unknown C library"),
        true => write!(
            line,
            " parks {} wakes {} turns {} hand-offs {} moves {}",
            counts.parks, counts.wakes, counts.turns, counts.hand_offs, counts.moves
        ),
    };
    line.print();
}
