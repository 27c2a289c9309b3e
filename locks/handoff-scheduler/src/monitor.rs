//! The program in the kernel that watches the switches of threads.

use crate::load::{self, Compiled, Loaded};
use crate::page::KernelPage;
use crate::refusal::Refusal;

static COMPILED: &Compiled<[u8]> =
    &Compiled(*include_bytes!(concat!(env!("OUT_DIR"), "/monitor.o")));

const DOING: &str = "loading the monitor";

/// Loads and attaches the monitor.
pub fn load(page: &KernelPage) -> Result<Loaded, Refusal> {
    let refused = |error| Refusal::by_kernel(DOING, &error);
    let object = load::open(COMPILED, page)?.load().map_err(refused)?;
    let program = object.progs_mut().next().expect("the object has a program");
    let link = program.attach().map_err(refused)?;
    Ok(Loaded::new(object, link))
}
