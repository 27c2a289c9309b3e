//! A control group with a limit of memory, for one run.
//!
//! ```text
//!   group of the lab ─┬─ lab                          cgroup v1: the group is made below the lab's
//!                     └─ inkstone-lab-PID-N ── worker, its servers, and their page cache
//! ```
//!
//! In version 2 a group with processes has no children with a limit, so the group is made
//! beside the lab's own, below the nearest ancestor that passes the memory controller on. The
//! worker enters the group itself, before it opens its target: another program may have
//! started it.

use std::fmt::Display;
use std::fs::{create_dir, read_dir, read_to_string, remove_dir, write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use procfs::FromBufRead as _;
use procfs::ProcessCGroups;
use procfs::process::MountInfos;

use crate::workload::ByteCount;

const PREFIX: &str = "inkstone-lab-";
const PROCESSES: &str = "cgroup.procs";
/// Time limit for removing: processes that were just killed leave a moment later.
const LEAVING: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const LOOK: Duration = Duration::from_millis(20);

/// Error for a limit that cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum MemoryGroupError {
    /// The kernel has no memory controller, or this process cannot see it.
    #[error(
        "memory.limit needs the memory controller of control groups, and {0}; run the lab where \
         /sys/fs/cgroup has it, or leave memory.limit out"
    )]
    NoController(String),
    /// The user may not make a group.
    #[error(
        "memory.limit needs a control group, and {} cannot be made: {error}; run the lab as \
         root, or as `systemd-run --user --scope --property=Delegate=yes inkstone-lab ...`",
        group.display()
    )]
    Refused {
        group: PathBuf,
        error: std::io::Error,
    },
}

/// Versions of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// Files of a group with their values: the limit of memory, then the one that keeps the
    /// group from swapping instead. Kernels without swap accounting have no second file.
    fn settings(self, limit: ByteCount) -> [(&'static str, u64); 2] {
        match self {
            // The second is the sum of memory and swap.
            Version::One => [
                ("memory.limit_in_bytes", limit.0),
                ("memory.memsw.limit_in_bytes", limit.0),
            ],
            Version::Two => [("memory.max", limit.0), ("memory.swap.max", 0)],
        }
    }

    fn kills_file(self) -> &'static str {
        match self {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }
    }
}

/// Version, and the folder below which a group is made.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    version: Version,
    folder: PathBuf,
}

/// A group; dropping it removes it.
#[derive(Debug)]
pub struct MemoryGroup {
    version: Version,
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes a group. Its processes together have at most this memory, the page cache of their
    /// files included.
    pub fn make(limit: ByteCount) -> Result<MemoryGroup, MemoryGroupError> {
        let place = place()?;
        remove_leftovers(&place.folder);
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let path = place.folder.join(name);
        let refused = |error| MemoryGroupError::Refused {
            group: path.clone(),
            error,
        };
        create_dir(&path).map_err(refused)?;
        let group = MemoryGroup {
            version: place.version,
            path: path.clone(),
        };
        let [(memory, most), (swap, swap_most)] = place.version.settings(limit);
        write(path.join(memory), most.to_string()).map_err(refused)?;
        if path.join(swap).exists() {
            write(path.join(swap), swap_most.to_string()).map_err(refused)?;
        }
        Ok(group)
    }

