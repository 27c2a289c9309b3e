//! A clean Debian in a directory: the essential packages of this machine, and `passwd`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

const DPKG: &str = "var/lib/dpkg";

/// A directory in which programs find a small Debian.
pub struct CleanRoot(TempDir);

impl CleanRoot {
    /// Copies the packages; says why not on a machine that does not have them.
    pub fn new() -> Result<CleanRoot, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("installing a package takes root".to_owned());
        }
        for tool in ["dpkg-query", "chroot", "tar", "mknod"] {
            if Command::new(tool).arg("--version").output().is_err() {
                return Err(format!("{tool} is missing: this machine is no Debian"));
            }
        }
        let names = essential()?;
        let root = CleanRoot(tempfile::tempdir().unwrap());
        root.lay_out();
        root.copy(&names);
        root.register(&names);
        root.make_devices();
        root.succeeds(&["ldconfig"]);
        Ok(root)
    }

    /// A path of the root, from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside.trim_start_matches('/'))
    }

    /// Makes `/bin` and its like, which are links to folders below `/usr` and of no package.
    fn lay_out(&self) {
        for folder in ["bin", "sbin", "lib", "lib64"] {
            if let Ok(target) = fs::read_link(Path::new("/").join(folder)) {
                fs::create_dir_all(self.0.path().join(&target)).unwrap();
                symlink(target, self.path(folder)).unwrap();
            }
        }
    }

    /// Copies all files of the packages that this machine has.
    fn copy(&self, names: &[String]) {
        let listed = printed(Command::new("dpkg-query").arg("-L").args(names));
        let paths: BTreeSet<&str> = listed
            .lines()
            .filter(|line| line.starts_with('/'))
            .collect();
        let exists = |path: &&str| Path::new(path).symlink_metadata().is_ok();
        let paths: Vec<&str> = paths.into_iter().filter(exists).collect();
        let list = self.path("list");
        fs::write(&list, paths.join("\n")).unwrap();
        let archive = self.path("archive");
        let tar = |words: &[&str]| succeeds(Command::new("tar").args(words));
        tar(&[
            "-C/",
            "--no-recursion",
            &format!("-T{}", list.display()),
            &format!("-cf{}", archive.display()),
        ]);
        tar(&[
            &format!("-C{}", self.0.path().display()),
            &format!("-xf{}", archive.display()),
        ]);
        fs::remove_file(list).unwrap();
        fs::remove_file(archive).unwrap();
        for (from, to) in [
            ("passwd.master", "etc/passwd"),
            ("group.master", "etc/group"),
        ] {
            let from = self.path("usr/share/base-passwd").join(from);
            fs::copy(from, self.path(to)).unwrap();
        }
    }

    /// Writes dpkg's own files about the packages.
    fn register(&self, names: &[String]) {
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(self.path(DPKG).join(folder)).unwrap();
        }
        let status = printed(Command::new("dpkg-query").arg("-s").args(names));
        fs::write(self.path(DPKG).join("status"), status).unwrap();
        for entry in fs::read_dir(Path::new("/").join(DPKG).join("info")).unwrap() {
            let entry = entry.unwrap();
            let file = entry.file_name().into_string().unwrap();
            let package = file.strip_suffix(".list").unwrap_or_default();
            let package = package.split(':').next().unwrap();
            if names.iter().any(|name| name == package) || file == "format" {
                fs::copy(entry.path(), self.path(DPKG).join("info").join(file)).unwrap();
            }
        }
    }

    fn make_devices(&self) {
        for (name, minor) in [("null", "3"), ("zero", "5"), ("urandom", "9")] {
            let path = self.path("dev").join(name);
            let device = ["-m", "666", path.to_str().unwrap(), "c", "1", minor];
            succeeds(Command::new("mknod").args(device));
        }
    }

    /// A command inside, without this process's variables.
    pub fn command(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.args(options).arg(self.0.path()).args(words);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null());
        command
    }

    pub fn succeeds(&self, words: &[&str]) {
        succeeds(&mut self.command(&[], words));
    }

    pub fn printed(&self, words: &[&str]) -> String {
        printed(&mut self.command(&[], words))
    }

    pub fn install(&self, package: &Path) {
        let inside = "tmp/inkstone.deb";
        fs::copy(package, self.path(inside)).unwrap();
        self.succeeds(&["dpkg", "--install", inside]);
    }

    /// Wanted and actual state of a package, and its version.
    pub fn state_of(&self, package: &str) -> String {
        let form = "${Status} ${Version}";
        self.printed(&["dpkg-query", "-W", "-f", form, package])
    }

    pub fn user_id(&self, name: &str) -> u32 {
        self.printed(&["id", "-u", name]).trim().parse().unwrap()
    }
}

/// The essential packages, `passwd`, and what these need.
fn essential() -> Result<Vec<String>, String> {
    let form = "${Package}\t${Essential}\t${Pre-Depends}, ${Depends}\n";
    let all = printed(Command::new("dpkg-query").args(["-W", "-f", form]));
    let rows = all.lines().filter_map(|line| {
        let mut cells = line.split('\t');
        Some((cells.next()?, (cells.next()? == "yes", cells.next()?)))
    });
    let rows: BTreeMap<&str, (bool, &str)> = rows.collect();
    let mut open: Vec<&str> = rows
        .iter()
        .filter(|row| row.1.0)
        .map(|row| *row.0)
        .collect();
    open.push("passwd");
    let mut names = BTreeSet::new();
    while let Some(name) = open.pop() {
        if let Some((_, needs)) = rows.get(name).filter(|_| names.insert(name)) {
            let needs = needs.split(',');
            open.extend(needs.filter_map(|need| installed(need, &rows)));
        }
    }
    if !names.contains("dpkg") {
        return Err("dpkg is not installed as a package: this machine is no Debian".to_owned());
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// The installed one of `a (>= 1) | b:any`.
fn installed<'a>(need: &'a str, rows: &BTreeMap<&str, (bool, &str)>) -> Option<&'a str> {
    let names = need.split('|').map(|name| {
        let name = name.trim();
        let end = name.find([' ', ':', '(']).unwrap_or(name.len());
        &name[..end]
    });
    names.into_iter().find(|name| rows.contains_key(name))
}

fn succeeds(command: &mut Command) {
    outcome(command);
}

fn printed(command: &mut Command) -> String {
    String::from_utf8(outcome(command).stdout).unwrap()
}

fn outcome(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    output
}
