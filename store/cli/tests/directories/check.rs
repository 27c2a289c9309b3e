//! `check` agrees with opening the directory, and names losses and remedies.

use super::directory::Directory;
use super::{check_is_damaged, check_is_sound};

const MEMBER: &str = "\
inkstone member 1
member 8e9e05c52164694d
cluster cdf818194e3a8c32
peer http://localhost:2380
sha1 a48326591e50204342afb04a6d0b3e25994a9fbe
";

/// Number of times that `what` is in the report.
fn count(report: &str, what: &str) -> usize {
    report.matches(what).count()
}

#[test]
fn of_several_logs_check_and_opening_name_the_same_file() {
    for place in 0..3 {
        let (made, other) = (Directory::new(), Directory::new());
        let file = &made.segments()[place];
        std::fs::copy(other.path().join(file), made.path().join(file)).unwrap();
        let report = check_is_damaged(made.path(), file, Some(0));
        assert_eq!(count(&report, "written by another log than"), 1, "{report}");
        assert_eq!(
            count(&report, "move it out of the directory"),
            1,
            "{report}"
        );
        let refusal = made.refusal().unwrap();
        let what = refusal
            .split_once('(')
            .unwrap()
            .1
            .split_once(')')
            .unwrap()
            .0;
        assert!(refusal.contains(file.as_str()), "{refusal}");
        assert!(report.contains(what), "{refusal}: {report}");
    }
}

#[test]
fn a_log_without_a_checkpoint_is_rebuilt_from_its_segments() {
    let made = Directory::new();
    for file in made.checkpoints() {
        std::fs::remove_file(made.path().join(file)).unwrap();
    }
    let report = text_of_damage(&made);
    assert!(report.contains("no *.checkpoint file"), "{report}");
    assert!(report.contains("remedy: start the server"), "{report}");
    assert!(report.contains("damaged: "), "{report}");
    assert_eq!(made.refusal(), None);
}

#[test]
fn a_log_without_a_checkpoint_and_without_its_first_segment_is_refused() {
    let made = Directory::new();
    for file in made.checkpoints() {
        std::fs::remove_file(made.path().join(file)).unwrap();
    }
    std::fs::remove_file(made.path().join(&made.segments()[0])).unwrap();
    let report = text_of_damage(&made);
    assert!(!report.contains("start the server"), "{report}");
    assert!(report.contains("add it again"), "{report}");
    let refusal = made.refusal().unwrap();
    assert!(refusal.contains("no *.checkpoint file"), "{refusal}");
    assert!(refusal.contains("add it again"), "{refusal}");
}

#[test]
fn a_damaged_checkpoint_with_a_usable_older_one_needs_only_a_start() {
    let made = Directory::new();
    let [newest, older] = made.checkpoints().try_into().unwrap();
    made.flip(&newest, 20, 1);
    let report = check_is_damaged(made.path(), &newest, None);
    let remedy = format!("start the server: it goes on from the older {older}");
    assert!(report.contains(&remedy), "{report}");
    assert_eq!(made.refusal(), None);
}

#[test]
fn damage_in_an_older_checkpoint_needs_only_a_start() {
    let made = Directory::new();
    let [newest, older] = made.checkpoints().try_into().unwrap();
    made.flip(&older, 20, 1);
    let report = check_is_damaged(made.path(), &older, None);
    assert!(
        report.contains(&format!("goes on from the newer {newest}")),
        "{report}"
    );
    assert_eq!(made.refusal(), None);
}

#[test]
fn without_a_usable_checkpoint_a_whole_log_is_replayed() {
    let made = Directory::new();
    for file in made.checkpoints() {
        made.flip(&file, 20, 1);
    }
    let report = check_is_damaged(made.path(), &made.newest_checkpoint(), None);
    let remedies = count(
        &report,
        "remedy: start the server: its log has all segments",
    );
    assert_eq!(remedies, 2, "{report}");
    assert_eq!(made.refusal(), None);
}

