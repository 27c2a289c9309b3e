//! The hint page as a BPF map, which processes can map into their memory.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use handoff::hints::{Page, SLOT_BYTES};
use libbpf_rs::{MapHandle, MapType, libbpf_sys};

use crate::refusal::Refusal;

/// Number of slots; `SLOTS` in `bpf/page.h`.
const SLOTS: u32 = 16_383;
const KEY_BYTES: u32 = 4;

/// A page that the programs in the kernel and the program's threads share.
pub struct KernelPage {
    map: MapHandle,
}

impl KernelPage {
    /// An empty page.
    pub fn create() -> Result<KernelPage, Refusal> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        let map = MapHandle::create(
            MapType::Array,
            Some("handoff_page"),
            KEY_BYTES,
            SLOT_BYTES as u32,
            SLOTS + 1,
            &options,
        );
        let map = map.map_err(|error| Refusal::by_kernel("making the hint page", &error))?;
        // This only writes the header; the mapping is not needed any more.
        Page::create_in(map.as_fd(), SLOTS)
            .map_err(|error| Refusal::by_system("mapping the hint page", &error))?;
        Ok(KernelPage { map })
    }

    /// Path of the page for other processes, valid while this process lives.
    pub fn path(&self) -> String {
        format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.map.as_fd().as_raw_fd()
        )
    }

    /// Descriptor of the map, for the programs in the kernel.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
