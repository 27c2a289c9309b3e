//! The trials of `cargo trials fuzz`, each for a few seconds, against this build.
//!
//! Trials that compare with etcd print SKIPPED and pass if it is not installed
//! (`cargo xtask etcd` builds it; `INKSTONE_ETCD` names another binary).
//! `INKSTONE_FUZZ_SECONDS` and `INKSTONE_FUZZ_SEED` set length and seed.

use std::path::{Path, PathBuf};

use trials::slow::Crowd;
use trials::{Length, Outcome, Report, Subject};

const SECONDS_DEFAULT: u64 = 5;
/// Enough for the required 10,000 compared operations.
const OPERATIONS: usize = 12_000;

/// The programs to try; `None` if etcd is needed and missing.
fn subject(needs_etcd: bool) -> Option<Subject> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let etcd = harness::etcd_binary(&root);
    if needs_etcd && etcd.is_none() {
        eprintln!(
            "SKIPPED: etcd is not installed, nothing was compared. \
             `cargo xtask etcd` builds it where Go is installed."
        );
        return None;
    }
    Some(Subject {
        inkstone: PathBuf::from(env!("CARGO_BIN_EXE_inkstone")),
        etcd,
    })
}

fn length() -> Length {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    };
    let seconds = number("INKSTONE_FUZZ_SECONDS", SECONDS_DEFAULT);
    Length::seconds(seconds, number("INKSTONE_FUZZ_SEED", 1))
}

fn judge(outcome: Outcome<Report>) {
    match outcome {
        Ok(report) => eprintln!("{report}"),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_operations_have_equal_answers_and_equal_hashes() {
    let Some(subject) = subject(true) else {
        return;
    };
    let length = Length {
        operations: Some(OPERATIONS),
        ..length()
    };
    judge(trials::kv::run(&subject, length).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_about_users_equal_etcd_s() {
    let Some(subject) = subject(true) else {
        return;
    };
    judge(trials::users::run(&subject, length()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_survives_bad_http2_at_the_client_port_and_serves_others() {
    let subject = subject(false).expect("no etcd is needed");
    judge(trials::http2::run(&subject, length()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_and_range_streams_equal_etcd_s_in_content_and_order() {
    let Some(subject) = subject(true) else {
        return;
    };
    judge(trials::watch::run(&subject, length()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_take_bounded_memory_that_is_freed_when_they_leave() {
    let subject = Subject {
        etcd: None,
        ..subject(false).expect("no etcd is needed")
    };
    let crowd = Crowd {
        readers: 40,
        watchers: 20,
        writers: 20,
    };
    judge(trials::slow::run(&subject, length(), crowd).await);
}
