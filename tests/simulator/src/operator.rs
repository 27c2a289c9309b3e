//! The operator, which changes the membership of the cluster.
//!
//! It has one request under way at a time, and decides by the state of the member that has
//! applied most. The simulation starts every member that is in the log and does not run, so a
//! lost answer does no harm.

use std::collections::BTreeSet;
use std::time::Duration;

use environment::randomness::Random;
use etcd_api::etcdserverpb::{MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest};
use revisions::{Command, Members, Response};
use tokio::sync::oneshot;

use crate::member::Member;

/// Most members, learners included.
const MEMBERS_MAX: usize = 5;
/// Time after which the operator gives up a request.
const PATIENCE: Duration = Duration::from_secs(2);

type Answer = oneshot::Receiver<Result<Response, cluster::Error>>;

#[derive(Debug)]
pub(crate) struct Operator {
    /// New members may begin as learners. Not so where too many voters may lose power: entries
    /// that only a learner has left are then lost, because it does not vote.
    adds_learners: bool,
    waiting: Option<(Duration, Answer)>,
    /// Number of addresses used for new members.
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

    /// Requests a random change of the membership, unless a request is under way.
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
        let (sender, answer) = oneshot::channel();
        let at = random.below(members.len() as u64) as usize;
        if members[at].ask(command, sender) {
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
        // Two voters need both for progress, while one can proceed alone.
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

/// Ids of members that some log contains, that no log has removed, and that do not run.
pub(crate) fn missing(members: &[Member]) -> BTreeSet<u64> {
    let readers = || members.iter().filter_map(Member::reader);
    let logged = readers().map(|reader| reader.members());
    let mut missing: BTreeSet<u64> = logged
        .flat_map(|logged| logged.iter().map(|it| it.id).collect::<Vec<_>>())
        .collect();
    missing.retain(|id| members.iter().all(|member| member.id != *id));
    missing.retain(|id| !readers().any(|reader| reader.is_removed(*id)));
    missing
}
