//! The programs that take the place of the kernel's scheduler.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapType};

use crate::load::{self, Compiled, Loaded};
use crate::options::Rule;
use crate::page::KernelPage;
use crate::refusal::Refusal;

static COMPILED: &Compiled<[u8]> =
    &Compiled(*include_bytes!(concat!(env!("OUT_DIR"), "/scheduler.o")));

const KERNEL: &str = "/sys/kernel/sched_ext";
const DOING: &str = "loading the scheduler";
/// The kernel takes milliseconds to give all threads back.
const LEAVING_MAX: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// A scheduler that the kernel uses.
pub struct Scheduler {
    loaded: Loaded,
    rule: Rule,
}

/// Whether this kernel takes schedulers, and has no other now.
pub fn check_kernel() -> Result<(), Refusal> {
    if !Path::new(KERNEL).exists() {
        return Err(Refusal::new(
            "this kernel takes no schedulers: it has no sched_ext",
            "It takes Linux 6.13 with CONFIG_SCHED_CLASS_EXT; `cargo xtask guest` boots one.\n\
             --sched batch works with every Linux from 6.12, --monitor from 6.1.",
        ));
    }
    match word("state").as_str() {
        "disabled" => Ok(()),
        _ => Err(Refusal::new(
            format_args!("the kernel has a scheduler already: {}", word("root/ops")),
            "There can be one at a time. End whatever has loaded it.",
        )),
    }
}

/// Loads it and gives it all threads of the machine.
pub fn load(rule: Rule, page: &KernelPage) -> Result<Scheduler, Refusal> {
    let refused = |error| Refusal::by_kernel(DOING, &error);
    let mut object = load::open(COMPILED, page)?;
    for mut map in object.maps_mut() {
        if map.map_type() == MapType::StructOps && map.name() != rule.name() {
            map.set_autocreate(false).map_err(refused)?;
        }
    }
    let mut object = object.load().map_err(refused)?;
    let mut map = object
        .maps_mut()
        .find(|map| map.name() == rule.name())
        .expect("the object has a scheduler for each rule");
    let link = map.attach_struct_ops().map_err(refused)?;
    let scheduler = Scheduler {
        loaded: Loaded::new(object, link),
        rule,
    };
    scheduler.check_in_use("has thrown the scheduler out at once")?;
    Ok(scheduler)
}

impl Scheduler {
    /// What was loaded.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Gives the threads back to the kernel. Fails if the kernel had taken them before.
    #[expect(clippy::disallowed_methods, reason = "this crate stands alone")]
    pub fn unload(self) -> Result<(), Refusal> {
        self.check_in_use("has thrown the scheduler out meanwhile")?;
        drop(self.loaded);
        let begin = Instant::now();
        while word("state") != "disabled" {
            if begin.elapsed() > LEAVING_MAX {
                return Err(Refusal::new(
                    "the kernel does not let the scheduler go",
                    "Its log may say why.",
                ));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    fn check_in_use(&self, otherwise: &str) -> Result<(), Refusal> {
        if word("root/ops") == format!("handoff_{}", self.rule.name()) {
            return Ok(());
        }
        Err(Refusal::new(
            format_args!("the kernel {otherwise}"),
            "Its log says why: some thread may have waited too long for a core.",
        ))
    }
}

/// What the kernel says about its scheduler; empty if it has none.
fn word(name: &str) -> String {
    let text = fs::read_to_string(Path::new(KERNEL).join(name));
    text.unwrap_or_default().trim().to_owned()
}
