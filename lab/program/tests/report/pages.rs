//! Reports as page, Markdown and terminal output.

use lab::record::{LoadResult, Outcome, Record};
use lab::report::quantity::THROUGHPUT;
use lab::report::trends::{Filed, trends};
use lab::report::{files, markdown, page, runs_csv, share, terminal, verdicts};
use lab::verdict::Exit;

use crate::{fixture, golden};

#[test]
fn every_kind_of_record_is_rendered_in_every_format() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    for (name, record) in fixture::all() {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        record.save(&folder.join("run.json.gz")).unwrap();
        files::write(&record, &folder).unwrap();
        for file in files::NAMES {
            assert!(folder.join(file).exists(), "{name}: {file}");
        }
        assert!(
            terminal::render(&record).unwrap().contains("ops/s"),
            "{name}"
        );
    }
}

#[test]
fn a_page_loads_nothing_and_has_no_script() {
    for (name, record) in fixture::all() {
        let page = page::render(&record).unwrap();
        for foreign in [
            "http", "<script", "src=", "href=", "@import", "<link", "NaN", "inf\"",
        ] {
            assert!(!page.contains(foreign), "{name}: {foreign}");
        }
        let urls = page.matches("url(").count();
        assert_eq!(urls, page.matches("url(#hatch)").count(), "{name}");
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
        let (open, closed) = (page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(open > 2 && open == closed, "{name}: {open} pictures");
        let (open, closed) = (
            page.matches("<table").count(),
            page.matches("</table>").count(),
        );
        assert_eq!(open, closed, "{name}");
    }
}

#[test]
fn markup_in_names_is_escaped_in_pages_and_tables() {
    let mut record = fixture::inconclusive();
    let evil = "</title><script>alert(1)</script> | x";
    record.title = evil.to_owned();
    record.command_line.push(evil.to_owned());
    record.incomplete_because = Some(evil.to_owned());
    record.environment.warnings.push(evil.to_owned());
    for run in &mut record.runs {
        run.cell.name = evil.to_owned();
        run.target.product = evil.to_owned();
        run.load.errors = vec![evil.to_owned()];
        run.outcome = Outcome::Measured;
    }
    assert!(!page::render(&record).unwrap().contains("<script"));
    let text = markdown::render(&record).unwrap();
    let prose = text.split("```").step_by(2).collect::<String>();
    assert!(!prose.contains("<script"));
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut table = 0;
    for line in text.lines() {
        match (line.starts_with('|'), table) {
            (false, _) => table = 0,
            (true, 0) => table = columns(line),
            (true, expected) => assert_eq!(columns(line), expected, "{line}"),
        }
    }
}

#[test]
fn markdown_of_a_comparison_matches_the_golden_file() {
    golden(
        "comparison.md",
        &markdown::render(&fixture::comparison()).unwrap(),
    );
}

#[test]
fn terminal_output_of_a_comparison_matches_the_golden_file() {
    golden(
        "comparison.txt",
        &terminal::render(&fixture::comparison()).unwrap(),
    );
}

#[test]
fn markdown_of_engines_side_by_side_matches_the_golden_file() {
    golden(
        "side-by-side.md",
        &markdown::render(&fixture::side_by_side()).unwrap(),
    );
}

#[test]
fn the_terminal_table_fits_the_given_width() {
    for letters_max in [90, 120, 400] {
        for (name, record) in fixture::all() {
            let text = terminal::render_within(&record, letters_max).unwrap();
            let rule = text.lines().find(|line| line.starts_with('─')).unwrap();
            let letters = rule.chars().count();
            assert!(letters <= letters_max, "{name}: {letters}");
            let is_whole = !text.contains("also in the page: ");
            assert_eq!(
                is_whole,
                letters_max == 400,
                "{name} in {letters_max}: {text}"
            );
        }
    }
}

#[test]
fn terminal_output_of_noise_matches_the_golden_file() {
    golden(
        "noise.txt",
        &terminal::render(&fixture::noise_record()).unwrap(),
    );
}

#[test]
fn terminal_output_of_an_inconclusive_record_matches_the_golden_file() {
    golden(
        "inconclusive.txt",
        &terminal::render(&fixture::inconclusive()).unwrap(),
    );
}

#[test]
fn the_verdict_on_a_map_has_a_headline() {
    let record = fixture::map();
    let map = verdicts::map_verdicts(&record).unwrap();
    golden("map.txt", &format!("{}\n", map.sentence));
    let page = page::render(&record).unwrap();
    for word in ["heat open", "heat missing", "var(--worse)", "var(--better)"] {
        assert!(page.contains(word), "{word}");
    }
}

#[test]
fn two_builds_of_a_product_have_the_names_of_their_targets() {
    let mut record = fixture::inconclusive();
    for run in &mut record.runs {
        run.target.name = if run.arm == "B" { "new" } else { "old" }.to_owned();
    }
    let sides = lab::report::sides::names(&record);
    assert_eq!(sides, ["old", "new"]);
    let text = markdown::render(&record).unwrap();
    assert!(text.contains("| B new, etcd 3.7.3 |"), "{text}");
}

#[test]
fn the_exit_code_follows_from_the_record() {
    let exit = |record: &Record| verdicts::exit(record);
    assert_eq!(exit(&fixture::comparison()), Exit::Fine);
    assert_eq!(exit(&fixture::inconclusive()), Exit::Inconclusive);
    assert_eq!(exit(&fixture::regression()), Exit::Regression);
    assert_eq!(exit(&fixture::noise_record()), Exit::Fine);
    assert_eq!(exit(&fixture::search()), Exit::Inconclusive);
    // A cell that got slower for certain.
    assert_eq!(exit(&fixture::map()), Exit::Regression);
    // Lost data.
    assert_eq!(exit(&fixture::side_by_side()), Exit::Error);
}

#[test]
fn runs_that_lost_data_or_failed_have_no_number() {
    let record = fixture::side_by_side();
    let csv = runs_csv::to_csv(&record).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|it| it == name).unwrap();
    let mut without = 0;
    for row in reader.records() {
        let row = row.unwrap();
        let is_measured = &row[column("outcome")] == "measured";
        without += usize::from(!is_measured);
        for name in ["operations_per_second", "p99_us", "footprint_bytes"] {
            assert_eq!(row[column(name)].is_empty(), !is_measured, "{name}");
        }
        assert!(!row[column("keys_checked")].is_empty());
    }
    assert_eq!(without, 6);
    let page = page::render(&record).unwrap();
    assert!(page.contains("LOST DATA: of 100000 keys 10 are missing"));
    assert!(page.contains("NOT DURABLE"));
}

