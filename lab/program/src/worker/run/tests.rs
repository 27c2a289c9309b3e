//! Complete runs of targets with a fault.

use std::path::Path;

use super::*;
use crate::record::Kind;
use crate::targets::{Open, Seen, Session, built_in};

const NAME: &str = "name = \"a\"\n[load]\nkeys = 100\n[time]\nwarmup = \"10ms\"\n\
                    measure = \"100ms\"\ninterval = \"50ms\"\n";

/// The plain file, with a fault in its puts or its compaction.
struct Faulty {
    inner: Box<dyn Embedded>,
    put: fn(u64) -> Fault,
}

enum Fault {
    None,
    Forgets,
    Fails(&'static str),
}

struct FaultySession<'a> {
    inner: Box<dyn Session + 'a>,
    put: fn(u64) -> Fault,
    puts: u64,
}

impl Embedded for Faulty {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(FaultySession {
            inner: self.inner.session()?,
            put: self.put,
            puts: 0,
        }))
    }

    fn compact(&self) -> Result<(), Failure> {
        match (self.put)(0) {
            Fault::Fails(words) => Err(words.into()),
            _ => self.inner.compact(),
        }
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.inner.close()
    }
}

impl Session for FaultySession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.puts += 1;
        match (self.put)(self.puts) {
            Fault::None => self.inner.put(key, value),
            Fault::Forgets => Ok(()),
            Fault::Fails(words) => Err(words.into()),
        }
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        self.inner.get(key, value)
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        self.inner.range(from, limit)
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        // The values of a preload begin with zeros, those of rounds do not.
        let is_of_round = entries[0].1[..8] != [0; 8];
        match (self.put)(0) {
            Fault::Forgets if is_of_round => Ok(()),
            _ => self.inner.load(entries),
        }
    }
}

fn file() -> Offer {
    *find(&built_in(), "file").unwrap()
}

fn open_with(
    directory: &Path,
    options: &OpenOptions,
    put: fn(u64) -> Fault,
) -> Result<Box<dyn Embedded>, Failure> {
    let inner = (file().open)(directory, options)?;
    Ok(Box::new(Faulty { inner, put }))
}

fn run_of(text: &str, open: Open) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let job = Job {
        target: "faulty".parse().unwrap(),
        directory: folder.path().to_owned(),
        verify_keys_max: 10_000,
        ..Job::bare(crate::workload::parse("test", text).unwrap())
    };
    let offer = Offer {
        name: "faulty",
        open,
        ..file()
    };
    run(&job, &[offer])
}

fn because(run: &Run) -> &str {
    match &run.outcome {
        Outcome::Failed { because } | Outcome::Lost { because } => because,
        _ => "",
    }
}

#[test]
fn a_target_without_a_fault_is_measured_and_verified() {
    let run = run_of(NAME, |directory, options| {
        open_with(directory, options, |_| Fault::None)
    });
    assert_eq!(run.outcome, Outcome::Measured, "{}", because(&run));
    assert!(run.load.operations() > 0 && run.verification.keys_checked == 100);
    assert!(run.counts());
}

#[test]
fn a_target_that_forgets_writes_gets_no_number() {
    let run = run_of(NAME, |directory, options| {
        open_with(directory, options, |put| match put % 2 {
            0 => Fault::Forgets,
            _ => Fault::None,
        })
    });
    assert!(matches!(run.outcome, Outcome::Lost { .. }), "{run:?}");
    assert!(!run.counts() && because(&run).contains("wrong"));
}

#[test]
fn a_full_disk_in_the_middle_of_a_run_is_named_with_a_remedy() {
    let run = run_of(NAME, |directory, options| {
        open_with(directory, options, |put| match put {
            0..10 => Fault::None,
            _ => Fault::Fails("write: No space left on device (os error 28)"),
        })
    });
    assert!(matches!(run.outcome, Outcome::Failed { .. }));
    let because = because(&run);
    assert!(because.contains("is full: make room"), "{because}");
    assert!(because.contains("--directory"), "{because}");
}

#[test]
fn a_target_that_refuses_a_part_of_the_work_is_not_measured() {
    let run = run_of(NAME, |directory, options| {
        open_with(directory, options, |put| match put % 10 {
            0 => Fault::Fails("too much"),
            _ => Fault::None,
        })
    });
    assert!(matches!(run.outcome, Outcome::Failed { .. }));
    assert!(because(&run).contains("too much"), "{}", because(&run));
}

#[test]
fn the_writes_of_all_rounds_of_a_search_are_verified() {
    let text = format!(
        "{NAME}[arrival]\nmode = \"search\"\nobjective = \"p50<1s\"\n[durability]\nlevel = \"os\"\n"
    );
    let run = run_of(&text, |directory, options| {
        open_with(directory, options, |_| Fault::None)
    });
    assert_eq!(run.outcome, Outcome::Measured, "{}", because(&run));
    assert!(!run.load.search.is_empty());
    let measured = run.load.kinds[&Kind::Put].user_bytes_written;
    assert!(measured > 0 && run.user_bytes_written >= measured);
    assert!(run.verification.is_good() && run.verification.keys_checked > 0);
}

