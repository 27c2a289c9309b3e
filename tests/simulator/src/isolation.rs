//! Isolated leaders, which other members no longer hear and which do not know it yet. They
//! test leases and everything else that a leader answers without confirmation.

use std::time::Duration;

use cluster::Replica;

use crate::World;
use crate::member::Member;

/// A follower that does not hear the leader, until the other followers restart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranded {
    leader: u64,
    follower: u64,
    until: Duration,
}

impl World {
    /// Checks that no member leads in a later term while a member may read under its lease.
    pub(crate) fn check_read_leases(&self) {
        let replicas = || self.members.iter().filter_map(Member::replica);
        for reading in replicas().filter(|it| it.read_lease().holds()) {
            let leads = |it: &&Replica| it.holds_leadership() && it.term() > reading.term();
            if let Some(leading) = replicas().find(leads) {
                panic!(
                    "member {:x} reads under its lease of term {}, and {:x} leads in term {}",
                    reading.member_id(),
                    reading.term(),
                    leading.member_id(),
                    leading.term()
                );
            }
        }
    }

    pub(crate) fn isolate_leaders(&mut self) {
        let faults = self.faults;
        if self.random.chance(faults.isolate_permille, 1000) {
            self.isolate_leader();
        }
        if self.random.chance(faults.strand_permille, 1000) {
            self.strand();
        }
        if let Some(stranded) = self.stranded.take_if(|it| it.until <= self.now) {
            self.restart_others(stranded);
        }
    }

    /// The member that leads in terms of Raft, and the others.
    fn leader_and_others(&self) -> Option<(u64, Vec<u64>)> {
        let leads = |member: &&Member| member.replica().is_some_and(Replica::holds_leadership);
        let leader = self.members.iter().find(leads)?.id;
        let others = self.members.iter().map(|member| member.id);
        Some((leader, others.filter(|&id| id != leader).collect()))
    }

    /// Cuts all roads from the leader, and those to it except, perhaps, one.
    fn isolate_leader(&mut self) {
        let Some((leader, mut others)) = self.leader_and_others() else {
            return;
        };
        self.network.heal();
        self.network.cut(&[leader], &others, false);
        if self.random.chance(1, 2) {
            let heard = *self.random.pick(&others);
            others.retain(|&id| id != heard);
        }
        self.network.cut(&others, &[leader], false);
    }

    /// Cuts the roads between the leader and one follower, which will soon stand for election.
    fn strand(&mut self) {
        let Some((leader, others)) = self.leader_and_others() else {
            return;
        };
        let follower = *self.random.pick(&others);
        self.network.heal();
        self.network.cut(&[leader], &[follower], true);
        self.stranded = Some(Stranded {
            leader,
            follower,
            until: self.now + Duration::from_millis(100 + self.random.below(300)),
        });
    }

    /// Cuts the power of the followers that heard the leader. After their restart they reach
    /// the stranded follower but not the leader.
    fn restart_others(&mut self, stranded: Stranded) {
        let Stranded {
            leader, follower, ..
        } = stranded;
        let others = self.members.iter().map(|member| member.id);
        let others: Vec<u64> = others.filter(|&id| id != leader).collect();
        self.network.cut(&[leader], &others, true);
        let heard = |member: &&mut Member| ![leader, follower].contains(&member.id);
        for member in self.members.iter_mut().filter(heard) {
            if member.is_up() {
                member.crash(&mut self.random);
            }
        }
    }
}
