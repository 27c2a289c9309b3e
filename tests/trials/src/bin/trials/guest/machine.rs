//! A machine in software: qemu interprets it, so that no rights are needed.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use harness::end_with_starter;

use crate::{packages, process::Outcome};

const PROGRAM: &str = "qemu-system-x86_64";
const MACHINE: &str = "-M q35 -cpu max -smp 2 -m 2048 -nographic -no-reboot -net none";
/// The guest's clock counts instructions, so that other work of this machine does
/// not change the guest's measurements.
const CLOCK: &str =
    "-accel tcg,thread=single -icount shift=0,sleep=off -rtc clock=vm,base=2026-01-01";

/// A running guest, gone when dropped.
pub struct Machine {
    child: Child,
    lines: Receiver<String>,
    end: Instant,
    limit: Duration,
}

impl Machine {
    /// Boots a kernel with a first file system.
    pub fn boot(qemu: &Path, kernel: &Path, image: &Path, limit: Duration) -> Outcome<Machine> {
        let share = qemu.join("usr/share");
        let mut command = Command::new(qemu.join("usr/bin").join(PROGRAM));
        command
            .env("LD_LIBRARY_PATH", packages::library_path(qemu))
            .arg("-L")
            .arg(share.join("qemu"))
            .arg("-L")
            .arg(share.join("seabios"))
            .args(MACHINE.split(' '))
            .args(CLOCK.split(' '))
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(image)
            .args(["-append", "console=ttyS0 panic=1 quiet"]);
        end_with_starter(&mut command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{PROGRAM} cannot be started: {error}"))?;
        let out = child.stdout.take().expect("it was asked for");
        let (sender, lines) = channel();
        thread::spawn(move || {
            // The console may print bytes that are not UTF-8. The reader may have stopped.
            for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if sender.send(line.trim_end().to_owned()).is_err() {
                    return;
                }
            }
        });
        Ok(Machine {
            child,
            lines,
            end: Instant::now() + limit,
            limit,
        })
    }

    /// The next line on its console; none when it has ended.
    pub fn line(&mut self) -> Outcome<Option<String>> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        let left = self.end.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Ok(Some(line)),
            Err(Disconnected) => Ok(None),
            Err(Timeout) => Err(format!("the guest has not ended after {:?}", self.limit).into()),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_guest_ends_with_the_thread_that_started_it() {
        let starter = thread::spawn(|| {
            let mut command = Command::new("sleep");
            end_with_starter(command.arg("1000"));
            command.spawn()
        });
        let mut guest = starter.join().unwrap().unwrap();
        let signal = rustix::process::Signal::KILL.as_raw();
        assert_eq!(guest.wait().unwrap().signal(), Some(signal));
    }
}
