//! Whoever decides who belongs to the cluster.
//!
//! It does one thing at a time, looks at whoever has applied most, and starts a
//! member wherever the log has one that nobody runs: an answer that was lost
//! changes nothing.

use std::time::Duration;

use environment::randomness::Random;
use etcd_api::etcdserverpb::{MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest};
use revisions::{Command, Members, Response};
use tokio::sync::oneshot;

use crate::member::Member;

/// Members, those that learn included.
const MEMBERS_MAX: usize = 5;
/// The operator gives up after this.
const PATIENCE: Duration = Duration::from_secs(2);

type Answer = oneshot::Receiver<Result<Response, cluster::Error>>;

#[derive(Debug)]
pub(crate) struct Operator {
    /// Newcomers may begin as learners. Where too many voters lose power, what a
    /// learner alone has left is lost: it does not vote.
    adds_learners: bool,
    waiting: Option<(Duration, Answer)>,
    /// Addresses that were given away.
    addresses: u64,
}

impl Operator {
    pub fn new(adds_learners: bool) -> Operator {
        Operator {
            adds_learners,
            waiting: None,
            addresses: 0,
        }
    }

    /// Changes something, perhaps, if it waits for nothing.
    pub fn act(&mut self, now: Duration, members: &mut [Member], random: &mut Random) {
        if let Some((asked, answer)) = &mut self.waiting {
            let is_open = matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty));
            if is_open && now <= *asked + PATIENCE {
                return;
            }
            self.waiting = None;
        }
        let newest = members.iter().filter_map(Member::replica);
        let Some(newest) = newest.max_by_key(|replica| replica.applied_index()) else {
            return;
        };
        let (known, leader) = (newest.reader().members(), newest.leader());
        let Some(command) = self.decide(&known, leader, random) else {
            return;
        };
        let (asker, answer) = oneshot::channel();
        let at = random.below(members.len() as u64) as usize;
        if members[at].ask(command, asker) {
            self.waiting = Some((now, answer));
        }
    }

    fn decide(&mut self, members: &Members, leader: u64, random: &mut Random) -> Option<Command> {
        let voters = members.voters().count();
        if let Some(learner) = members.learners().next()
            && random.chance(2, 3)
        {
            return Some(Command::MemberPromote(MemberPromoteRequest {
                id: learner.id,
            }));
        }
        if members.len() < MEMBERS_MAX && random.chance(1, 2) {
            self.addresses += 1;
            return Some(Command::MemberAdd(MemberAddRequest {
                peer_ur_ls: vec![format!("http://joined{}:2380", self.addresses)],
                is_learner: random.chance(1, 2) && self.adds_learners,
            }));
        }
        // With two left it takes both to go on, and one goes on alone.
        let may_shrink = voters > 3 || (voters > 1 && random.chance(1, 4));
        if !may_shrink {
            return None;
        }
        let ids: Vec<u64> = members.iter().map(|member| member.id).collect();
        let id = if random.chance(1, 3) {
            leader
        } else {
            *random.pick(&ids)
        };
        Some(Command::MemberRemove(MemberRemoveRequest { id }))
    }
}

/// Members that somebody has in the log, that are not removed, and that nobody
/// runs.
pub(crate) fn missing(members: &[Member]) -> Vec<u64> {
    let readers = || members.iter().filter_map(Member::reader);
    let mut missing: Vec<u64> = readers()
        .flat_map(|reader| {
            let ids = reader.members();
            ids.iter().map(|it| it.id).collect::<Vec<_>>()
        })
        .filter(|id| members.iter().all(|member| member.id != *id))
        .filter(|id| !readers().any(|reader| reader.is_removed(*id)))
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}
