//! `inspect` and `check` on real directories: sound ones and damaged ones.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test damages files behind the program's back"
)]

mod check;
mod directory;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use directory::{Directory, LAST_REVISION};
use environment::randomness::Random;

fn inkstone(words: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_inkstone"))
        .args(words)
        .arg(directory)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn check_is_sound(directory: &Path) -> String {
    let output = inkstone(&["check"], directory);
    let report = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{report}{}",
        text(&output.stderr)
    );
    assert!(report.contains("sound: "), "{report}");
    report
}

/// The report, which must name `file`, the offset if one is given, and a remedy.
fn check_is_damaged(directory: &Path, file: &str, offset: Option<u64>) -> String {
    let output = inkstone(&["check"], directory);
    let report = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{file} {offset:?}: {report}{}",
        text(&output.stderr)
    );
    let place = match offset {
        Some(offset) => format!("{file} at byte {offset}: "),
        None => format!("{file} at byte "),
    };
    assert!(report.contains(&place), "{place} in {report}");
    assert!(report.contains("remedy: "), "{report}");
    assert!(report.contains("damaged: "), "{report}");
    report
}

#[test]
fn a_sound_directory_is_sound_down_to_its_last_revision() {
    let made = Directory::new();
    let report = check_is_sound(made.path());
    assert!(
        report.contains(&format!("last revision {LAST_REVISION}")),
        "{report}"
    );
}

#[test]
fn check_leaves_every_file_as_it_was() {
    let made = Directory::new();
    let before = made.contents();
    check_is_sound(made.path());
    inkstone(&["inspect", "--records"], made.path());
    assert!(made.contents() == before);
}

#[test]
fn a_flipped_bit_anywhere_in_a_group_is_found() {
    let made = Directory::new();
    let mut random = Random::from_seed(7);
    let frames = made.frames();
    assert!(frames.len() > 100, "{} groups", frames.len());
    // Not the last frame: without a sound closing note the directory looks like after a crash.
    let candidates = &frames[..frames.len() - 1];
    for _ in 0..40 {
        let (file, start, end) = random.pick(candidates);
        let offset = start + random.below(end - start);
        made.flip(file, offset, random.below(8) as u8);
        check_is_damaged(made.path(), file, None);
        made.restore();
    }
}

#[test]
fn a_flipped_bit_in_a_segment_s_header_is_found() {
    let made = Directory::new();
    let (file, ..) = &made.frames()[0];
    made.flip(file, 17, 3);
    let report = check_is_damaged(made.path(), file, Some(0));
    assert!(report.contains("header fails its checksum"), "{report}");
}

#[test]
fn a_flipped_bit_anywhere_in_a_checkpoint_is_found() {
    let made = Directory::new();
    let mut random = Random::from_seed(8);
    let file = made.newest_checkpoint();
    let bytes = std::fs::metadata(made.path().join(&file)).unwrap().len();
    for _ in 0..15 {
        made.flip(&file, random.below(bytes), random.below(8) as u8);
        check_is_damaged(made.path(), &file, None);
        made.restore();
    }
}

#[test]
fn a_segment_cut_off_is_found_where_it_ends() {
    let made = Directory::new();
    let (file, start, end) = made.frames()[40].clone();
    let cut = (start + end) / 2;
    made.truncate(&file, cut);
    let report = check_is_damaged(made.path(), &file, Some(cut));
    assert!(report.contains("the file ends here"), "{report}");
}

#[test]
fn a_segment_that_is_missing_is_named() {
    let made = Directory::new();
    let segments = made.segments();
    let lost = &segments[segments.len() / 2];
    std::fs::remove_file(made.path().join(lost)).unwrap();
    check_is_damaged(made.path(), lost, Some(0));
}

#[test]
fn a_group_that_was_never_finished_is_a_note_and_no_damage() {
    let made = Directory::killed();
    let (file, start, end) = made.frames().last().unwrap().clone();
    made.zero(&file, (start + end) / 2, end);
    let report = check_is_sound(made.path());
    assert!(
        report.contains(&format!("unfinished group at byte {}", start + 88)),
        "{report}"
    );
}

#[test]
fn a_checkpoint_of_another_directory_does_not_agree_with_the_log() {
    let made = Directory::new();
    let other = Directory::with_values(b"longer");
    let file = made.newest_checkpoint();
    std::fs::copy(
        other.path().join(other.newest_checkpoint()),
        made.path().join(&file),
    )
    .unwrap();
    let report = text(&inkstone(&["check"], made.path()).stdout);
    assert!(report.contains("the checkpoint names"), "{report}");
    assert!(report.contains("damaged: "), "{report}");
}

#[test]
fn a_foreign_file_under_a_segment_s_name_is_found() {
    let made = Directory::new();
    std::fs::write(made.path().join("00000fff.log"), b"my diary").unwrap();
    let report = check_is_damaged(made.path(), "00000fff.log", Some(0));
    assert!(
        report.contains("does not begin with a segment header"),
        "{report}"
    );
    assert!(
        report.contains("remedy: move it out of the directory"),
        "{report}"
    );
}

