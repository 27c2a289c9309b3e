//! Signals on their way to the program.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::called::{ended, handoff, of, shell};

const ALL: [(&str, i32); 6] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("TERM", libc::SIGTERM),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
];

/// Gives the command the default action of every signal, which the process that runs the tests
/// may have changed.
fn with_defaults(command: &mut Command) -> &mut Command {
    // SAFETY: it calls nothing but `signal`.
    unsafe {
        command.pre_exec(|| {
            for (_, signal) in ALL {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        })
    }
}

#[test]
fn signals_are_passed_on() {
    for (name, signal) in ALL {
        let line = format!(
            "sleep 600 & trap \"kill $!; echo got {name}; exit 9\" {name}; echo ready; wait"
        );
        let mut child = with_defaults(handoff().args(["--", "sh", "-c", &line]))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        out.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n", "{name}");
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
        said.clear();
        out.read_line(&mut said).unwrap();
        assert_eq!(said, format!("got {name}\n"));
        let ended = of(&child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(9), "{name}: {ended:?}");
    }
}

#[test]
fn a_signal_from_the_program_is_not_sent_back_to_it() {
    let ended = shell("trap 'exit 5' TERM; kill -TERM $PPID; cat /dev/null; exit 3");
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

#[test]
fn the_program_begins_with_the_signal_mask_of_handoff() {
    let show = ["grep", "SigBlk", "/proc/self/status"];
    let native = ended(Command::new(show[0]).args(&show[1..]));
    let under = ended(handoff().arg("--").args(show));
    assert_eq!(under.out, native.out);
}