    /// Folder of the group, for [`enter`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of processes of the group that the kernel killed because of the limit.
    pub fn kills(&self) -> u64 {
        let text = read_to_string(self.path.join(self.version.kills_file())).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let begun = Instant::now();
        while let Err(error) = remove_dir(&self.path) {
            if begun.elapsed() > LEAVING {
                eprintln!(
                    "cannot remove the control group {}: {error}",
                    self.path.display()
                );
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Moves this process and all its threads into a group. Fails where it is not in the group
/// afterwards.
pub fn enter(group: &Path) -> Result<(), String> {
    let own = std::process::id().to_string();
    let file = group.join(PROCESSES);
    let context = |what: &dyn Display| {
        format!(
            "memory.limit: the worker cannot enter the control group {}: {what}; run the lab as \
             root",
            group.display()
        )
    };
    write(&file, &own).map_err(|error| context(&error))?;
    let members = read_to_string(&file).map_err(|error| context(&error))?;
    match members.lines().any(|line| line == own) {
        true => Ok(()),
        false => Err(context(&"the kernel left it outside")),
    }
}

fn place() -> Result<Place, MemoryGroupError> {
    let read = |path: &str| {
        read_to_string(path)
            .map_err(|error| MemoryGroupError::NoController(format!("{path}: {error}")))
    };
    let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
    let passes_on = |folder: &Path| {
        let controllers = read_to_string(folder.join("cgroup.subtree_control"));
        controllers.is_ok_and(|text| text.split_whitespace().any(|it| it == "memory"))
    };
    place_in(&groups, &mounts, passes_on).map_err(MemoryGroupError::NoController)
}

/// The place for a group, from the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
/// `passes_on` returns whether groups below a folder of version 2 have the memory controller.
fn place_in(
    groups: &str,
    mounts: &str,
    passes_on: impl Fn(&Path) -> bool,
) -> Result<Place, String> {
    let groups = ProcessCGroups::from_buf_read(groups.as_bytes());
    let mounts = MountInfos::from_buf_read(mounts.as_bytes());
    let (groups, mounts) = groups
        .and_then(|groups| Ok((groups, mounts?)))
        .map_err(|error| format!("this system's groups cannot be read: {error}"))?;
    let has_memory = |controllers: &[String]| controllers.iter().any(|it| it == "memory");
    let mount = |is_it: &dyn Fn(&procfs::process::MountInfo) -> bool| {
        let found = mounts.0.iter().find(|mount| is_it(mount));
        found.map(|mount| (mount.mount_point.clone(), mount.root.clone()))
    };
    let first = mount(&|it| it.fs_type == "cgroup" && it.super_options.contains_key("memory"));
    let of_first = groups.0.iter().find(|it| has_memory(&it.controllers));
    if let (Some((point, root)), Some(group)) = (first, of_first) {
        return Ok(Place {
            version: Version::One,
            folder: own_folder(&point, &root, &group.pathname),
        });
    }
    let second = mount(&|it| it.fs_type == "cgroup2");
    let of_second = groups.0.iter().find(|it| it.hierarchy == 0);
    let (Some((point, root)), Some(group)) = (second, of_second) else {
        return Err("no control groups are mounted here".into());
    };
    let own = own_folder(&point, &root, &group.pathname);
    let above = own.ancestors().take_while(|it| it.starts_with(&point));
    let mut passing = above.filter(|folder| passes_on(folder));
    match passing.next() {
        Some(folder) => Ok(Place {
            version: Version::Two,
            folder: folder.to_owned(),
        }),
        None => Err(format!(
            "no group from {} up to {} passes it on (`memory` in cgroup.subtree_control)",
            own.display(),
            point.display()
        )),
    }
}

/// The folder of the group `path` in a mount of the tree below `root`. In a container the path
/// may lie outside of the mount, which then shows the container's own group.
fn own_folder(mount_point: &Path, root: &str, path: &str) -> PathBuf {
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    mount_point.join(below).components().collect()
}

/// Removes groups of labs that were killed.
fn remove_leftovers(folder: &Path) {
    for entry in read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'));
        let is_left = owner.is_some_and(|(pid, _)| {
            pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
        });
        if is_left {
            // A group with processes stays.
            drop(remove_dir(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const SECOND: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

    fn found(groups: &str, mounts: &str, passing: &[&str]) -> Result<(Version, String), String> {
        let passes_on = |folder: &Path| passing.iter().any(|it| folder == Path::new(it));
        let place = place_in(groups, mounts, passes_on)?;
        Ok((place.version, place.folder.display().to_string()))
    }

    #[test]
    fn a_group_of_version_1_is_made_below_the_labs_own() {
        let groups = "9:name=systemd:/\n4:memory:/user/a\n1:cpu:/\n0::/\n";
        let expected = (Version::One, "/sys/fs/cgroup/memory/user/a".to_owned());
        assert_eq!(found(groups, FIRST, &[]), Ok(expected));
        // In a container without a name space of groups.
        let mounts = FIRST.replace("0:32 / ", "0:32 /docker/x ");
        let expected = Ok((Version::One, "/sys/fs/cgroup/memory".to_owned()));
        for path in ["/docker/x", "/elsewhere"] {
            assert_eq!(found(&format!("4:memory:{path}\n"), &mounts, &[]), expected);
        }
    }

    #[test]
    fn a_group_of_version_2_is_made_below_the_nearest_that_passes_the_controller_on() {
        let groups = "0::/user.slice/app.slice/lab.scope\n";
        let passing = ["/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/app.slice"];
        let expected = (Version::Two, passing[1].to_owned());
        assert_eq!(found(groups, SECOND, &passing), Ok(expected));
        let expected = (Version::Two, passing[0].to_owned());
        assert_eq!(found(groups, SECOND, &passing[..1]), Ok(expected));
    }

    #[test]
    fn each_version_limits_memory_and_leaves_no_swap() {
        let limit = ByteCount(1000);
        let first = [
            ("memory.limit_in_bytes", 1000),
            ("memory.memsw.limit_in_bytes", 1000),
        ];
        assert_eq!(Version::One.settings(limit), first);
        let second = [("memory.max", 1000), ("memory.swap.max", 0)];
        assert_eq!(Version::Two.settings(limit), second);
    }

    #[test]
    fn a_system_without_the_controller_is_named() {
        let groups = "0::/user.slice/lab.scope\n";
        let error = found(groups, SECOND, &[]).unwrap_err();
        assert!(error.contains("cgroup.subtree_control"), "{error}");
        let error = MemoryGroupError::NoController(found(groups, "", &[]).unwrap_err());
        let error = error.to_string();
        assert!(
            error.contains("mounted") && error.contains("leave memory.limit out"),
            "{error}"
        );
    }

    #[test]
    fn the_error_for_a_refused_group_names_the_remedies() {
        let error = MemoryGroupError::Refused {
            group: "/sys/fs/cgroup/inkstone-lab-1-0".into(),
            error: std::io::ErrorKind::PermissionDenied.into(),
        };
        let error = error.to_string();
        assert!(
            error.contains("as root") && error.contains("systemd-run"),
            "{error}"
        );
    }

    #[test]
    fn a_group_that_does_not_exist_cannot_be_entered() {
        let error = enter(Path::new("/nowhere/group")).unwrap_err();
        assert!(
            error.contains("/nowhere/group") && error.contains("root"),
            "{error}"
        );
    }

    #[test]
    fn groups_of_ended_labs_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("{PREFIX}{}-0", std::process::id());
        let names = [
            "inkstone-lab-4294967295-0",
            &own,
            "inkstone-lab-x-0",
            "other",
        ];
        for name in names {
            create_dir(folder.path().join(name)).unwrap();
        }
        remove_leftovers(folder.path());
        let left = names.map(|name| folder.path().join(name).exists());
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn a_group_has_its_limit_and_is_removed_when_it_is_dropped() {
        let limit = ByteCount(64 << 20);
        let group = match MemoryGroup::make(limit) {
            Ok(group) => group,
            Err(error) => {
                // Groups need rights that a test does not always have.
                eprintln!("SKIPPED: {error}");
                return;
            }
        };
        let path = group.path().to_owned();
        let [(memory, _), _] = group.version.settings(limit);
        let found = read_to_string(path.join(memory)).unwrap();
        assert_eq!(found.trim(), limit.0.to_string());
        assert_eq!(group.kills(), 0);
        drop(group);
        assert!(!path.exists());
    }
}
