//! What looks into the hand-off locks deeper than tests with real threads can.
//!
//! ```text
//!   loom      every interleaving of up to three threads, within a bound of preemptions
//!   shuttle   random schedules of ten
//!   miri      the real lock and its list, by Miri's rules for pointers and for races
//!   tsan      the real lock under load, with a standard library that is watched as well
//! ```
//!
//! Miri and the thread sanitizer belong to nightly compilers. Where one is missing its
//! part is named as skipped, the others still run, and the verb ends in failure.

use std::process::Command;

use crate::process::{Outcome, capture, cargo, root, run as run_command};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Tests with real threads; 256 of them are too many for Miri.
const FOR_MIRI: [&str; 4] = ["--test", "locks", "--test", "commit_queue"];

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Loom,
    Shuttle,
    Miri,
    Tsan,
}

#[derive(clap::Args)]
pub struct Options {
    /// Some parts only [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Schedules that Miri tries for the tests with threads
    #[arg(long, default_value_t = 4)]
    seeds: u32,
}

pub fn run(options: &Options) -> Outcome {
    let parts = if options.parts.is_empty() {
        &[Part::Loom, Part::Shuttle, Part::Miri, Part::Tsan]
    } else {
        &options.parts[..]
    };
    let mut skipped = Vec::new();
    for part in parts {
        let outcome = match part {
            Part::Loom => model("loom"),
            Part::Shuttle => model("shuttle"),
            Part::Miri => miri(options.seeds),
            Part::Tsan => thread_sanitizer(),
        }?;
        if let Some(why) = outcome {
            println!("{why}");
            skipped.push(why);
        }
    }
    if skipped.is_empty() {
        return Ok(());
    }
    Err(skipped.join("\n").into())
}

/// Why a part could not run, if it could not.
type Skipped = Option<String>;

fn model(name: &str) -> Outcome<Skipped> {
    let test = ["test", "-p", "handoff", "--release", "--test", name];
    run_command(&mut cargo(&test))?;
    Ok(None)
}

fn miri(seeds: u32) -> Outcome<Skipped> {
    if capture(&mut nightly(&["miri", "--version"])).is_err() {
        let why = "SKIPPED miri: it needs `rustup +nightly component add miri rust-src`";
        return Ok(Some(why.to_owned()));
    }
    run_command(&mut nightly(&["miri", "test", "-p", "handoff", "--lib"]))?;
    let mut threads = nightly(&["miri", "test", "-p", "handoff"]);
    threads
        .args(FOR_MIRI)
        .env("MIRIFLAGS", format!("-Zmiri-many-seeds=0..{seeds}"));
    run_command(&mut threads)?;
    Ok(None)
}

fn thread_sanitizer() -> Outcome<Skipped> {
    let sources = capture(Command::new("rustc").args(["+nightly", "--print", "sysroot"]))
        .map(|sysroot| format!("{}/lib/rustlib/src/rust/library", sysroot.trim()));
    if !sources.is_ok_and(|library| std::path::Path::new(&library).is_dir()) {
        let why = "SKIPPED tsan: it needs `rustup +nightly component add rust-src`";
        return Ok(Some(why.to_owned()));
    }
    // With the standard library's own sources, or what it does counts for nothing.
    let arguments = ["test", "-Zbuild-std", "--target", TARGET, "-p", "handoff"];
    let mut command = nightly(&arguments);
    command
        .args(FOR_MIRI)
        .args(["--test", "starvation"])
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("CARGO_TARGET_DIR", root().join("target/tsan"));
    run_command(&mut command)?;
    Ok(None)
}

fn nightly(arguments: &[&str]) -> Command {
    // Through rustup: cargo started us with its own, which takes no `+nightly`.
    let mut command = Command::new("cargo");
    command
        .arg("+nightly")
        .args(arguments)
        .env_remove("RUSTUP_TOOLCHAIN")
        .current_dir(root());
    command
}
