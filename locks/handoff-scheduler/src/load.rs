//! Opening the compiled programs, and keeping them loaded and attached.

use std::path::Path;

use libbpf_rs::{Link, Object, ObjectBuilder, OpenObject};

use crate::page::KernelPage;
use crate::refusal::Refusal;

/// Type information of the running kernel.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The map that stands for the hint page.
const PAGE: &str = "page";

/// A loaded object, attached until it is dropped.
pub struct Loaded {
    /// The first field, so that the program is detached before the object is dropped.
    _link: Link,
    /// The loaded programs and maps.
    pub object: Object,
}

/// A compiled object, aligned as libbpf's reader of ELF files requires.
#[repr(align(8))]
pub struct Compiled<Bytes: ?Sized>(pub Bytes);

impl Loaded {
    /// Keeps the object loaded and attached.
    pub fn new(object: Object, link: Link) -> Loaded {
        Loaded {
            _link: link,
            object,
        }
    }
}

/// Fails if the kernel has no type information, without which no program can be loaded.
pub fn check_kernel() -> Result<(), Refusal> {
    if Path::new(TYPES).exists() {
        return Ok(());
    }
    Err(Refusal::new(
        format_args!("this kernel has no {TYPES}"),
        "This needs Linux 6.1 with CONFIG_DEBUG_INFO_BTF, and /sys mounted.",
    ))
}

/// Reads a compiled object and replaces its map of the page by `page`.
pub fn open(compiled: &Compiled<[u8]>, page: &KernelPage) -> Result<OpenObject, Refusal> {
    let refused = |error| Refusal::by_kernel("reading the program", &error);
    let mut object = ObjectBuilder::default()
        .open_memory(&compiled.0)
        .map_err(refused)?;
    let mut map = object
        .maps_mut()
        .find(|map| map.name() == PAGE)
        .expect("every program has the page");
    map.reuse_fd(page.file()).map_err(refused)?;
    Ok(object)
}
