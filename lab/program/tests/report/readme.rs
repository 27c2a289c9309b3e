//! Tables between markers of Markdown pages.

use std::path::{Path, PathBuf};

use lab::report::quantity::with_key;
use lab::report::readme::{PagePaths, rewrite, section};

use crate::{fixture, golden, repository};

/// The rewritten text of a page beside records in one folder.
fn made(root: &Path, page: &str, text: &str) -> Result<String, String> {
    let place = PagePaths {
        root,
        page: Path::new(page),
        records: Path::new("records"),
    };
    rewrite(place, text).map_err(|error| error.to_string())
}

fn records() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("records/2026-11-21-put");
    std::fs::create_dir_all(&record).unwrap();
    fixture::comparison()
        .save(&record.join("run.json.gz"))
        .unwrap();
    folder
}

#[test]
fn tables_of_a_comparison_and_of_engines_match_the_golden_file() {
    let columns = ["throughput", "p99", "server-cpu", "client-cpu"];
    let columns = columns.map(|key| with_key(key).unwrap());
    let link = "lab/records/2026-11-21-put/summary.md";
    let compared = section(&fixture::comparison(), &columns, link).unwrap();
    let beside = section(&fixture::side_by_side(), &columns[..1], link).unwrap();
    golden("readme.md", &format!("{compared}{beside}"));
}

#[test]
fn only_the_text_between_the_markers_is_replaced() {
    let folder = records();
    let text = "# Title\n\n<!-- lab: 2026-11-21-put throughput -->\nold\n<!-- lab end -->\nEnd.\n";
    let page = made(folder.path(), "README.md", text).unwrap();
    assert!(page.starts_with("# Title\n\n<!-- lab: 2026-11-21-put throughput -->\n\n|  |"));
    assert!(page.ends_with("<!-- lab end -->\nEnd.\n") && !page.contains("old"));
    assert_eq!(made(folder.path(), "README.md", &page).unwrap(), page);
    assert!(page.contains("2026-11-21, AMD EPYC, 2 cores") && page.contains("1a2b3c4d5e6f"));
}

#[test]
fn links_lead_from_the_page_to_the_record() {
    let folder = records();
    let marker = "<!-- lab: 2026-11-21-put -->\n<!-- lab end -->\n";
    let link = |page: &str| {
        let page = made(folder.path(), page, marker).unwrap();
        let begin = page.find("[Record](").unwrap() + "[Record](".len();
        page[begin..].split(')').next().unwrap().to_owned()
    };
    assert_eq!(link("README.md"), "records/2026-11-21-put/summary.md");
    assert_eq!(
        link("docs/use/lab.md"),
        "../../records/2026-11-21-put/summary.md"
    );
}

#[test]
fn mistakes_are_named_with_page_and_line() {
    let folder = records();
    let cases = [
        (
            "<!-- lab: 2026-11-21-put -->\n",
            "README.md:1: the marker has no `<!-- lab end -->`",
        ),
        (
            "\n<!-- lab end -->\n",
            "README.md:2: `<!-- lab end -->` without a beginning",
        ),
        ("<!-- lab: nothing -->\n<!-- lab end -->\n", "README.md:1: "),
        (
            "<!-- lab: ../../etc -->\n<!-- lab end -->\n",
            "no folder below the records",
        ),
        (
            "<!-- lab: 2026-11-21-put speed -->\n<!-- lab end -->\n",
            "no column `speed`",
        ),
        ("<!-- lab: -->\n<!-- lab end -->\n", "names no record"),
        (
            "<!-- lab: 2026-11-21-put\n<!-- lab end -->\n",
            "does not end in `-->`",
        ),
    ];
    for (text, expected) in cases {
        let error = made(folder.path(), "README.md", text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_marker_in_a_code_block_is_ignored() {
    let folder = records();
    let example = "```\n<!-- lab: nothing -->\n```\n";
    let text = format!("{example}<!-- lab: 2026-11-21-put -->\n<!-- lab end -->\n");
    let page = made(folder.path(), "README.md", &text).unwrap();
    assert!(page.starts_with(example) && page.contains("[Record]"));
}

/// The tables in the pages of this repository agree with its records.
#[test]
fn tables_of_this_repository_agree_with_its_records() {
    let root = repository();
    let mut pages: Vec<PathBuf> = vec!["README.md".into()];
    let mut folders: Vec<PathBuf> = vec!["docs".into(), "lab".into()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true if !path.ends_with("records") => folders.push(path),
                false if path.extension().is_some_and(|it| it == "md") => pages.push(path),
                _ => {}
            }
        }
    }
    for page in pages {
        let text = std::fs::read_to_string(root.join(&page)).unwrap();
        let place = PagePaths {
            root: &root,
            page: &page,
            records: Path::new("lab/records"),
        };
        let made = rewrite(place, &text).unwrap();
        assert!(
            made == text,
            "{}: rewrite it with `inkstone-lab readme {0}`",
            page.display()
        );
    }
}
