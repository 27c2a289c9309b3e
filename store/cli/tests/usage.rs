//! Help, errors of usage, and completions.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::process::{Command, Output, Stdio};

fn inkstone(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_inkstone"))
        .args(words)
        .env_remove("INKSTONE_ENDPOINT")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const VERBS: [&str; 28] = [
    "serve",
    "get",
    "put",
    "del",
    "watch",
    "txn",
    "lease",
    "lock",
    "elect",
    "compaction",
    "endpoint",
    "member",
    "alarm",
    "defrag",
    "move-leader",
    "top",
    "make-mirror",
    "backup",
    "downgrade",
    "version",
    "snapshot",
    "auth",
    "user",
    "role",
    "inspect",
    "check",
    "repair",
    "completions",
];

#[test]
fn help_names_every_verb_and_how_to_start() {
    let help = text(&inkstone(&["--help"]).stdout);
    for verb in VERBS {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} in {help}");
    }
    assert!(help.contains("inkstone serve "), "{help}");
}

#[test]
fn help_of_every_verb_has_an_example() {
    for verb in VERBS {
        let output = inkstone(&[verb, "--help"]);
        assert!(output.status.success(), "{verb}");
        let help = text(&output.stdout);
        assert!(help.contains(&format!("inkstone {verb} ")), "{help}");
    }
}

#[test]
fn a_call_without_a_verb_prints_the_help_and_exits_with_2() {
    let output = inkstone(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage: inkstone"));
}

#[test]
fn wrong_use_exits_with_2_and_says_what_is_wrong() {
    let cases: [(&[&str], &str); 11] = [
        (&["gett", "k"], "get"),
        (&["get"], "KEY"),
        (
            &["get", "k", "--prefix", "--from-key"],
            "cannot be used with",
        ),
        (&["get", "k", "z", "--prefix"], "cannot be used with"),
        (&["get", ""], "\"\" --prefix"),
        (&["get", "k", "--limit", "-1"], "--limit"),
        (&["get", "k", "--endpoint", "a,"], "not an endpoint"),
        (
            &["get", "k", "--cert", "a", "--endpoint", "https://a"],
            "--cert and --key",
        ),
        (&["put", ""], "the key is empty"),
        (&["put", "k", "v", "--lease", "x"], "hexadecimal"),
        (&["inspect", ".", "--segment", "x"], "hexadecimal"),
    ];
    for (words, expected) in cases {
        let output = inkstone(words);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {complaint}");
        assert!(complaint.contains(expected), "{words:?}: {complaint}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn a_refused_connection_names_the_endpoint_and_how_to_start_a_server() {
    // Port 1 is reserved and nothing listens there.
    for verb in [
        &["get", "k"][..],
        &["put", "k", "v"],
        &["del", "k"],
        &["watch", "k"],
    ] {
        let words = [verb, &["--endpoint", "http://127.0.0.1:1"]].concat();
        let output = inkstone(&words);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(
            complaint.contains("http://127.0.0.1:1: connection refused"),
            "{complaint}"
        );
        assert!(complaint.contains("inkstone serve"), "{complaint}");
    }
}

#[test]
fn all_endpoints_that_do_not_answer_are_named() {
    let output = inkstone(&["get", "k", "--endpoint", "http://127.0.0.1:1,127.0.0.1:2"]);
    let complaint = text(&output.stderr);
    for port in [1, 2] {
        let part = format!("http://127.0.0.1:{port}: connection refused");
        assert!(complaint.contains(&part), "{complaint}");
    }
}

#[test]
fn the_endpoint_comes_from_the_environment_too() {
    let output = Command::new(env!("CARGO_BIN_EXE_inkstone"))
        .args(["get", "k"])
        .env("INKSTONE_ENDPOINT", "127.0.0.1:1")
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains("http://127.0.0.1:1"));
}

#[test]
fn completions_know_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&inkstone(&["completions", shell]).stdout);
        for word in VERBS
            .iter()
            .chain(&["grant-permission", "new-user-password"])
        {
            assert!(script.contains(word), "{word} for {shell}");
        }
    }
}

#[test]
fn closing_the_output_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_inkstone"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}
