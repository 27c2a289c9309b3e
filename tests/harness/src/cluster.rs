//! Members that begin a cluster together.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Member, MemberConfig, Outcome, Program, initial_cluster, wait_for};

/// Names of the members, and the most that a cluster may have.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const ELECTION_MAX: Duration = Duration::from_secs(60);

/// The members of a cluster. Their processes are killed when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    pub members: Vec<Member>,
    /// Number of the member that led when it was last looked for.
    leader: usize,
}

impl Cluster {
    /// Prepares as many members as there are directories, one in each, and starts none.
    pub fn prepare(program: &Program, directories: &[PathBuf]) -> Outcome<Cluster> {
        let names = NAMES.get(..directories.len());
        let names = names.ok_or_else(|| format!("at most {} members", NAMES.len()))?;
        let configs = names.iter().zip(directories);
        let configs = configs.map(|(name, place)| MemberConfig::on_reserved_ports(name, place));
        Ok(Cluster::of(program, configs.collect::<Outcome<_>>()?))
    }

    /// The members of `configs`, which found a cluster; none is started.
    pub fn of(program: &Program, mut configs: Vec<MemberConfig>) -> Cluster {
        let all = initial_cluster(&configs);
        for config in &mut configs {
            config.initial_cluster.clone_from(&all);
        }
        let member = |config| Member::new(program.clone(), config);
        Cluster {
            members: configs.into_iter().map(member).collect(),
            leader: 0,
        }
    }

    /// Gives all members TLS with the files in `certificates`. None may have been started.
    pub fn secure(&mut self, certificates: &Path) -> Outcome {
        for member in &mut self.members {
            member.config.secure(certificates)?;
        }
        let all = initial_cluster(self.members.iter().map(|member| &member.config));
        for member in &mut self.members {
            member.config.initial_cluster.clone_from(&all);
        }
        Ok(())
    }

    /// Starts `count` members that keep their data in `directory`; returns when one leads.
    pub fn start(program: &Program, directory: &Path, count: usize) -> Outcome<Cluster> {
        let mut cluster = Cluster::prepare(program, &vec![directory.to_owned(); count])?;
        cluster.start_all()?;
        Ok(cluster)
    }

    /// Starts all members; returns when all serve and one leads.
    pub fn start_all(&mut self) -> Outcome {
        for member in &mut self.members {
            member.start()?;
        }
        for member in &mut self.members {
            member.wait_until_ready()?;
        }
        self.find_leader().map(drop)
    }

    /// Waits until a member leads; returns its number.
    pub fn find_leader(&mut self) -> Outcome<usize> {
        self.leader = wait_for("a member that leads", ELECTION_MAX, || {
            self.check_running()?;
            Ok(self.members.iter().position(Member::leads))
        })?;
        Ok(self.leader)
    }

    /// The member that led when it was last looked for.
    pub fn leader(&self) -> &Member {
        &self.members[self.leader]
    }

    /// Another member than [`Cluster::leader`], if there is one.
    pub fn follower(&self) -> &Member {
        &self.members[(self.leader + 1) % self.members.len()]
    }

    /// Ids of the processes.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(Member::pid).collect()
    }

    /// URLs for clients; the leader's is the first.
    pub fn client_urls(&self) -> Vec<String> {
        let mut urls: Vec<String> = self.members.iter().map(Member::client_url).collect();
        urls.swap(0, self.leader);
        urls
    }

    /// Fails with the last lines of its log if a member has ended.
    pub fn check_running(&mut self) -> Outcome {
        let mut members = self.members.iter_mut();
        members.try_for_each(|member| member.process()?.check_running())
    }

    /// Fails if a member has ended, or if one of its threads panicked.
    pub fn check_healthy(&mut self) -> Outcome {
        let mut members = self.members.iter_mut();
        members.try_for_each(|member| member.process()?.check_healthy())
    }

    /// Sends SIGKILL to all members and waits for their end.
    pub fn kill_all(&mut self) -> Outcome {
        self.members.iter_mut().try_for_each(Member::kill)
    }

    /// Sends SIGTERM to one member after the other, and waits for its end.
    pub fn stop_all(&mut self) -> Outcome {
        let mut members = self.members.iter_mut();
        members.try_for_each(|member| member.stop().map(drop))
    }
}
