//! A crash, a fault, a full disk at every I/O of receiving and installing.
//!
//! Before the one step the old state is whole, after it the new one; an import that
//! fails leaves nothing behind.

use crate::store;

use engine::{Commitment, Durability, Error, HardState, Options, Piece, Worker};
use environment::Disk;
use environment::simulated::{Fault, Restart, SimulatedDisk};
use std::path::Path;
use std::sync::OnceLock;
use store::crashes::{RESTARTS, Trial, ignored_flush_is_noticed};
use store::model::Model;
use store::snapshots::{Picture, pieces};
use store::{DIRECTORY, Store, put, seed};

/// What a run left for the judge.
#[derive(Default)]
struct Story {
    /// The model after each batch of the old state, by index.
    old: Vec<Model>,
    /// The same of the new one; the first is the snapshot's.
    new: Vec<Model>,
    acknowledged: u64,
    /// The installation has returned.
    installed: bool,
}

fn options() -> Options {
    Options {
        log: engine::LogOptions {
            worker: Worker::Caller,
            ..store::options().log
        },
        checkpoint_bytes: 30 << 10,
        ..store::options()
    }
}

/// The snapshot that all runs receive.
fn sent() -> &'static (Picture, Vec<Piece>) {
    static SENT: OnceLock<(Picture, Vec<Piece>)> = OnceLock::new();
    SENT.get_or_init(|| {
        let mut source = Store::open(&SimulatedDisk::new(9), options(), Model::default()).unwrap();
        source.fill(seed(1), 70).unwrap();
        source.compact(30).unwrap();
        source.fill(seed(2), 30).unwrap();
        // Some segments more.
        for number in 0..14 {
            let value = vec![number; 9000];
            source.write(&[put([b'v', number], value)]).unwrap();
        }
        (source.picture(), pieces(&mut source.export(6000)))
    })
}

/// A life, a snapshot that comes during it, and a life after it.
fn run(disk: &SimulatedDisk, story: &mut Story) -> Result<(), Error> {
    run_with(disk, story, options())
}

fn run_with(disk: &SimulatedDisk, story: &mut Story, options: Options) -> Result<(), Error> {
    let (picture, pieces) = sent();
    story.old.push(Model::default());
    let mut store = Store::open(disk, options, Model::default())?;
    for round in 0..12 {
        write(&mut store, story, round)?;
    }
    let mut import = store.engine.import(Box::new(|| ()))?;
    for piece in pieces {
        import.offer(piece.bytes.clone())?;
        if import.progress().is_err() {
            // The member is as it was, and goes on if the disk lets it.
            drop(import);
            for round in 20..24 {
                write(&mut store, story, round)?;
            }
            return Err(Error::ImportIncomplete);
        }
        if piece.number % 5 == 1 {
            write(&mut store, story, piece.number as u8)?;
        }
    }
    story.new.push(picture.model.clone());
    store.install(import, picture)?;
    story.installed = true;
    story.acknowledged = store.index;
    for round in 40..48 {
        write(&mut store, story, round)?;
    }
    store.checkpoint()?;
    Ok(())
}

fn write(store: &mut Store, story: &mut Story, round: u8) -> Result<(), Error> {
    let value = vec![round; 300 + 1000 * usize::from(round % 4)];
    let batch = store.batch(&[put([b'm', round % 3], value)]);
    let mut model = store.model.clone();
    model.apply(&batch);
    let models = if story.installed {
        &mut story.new
    } else {
        &mut story.old
    };
    models.push(model);
    store.commit(batch)?;
    story.acknowledged = store.index;
    store.maintain()
}

/// Opens after a restart: one of the two states is there, whole.
fn judge(disk: &SimulatedDisk, story: &Story, what: &str) {
    let (picture, _) = sent();
    let mut store = Store::open(disk, options(), Model::default())
        .unwrap_or_else(|error| panic!("{what}: {error}\n{}", disk.trace()));
    let index = store.recovered.applied_index;
    assert!(
        index >= story.acknowledged,
        "{what}: {index} is the last, {} was acknowledged",
        story.acknowledged
    );
    let is_new = index >= picture.index;
    assert!(is_new || !story.installed, "{what}: the new state is gone");
    let models = if is_new { &story.new } else { &story.old };
    let place = index - if is_new { picture.index } else { 0 };
    let model = models.get(place as usize);
    store.model = model.unwrap_or_else(|| panic!("{what}: {index}?")).clone();
    store.check_all();
    check_remains(disk, &mut store, is_new, what);
    store.write(&[put("after", what)]).unwrap();
    store.check_all();
    let model = store.model.clone();
    drop(store);
    Store::open(disk, options(), model).unwrap().check_all();
}