#[test]
fn replaced_runs_are_shown_and_do_not_count() {
    let record = fixture::side_by_side();
    let page = page::render(&record).unwrap();
    assert!(page.contains("+1 again") && page.contains(r#"<tr class="replaced">"#));
    let text = markdown::render(&record).unwrap();
    assert!(text.contains("repeated: the host took 4.1 % of the processors"));
}

#[test]
fn a_row_has_every_run_and_is_reached_with_the_keyboard() {
    let mut record = fixture::side_by_side();
    record.runs.retain(|run| run.cell.clients == 4);
    let page = page::render(&record).unwrap();
    let (_, rows) = page.split_once("<tbody>").unwrap();
    let row = rows
        .split(r#"<tr class="row" tabindex="0">"#)
        .nth(4)
        .unwrap();
    assert!(row.contains("redb"), "{row}");
    let (_, raw) = row.split_once(r#"<div class="raw">"#).unwrap();
    let raw = raw.split_once("</div>").unwrap().0;
    assert_eq!(raw.matches("<circle").count(), 3);
    assert_eq!(raw.matches("<tr").count(), 4);
    let replaced = raw.split_once(r#"<tr class="replaced">"#).unwrap().1;
    assert!(replaced.contains("the host took 4.1 % of the processors"));
    let hover = ".row:hover > td > .raw, .row:focus > td > .raw";
    assert!(page.contains(hover));
}

#[test]
fn a_record_without_runs_is_shown_too() {
    let mut record = fixture::noise_record();
    record.runs.clear();
    record.complete = false;
    record.incomplete_because = Some("it was interrupted".to_owned());
    assert!(
        page::render(&record)
            .unwrap()
            .contains("it was interrupted")
    );
    assert!(markdown::render(&record).unwrap().contains("no run"));
    assert!(!terminal::render(&record).unwrap().is_empty());
    assert_eq!(verdicts::exit(&record), Exit::Inconclusive);
}

#[test]
fn a_record_with_only_an_interrupted_run_is_shown_too() {
    let mut record = fixture::noise_record();
    record.runs.truncate(1);
    let run = &mut record.runs[0];
    run.outcome = Outcome::Interrupted;
    run.load = LoadResult::default();
    record.complete = false;
    let page = page::render(&record).unwrap();
    assert!(page.contains(r#"<div class="raw">"#));
    assert!(!page.contains(r#"class="strip""#));
}

/// A text that still parses as a record after some bytes changed can be rendered.
#[test]
fn no_damage_makes_a_page_panic() {
    let mut record = fixture::inconclusive();
    record.runs.truncate(4);
    let text = serde_json::to_string(&record).unwrap();
    let mut shown = 0;
    for at in 0..400_usize {
        let mut bytes = text.clone().into_bytes();
        let place = at.wrapping_mul(7919) % bytes.len();
        bytes[place] = b"0917.-e5"[at % 8];
        let Ok(damaged) = String::from_utf8(bytes) else {
            continue;
        };
        if let Ok(record) = Record::parse("run.json", &damaged) {
            page::render(&record).unwrap();
            terminal::render(&record).unwrap();
            markdown::render(&record).unwrap();
            runs_csv::to_csv(&record).unwrap();
            let _ = share::render(&record, THROUGHPUT, &[]);
            let filed = |folder: &str| Filed {
                folder: folder.to_owned(),
                record: record.clone(),
            };
            trends(&[filed("a"), filed("b")], THROUGHPUT);
            shown += 1;
        }
    }
    assert!(shown > 50, "{shown}");
}

#[test]
fn a_truncated_record_is_refused() {
    let mut record = fixture::inconclusive();
    record.runs.truncate(2);
    let text = serde_json::to_string(&record).unwrap();
    for end in (0..text.len()).step_by(97) {
        let error = Record::parse("run.json", &text[..end])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("run.json: ") && error.contains("line 1 column"),
            "{error}"
        );
        assert!(error.contains("take a copy, or measure again"), "{error}");
    }
}

#[test]
fn impossible_numbers_of_a_run_are_named() {
    let mut record = fixture::inconclusive();
    record.runs[3].load.seconds = 0.0;
    let text = serde_json::to_string(&record).unwrap();
    let error = Record::parse("a/run.json", &text).unwrap_err().to_string();
    assert!(
        error.starts_with("a/run.json: run 3: load.seconds is 0"),
        "{error}"
    );
}
