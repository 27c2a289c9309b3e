//! The programs that replace the kernel's scheduler.

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
/// Time limit for the kernel to take all threads back, which takes milliseconds.
const LEAVING_MAX: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// A scheduler that is loaded and in use.
pub struct Scheduler {
    loaded: Loaded,
    rule: Rule,
}

/// Fails if this kernel has no sched_ext, or another scheduler is loaded.
pub fn check_kernel() -> Result<(), Refusal> {
    if !Path::new(KERNEL).exists() {
        return Err(Refusal::new(
            "this kernel cannot load schedulers: it has no sched_ext",
            "This needs Linux 6.13 with CONFIG_SCHED_CLASS_EXT; `cargo trials guest` boots one.\n\
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

/// Loads the scheduler, which then schedules all threads of the machine.
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
    scheduler.check_in_use("has removed the scheduler at once")?;
    Ok(scheduler)
}

impl Scheduler {
    /// The loaded programs.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Unloads the scheduler and waits until the kernel's own has all threads. Fails if the
    /// kernel had removed it before.
    #[expect(clippy::disallowed_methods, reason = "this crate stands alone")]
    pub fn unload(self) -> Result<(), Refusal> {
        self.check_in_use("has removed the scheduler while it was in use")?;
        drop(self.loaded);
        let begin = Instant::now();
        while word("state") != "disabled" {
            if begin.elapsed() > LEAVING_MAX {
                return Err(Refusal::new(
                    "the kernel does not unload the scheduler",
                    "Its log may say why.",
                ));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    /// Fails with `otherwise` if the kernel does not use this scheduler.
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

/// A value that sysfs has about sched_ext; empty if there is none.
fn word(name: &str) -> String {
    let text = fs::read_to_string(Path::new(KERNEL).join(name));
    text.unwrap_or_default().trim().to_owned()
}
