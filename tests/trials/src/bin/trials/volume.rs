//! A private ext4 file system that can lose its power.
//!
//! ```text
//!   image (sparse file) ── loop device ── ext4 with a journal ── root()
//!                             ▲ detaches itself when unmounted
//! ```
//!
//! `EXT4_IOC_SHUTDOWN` without flushing the journal drops what the page cache
//! and the running transaction held: every later call fails, and the next mount
//! replays the journal. What had reached the device stays, flushed or not, so a
//! write that skips only the device's flush is not caught here (the simulated
//! disk of `environment` catches those).
//!
//! All mounts live in a mount namespace of this process. The kernel removes
//! them when the last process in it is gone, however it ended.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::{
    mount::{MountPropagationFlags, mount_change},
    thread::UnshareFlags,
};

use crate::process::{Outcome, capture};

/// A dead process may hold its files for a moment.
const UNMOUNT_TRIES: u32 = 100;
const UNSYNCED_BYTES: usize = 4096;

/// A mounted file system; unmounted and removed when dropped.
pub struct Volume {
    directory: tempfile::TempDir,
}

/// Gives this process a private mount namespace. Must be called before any
/// other thread starts, because running threads keep the old one.
pub fn enter_private_namespace() -> Outcome {
    let complain = |error| format!("cannot make a mount namespace (CAP_SYS_ADMIN?): {error}");
    // SAFETY: NEWNS shares no memory or files less than before; it only copies
    // the table of mounts.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(complain)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(complain)?;
    Ok(())
}

impl Volume {
    /// Creates a file system of `bytes` bytes. The image is sparse: only written blocks take
    /// space.
    pub fn create(bytes: u64) -> Outcome<Volume> {
        let volume = Volume {
            directory: tempfile::tempdir()?,
        };
        File::create(volume.image())?.set_len(bytes)?;
        std::fs::create_dir(volume.root())?;
        capture(
            Command::new("mkfs.ext4")
                .args(["-q", "-F"])
                .arg(volume.image()),
        )?;
        volume.mount()?;
        Ok(volume)
    }

    /// Where it is mounted.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    /// Directory beside the file system, for files that must survive a cut.
    pub fn outside(&self) -> &Path {
        self.directory.path()
    }

    /// Cuts the power: from now on every call on the file system fails.
    pub fn cut(&self) -> Outcome {
        /// `_IOR('X', 125, __u32)`
        const SHUTDOWN: rustix::ioctl::Opcode = 0x8004_587d;
        const WITHOUT_FLUSHING_THE_JOURNAL: u32 = 2;
        let root = File::open(self.root())?;
        // SAFETY: the opcode takes a pointer to 32 bits and only reads them.
        unsafe {
            let flags = rustix::ioctl::Setter::<SHUTDOWN, u32>::new(WITHOUT_FLUSHING_THE_JOURNAL);
            rustix::ioctl::ioctl(&root, flags)?;
        }
        Ok(())
    }

    /// Unmounts the file system after a cut and mounts it again.
    pub fn remount(&self) -> Outcome {
        self.unmount()?;
        self.mount()
    }

    /// Keeps the image after the drop, and returns its path.
    pub fn keep(&mut self) -> PathBuf {
        self.directory.disable_cleanup(true);
        self.image()
    }

    /// Writes a file without a sync; a real cut loses it.
    pub fn write_unsynced(&self) -> Outcome {
        std::fs::write(self.unsynced(), [1; UNSYNCED_BYTES])?;
        Ok(())
    }

    /// Whether the last cut lost the unsynced file's bytes.
    pub fn lost_unsynced(&self) -> Outcome<bool> {
        match std::fs::read(self.unsynced()) {
            Ok(bytes) => {
                std::fs::remove_file(self.unsynced())?;
                Ok(bytes != [1; UNSYNCED_BYTES])
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn unsynced(&self) -> PathBuf {
        self.root().join("unsynced")
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("ext4.image")
    }

    fn mount(&self) -> Outcome {
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "loop"]);
        capture(mount.arg(self.image()).arg(self.root()))?;
        Ok(())
    }

    fn unmount(&self) -> Outcome {
        for _ in 1..UNMOUNT_TRIES {
            if capture(Command::new("umount").arg(self.root())).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        capture(Command::new("umount").arg(self.root()))?;
        Ok(())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        if let Err(error) = capture(unmount.arg("--lazy").arg(self.root())) {
            eprintln!("could not unmount {}: {error}", self.root().display());
        }
    }
}
