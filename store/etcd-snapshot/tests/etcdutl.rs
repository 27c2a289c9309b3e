//! The same files, read here and by etcdutl.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use environment::randomness::Random;
use etcd_snapshot::{hash, open, status};
use harness::{Member, MemberConfig, Program};
use tempfile::TempDir;

/// An etcd with the programs that come with it.
struct Etcd {
    member: Member,
    folder: TempDir,
    programs: PathBuf,
}

impl Etcd {
    /// `None` if there is no etcd on this machine.
    fn start() -> Option<Etcd> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let binary = harness::etcd_binary(&root)?;
        let programs = binary.parent()?.to_owned();
        let folder = tempfile::tempdir().unwrap();
        let config = MemberConfig::on_reserved_ports("m", folder.path()).unwrap();
        let config = MemberConfig {
            initial_cluster: harness::initial_cluster([&config]),
            ..config
        };
        let mut member = Member::new(Program::new(binary), config);
        member.start_and_wait().unwrap();
        Some(Etcd {
            member,
            folder,
            programs,
        })
    }

    /// Runs etcdctl or etcdutl; returns what it prints.
    fn run(&self, program: &str, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.programs.join(program));
        command.args(words).env_clear();
        if program == "etcdctl" {
            command.arg(format!("--endpoints={}", self.member.client_address()));
        }
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    fn control(&self, words: &[&str]) -> String {
        self.run("etcdctl", words).unwrap()
    }

    /// The newest revision.
    fn revision(&self) -> i64 {
        let status = self.control(&["endpoint", "status", "-w", "fields"]);
        field(&status, "Revision")
    }

    fn save(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        self.control(&["snapshot", "save", path.to_str().unwrap()]);
        path
    }

    /// Does one thing to the keys.
    fn change(&self, random: &mut Random, lease: &str) {
        let key = format!("key/{}", random.below(20));
        let value = "v".repeat(1 + random.below(3_000) as usize);
        match random.below(8) {
            0 => self.control(&["del", &key]),
            1 => self.control(&["del", "--prefix", &key]),
            2 => self.control(&["put", &key, &value, &format!("--lease={lease}")]),
            _ => self.control(&["put", &key, &value]),
        };
    }
}

/// A number from lines of `"Name" : number`.
fn field(text: &str, name: &str) -> i64 {
    let begins = format!("\"{name}\" : ");
    let number = text.lines().find_map(|line| line.strip_prefix(&begins));
    number
        .unwrap_or_else(|| panic!("{name} in {text}"))
        .parse()
        .unwrap()
}

/// Compares what both say of a file.
fn compare(etcd: &Etcd, path: &Path, random: &mut Random) {
    let name = path.to_str().unwrap();
    let file = open(path, false, |_, _| ()).unwrap();
    let ours = status(&file, |_| ()).unwrap();
    let theirs = etcd
        .run("etcdutl", &["snapshot", "status", name, "-w", "fields"])
        .unwrap();
    assert_eq!(i64::from(ours.hash), field(&theirs, "Hash"));
    assert_eq!(ours.revision, field(&theirs, "Revision"));
    assert_eq!(ours.keys as i64, field(&theirs, "Keys"));
    assert_eq!(ours.size_bytes as i64, field(&theirs, "Size"));
    assert!(
        theirs.contains(&format!("\"Version\" : {}", ours.version)),
        "{theirs}"
    );

    let beyond = ours.revision as u64 + 2;
    for revision in (0..12).map(|_| random.below(beyond) as i64) {
        // etcdutl changes the file that it hashes.
        let copy = etcd.folder.path().join("copy.db");
        std::fs::copy(path, &copy).unwrap();
        let words = ["hashkv", copy.to_str().unwrap(), "-w", "fields"];
        let theirs = etcd.run(
            "etcdutl",
            &[&words[..], &["--rev", &revision.to_string()]].concat(),
        );
        match (hash(&file, revision, |_| ()), theirs) {
            (Ok(ours), Ok(theirs)) => {
                let compacted = ours.compact_revision;
                assert_eq!(
                    i64::from(ours.hash),
                    field(&theirs, "Hash"),
                    "at {revision}"
                );
                assert_eq!(ours.hash_revision, field(&theirs, "Hash revision"));
                assert_eq!(compacted, field(&theirs, "Compact revision"));
            }
            (Err(ours), Err(theirs)) => {
                let is_past = ours.to_string().contains("has been compacted");
                assert_eq!(
                    is_past,
                    theirs.contains("has been compacted"),
                    "{ours}; {theirs}"
                );
            }
            (ours, theirs) => panic!("at {revision}: {ours:?}, {theirs:?}"),
        }
    }
}

#[test]
fn status_and_hashes_of_random_histories_are_etcdutl_s() {
    let Some(etcd) = Etcd::start() else {
        eprintln!("SKIPPED: there is no etcd to compare with; `cargo xtask etcd` builds one");
        return;
    };
    let mut random = Random::from_seed(5);
    compare(&etcd, &etcd.save("new.db"), &mut random);
    let lease = etcd.control(&["lease", "grant", "6000"]);
    let lease = lease.split_whitespace().nth(1).unwrap();
    etcd.control(&["user", "add", "root:pw"]);
    for round in 0..4 {
        for _ in 0..40 {
            etcd.change(&mut random, lease);
        }
        compare(&etcd, &etcd.save(&format!("{round}.db")), &mut random);
        let back = random.below(20) as i64;
        let at = (etcd.revision() - back).max(2).to_string();
        // A revision that was compacted before is refused.
        let _ = etcd.run("etcdctl", &["compact", &at, "--physical"]);
        compare(
            &etcd,
            &etcd.save(&format!("{round}-compacted.db")),
            &mut random,
        );
    }
    etcd.control(&["del", "--prefix", ""]);
    etcd.control(&["compact", &etcd.revision().to_string(), "--physical"]);
    compare(&etcd, &etcd.save("nothing-left.db"), &mut random);
}
