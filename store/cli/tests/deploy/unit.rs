//! The systemd unit and its settings.

use std::process::Command;

use crate::manifest::{path, read};
use crate::running::Folder;

/// Exposure that `systemd-analyze security` may find, in tenths of ten: the network and the
/// sockets, which a server needs, are some 15 of them.
const EXPOSURE_MAX: &str = "20";

#[test]
fn every_variable_of_the_settings_belongs_to_a_flag() {
    let help = Folder::new().printed("inkstone", &["serve", "--help"]);
    let settings = read("systemd/inkstone.default");
    let unit = read("systemd/inkstone.service");
    let of_unit = unit
        .lines()
        .filter_map(|line| line.strip_prefix("Environment="));
    let settings = settings.lines().map(|line| line.trim_start_matches('#'));
    let variables: Vec<&str> = settings
        .chain(of_unit)
        .filter_map(|line| line.strip_prefix("ETCD_")?.split_once('='))
        .map(|(name, _)| name)
        .collect();
    assert!(variables.len() > 20, "{variables:?}");
    for variable in variables {
        let flag = variable.to_ascii_lowercase().replace('_', "-");
        assert!(help.contains(&format!("\n  --{flag} '")), "{variable}");
    }
}

#[test]
fn systemd_takes_the_unit_and_finds_it_closed() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        return eprintln!("SKIPPED: systemd-analyze is not on this machine");
    }
    let folder = Folder::new();
    let unit = std::fs::read_to_string(path("systemd/inkstone.service")).unwrap();
    // The page and the program are where a package puts them.
    let unit = unit
        .replace("Documentation=man:inkstone-serve(1)\n", "")
        .replace("/usr/bin/inkstone", env!("CARGO_BIN_EXE_inkstone"));
    let file = folder.path().join("inkstone.service");
    std::fs::write(&file, unit).unwrap();
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    for words in [&["verify"][..], &["security", "--offline=true", &threshold]] {
        let output = Command::new("systemd-analyze")
            .args(words)
            .arg(&file)
            .output();
        let output = output.unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {complaint}");
        assert!(complaint.is_empty(), "{words:?}: {complaint}");
    }
}