#[test]
fn a_segment_of_another_directory_is_found() {
    let (made, other) = (Directory::new(), Directory::new());
    let file = &made.segments()[1];
    std::fs::copy(other.path().join(file), made.path().join(file)).unwrap();
    let report = check_is_damaged(made.path(), file, Some(0));
    assert!(report.contains("move it out of the directory"), "{report}");
}

#[test]
fn other_files_are_mentioned_and_left_alone() {
    let made = Directory::new();
    std::fs::write(made.path().join("notes.txt"), b"my diary").unwrap();
    let report = check_is_sound(made.path());
    assert!(report.contains("notes.txt"), "{report}");
}

#[test]
fn paths_that_are_no_data_directory_are_wrong_use() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let etcd = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(etcd.path().join("member/snap")).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let cases = [
        (place.path().join("absent"), "there is no directory"),
        (file, "is a file"),
        (empty.path().to_owned(), "It is empty"),
        (place.path().to_owned(), "holds no Inkstone log"),
        (etcd.path().to_owned(), "data directory of etcd"),
    ];
    for verb in ["check", "inspect"] {
        for (path, expected) in &cases {
            let output = inkstone(&[verb], path);
            let complaint = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{complaint}");
            assert!(complaint.contains(expected), "{complaint}");
        }
    }
}

#[test]
fn a_directory_in_use_can_be_inspected_and_its_process_is_named() {
    let made = Directory::new();
    let _engine = made.open();
    let me = format!("in use by process {}", std::process::id());
    assert!(check_is_sound(made.path()).contains(&me));
    let report = text(&inkstone(&["inspect"], made.path()).stdout);
    assert!(report.contains(&me), "{report}");
}

#[test]
fn a_directory_that_is_being_written_is_never_reported_damaged() {
    let made = Directory::new();
    let (engine, mut applier) = made.open();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = LAST_REVISION;
            while !done.load(Ordering::Relaxed) {
                directory::write(&engine, &mut applier, number, b"value");
                number += 1;
                if number % 100 == 0 {
                    applier.defragment(b"state").unwrap();
                }
            }
        });
        let reports: Vec<Output> = (0..12).map(|_| inkstone(&["check"], made.path())).collect();
        done.store(true, Ordering::Relaxed);
        for output in reports {
            assert!(output.status.success(), "{}", text(&output.stdout));
        }
    });
}

#[test]
fn inspect_shows_segments_revisions_and_checkpoints() {
    let made = Directory::new();
    let report = text(&inkstone(&["inspect"], made.path()).stdout);
    for segment in made.segments() {
        let id = segment.trim_end_matches(".log");
        assert!(report.contains(&format!("\n{id}  log")), "{id} in {report}");
    }
    assert!(report.contains(&format!(" {LAST_REVISION}  ")), "{report}");
    assert!(report.contains("CHECKPOINT"), "{report}");
}

#[test]
fn inspect_shows_records_as_text_and_as_json() {
    let made = Directory::new();
    let report = text(&inkstone(&["inspect", "--records"], made.path()).stdout);
    assert!(report.contains("  key/07"), "{report}");
    assert!(report.contains("delete "), "{report}");
    let lines = text(&inkstone(&["inspect", "--records", "-w", "json"], made.path()).stdout);
    let objects: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = objects
        .iter()
        .filter_map(|object| object["revision"]["main"].as_i64())
        .max();
    assert_eq!(last, Some(LAST_REVISION));
    for kind in [
        "directory",
        "segment",
        "group",
        "record",
        "checkpoint",
        "closing",
    ] {
        assert!(
            objects.iter().any(|object| object["type"] == kind),
            "{kind}"
        );
    }
}

#[test]
fn inspect_of_one_segment_shows_its_groups_alone() {
    let made = Directory::new();
    let report = text(&inkstone(&["inspect", "--segment", "2"], made.path()).stdout);
    assert!(report.starts_with("segment 00000002\n"), "{report}");
    assert!(!report.contains("00000001"), "{report}");
    let output = inkstone(&["inspect", "--segment", "ffff"], made.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no segment 0000ffff"));
}

#[test]
fn inspect_of_a_damaged_segment_shows_what_precedes_and_where_it_stops() {
    let made = Directory::new();
    let frames = made.frames();
    let (file, start, _) = frames[20].clone();
    assert_eq!(file, frames[0].0, "both groups lie in the first segment");
    made.flip(&file, start + 40, 0);
    let output = inkstone(&["inspect", "--records"], made.path());
    let report = text(&output.stdout);
    assert!(output.status.success());
    assert!(report.contains(&format!("damaged at {start}")), "{report}");
    let before = format!("\n{:>14} ", frames[19].1);
    assert!(report.contains(&before), "{before} in {report}");
}