fn check_remains(disk: &SimulatedDisk, store: &mut Store, is_new: bool, what: &str) {
    for _ in 0..50 {
        store.maintain().unwrap();
    }
    let names = disk.list(Path::new(DIRECTORY)).unwrap();
    let some = |ending: &str| names.iter().any(|name| name.ends_with(ending));
    assert!(!some(".partial"), "{what}: {names:?}");
    assert_eq!(some(".sorted"), is_new, "{what}: {names:?}");
}

fn ios() -> u64 {
    let disk = SimulatedDisk::new(1);
    let mut story = Story::default();
    run(&disk, &mut story).unwrap();
    assert!(story.installed);
    disk.io_count()
}

/// Runs until the crash or fault stops it.
fn run_until_it_stops(disk: &SimulatedDisk) -> Story {
    let mut story = Story::default();
    let _ = run(disk, &mut story);
    story
}

fn trial() -> Trial<impl Fn(&SimulatedDisk) -> Story, impl Fn(&SimulatedDisk, &Story, &str)> {
    Trial {
        name: "installation",
        run: run_until_it_stops,
        judge,
    }
}

#[test]
fn a_crash_at_any_io_leaves_the_old_state_or_the_new_one() {
    let ios = ios();
    assert!(ios > 90, "only {ios} I/Os");
    trial().crash(0..ios, &RESTARTS);
}

/// With page-cache durability a loss of power may take what came after the
/// installation, not the installation.
#[test]
fn the_page_cache_keeps_an_installation_at_any_io() {
    let run = |disk: &SimulatedDisk| {
        let mut story = Story::default();
        let os = Options {
            log: engine::LogOptions {
                durability: Durability::Os,
                ..options().log
            },
            ..options()
        };
        let _ = run_with(disk, &mut story, os);
        story.acknowledged = if story.installed { sent().0.index } else { 0 };
        story
    };
    let trial = Trial {
        name: "page cache",
        run,
        judge,
    };
    trial.crash(0..ios(), &[Restart::power_loss(), Restart::nothing_kept()]);
}

/// A member of a quorum: three committed entries, then entries of a leader without
/// followers, then the snapshot and an entry behind it.
fn run_in_quorum(disk: &SimulatedDisk, story: &mut Story) -> Result<(), Error> {
    let (picture, pieces) = sent();
    story.old.push(Model::default());
    let mut store = Store::open(disk, quorum(), Model::default())?;
    for round in 0..3 {
        write_committed(&mut store, story, round)?;
    }
    for number in 1..8 {
        let mut batch = store.batch(&[put("lost", vec![number; 2000])]);
        batch.index += u64::from(number) - 1;
        let body = batch.encode()?;
        let appended = store.engine.append_entry(&batch, &body, None)?;
        store.engine.wait_durable(appended.sequence)?;
    }
    let mut import = store.engine.import(Box::new(|| ()))?;
    for piece in pieces {
        import.offer(piece.bytes.clone())?;
    }
    story.new.push(picture.model.clone());
    store.install(import, picture)?;
    story.installed = true;
    story.acknowledged = store.index;
    for round in 40..43 {
        write_committed(&mut store, story, round)?;
    }
    Ok(())
}

fn quorum() -> Options {
    Options {
        commitment: Commitment::Quorum,
        ..options()
    }
}

fn write_committed(store: &mut Store, story: &mut Story, round: u8) -> Result<(), Error> {
    write(store, story, round)?;
    let state = HardState {
        term: 1,
        vote: 2,
        commit: store.index,
    };
    let sequence = store.engine.append_hard_state(state)?;
    store.engine.wait_durable(sequence)
}

#[test]
fn entries_that_were_never_committed_stay_so_at_any_io() {
    let whole = SimulatedDisk::new(1);
    run_in_quorum(&whole, &mut Story::default()).unwrap();
    let run = |disk: &SimulatedDisk| {
        let mut story = Story::default();
        let _ = run_in_quorum(disk, &mut story);
        story
    };
    let trial = Trial {
        name: "quorum",
        run,
        judge: judge_quorum,
    };
    let restarts = [
        Restart::power_loss(),
        Restart::power_loss_without_journal(),
        Restart::ProcessCrash,
    ];
    trial.crash(0..whole.io_count(), &restarts);
}

fn judge_quorum(disk: &SimulatedDisk, story: &Story, what: &str) {
    let index_of_snapshot = sent().0.index;
    let mut store = Store::open(disk, quorum(), Model::default())
        .unwrap_or_else(|error| panic!("{what}: {error}\n{}", disk.trace()));
    let recovered = &store.recovered;
    let index = recovered.applied_index;
    let is_new = index >= index_of_snapshot;
    assert!(
        is_new || (!story.installed && index <= 3),
        "{what}: {index}"
    );
    let models = if is_new { &story.new } else { &story.old };
    let place = index - if is_new { index_of_snapshot } else { 0 };
    store.model = models[place as usize].clone();
    if is_new {
        assert!(recovered.base.0 >= index_of_snapshot, "{what}");
        let others = recovered.unapplied.iter();
        let lost = |it: &&engine::Unapplied| it.batch.index <= index_of_snapshot;
        assert_eq!(others.filter(lost).count(), 0, "{what}");
    }
    store.check_all();
}

