//! `cargo xtask package` and its `.deb` in a clean Debian: installed, started as the unit says, used,
//! upgraded, removed and purged.
//!
//! The root is made from the essential packages of this machine, so that nothing is fetched. It
//! has no systemd: the test starts the command of the unit with its user and its variables, and
//! listens at the socket where systemd would.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "a package is files, and its scripts are processes"
)]

mod clean_root;
mod service;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use clean_root::CleanRoot;
use service::Service;

/// Where the package keeps its data.
const DATA: &str = "/var/lib/inkstone";

/// The server that the last build has left beside `xtask`, built now if there is none.
fn server() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("inkstone");
    if !path.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        let built = cargo.args(["build", "--package", "cli"]).status();
        assert!(built.unwrap().success() && path.exists());
    }
    path
}

/// A Debian package with this number.
fn package(number: &str, out: &Path) -> PathBuf {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["package", "--format=deb", "--release", number]);
    command.arg("--binary").arg(server());
    command.arg("--out").arg(out);
    command.env("SOURCE_DATE_EPOCH", "1700000000");
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let printed = String::from_utf8(output.stdout).unwrap();
    PathBuf::from(printed.lines().last().unwrap())
}

fn owner_and_mode(path: &Path) -> (u32, u32) {
    let about = fs::metadata(path).unwrap();
    (about.uid(), about.permissions().mode() & 0o777)
}

#[test]
fn data_survive_an_upgrade_and_a_removal_but_no_purge() {
    let root = match CleanRoot::new() {
        Ok(root) => root,
        Err(reason) => return eprintln!("SKIPPED: {reason}"),
    };
    let place = tempfile::tempdir().unwrap();
    let [first, second] = ["1", "2"].map(|number| package(number, place.path()));

    root.install(&first);
    let user = root.user_id("inkstone");
    assert_eq!(owner_and_mode(&root.path(DATA)), (user, 0o700));
    assert!(!root.path(DATA).join("data").exists(), "it was started");

    let address = Service::settle(&root);
    let endpoint = format!("--endpoints=http://{address}");
    let etcdctl = |words: &[&str]| {
        let words = [&["/usr/lib/inkstone/bin/etcdctl", &endpoint], words].concat();
        root.printed(&words)
    };
    let service = Service::start(&root);
    assert_eq!(etcdctl(&["put", "greeting", "hello"]), "OK\n");
    assert_eq!(etcdctl(&["get", "greeting"]), "greeting\nhello\n");
    assert_eq!(owner_and_mode(&root.path(DATA).join("data")).0, user);

    // The running server goes on with the old program until it is restarted.
    root.install(&second);
    assert_eq!(root.state_of("inkstone"), "install ok installed 0.1.0-2");
    assert_eq!(etcdctl(&["get", "greeting"]), "greeting\nhello\n");
    service.stop();
    let service = Service::start(&root);
    assert_eq!(etcdctl(&["get", "greeting"]), "greeting\nhello\n");
    service.stop();

    root.succeeds(&["dpkg", "--remove", "inkstone"]);
    assert_eq!(
        root.state_of("inkstone"),
        "deinstall ok config-files 0.1.0-2"
    );
    assert!(!root.path("/usr/bin/inkstone").exists());
    assert!(root.path(DATA).join("data").exists());

    root.install(&second);
    let service = Service::start(&root);
    assert_eq!(etcdctl(&["get", "greeting"]), "greeting\nhello\n");
    service.stop();

    root.succeeds(&["dpkg", "--purge", "inkstone"]);
    assert!(!root.path(DATA).exists());
    assert!(!root.path("/etc/default/inkstone").exists());
    assert_eq!(root.user_id("inkstone"), user, "the user stays");
}
