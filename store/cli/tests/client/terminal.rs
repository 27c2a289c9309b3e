//! Passwords that are typed at a terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::server::Server;

/// A verb with a terminal as its stdin.
struct Terminal {
    /// What a person types goes in, what the terminal shows comes out.
    keyboard: File,
    line: File,
    child: Child,
}

impl Terminal {
    fn begin(server: &Server, words: &[&str]) -> Terminal {
        let keyboard: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let mut options = OpenOptions::new();
        let line = options.read(true).write(true);
        let line = line.open(name.to_str().unwrap()).unwrap();
        let mut command = server.command(words);
        let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = pipes.stdin(line.try_clone().unwrap()).spawn().unwrap();
        Terminal {
            keyboard: File::from(keyboard),
            line,
            child,
        }
    }

    /// Waits for a question, and types the answer.
    fn answers(&mut self, question: &str, keys: &str) {
        let asked = self.child.stderr.as_mut().unwrap();
        let mut text = vec![0; question.len()];
        asked.read_exact(&mut text).unwrap();
        assert_eq!(String::from_utf8_lossy(&text), question);
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Exit code, stdout, the rest of stderr, and what the terminal has shown.
    fn end(mut self) -> (Option<i32>, String, String, String) {
        let modes = || tcgetattr(&self.line).unwrap().local_modes;
        let output = {
            let (mut out, mut err) = (String::new(), String::new());
            let child = &mut self.child;
            child
                .stdout
                .take()
                .unwrap()
                .read_to_string(&mut out)
                .unwrap();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut err)
                .unwrap();
            (child.wait().unwrap().code(), out, err)
        };
        assert!(modes().contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG));
        drop(self.line);
        let mut shown = Vec::new();
        // With no program at its other end, reading fails after the last byte.
        let _ = self.keyboard.read_to_end(&mut shown);
        let (code, out, err) = output;
        (code, out, err, String::from_utf8_lossy(&shown).into_owned())
    }
}

#[test]
fn a_typed_password_is_not_shown_and_is_asked_for_twice() {
    let server = Server::start_with(&["--bcrypt-cost=4"]);
    let mut terminal = Terminal::begin(&server, &["user", "add", "root"]);
    terminal.answers("Password of root: ", "hux\x7fsh\n");
    terminal.answers("\nType password of root again for confirmation: ", "hush\n");
    let (code, out, err, shown) = terminal.end();
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "User root created\n"),
        "{err}"
    );
    assert_eq!(shown, "");
    server.run(&["auth", "enable"]);
    let mut terminal = Terminal::begin(&server, &["user", "list", "--user=root"]);
    terminal.answers("Password of root: ", "hush\n");
    let (code, out, err, shown) = terminal.end();
    assert_eq!((code, out.as_str()), (Some(0), "root\n"), "{err}");
    assert_eq!(shown, "");
}

#[test]
fn an_interrupted_question_leaves_the_terminal_as_it_was() {
    let server = Server::start();
    let mut terminal = Terminal::begin(&server, &["user", "add", "root"]);
    terminal.answers("Password of root: ", "hu\x03");
    let (code, _, err, _) = terminal.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("interrupted"), "{err}");
    assert_eq!(server.run(&["user", "list"]), "");
}