#[test]
fn an_older_checkpoint_of_a_lost_segment_is_no_remedy() {
    let made = Directory::new();
    let [newest, _] = made.checkpoints().try_into().unwrap();
    made.flip(&newest, 20, 1);
    std::fs::remove_file(made.path().join(&made.segments()[0])).unwrap();
    let report = check_is_damaged(made.path(), &newest, None);
    assert!(!report.contains("start the server"), "{report}");
    assert!(made.refusal().is_some());
}

#[test]
fn one_damaged_record_is_one_lost_record_and_the_rest_is_checked() {
    let made = Directory::new();
    let sound = check_is_sound(made.path());
    let (file, start, _) = made.frames()[10].clone();
    made.flip(&file, start + 88 + 40, 2);
    let report = check_is_damaged(made.path(), &file, Some(start + 88));
    assert!(
        report.contains("group 11: a record fails its checksum"),
        "{report}"
    );
    assert!(
        report.contains("the checkpoint names 1 record from here on that cannot be read"),
        "{report}"
    );
    assert!(report.contains("in 2 places"), "{report}");
    assert!(
        report.contains("remedy: the server starts without it"),
        "{report}"
    );
    assert_eq!(made.refusal(), None);
    assert_eq!(groups(&report) + 1, groups(&sound));
}

#[test]
fn damage_that_is_replayed_stops_the_server_and_repair_is_named() {
    let made = Directory::new();
    let frames = made.frames();
    let (file, start, _) = frames[frames.len() - 20].clone();
    made.flip(&file, start + 88 + 40, 2);
    let report = check_is_damaged(made.path(), &file, Some(start + 88));
    assert!(
        report.contains("remedy: inkstone repair --data-dir DIR says"),
        "{report}"
    );
    assert!(made.refusal().is_some());
}

#[test]
fn a_record_in_a_group_without_header_is_not_lost() {
    let made = Directory::new();
    let sound = check_is_sound(made.path());
    let (file, start, _) = made.frames()[10].clone();
    made.flip(&file, start + 50, 2);
    let report = check_is_damaged(made.path(), &file, Some(start));
    assert!(report.contains("in 1 place\n"), "{report}");
    assert_eq!(groups(&report) + 1, groups(&sound));
}

#[test]
fn each_damaged_group_of_a_segment_is_named() {
    let made = Directory::new();
    let frames = made.frames();
    let places = [&frames[5], &frames[6], &frames[20]];
    for (file, start, _) in places {
        assert_eq!(*file, frames[0].0, "all lie in the first segment");
        made.flip(file, start + 88 + 40, 2);
    }
    let report = check_is_damaged(made.path(), &frames[0].0, Some(frames[5].1 + 88));
    for at in [5, 6, 20] {
        let place = format!("at byte {}: group {}:", frames[at].1 + 88, at + 1);
        assert!(report.contains(&place), "{place} in {report}");
    }
    assert!(report.contains("names 3 records from here on"), "{report}");
}

#[test]
fn the_member_file_is_verified_too() {
    let made = Directory::new();
    let file = made.path().join("MEMBER");
    std::fs::write(&file, MEMBER).unwrap();
    check_is_sound(made.path());
    for damaged in [MEMBER.replace("8e9e", "8e9f"), MEMBER[..40].to_owned()] {
        std::fs::write(&file, damaged).unwrap();
        let report = text_of_damage(&made);
        assert!(
            report.contains("MEMBER: does not match its checksum"),
            "{report}"
        );
        assert!(report.contains("remedy: put a copy of it back"), "{report}");
    }
}

/// The report on a directory that is damaged in a file as a whole.
fn text_of_damage(made: &Directory) -> String {
    let output = super::inkstone(&["check"], made.path());
    let report = super::text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}");
    report
}

/// Groups of the log, as the table counts them.
fn groups(report: &str) -> u64 {
    let line = report
        .lines()
        .find(|line| line.starts_with("log "))
        .unwrap();
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    words[words.len() - 2].parse().unwrap()
}
