//! Users and roles: the verbs, the flags of the user, and etcdctl beside them.

use std::process::{Command, Output};

use crate::etcdctl::{compare, etcdctl, fed};
use crate::server::{Server, text};
use crate::stub;

/// Cheap hashes: the tests make many users.
const CHEAP: &str = "--bcrypt-cost=4";
const ROOT: &str = "--user=root:secret";

/// A server with users: `root`, and `alice` with the password `pw`, which may read below `a/`.
fn checked() -> Server {
    let server = Server::start_with(&[CHEAP]);
    for words in [
        &["put", "a/1", "v"][..],
        &["put", "b/1", "v"],
        &["user", "add", "root:secret"],
        &["user", "add", "alice:pw"],
        &["role", "add", "reader"],
        &[
            "role",
            "grant-permission",
            "reader",
            "read",
            "a/",
            "--prefix",
        ],
        &["user", "grant-role", "alice", "reader"],
        &["auth", "enable"],
    ] {
        server.run(words);
    }
    server
}

fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn a_user_may_do_what_its_roles_permit() {
    let server = checked();
    let alice = "--user=alice:pw";
    assert_eq!(server.run(&["get", "a/1", alice]), "a/1\nv\n");
    let others: [&[&str]; 4] = [
        &["get", "b/1", alice],
        &["put", "a/1", "w", alice],
        &["del", "a/1", alice],
        &["user", "list", alice],
    ];
    for words in others {
        let error = refusal(&server.output(words));
        assert!(error.contains("permission denied"), "{words:?}: {error}");
    }
    let mut watch = server.begin(&["watch", "a/", "--prefix", "--rev=1", alice]);
    assert_eq!(watch.lines(3), ["PUT", "a/1", "v"]);
    watch.interrupt();
    let mut refused = server.begin(&["watch", "b/", "--prefix", alice]);
    let (status, error) = refused.end();
    assert!(!status.success() && error.contains("permission denied"));
    assert_eq!(server.run(&["put", "b/1", "w", ROOT]), "OK\n");
}

#[test]
fn the_user_comes_from_etcdctl_s_variables_and_stdin_too() {
    let server = checked();
    let run = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = server.command(words);
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let get = &["get", "a/1"][..];
    let whole = run(get, &[("ETCDCTL_USER", "alice:pw")]);
    assert_eq!(text(&whole.stdout), "a/1\nv\n");
    let parts = [("ETCDCTL_USER", "alice"), ("ETCDCTL_PASSWORD", "pw")];
    assert_eq!(text(&run(get, &parts).stdout), "a/1\nv\n");
    assert_eq!(
        server.feed(&["get", "a/1", "--user=alice"], b"pw\n"),
        "a/1\nv\n"
    );
    let no_password = server.output(&["get", "a/1", "--user=alice"]);
    assert!(refusal(&no_password).contains("empty password"));
    let token = run(get, &[("ETCDCTL_AUTH_JWT_TOKEN", "nonsense")]);
    assert!(refusal(&token).contains("invalid auth token"));
    let help = run(&["get", "--help"], &parts);
    let help = text(&help.stdout);
    assert!(
        help.contains("ETCDCTL_PASSWORD") && !help.contains("=pw"),
        "{help}"
    );
}

