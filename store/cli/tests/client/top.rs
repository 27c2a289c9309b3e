//! `inkstone top`, once and on a terminal.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::server::{Server, text};

#[test]
fn one_table_shows_members_and_keys_and_no_escapes_of_the_keys() {
    let server = Server::start();
    let mut top = server.begin(&["top", "--cluster", "--once", "--interval", "4s"]);
    for number in 0..20 {
        server.run(&["put", &format!("/registry/pods/{number}"), "v"]);
        server.run(&["put", "\u{1b}[2J\u{7}/a/b", "v"]);
    }
    let (headline, blank) = (top.lines(1).remove(0), top.lines(1).remove(0));
    assert!(headline.contains("1 of 1 members answer"), "{headline}");
    assert_eq!(blank, "");
    let (names, row) = (top.lines(1).remove(0), top.lines(1).remove(0));
    for name in ["ROLE", "LAG", "PUT/s", "FLUSH 99%"] {
        assert!(names.contains(name), "{names}");
    }
    assert!(row.contains("leader") && row.contains(" ms"), "{row}");
    assert_eq!(top.lines(1), [""]);
    let rest = [top.lines(1), top.lines(2)].concat().join("\n");
    assert!(rest.contains("/registry/pods/"), "{rest}");
    assert!(rest.contains("\\x1b[2J\\a/a/"), "{rest}");
    assert!(
        !rest.contains('\u{1b}') && !rest.contains('\u{7}'),
        "{rest:?}"
    );
    assert!(top.end().0.success());
}

#[test]
fn without_a_terminal_only_one_table_can_be_printed() {
    let server = Server::start();
    let output = server.output(&["top"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--once"));
    let output = server.output(&["top", "--once", "--endpoint", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("connection refused"));
}

#[test]
fn a_member_that_is_down_has_a_row_with_the_reason() {
    let server = Server::start();
    let endpoints = format!("{},127.0.0.1:1", server.address());
    let words = [
        "top",
        "--once",
        "--no-keys",
        "--interval=100ms",
        "--endpoint",
        &endpoints,
    ];
    let printed = server.run(&words);
    assert!(printed.contains("1 of 2 members answer"), "{printed}");
    let row = printed.lines().last().unwrap();
    assert!(
        row.contains("down") && row.contains("connection refused"),
        "{row}"
    );
}

#[test]
fn the_screen_is_as_before_after_an_interrupt() {
    let server = Server::start();
    let keyboard: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let name = ptsname(&keyboard, Vec::new()).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let line = options
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let mut command = server.command(&["top", "--interval=50ms"]);
    let mut child = command.stdout(line).spawn().unwrap();
    drop(command);
    let mut terminal = std::fs::File::from(keyboard);
    let mut shown = String::new();
    let mut read = |shown: &mut String| {
        let mut bytes = [0; 4096];
        // With no program at its other end, reading fails after the last byte.
        let number = terminal.read(&mut bytes).unwrap_or(0);
        shown.push_str(&String::from_utf8_lossy(&bytes[..number]));
        number > 0
    };
    while shown.matches("members answer").count() < 3 {
        assert!(read(&mut shown), "it ended: {shown:?}");
    }
    assert!(shown.starts_with("\u{1b}[?1049h\u{1b}[?25l"), "{shown:?}");
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    while read(&mut shown) {}
    assert!(child.wait().unwrap().success());
    assert!(shown.ends_with("\u{1b}[?25h\u{1b}[?1049l"), "{shown:?}");
}