const ROUNDS: &str = "name = \"a\"\n[load]\nkeys = 100\nrounds = 3\n[mix]\nget = 1.0\nput = 0.0\n\
                      [time]\nwarmup = \"10ms\"\nmeasure = \"100ms\"\ninterval = \"50ms\"\n";

#[test]
fn the_writes_of_rounds_before_the_measured_part_are_verified() {
    let run = run_of(ROUNDS, |directory, options| {
        open_with(directory, options, |_| Fault::None)
    });
    assert_eq!(run.outcome, Outcome::Measured, "{}", because(&run));
    assert_eq!(run.verification.keys_checked, 100);
    assert_eq!(
        run.user_bytes_written, 0,
        "rounds are no part of what is measured"
    );
}

#[test]
fn a_target_that_forgets_rounds_gets_no_number() {
    let run = run_of(ROUNDS, |directory, options| {
        open_with(directory, options, |_| Fault::Forgets)
    });
    assert!(matches!(run.outcome, Outcome::Lost { .. }), "{run:?}");
    assert!(because(&run).contains("older write"), "{}", because(&run));
}

#[test]
fn a_data_set_that_is_compacted_is_verified_and_a_compaction_that_fails_gets_no_number() {
    let text = ROUNDS.replace("rounds = 3", "rounds = 3\ncompact = true");
    let run = run_of(&text, |directory, options| {
        (find(&built_in(), "engine").unwrap().open)(directory, options)
    });
    assert_eq!(run.outcome, Outcome::Measured, "{}", because(&run));
    assert_eq!(run.verification.keys_checked, 100);
    let run = run_of(&text, |directory, options| {
        open_with(directory, options, |_| Fault::Fails("no compaction"))
    });
    assert!(because(&run).contains("no compaction"), "{}", because(&run));
}

#[test]
fn inserts_are_refused_by_a_target_without_room_for_further_keys() {
    let text = format!("{NAME}[mix]\nget = 0.5\nput = 0.0\ninsert = 0.5\n");
    let run = run_of(&text, |directory, options| {
        open_with(directory, options, |_| Fault::None)
    });
    assert!(
        because(&run).contains("mix.insert must be 0"),
        "{}",
        because(&run)
    );
}

#[test]
fn inserts_and_reads_with_an_update_are_measured_and_verified() {
    let text = format!(
        "{NAME}[mix]\nput = 0.0\nget = 0.2\ninsert = 0.4\nread_modify_write = 0.4\n\
         [durability]\nlevel = \"os\"\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let job = Job {
        target: "engine".parse().unwrap(),
        directory: folder.path().to_owned(),
        verify_keys_max: 100_000,
        ..Job::bare(crate::workload::parse("test", &text).unwrap())
    };
    let run = run(&job, &built_in());
    assert_eq!(run.outcome, Outcome::Measured, "{}", because(&run));
    assert!(run.verification.keys_checked > 100, "inserted keys count");
    let kinds = &run.load.kinds;
    let changed = &kinds[&Kind::ReadModifyWrite];
    assert_eq!(
        changed.user_bytes,
        2 * changed.user_bytes_written,
        "as many bytes are read as written"
    );
    assert_eq!(changed.not_found, 0);
    let written = changed.user_bytes_written + kinds[&Kind::Put].user_bytes_written;
    assert!(
        run.user_bytes_written > written,
        "the warm-up writes as well"
    );
    assert_eq!(kinds[&Kind::Get].user_bytes_written, 0);
    let inserted = run.space.samples.last().unwrap().live_keys.unwrap() - 100;
    assert!(
        inserted >= kinds[&Kind::Put].operations / 2,
        "{inserted} of the warm-up and of the measured part"
    );
}

#[test]
fn space_and_memory_are_sampled_from_the_preload_to_the_end() {
    let run = run_of(ROUNDS, |directory, options| {
        open_with(directory, options, |_| Fault::None)
    });
    let samples = &run.space.samples;
    assert!(
        samples.is_sorted_by_key(|sample| sample.at_seconds),
        "{samples:?}"
    );
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    assert!(
        first.at_seconds < 0.0 && last.at_seconds > 0.0,
        "{samples:?}"
    );
    assert_eq!(last.live_keys, Some(100));
    assert!(last.footprint_bytes > 0 && last.anonymous_bytes > 0);
    assert_eq!(
        (run.space.keys_preloaded, run.space.entry_bytes),
        (100, 272.0)
    );
    assert!(run.space.per_live_byte_at_end().is_some());
}
