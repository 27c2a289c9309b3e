//! Measures of the sources, to compare with what admired code measures like:
//! functions median 6 to 8 lines and 90 % under 30, files median 150 and 90 %
//! under 650, 15 assertions per thousand lines in storeys 1 to 4.
//!
//! Counted on the text, not on a syntax tree: good enough to see a trend.

use std::collections::BTreeMap;

use crate::{
    process::{Outcome, root},
    tidy::{Source, read},
};

/// Measures of one crate's code without its tests.
#[derive(Default)]
struct Measures {
    file_lines: Vec<usize>,
    function_lines: Vec<usize>,
    comment_lines: usize,
    assertions: usize,
    test_lines: usize,
}

/// Prints a row for each crate.
pub fn print() -> Outcome {
    let mut crates: BTreeMap<String, Measures> = BTreeMap::new();
    for source in read(&root())? {
        if let Some(name) = crate_of(&source) {
            crates.entry(name).or_default().add(&source);
        }
    }
    println!(
        "crate          lines  tests  comments  file p50/p90/max  fn p50/p90/max  asserts/kLOC"
    );
    for (name, measures) in &mut crates {
        println!("{name:13} {}", measures.row());
    }
    Ok(())
}

fn crate_of(source: &Source) -> Option<String> {
    let parts: Vec<&str> = source.path.split('/').collect();
    match parts[..] {
        [_, name, "src" | "tests" | "examples", ..] if source.path.ends_with(".rs") => {
            Some(name.to_owned())
        }
        ["xtask", ..] if source.path.ends_with(".rs") => Some("xtask".to_owned()),
        _ => None,
    }
}

impl Measures {
    fn add(&mut self, source: &Source) {
        let is_test = source.path.contains("/tests") || source.path.contains("/examples/");
        let code = match source.text.find("#[cfg(test)]\nmod tests {") {
            _ if is_test => "",
            Some(tests) => &source.text[..tests],
            None => &source.text,
        };
        let all = source.text.lines().count();
        let lines = code.lines().count();
        self.test_lines += all - lines;
        if lines == 0 {
            return;
        }
        self.file_lines.push(lines);
        self.comment_lines += code
            .lines()
            .filter(|line| line.trim_start().starts_with("//"))
            .count();
        self.assertions += code.lines().filter(|line| line.contains("assert")).count();
        self.function_lines.extend(functions(code));
    }

    fn row(&mut self) -> String {
        let lines: usize = self.file_lines.iter().sum();
        format!(
            "{lines:6} {:6} {:7} %  {:16}  {:14}  {:12.1}",
            self.test_lines,
            100 * self.comment_lines / lines.max(1),
            percentiles(&mut self.file_lines),
            percentiles(&mut self.function_lines),
            1000.0 * self.assertions as f64 / lines.max(1) as f64,
        )
    }
}

/// Lines of each function's body, found by indentation: rustfmt puts the
/// closing brace below the `fn`.
fn functions(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let lines: Vec<&str> = code.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if !words.split_whitespace().take(4).any(|word| word == "fn") || words.starts_with("//") {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[index..].iter().position(|line| **line == end) {
            found.push(length.saturating_sub(1));
        }
    }
    found
}

fn percentiles(numbers: &mut [usize]) -> String {
    numbers.sort_unstable();
    let at = |percent: usize| match numbers.len() {
        0 => 0,
        length => numbers[(length - 1) * percent / 100],
    };
    format!("{}/{}/{}", at(50), at(90), at(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_counted_between_the_braces() {
        let code =
            "impl A {\n    pub fn a() {\n        1;\n        2;\n    }\n}\nfn b() {\n    3\n}\n";
        assert_eq!(functions(code), [2, 1]);
    }

    #[test]
    fn percentiles_of_nothing_are_zero() {
        assert_eq!(percentiles(&mut []), "0/0/0");
        assert_eq!(percentiles(&mut [3, 1, 2]), "2/2/3");
    }
}