#[test]
fn a_crash_during_the_recovery_after_it_changes_nothing() {
    trial().crash_again((0..ios()).step_by(11), &options());
}

#[test]
fn a_failed_flush_or_short_write_at_any_io_leaves_one_of_the_two() {
    trial().fail(0..ios());
}

/// If the disk fails in the step itself, it is unknown which state lasts: the engine
/// takes nothing any more, and the next opening finds out which it is.
#[test]
fn after_a_failure_in_the_step_itself_the_engine_is_closed() {
    let (picture, pieces) = sent();
    let mut uncertain = 0;
    for io in 0..12 {
        let disk = SimulatedDisk::new(seed(io));
        let mut store = Store::open(&disk, options(), Model::default()).unwrap();
        store.write(&[put("before", "it")]).unwrap();
        let before = store.model.clone();
        let mut import = store.import();
        for piece in pieces {
            import.offer(piece.bytes.clone()).unwrap();
        }
        disk.inject(disk.io_count() + io, Fault::FailedFlush);
        let Err(Error::InstallUncertain { .. }) = store.install(import, picture) else {
            continue;
        };
        uncertain += 1;
        let refused = store.write(&[put("more", "")]);
        assert!(matches!(refused, Err(Error::Closed { .. })), "{refused:?}");
        // The file system takes nothing any more either.
        disk.crash();
        let disk = disk.restart(Restart::power_loss());
        let mut again = Store::open(&disk, options(), Model::default()).unwrap();
        let is_new = again.recovered.applied_index == picture.index;
        again.model = if is_new {
            picture.model.clone()
        } else {
            before
        };
        again.check_all();
        again.write(&[put("after", "it")]).unwrap();
        again.check_all();
    }
    assert!(uncertain > 0, "the step never failed");
}

#[test]
fn a_disk_that_fills_up_leaves_the_member_as_it_was_and_says_so() {
    let (mut refused, mut went_on) = (0, 0);
    for capacity in (200 << 10..1 << 20).step_by(9 << 10) {
        let disk = SimulatedDisk::new(seed(capacity));
        disk.set_capacity(capacity);
        let mut story = Story::default();
        let what = format!("room for {capacity} bytes");
        match run(&disk, &mut story) {
            Ok(()) => continue,
            Err(Error::ImportIncomplete) => went_on += 1,
            Err(_) => {}
        }
        refused += 1;
        disk.set_capacity(u64::MAX);
        disk.crash();
        judge(&disk.restart(Restart::power_loss()), &story, &what);
    }
    assert!(
        refused > 10 && went_on > 3,
        "{refused} refused, {went_on} went on"
    );
}

#[test]
fn an_import_without_room_says_so_and_another_one_succeeds() {
    let (picture, pieces) = sent();
    let disk = SimulatedDisk::new(seed(3));
    let mut store = Store::open(&disk, options(), Model::default()).unwrap();
    let mut story = Story::default();
    for round in 0..6 {
        write(&mut store, &mut story, round).unwrap();
    }
    let used = disk.space(Path::new(DIRECTORY)).unwrap();
    let used_bytes = used.total_bytes - used.available_bytes;
    // For what the log needs, and a segment for the snapshot.
    disk.set_capacity(used_bytes + (200 << 10));
    let mut import = store.import();
    let mut failure = None;
    for piece in pieces {
        import.offer(piece.bytes.clone()).unwrap();
        failure = failure.or(import.progress().err());
    }
    let failure = failure.expect("there is no room");
    assert!(matches!(*failure, Error::NoSpace { .. }), "{failure}");
    drop(import);
    store.check_all();
    for round in 0..6 {
        write(&mut store, &mut story, round).unwrap();
    }
    disk.set_capacity(u64::MAX);
    let mut import = store.import();
    for piece in pieces {
        import.offer(piece.bytes.clone()).unwrap();
    }
    store.install(import, picture).unwrap();
    store.check_all();
}

/// The harness sees a device that lies: else the tests above prove nothing.
#[test]
fn canary_an_ignored_flush_is_noticed() {
    let acknowledged = |disk: &SimulatedDisk| run_until_it_stops(disk).acknowledged;
    let noticed = ignored_flush_is_noticed(0..ios(), &options(), acknowledged);
    assert!(noticed, "no ignored flush was noticed");
}
