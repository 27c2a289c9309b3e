//! Every foreign crate needs a row with the reason for it and the crates that use it.

use std::collections::BTreeSet;

use super::Source;

const PAGE: &str = "docs/decisions/dependencies.md";
/// Separate workspaces with dependencies that need a row too.
const APART: [&str; 2] = [
    "lab/lab-peers/Cargo.toml",
    "locks/handoff-scheduler/Cargo.toml",
];

/// Workspace dependencies without a row, and rows without a dependency.
pub fn faults(sources: &[Source]) -> Vec<String> {
    let text = |path: &str| {
        let source = sources.iter().find(|source| source.path == path);
        source.map_or("", |source| source.text.as_str())
    };
    let mut used = foreign_crates(text("Cargo.toml"), "[workspace.dependencies]");
    for manifest in APART {
        used.extend(foreign_crates(text(manifest), "[dependencies]"));
    }
    let explained = rows(text(PAGE));
    let silent = used
        .difference(&explained)
        .map(|name| format!("{PAGE}: no row says why `{name}` is used"));
    let gone = explained
        .difference(&used)
        .map(|name| format!("{PAGE}: `{name}` is used no more; remove its row"));
    silent.chain(gone).collect()
}

/// Foreign crates of a section; ours have a path.
fn foreign_crates<'a>(manifest: &'a str, section: &str) -> BTreeSet<&'a str> {
    let lines = manifest.lines();
    let section = lines
        .skip_while(|line| *line != section)
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    section
        .filter(|line| !line.starts_with('#') && !line.contains("path ="))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .collect()
}

/// The first cells of the page's table, heading and rule left out.
fn rows(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|line| line.split_once(" |"))
        .map(|(name, _)| name.trim_matches('`'))
        .filter(|name| *name != "crate")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(manifest: &str, page: &str) -> Vec<String> {
        let sources = [("Cargo.toml", manifest), (PAGE, page)].map(|(path, text)| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        faults(&sources)
    }

    const MANIFEST: &str =
        "[workspace.dependencies]\nours = { path = \"a\" }\nbytes = \"1\"\n\n[a]\nb = 1";

    #[test]
    fn each_foreign_crate_has_a_row() {
        let head = "| crate | version |\n|---|---|\n";
        assert!(judged(MANIFEST, &format!("{head}| `bytes` | 1 |\n")).is_empty());
        assert!(judged(MANIFEST, head)[0].contains("no row says why"));
        let both = format!("{head}| `bytes` | 1 |\n| `gone` | 1 |\n");
        assert!(judged(MANIFEST, &both)[0].contains("used no more"));
    }
}
