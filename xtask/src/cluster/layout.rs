//! Ports and directories of the members, stored with their data: a member's data contains the
//! peer ports of all members, so later starts must use the same.

use std::{
    fs, io,
    net::TcpListener,
    path::{Path, PathBuf},
};

use harness::{Cluster, MemberConfig, Program};
use serde::{Deserialize, Serialize};

use crate::process::Outcome;

const FILE: &str = "LAYOUT";
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const MEMBERS: usize = 3;
const BASE_PORTS: [u16; 6] = [2379, 12379, 22379, 32379, 42379, 52379];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    #[serde(skip)]
    pub directory: PathBuf,
    pub members: usize,
    base_port: u16,
}

impl Layout {
    /// The layout in the directory, or a new one with the caller's options.
    pub fn choose(
        directory: &Path,
        members: Option<usize>,
        base_port: Option<u16>,
    ) -> Outcome<Layout> {
        if let Some(kept) = Layout::read(directory)? {
            let other_members = members.is_some_and(|it| it != kept.members);
            if other_members || base_port.is_some_and(|it| it != kept.base_port) {
                return Err(format!(
                    "the cluster in {} has {} members from port {} on: call without --members \
                     and --base-port to continue it, or with --fresh to create a new one",
                    directory.display(),
                    kept.members,
                    kept.base_port
                )
                .into());
            }
            return Ok(kept);
        }
        let mut layout = Layout {
            directory: directory.to_owned(),
            members: members.unwrap_or(MEMBERS),
            base_port: 0,
        };
        let candidates = base_port.map_or(BASE_PORTS.to_vec(), |port| vec![port]);
        layout.base_port = candidates
            .iter()
            .copied()
            .find(|&base| layout.ports(base).is_some_and(all_free))
            .ok_or_else(|| {
                format!("ports from {candidates:?} on are taken: name others with --base-port")
            })?;
        fs::create_dir_all(directory)?;
        fs::write(directory.join(FILE), serde_json::to_string(&layout)?)?;
        Ok(layout)
    }

    fn read(directory: &Path) -> Outcome<Option<Layout>> {
        let file = directory.join(FILE);
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let kept: Layout = serde_json::from_str(&text)
            .map_err(|error| format!("{}: {error}: call with --fresh", file.display()))?;
        Ok(Some(Layout {
            directory: directory.to_owned(),
            members: kept.members.clamp(1, NAMES.len()),
            ..kept
        }))
    }

    /// All ports from `base` on, if they do not exceed the greatest port.
    fn ports(&self, base: u16) -> Option<std::ops::Range<u16>> {
        let end = base.checked_add(2 * self.members as u16)?;
        (base > 0).then_some(base..end)
    }

    /// All members; none is started.
    pub fn prepare(&self, program: &Program) -> Cluster {
        Cluster::of(
            program,
            (0..self.members).map(|it| self.config(it)).collect(),
        )
    }

    fn config(&self, number: usize) -> MemberConfig {
        let client = self.base_port + 2 * number as u16;
        MemberConfig::on_ports(NAMES[number], &self.directory, [client, client + 1])
    }
}

fn all_free(mut ports: std::ops::Range<u16>) -> bool {
    ports.all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
}

/// Removes a cluster's directory. Refuses one that is in use or has other files.
pub fn remove(directory: &Path) -> Outcome {
    let kept = Layout::read(directory).ok().flatten();
    if kept.is_some_and(|kept| !kept.ports(kept.base_port).is_some_and(all_free)) {
        return Err(format!("the cluster in {} still runs: stop it", directory.display()).into());
    }
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let stem = Path::new(&name).file_stem().and_then(|stem| stem.to_str());
        if !stem.is_some_and(|stem| stem == FILE || NAMES.contains(&stem)) {
            return Err(format!(
                "{} holds {}, which is no part of a cluster: nothing was removed",
                directory.display(),
                name.display()
            )
            .into());
        }
    }
    Ok(fs::remove_dir_all(directory)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_layout_is_kept_until_it_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("cluster");
        // It needs the port behind as well, which another program may have.
        let begun = (0..20).find_map(|_| {
            let port = harness::ports::reserve_one().unwrap();
            Layout::choose(&directory, Some(1), Some(port)).ok()
        });
        let begun = begun.unwrap();
        assert_eq!(Layout::choose(&directory, None, None).unwrap(), begun);
        let error = Layout::choose(&directory, Some(5), None).unwrap_err();
        assert!(error.to_string().contains("--fresh"), "{error}");
        fs::write(directory.join("notes"), "").unwrap();
        assert!(remove(&directory).is_err());
        fs::remove_file(directory.join("notes")).unwrap();
        remove(&directory).unwrap();
        assert_eq!(Layout::read(&directory).unwrap(), None);
        remove(&directory).unwrap();
    }

    #[test]
    fn ports_that_are_taken_are_refused_by_number() {
        let place = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = Layout::choose(place.path(), None, Some(port)).unwrap_err();
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }

    #[test]
    fn each_member_has_two_ports() {
        let layout = Layout {
            directory: PathBuf::new(),
            members: 3,
            base_port: 2379,
        };
        let members = layout.prepare(&Program::new("inkstone")).members;
        assert_eq!(members[1].config.client, "127.0.0.1:2381");
        assert_eq!(members[2].config.peer, "127.0.0.1:2384");
        let all = "a=http://127.0.0.1:2380,b=http://127.0.0.1:2382,c=http://127.0.0.1:2384";
        assert_eq!(members[0].config.initial_cluster, all);
    }
}
