//! Refuses marks of unfinished work in the sources: open work belongs into an issue.

use super::Source;

// Split, or this file would find itself.
const BANNED: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("not built", " yet"),
];

pub fn faults(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| is_code(&source.path)) {
        for (index, line) in source.text.lines().enumerate() {
            if let Some(word) = BANNED.iter().find(|word| line.contains(**word)) {
                let number = index + 1;
                faults.push(format!(
                    "{}:{number}: `{word}`: finish it or open an issue",
                    source.path
                ));
            }
        }
    }
    faults
}

fn is_code(path: &str) -> bool {
    [".rs", ".proto", ".toml", ".sh"]
        .iter()
        .any(|ending| path.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_ends_are_found_with_their_line() {
        let source = Source {
            path: "a.rs".to_owned(),
            text: format!("fn a() {{}}\n// {}: b\n", BANNED[0]),
        };
        let faults = faults(&[source]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("a.rs:2:"));
    }
}