#[test]
fn a_call_without_a_user_or_with_a_wrong_password_says_so() {
    let server = checked();
    let error = refusal(&server.output(&["get", "a/1"]));
    assert!(
        error.contains("user name is empty") && error.contains("--user"),
        "{error}"
    );
    let error = refusal(&server.output(&["user", "add", ""]));
    assert!(error.contains("empty user name"), "{error}");
    let error = refusal(&server.output(&["get", "a/1", "--user=alice:hush"]));
    assert!(error.contains("invalid user ID or password"), "{error}");
    assert!(!error.contains("hush"), "{error}");
    for words in [
        &["get", "a/1", "--password=hush"][..],
        &["get", "a/1", ROOT, "--auth-jwt-token=hush"],
        &["user", "add", ":hush", ROOT],
        &[
            "user",
            "add",
            "x",
            "--no-password",
            "--new-user-password=hush",
            ROOT,
        ],
        &["user", "add", "x", ROOT],
        &["role", "grant-permission", "reader", "rw", "a", ROOT],
        &[
            "role",
            "grant-permission",
            "reader",
            "read",
            "a",
            "b",
            "--prefix",
            ROOT,
        ],
        &["role", "grant-permission", "reader", "read", "", ROOT],
        &["user"],
    ] {
        let output = server.output(words);
        let error = refusal(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn a_user_flag_is_no_error_while_users_are_not_checked() {
    let server = Server::start_with(&[CHEAP]);
    assert_eq!(server.run(&["put", "k", "v", ROOT]), "OK\n");
    // The flags stand before and after the inner verb.
    server.run(&["user", "add", "root:secret", ROOT]);
    server.run(&["role", "add", "root"]);
    assert_eq!(
        server.run(&["auth", ROOT, "enable"]),
        "Authentication Enabled\n"
    );
    assert_eq!(server.run(&["user", ROOT, "list"]), "root\n");
    assert_eq!(
        server.run(&["auth", "disable", ROOT]),
        "Authentication Disabled\n"
    );
    assert_eq!(server.run(&["get", "k"]), "k\nv\n");
}

#[test]
fn a_new_password_on_stdin_may_be_confirmed_by_a_second_line() {
    let server = Server::start_with(&[CHEAP]);
    server.run(&["user", "add", "root:secret"]);
    assert_eq!(
        server.feed(&["user", "add", "a"], b"one\n"),
        "User a created\n"
    );
    assert_eq!(
        server.feed(&["user", "add", "b"], b"two words\ntwo words\n"),
        "User b created\n"
    );
    let output = server.output_of(&["user", "add", "c"], b"one\nother\n");
    assert!(refusal(&output).contains("given passwords are different"));
    server.run(&["auth", "enable"]);
    for user in ["--user=a:one", "--user=b:two words"] {
        let error = refusal(&server.output(&["user", "list", user]));
        assert!(error.contains("permission denied"), "{user}: {error}");
    }
}

/// CVE-2021-28235: a password in etcd's log.
#[test]
fn no_password_is_in_the_server_s_log() {
    let mut server = Server::start_with(&[CHEAP, "--log-level=debug"]);
    server.run(&["user", "add", "root:open-sesame-1"]);
    server.feed(&["user", "passwd", "root"], b"open-sesame-2\n");
    server.run(&["auth", "enable"]);
    server.run(&[
        "user",
        "add",
        "alice:open-sesame-3",
        "--user=root:open-sesame-2",
    ]);
    server.output(&["get", "k", "--user=alice:open-sesame-4"]);
    server.output(&[
        "user",
        "add",
        "alice:open-sesame-5",
        "--user=alice:open-sesame-3",
    ]);
    let log = server.log();
    assert!(log.contains("changed users or roles"), "{log}");
    assert!(!log.contains("open-sesame"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_made_again_with_a_new_token_when_its_token_has_ended() {
    let stub = stub::Stub::start().await;
    let output = stub.run(&["put", "k", "v", "--user=alice:pw"]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "OK\n");
    let expected = [
        "Authenticate -",
        "Put token-1",
        "Authenticate -",
        "Put token-2",
    ];
    assert_eq!(stub.seen(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_flags_is_not_renewed() {
    let stub = stub::Stub::start().await;
    let output = stub.run(&["put", "k", "v", "--auth-jwt-token=mine"]).await;
    assert!(refusal(&output).contains("invalid auth token"));
    assert_eq!(stub.seen(), ["Put mine"]);
}

/// The words of a verb, and what is on stdin.
const SCRIPT: [(&str, &str); 48] = [
    ("auth status", ""),
    ("user add root:secret", ""),
    ("user add root:secret", ""),
    ("user add alice --new-user-password=pw", ""),
    ("user add b:c --no-password", ""),
    ("user add carol --interactive=false", "pw\n"),
    ("user list", ""),
    ("user list -w json", ""),
    ("user get alice", ""),
    ("user get stranger", ""),
    ("role get root", ""),
    ("role add reader", ""),
    ("role add reader", ""),
    ("role add writer", ""),
    ("role list", ""),
    ("role list -w json", ""),
    ("role get reader", ""),
    ("role get reader -w json", ""),
    ("role grant-permission reader read k", ""),
    ("role grant-permission reader readwrite user/ --prefix", ""),
    ("role grant-permission reader WRITE a c", ""),
    ("role grant-permission reader read z --from-key", ""),
    ("role grant-permission reader read c a", ""),
    ("role grant-permission stranger read a", ""),
    ("role get reader", ""),
    ("role get reader -w json", ""),
    ("role revoke-permission reader k", ""),
    ("role revoke-permission reader k", ""),
    ("role revoke-permission reader user/ --prefix", ""),
    ("role revoke-permission reader z --from-key", ""),
    ("role grant-permission writer readwrite  --prefix", ""),
    ("role get writer", ""),
    ("role revoke-permission writer  --prefix", ""),
    ("user grant-role alice reader", ""),
    ("user grant-role alice writer", ""),
    ("user grant-role alice nothing", ""),
    ("user get alice -w json", ""),
    ("user get alice --detail", ""),
    ("user revoke-role alice writer", ""),
    ("user revoke-role alice writer", ""),
    ("auth enable", ""),
    ("auth status -w json", ""),
    (
        "user passwd carol --interactive=false --user=root:secret",
        "new\n",
    ),
    ("user get root --user=root:secret", ""),
    ("put a v --user=alice:pw", ""),
    ("get a --user=alice:pw", ""),
    ("user delete root --user=root:secret", ""),
    ("auth disable --user=root --password=secret", ""),
];

#[test]
fn the_verbs_print_what_etcdctl_prints() {
    let Some(etcdctl) = etcdctl() else {
        eprintln!("SKIPPED: etcdctl is not installed; `cargo xtask etcd` builds it.");
        return;
    };
    let (ours, theirs) = (Server::start_with(&[CHEAP]), Server::start_with(&[CHEAP]));
    for (line, input) in SCRIPT {
        // Two spaces are an empty word between them.
        let words: Vec<&str> = line.split(' ').collect();
        let here = ours.output_of(&words, input.as_bytes());
        let mut command = Command::new(&etcdctl);
        command.arg(format!("--endpoints={}", theirs.address()));
        let there = fed(command.args(&words), input.as_bytes());
        compare(line, &here, &there);
    }
}
