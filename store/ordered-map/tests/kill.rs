//! A process that writes, and every other time compacts, is killed again and again: afterwards
//! every acknowledged write is there.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use environment::randomness::Random;
use ordered_map::{Durability, Map, Options};

/// Variable with the directory that the child writes to.
const DIRECTORY: &str = "ORDERED_MAP_KILL_DIRECTORY";
const THREADS: u64 = 4;
const KILLS: u64 = 12;

fn open(directory: &std::path::Path, durability: Durability) -> Map {
    let options = Options::new(directory)
        .segment_bytes(1 << 20)
        .reserve_bytes(0);
    options.durability(durability).open().unwrap()
}

/// Body of the child; does nothing unless the variable is set.
#[test]
fn a_writer_that_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let map = open(directory.as_ref(), Durability::Os);
    let begins = map.get("begins").unwrap().map_or(0, |number| {
        String::from_utf8(number.to_vec())
            .unwrap()
            .parse::<u64>()
            .unwrap()
    });
    map.put("begins", (begins + 1_000_000).to_string()).unwrap();
    thread::scope(|scope| {
        if begins / 1_000_000 % 2 == 1 {
            scope.spawn(|| {
                loop {
                    map.compact().unwrap();
                }
            });
        }
        for thread in 0..THREADS {
            let map = &map;
            scope.spawn(move || {
                for number in begins.. {
                    map.put(format!("{thread}"), number.to_string()).unwrap();
                    // A half of it is noise, so it takes a half of its length.
                    let mut value = vec![b'x'; 1_000];
                    Random::from_seed(number).fill(&mut value[..500]);
                    map.put(format!("{thread}/{}", number % 100), value)
                        .unwrap();
                    // Both puts have been acknowledged.
                    writeln!(std::io::stdout(), "\nwrote {thread} {number}").unwrap();
                }
            });
        }
    });
}

fn writer(directory: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_writer_that_is_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn no_acknowledged_write_goes_with_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("data");
    let mut acknowledged = [None; THREADS as usize];
    for round in 0..KILLS {
        let mut child = writer(&directory);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = 1 + round * 150;
        for line in lines {
            let line = line.unwrap();
            let mut words = line.split(' ');
            if words.next() != Some("wrote") {
                continue;
            }
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            // The last line may be torn.
            if let (Some(thread), Some(written)) = (number(), number())
                && left > 0
            {
                acknowledged[thread as usize] = Some(written);
            }
            left = left.saturating_sub(1);
            if left == 0 {
                child.kill().unwrap();
                break;
            }
        }
        child.wait().unwrap();
        assert_eq!(left, 0, "the writer ended by itself in round {round}");
        let map = open(&directory, Durability::Os);
        for (thread, written) in acknowledged.iter().enumerate() {
            let found = map.get(thread.to_string()).unwrap();
            let found = found.map(|it| String::from_utf8(it.to_vec()).unwrap().parse().unwrap());
            assert!(
                found >= *written,
                "round {round}, thread {thread}: {found:?} of {written:?}"
            );
        }
    }
    assert!(
        acknowledged.iter().all(Option::is_some),
        "all threads have written"
    );
}
