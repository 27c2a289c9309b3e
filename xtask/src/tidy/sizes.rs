//! A ratchet on file sizes.
//!
//! Nothing new grows above the limit; what is above it stands in
//! `large_files.txt` with its size, and that number can only go down.

use std::collections::BTreeMap;

use super::Source;

/// A file of more lines is two subjects, or one that wants a folder.
const LINES_MAX: usize = 1_200;

pub fn faults(sources: &[Source], exceptions: &str) -> Vec<String> {
    let (allowed, mut faults) = parse(exceptions);
    let rust = sources.iter().filter(|source| source.path.ends_with(".rs"));
    let sizes: BTreeMap<&str, usize> = rust
        .map(|source| (source.path.as_str(), source.text.lines().count()))
        .collect();
    for (path, lines) in &sizes {
        faults.extend(judge(path, *lines, allowed.get(path).copied()));
    }
    let gone = allowed.keys().filter(|path| !sizes.contains_key(*path));
    faults
        .extend(gone.map(|path| format!("xtask/large_files.txt: {path} is gone; remove its row")));
    faults
}

fn judge(path: &str, lines: usize, allowed: Option<usize>) -> Option<String> {
    match allowed {
        None if lines > LINES_MAX => Some(format!(
            "{path}: {lines} lines, more than {LINES_MAX}; split it by subject"
        )),
        Some(allowed) if lines > allowed => Some(format!(
            "{path}: grew from {allowed} to {lines} lines; it may only shrink"
        )),
        Some(_) if lines <= LINES_MAX => Some(format!(
            "xtask/large_files.txt: {path} is small enough now; remove its row"
        )),
        Some(allowed) if lines < allowed => Some(format!(
            "xtask/large_files.txt: {path} shrank; write {lines} instead of {allowed}"
        )),
        _ => None,
    }
}

fn parse(exceptions: &str) -> (BTreeMap<&str, usize>, Vec<String>) {
    let mut allowed = BTreeMap::new();
    let mut faults = Vec::new();
    for row in exceptions.lines().filter(|line| !line.starts_with('#')) {
        match row
            .split_once(' ')
            .map(|(path, lines)| (path, lines.parse()))
        {
            Some((path, Ok(lines))) => {
                allowed.insert(path, lines);
            }
            _ => faults.push(format!(
                "xtask/large_files.txt: no path and lines in `{row}`"
            )),
        }
    }
    (allowed, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> [Source; 1] {
        [Source {
            path: "a.rs".to_owned(),
            text: "\n".repeat(lines),
        }]
    }

    #[test]
    fn a_large_file_needs_a_row() {
        assert!(faults(&file(LINES_MAX), "").is_empty());
        assert_eq!(faults(&file(LINES_MAX + 1), "").len(), 1);
        assert!(faults(&file(1300), "a.rs 1300").is_empty());
    }

    #[test]
    fn a_row_may_only_shrink() {
        assert!(faults(&file(1301), "a.rs 1300")[0].contains("may only shrink"));
        assert!(faults(&file(1290), "a.rs 1300")[0].contains("write 1290"));
        assert!(faults(&file(10), "a.rs 1300")[0].contains("remove its row"));
        assert!(faults(&[], "a.rs 1300")[0].contains("is gone"));
        assert!(faults(&[], "a.rs many")[0].contains("no path and lines"));
    }
}
