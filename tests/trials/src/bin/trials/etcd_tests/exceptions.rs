//! The tests that need not pass, each with the reason.
//!
//! ```text
//!   # a remark
//!   TestInPlaceRecovery: reads etcd's database file
//!   TestHTTPHealthHandler/corrupt: reads etcd's database file
//! ```
//!
//! A line names a whole test or one row of it. Of a test with such rows, the others must pass.

use std::collections::BTreeMap;

use super::one_test::{Ran, Verdict};
use crate::process::Outcome;

/// Reasons by the name of the test or row.
pub struct Exceptions(BTreeMap<String, String>);

/// Judgement of the end of a test by the exceptions.
#[derive(Debug, PartialEq)]
pub enum Judgement<'a> {
    /// It passes, and need not be excused.
    AsSaid,
    /// It does not pass, for this reason.
    Excused(&'a str),
    /// It should have ended otherwise, or the list should.
    Wrong(String),
}

impl Judgement<'_> {
    pub fn is_wrong(&self) -> bool {
        matches!(self, Judgement::Wrong(_))
    }
}

impl Exceptions {
    /// Reads the list.
    pub fn read(text: &str) -> Outcome<Exceptions> {
        let mut reasons = BTreeMap::new();
        let lines = text.lines().enumerate();
        for (place, line) in lines.filter(|(_, it)| !it.starts_with('#') && !it.is_empty()) {
            let split = line.split_once(": ");
            let Some((name, reason)) = split.filter(|(name, _)| name.starts_with("Test")) else {
                return Err(format!("line {}: not `TestName: reason`", place + 1).into());
            };
            if reasons.insert(name.to_owned(), reason.to_owned()).is_some() {
                return Err(format!("line {}: {name} stands there twice", place + 1).into());
            }
        }
        Ok(Exceptions(reasons))
    }

    /// Fails if a test is named that the suite does not have.
    pub fn check_names(&self, names: &[String]) -> Outcome {
        let known = |name: &str| names.iter().any(|it| it == test_of(name));
        match self.0.keys().find(|name| !known(name)) {
            Some(name) => Err(format!("the suite has no {name}: strike it from the list").into()),
            None => Ok(()),
        }
    }

    /// Compares a test's end with the list.
    pub fn judge(&self, test: &Ran, in_part: bool) -> Judgement<'_> {
        let name = &test.name;
        if let Some(reason) = self.0.get(name) {
            return match test.verdict {
                Verdict::Pass if !in_part => Judgement::Wrong(format!(
                    "{name} passes: strike it from the list of exceptions ({reason})"
                )),
                _ => Judgement::Excused(reason),
            };
        }
        let excused = |row: &str| self.0.keys().any(|it| holds(it, row));
        let mut failed = test.rows.iter().filter(|(_, it)| **it != Verdict::Pass);
        let unexcused = failed.find(|(row, it)| **it == Verdict::Fail && !excused(row));
        if let Some((row, _)) = unexcused {
            return Judgement::Wrong(format!("{row} fails and is no exception"));
        }
        if let Some(stale) = self.stale(test) {
            return Judgement::Wrong(format!("{stale} passes: strike it from the exceptions"));
        }
        let of_rows = self.0.iter().find(|(it, _)| holds(name, it));
        match (test.verdict, of_rows) {
            (Verdict::Pass, _) => Judgement::AsSaid,
            (Verdict::Fail, Some((_, reason))) if !test.rows.is_empty() => {
                Judgement::Excused(reason)
            }
            (verdict, _) => Judgement::Wrong(format!("{name}: {verdict}, and is no exception")),
        }
    }

    /// A row of this test that is an exception and passes.
    fn stale(&self, test: &Ran) -> Option<&str> {
        let rows = self.0.keys().filter(|it| holds(&test.name, it));
        rows.map(String::as_str)
            .find(|row| test.rows.get(*row) == Some(&Verdict::Pass))
    }
}

/// Whether the row is this test or row, or lies in it.
fn holds(outer: &str, row: &str) -> bool {
    row.strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The test that a row belongs to.
fn test_of(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(verdict: Verdict, rows: &[(&str, Verdict)]) -> Ran {
        let rows = rows.iter().map(|(row, it)| (format!("TestA/{row}"), *it));
        Ran {
            name: "TestA".to_owned(),
            verdict,
            seconds: 1,
            rows: rows.collect(),
        }
    }

    fn judged(list: &str, test: &Ran) -> String {
        format!("{:?}", Exceptions::read(list).unwrap().judge(test, false))
    }

    #[test]
    fn only_listed_tests_may_fail_hang_or_be_skipped() {
        for verdict in [Verdict::Fail, Verdict::Hang, Verdict::Skip] {
            assert!(judged("", &ran(verdict, &[])).contains("no exception"));
            assert_eq!(
                judged("# remark\n\nTestA: why\n", &ran(verdict, &[])),
                "Excused(\"why\")"
            );
        }
        assert_eq!(judged("TestB: why", &ran(Verdict::Pass, &[])), "AsSaid");
    }

    #[test]
    fn a_listed_test_that_passes_is_reported() {
        let judgement = judged("TestA: why", &ran(Verdict::Pass, &[]));
        assert!(judgement.contains("strike it"), "{judgement}");
    }

    #[test]
    fn of_a_test_with_listed_rows_the_others_must_pass() {
        let rows = [("x", Verdict::Fail), ("y", Verdict::Pass)];
        let test = ran(Verdict::Fail, &rows);
        assert_eq!(judged("TestA/x: why", &test), "Excused(\"why\")");
        assert!(judged("TestA/xx: why", &test).contains("TestA/x fails"));
        assert!(judged("TestA/x: why\nTestA/y: why", &test).contains("TestA/y passes"));
    }

    #[test]
    fn a_line_that_says_no_reason_or_says_it_twice_is_refused() {
        assert!(Exceptions::read("TestA\n").is_err());
        assert!(Exceptions::read("A: why\n").is_err());
        assert!(Exceptions::read("TestA: why\nTestA: also\n").is_err());
    }

    #[test]
    fn a_name_that_the_suite_does_not_have_is_refused() {
        let list = Exceptions::read("TestA/x: why\n").unwrap();
        assert!(list.check_names(&["TestA".to_owned()]).is_ok());
        assert!(list.check_names(&["TestB".to_owned()]).is_err());
    }
}
