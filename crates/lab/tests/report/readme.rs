//! Tables between markers.

use std::path::{Path, PathBuf};

use lab::report::quantity::quantity;
use lab::report::readme::{rewrite, section};

use crate::{fixture, golden, repository};

fn records() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("2026-11-21-put");
    std::fs::create_dir(&record).unwrap();
    fixture::comparison()
        .save(&record.join("run.json"))
        .unwrap();
    folder
}

#[test]
fn a_table_of_a_comparison_and_one_of_engines() {
    let columns = ["throughput", "p99", "server-cpu", "client-cpu"];
    let columns = columns.map(|key| quantity(key).unwrap());
    let link = "lab/records/2026-11-21-put/summary.md";
    let compared = section(&fixture::comparison(), &columns, link);
    let beside = section(&fixture::side_by_side(), &columns[..1], link);
    golden("readme.md", &format!("{compared}{beside}"));
}

#[test]
fn what_stands_between_the_markers_is_replaced_and_nothing_else() {
    let folder = records();
    let page = Path::new("README.md");
    let text = "# Title\n\n<!-- lab: 2026-11-21-put throughput -->\nold\n<!-- lab end -->\nEnd.\n";
    let made = rewrite(page, text, folder.path()).unwrap();
    assert!(made.starts_with("# Title\n\n<!-- lab: 2026-11-21-put throughput -->\n\n|  |"));
    assert!(made.ends_with("<!-- lab end -->\nEnd.\n") && !made.contains("old"));
    assert_eq!(rewrite(page, &made, folder.path()).unwrap(), made);
    assert!(made.contains("2026-11-21, AMD EPYC, 2 cores") && made.contains("1a2b3c4d5e6f"));
}

#[test]
fn links_lead_from_the_page_to_the_record() {
    let folder = records();
    std::fs::create_dir_all(folder.path().join("lab")).unwrap();
    let marker = "<!-- lab: 2026-11-21-put -->\n<!-- lab end -->\n";
    let made = rewrite(Path::new("docs/use/lab.md"), marker, folder.path()).unwrap();
    assert!(made.contains("[Record](../../"), "{made}");
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
        let error = rewrite(Path::new("README.md"), text, folder.path()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// Every page of the repository says what its records say.
#[test]
fn tables_of_this_repository_are_those_of_its_records() {
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
        let fenced = text
            .split("```")
            .step_by(2)
            .any(|part| part.contains("\n<!-- lab:"));
        if !fenced {
            continue;
        }
        let made = rewrite_here(&root, &page, &text);
        assert!(
            made == text,
            "{}: write it anew with `inkstone-lab readme {0}`",
            page.display()
        );
    }
}

/// With paths as they are seen from the root.
fn rewrite_here(root: &Path, page: &Path, text: &str) -> String {
    let made = rewrite(page, text, &root.join("lab/records")).unwrap();
    let root = format!("{}/", root.display());
    made.replace(&root, "")
}
