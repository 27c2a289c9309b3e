//! Runs of the named checks behind `/livez` and `/readyz`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::Counter;
use crate::lock;

/// One check's runs.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Runs that passed.
    pub(super) passed: Counter,
    /// Runs that failed.
    pub(super) failed: Counter,
    passed_last: AtomicBool,
}

impl Runs {
    /// Whether the newest run passed.
    pub(super) fn passed_last(&self) -> bool {
        self.passed_last.load(Ordering::Relaxed)
    }
}

/// Runs by page and check; only checks that a client has asked for are listed.
#[derive(Debug, Default)]
pub(crate) struct CheckMetrics(Mutex<BTreeMap<(String, &'static str), Arc<Runs>>>);

impl CheckMetrics {
    /// Counts a run.
    pub(crate) fn count(&self, page: &str, check: &'static str, passed: bool) {
        let mut known = lock(&self.0);
        let runs = Arc::clone(known.entry((page.to_owned(), check)).or_default());
        drop(known);
        if passed { &runs.passed } else { &runs.failed }.add(1);
        runs.passed_last.store(passed, Ordering::Relaxed);
    }

    /// Page, check and runs of every check.
    pub(super) fn each(&self) -> Vec<(String, &'static str, Arc<Runs>)> {
        let known = lock(&self.0);
        known
            .iter()
            .map(|((page, check), runs)| (page.clone(), *check, Arc::clone(runs)))
            .collect()
    }
}
