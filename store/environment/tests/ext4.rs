//! The simulated disk against a real ext4 that loses its power.
//!
//! A loop device carries ext4; `EXT4_IOC_SHUTDOWN` without flushing the
//! journal is what a power cut looks like to the file system, short of torn
//! blocks. Needs root, a free loop device and e2fsprogs, so it is opt-in:
//! `cargo test -p environment --test ext4 -- --ignored`

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "looks at the machine from outside"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use environment::randomness::Random;
use environment::real::RealDisk;
use environment::simulated::{Restart, SimulatedDisk};
use environment::{Disk, OpenMode};

/// A fresh ext4 on a loop device, unmounted when dropped.
struct Volume {
    directory: tempfile::TempDir,
    device: String,
}

impl Volume {
    fn new() -> Volume {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        fs::write(&image, vec![0; 32 << 20]).unwrap();
        fs::create_dir_all(directory.path().join("mount")).unwrap();
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        let device = run("losetup", &["--find", "--show", image.to_str().unwrap()]);
        let volume = Volume { directory, device };
        volume.mount();
        volume
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    fn mount(&self) {
        run(
            "mount",
            &["-t", "ext4", &self.device, self.root().to_str().unwrap()],
        );
    }

    /// Cuts the power and mounts again, which replays the journal.
    fn lose_power(&self) {
        /// `_IOR('X', 125, __u32)`
        const SHUTDOWN: rustix::ioctl::Opcode = 0x8004_587d;
        const WITHOUT_FLUSHING_THE_JOURNAL: u32 = 2;
        let root = fs::File::open(self.root()).unwrap();
        // SAFETY: the opcode takes a pointer to 32 bits and only reads them.
        unsafe {
            let flags = rustix::ioctl::Setter::<SHUTDOWN, u32>::new(WITHOUT_FLUSHING_THE_JOURNAL);
            rustix::ioctl::ioctl(&root, flags).unwrap();
        }
        drop(root);
        run("umount", &[self.root().to_str().unwrap()]);
        self.mount();
    }

    /// Flush commands that the device has got.
    fn flushes(&self) -> u64 {
        let name = self.device.strip_prefix("/dev/").unwrap();
        let line = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        line.split_whitespace().nth(15).unwrap().parse().unwrap()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.root()).status();
        let _ = Command::new("losetup")
            .args(["--detach", &self.device])
            .status();
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

const FILES: u64 = 3;

fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("f{number}"))
}

fn prepare(disk: &dyn Disk, directory: &Path) {
    for number in 0..FILES {
        let file = disk
            .open(&path_of(directory, number), OpenMode::CreateNew)
            .unwrap();
        file.write_at(&[&[0; 40_000]], 0).unwrap();
        file.sync_data().unwrap();
    }
    disk.sync_directory(directory).unwrap();
}

/// Writes and syncs; write `step` fills with the byte `step`, so that a
/// greater byte is a later one.
fn work(disk: &dyn Disk, directory: &Path, mut random: Random) {
    for step in 1..=200_u8 {
        let path = path_of(directory, random.below(FILES));
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        let bytes = vec![step; 1 + random.below(6_000) as usize];
        let offset = random.below(60_000);
        match random.below(8) {
            0 => file.sync_data().unwrap(),
            1 | 2 => file.write_durable_at(&[&bytes], offset).unwrap(),
            _ => file.write_at(&[&bytes], offset).unwrap(),
        }
    }
}

fn contents(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// What the simulation calls durable, ext4 keeps; and ext4 keeps nothing
/// newer than what was written.
#[test]
#[ignore = "needs root and a loop device"]
fn after_a_power_cut_ext4_has_what_the_simulation_calls_durable() {
    let volume = Volume::new();
    let simulated_directory = Path::new("/data");
    for seed in 0..20 {
        let directory = volume.root().join(seed.to_string());
        RealDisk.create_directories(&directory).unwrap();
        let simulated = SimulatedDisk::new(seed);
        simulated.create_directories(simulated_directory).unwrap();
        prepare(&RealDisk, &directory);
        prepare(&simulated, simulated_directory);
        work(&RealDisk, &directory, Random::from_seed(seed));
        work(&simulated, simulated_directory, Random::from_seed(seed));
        volume.lose_power();
        for number in 0..FILES {
            let real = contents(&RealDisk, &path_of(&directory, number));
            let path = path_of(simulated_directory, number);
            let least = contents(&simulated.restart(Restart::nothing_kept()), &path);
            let most = contents(&simulated.restart(Restart::everything_kept()), &path);
            assert!(
                least.len() <= real.len() && real.len() <= most.len(),
                "size, seed {seed}"
            );
            for (at, &byte) in real.iter().enumerate() {
                let least = least.get(at).copied().unwrap_or(0);
                assert!(
                    least <= byte && byte <= most[at],
                    "seed {seed}, byte {at} of f{number}"
                );
            }
        }
    }
}

#[test]
#[ignore = "needs root and a loop device"]
fn ext4_forgets_names_that_no_sync_made_durable() {
    let volume = Volume::new();
    let root = volume.root();
    let names = || -> BTreeSet<String> { RealDisk.list(&root).unwrap().into_iter().collect() };
    RealDisk
        .open(&root.join("synced"), OpenMode::CreateNew)
        .unwrap();
    RealDisk.sync_directory(&root).unwrap();
    RealDisk
        .open(&root.join("forgotten"), OpenMode::CreateNew)
        .unwrap();
    RealDisk
        .rename(&root.join("synced"), &root.join("renamed"))
        .unwrap();
    volume.lose_power();
    assert_eq!(names(), BTreeSet::from(["synced".to_owned()]));
    // More than POSIX promises and more than the simulation gives: syncing a
    // new file commits the journal and with it the name.
    let file = RealDisk
        .open(&root.join("luck"), OpenMode::CreateNew)
        .unwrap();
    file.write_durable_at(&[b"x"], 0).unwrap();
    drop(file);
    volume.lose_power();
    assert_eq!(
        names(),
        BTreeSet::from(["luck".to_owned(), "synced".to_owned()])
    );
}

/// What `Counters::journal_commits` predicts is what the device sees.
#[test]
#[ignore = "needs root and a loop device"]
fn a_durable_write_flushes_once_on_written_blocks_and_more_often_elsewhere() {
    const WRITES: u64 = 50;
    let volume = Volume::new();
    let flushes_of = |path: &Path, first: u64| {
        let file = RealDisk.open(path, OpenMode::ReadWrite).unwrap();
        let before = volume.flushes();
        for number in 0..WRITES {
            file.write_durable_at(&[&[1; 4_096]], (first + number) * 4_096)
                .unwrap();
        }
        volume.flushes() - before
    };
    let path = volume.root().join("written");
    let file = RealDisk.open(&path, OpenMode::CreateNew).unwrap();
    file.write_at(&[&vec![0; 4_096 * WRITES as usize]], 0)
        .unwrap();
    file.sync_data().unwrap();
    RealDisk.sync_directory(&volume.root()).unwrap();
    // The journal's own timer may add one now and then.
    let overwriting = flushes_of(&path, 0);
    assert!(
        (WRITES..=WRITES + 2).contains(&overwriting),
        "{overwriting} for {WRITES} writes"
    );
    assert!(flushes_of(&path, WRITES) >= 2 * WRITES, "growing");
    let sparse = volume.root().join("sparse");
    let file = RealDisk.open(&sparse, OpenMode::CreateNew).unwrap();
    file.set_size(4_096 * WRITES).unwrap();
    file.sync_data().unwrap();
    assert!(flushes_of(&sparse, 0) >= 2 * WRITES, "filling holes");
}
