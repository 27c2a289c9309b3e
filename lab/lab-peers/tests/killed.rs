//! Acknowledged puts survive the end of the process: they are there when the directory is
//! opened again.
//!
//! The test starts itself as a child process that puts, prints each acknowledged put, and
//! aborts.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use lab::targets::{Offer, OpenOptions};
use lab::workload::DurabilityLevel;

const PUTS: u64 = 40;
const CHILD: &str = "INKSTONE_LAB_PEERS_CHILD";

fn options(durability: DurabilityLevel) -> OpenOptions {
    OpenOptions {
        durability,
        keys: PUTS,
        entry_bytes_max: 64,
        buffer_bytes: 0,
        segment_bytes: 0,
    }
}

fn offer(name: &str) -> Offer {
    let offers = lab_peers::offers();
    *offers.iter().find(|offer| offer.name == name).unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Puts all keys, then aborts without closing the target.
fn child(text: &str) -> ! {
    let (name, rest) = text.split_once(':').unwrap();
    let (level, directory) = rest.split_once(':').unwrap();
    let level = match level {
        "Durable" => DurabilityLevel::Durable,
        _ => DurabilityLevel::Os,
    };
    let target = (offer(name).open)(Path::new(directory), &options(level)).unwrap();
    let mut session = target.session().unwrap();
    for number in 0..PUTS {
        session.put(&key(number), &key(number)).unwrap();
        println!("acknowledged {number}");
    }
    std::process::abort();
}

/// Number of puts that a child process has reported as acknowledged.
fn acknowledged(name: &str, level: DurabilityLevel, directory: &Path) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "acknowledged_puts_outlive_the_process",
            "--nocapture",
        ])
        .env(CHILD, format!("{name}:{level:?}:{}", directory.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let count = lines
        .map_while(Result::ok)
        .filter(|line| line.contains("acknowledged "))
        .count();
    assert!(
        !child.wait().unwrap().success(),
        "{name}: the child must die"
    );
    count as u64
}

#[test]
fn acknowledged_puts_outlive_the_process() {
    if let Some(text) = std::env::var_os(CHILD) {
        child(text.to_str().unwrap());
    }
    for offer in lab_peers::offers() {
        for level in offer.promises {
            let directory = tempfile::tempdir().unwrap();
            let first = (offer.open)(directory.path(), &options(*level));
            match first {
                Ok(target) => target.close().unwrap(),
                Err(what)
                    if what
                        .to_string()
                        .contains("its library is not on this machine") =>
                {
                    eprintln!("not tested: {what}");
                    continue;
                }
                Err(what) => panic!("{}: {what}", offer.name),
            }
            let count = acknowledged(offer.name, *level, directory.path());
            assert_eq!(count, PUTS, "{} {level:?}", offer.name);
            let target = (offer.open)(directory.path(), &options(*level)).unwrap();
            let mut session = target.session().unwrap();
            for number in 0..count {
                let mut value = Vec::new();
                let found = session.get(&key(number), &mut value).unwrap();
                assert!(
                    found && value == key(number),
                    "{} {level:?}: put {number} is lost",
                    offer.name
                );
            }
        }
    }
}
