//! Members that are added and removed.
//!
//! ```text
//!   add a learner ──► its process joins, and gets the data ──► promote
//!                                                                       │
//!   directory removed ◄── its process ends by itself ◄── remove any voter
//! ```
//!
//! Any answer may be lost, so each step reads the member list first and makes the
//! missing change. A refused change is repeated, because the server may be right to refuse it
//! during another fault. If a change is unfinished when the fault's time is over,
//! `settle` finishes it once all other faults are healed.

use std::time::Duration;

use environment::randomness::Random;
use etcd_api::etcdserverpb::Member as Listed;
use tokio::time::{Instant, sleep};

use super::trial::{MEMBERS, Trial};
use crate::{member::Standing, process::Outcome, request::Client};

/// Time limit of a change during other faults.
const FAULT_TIME: Duration = Duration::from_secs(30);
/// Time limit in a healed cluster; a longer time is a fault of the server.
const PATIENCE: Duration = Duration::from_secs(60);
/// A learner that is not promoted by then is removed again.
const LEARNER_TIME: Duration = Duration::from_secs(20);
const CALL_TIME: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(200);

/// Adds a member and then removes one, sometimes in the other order: any voter, including the
/// new one, or the leader. Returns false if another task changes the members already, or other
/// faults prevent it.
pub async fn replace(trial: &Trial, leader_leaves: bool, random: &mut Random) -> Outcome<bool> {
    let Ok(_turn) = trial.changing.try_lock() else {
        return Ok(false);
    };
    let until = Instant::now() + FAULT_TIME;
    let between = match random.chance(1, 4) {
        true => MEMBERS - 1,
        false => MEMBERS + 1,
    };
    let mut way = Way::new(trial, leader_leaves, random);
    for voters in [between, MEMBERS] {
        if !way.go(voters, until).await? {
            return Ok(false);
        }
        sleep(Duration::from_millis(random.below(2_000))).await;
    }
    Ok(true)
}

/// Brings the cluster to three voters and no learner. Must be called when all faults are
/// healed.
pub async fn settle(trial: &Trial, random: &mut Random) -> Outcome {
    let _turn = trial.changing.lock().await;
    let mut way = Way::new(trial, false, random);
    if way.go(MEMBERS, Instant::now() + PATIENCE).await? {
        return Ok(());
    }
    let (seconds, words) = (PATIENCE.as_secs(), way.words());
    Err(format!("healed for {seconds} s, and the members are not settled: {words}").into())
}

/// The steps to a number of voters.
struct Way<'a> {
    trial: &'a Trial,
    leader_leaves: bool,
    random: Random,
    /// When the promotion of the learner was first requested.
    promoting: Option<Instant>,
}

impl<'a> Way<'a> {
    fn new(trial: &'a Trial, leader_leaves: bool, random: &mut Random) -> Way<'a> {
        Way {
            trial,
            leader_leaves,
            random: random.split(),
            promoting: None,
        }
    }

    /// Makes steps until done; false if `until` comes first.
    async fn go(&mut self, voters: usize, until: Instant) -> Outcome<bool> {
        self.promoting = None;
        while Instant::now() < until {
            if self.step(voters).await? {
                return Ok(true);
            }
            sleep(STEP).await;
        }
        Ok(false)
    }

    /// Makes the next step. Returns true if nothing is left to do.
    async fn step(&mut self, wanted: usize) -> Outcome<bool> {
        let Some(listed) = self.list().await else {
            return Ok(false);
        };
        self.compare(&listed)?;
        let places = |standing| self.trial.standing(|it| it == standing);
        let (leaving, learners) = (places(Standing::Leaving), places(Standing::Learner));
        let (voters, absent) = (self.trial.voters(), places(Standing::Absent));
        if let Some(&place) = leaving.first() {
            match self.find(&listed, place) {
                Some(member) => {
                    let remove = async |it: Client| it.remove(member.id).await;
                    self.ask("remove", remove).await;
                }
                None => self.see_off(place)?,
            }
        } else if let Some(&place) = learners.first() {
            self.receive(place, &listed)?;
            let member = self.find(&listed, place);
            self.promote(place, member.map(|it| it.id)).await;
        } else if voters.len() < wanted {
            let place = absent.first().ok_or("no place is left")?;
            let peer_url = self.trial.members[*place].peer_url.clone();
            let add = async |it: Client| it.add(peer_url, true).await.map(drop);
            self.ask("add a learner", add).await;
        } else if voters.len() > wanted {
            let leaver = self.draw_leaver(&voters).await;
            self.trial.members[leaver].set_standing(Standing::Leaving);
        } else {
            return Ok(true);
        }
        Ok(false)
    }

    async fn draw_leaver(&mut self, voters: &[usize]) -> usize {
        let leader = match self.leader_leaves {
            true => self.trial.leader().await,
            false => None,
        };
        let leader = leader.filter(|it| voters.contains(it));
        leader.unwrap_or_else(|| *self.random.pick(voters))
    }

    fn find<'l>(&self, listed: &'l [Listed], place: usize) -> Option<&'l Listed> {
        let peer_url = &self.trial.members[place].peer_url;
        listed.iter().find(|it| it.peer_ur_ls.contains(peer_url))
    }

    /// Updates the trial's view of the members from the cluster's member list.
    fn compare(&self, listed: &[Listed]) -> Outcome {
        for (place, member) in self.trial.members.iter().enumerate() {
            match (member.standing(), self.find(listed, place)) {
                // A request without an answer has added the member after all.
                (Standing::Absent, Some(_)) => member.set_standing(Standing::Learner),
                (Standing::Learner, Some(it)) if !it.is_learner => {
                    member.set_standing(Standing::Voter);
                }
                (Standing::Voter, Some(it)) if it.is_learner => {
                    return Err(format!("member {} was a voter: {listed:?}", member.name).into());
                }
                (Standing::Voter | Standing::Learner, None) => {
                    let name = &member.name;
                    let text = "is not in the list, and the trial has not removed it";
                    return Err(format!("member {name} {text}: {listed:?}").into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Starts the process of a new member, and again if it has found no member that answers.
    fn receive(&self, place: usize, listed: &[Listed]) -> Outcome {
        let member = &self.trial.members[place];
        // The task that holds it starts the process, too.
        let Ok(_hand) = member.hand.try_lock() else {
            return Ok(());
        };
        if member.process().is_some() {
            return Ok(());
        }
        let ended = member.server().status()?;
        if let Some(how) = ended {
            let words = member.server().last_lines();
            let reason = why_not_begun(&how.to_string(), &words);
            if reason.is_none() && !member.is_excused() {
                let name = &member.name;
                return Err(format!("newcomer {name} ended by itself: {how}\n{words}").into());
            }
            let reason = reason.unwrap_or("its disk was full");
            self.tell(&format!("newcomer started again: {reason}"));
        }
        let names = self.trial.members.iter().enumerate();
        let pairs = names.filter_map(|(place, it)| {
            let listed = self.find(listed, place)?;
            Some(format!("{}={}", it.name, listed.peer_ur_ls.first()?))
        });
        member.meet(pairs.collect::<Vec<_>>().join(","), true);
        member.start()
    }

    /// Requests the promotion of a learner, and its removal if that takes too long.
    async fn promote(&mut self, place: usize, id: Option<u64>) {
        let since = *self.promoting.get_or_insert_with(Instant::now);
        if since.elapsed() > LEARNER_TIME {
            self.trial.members[place].set_standing(Standing::Leaving);
            self.promoting = None;
            self.tell("learner given up");
        } else if let Some(id) = id {
            let promote = async |it: Client| it.promote(id).await;
            self.ask("promote", promote).await;
        }
    }

    /// Removes the directory of a removed member once its process has ended by itself.
    fn see_off(&self, place: usize) -> Outcome {
        let member = &self.trial.members[place];
        let Ok(_hand) = member.hand.try_lock() else {
            return Ok(());
        };
        let is_excused = member.is_excused();
        let ended = member.server().status()?;
        if let Some(how) = ended {
            let log = member.server().process()?.log();
            let knows_removal = log.contains("permanently removed from the cluster");
            let expected = knows_removal || why_not_begun(&how.to_string(), &log).is_some();
            if !expected && !is_excused {
                let (name, words) = (&member.name, member.server().last_lines());
                return Err(format!("removed member {name} ended: {how}\n{words}").into());
            }
            self.tell(&format!("removed member ended: {how}"));
        } else if !is_excused && member.process().is_some() {
            return Ok(());
        }
        let mut server = member.server();
        // If its disk was full, it may be unable to record its removal: this kills it.
        drop(server.take_process());
        server.remove_data()?;
        member.set_standing(Standing::Absent);
        Ok(())
    }

    /// The cluster's member list.
    async fn list(&mut self) -> Option<Vec<Listed>> {
        self.voter().members().await.ok()
    }

    /// Sends the request once, to any member, and counts the answer.
    async fn ask(
        &mut self,
        name: &str,
        change: impl AsyncFnOnce(Client) -> Result<(), tonic::Status>,
    ) {
        let words = match change(self.voter()).await {
            Ok(()) => "done".to_owned(),
            Err(status) => format!("{:?}: {}", status.code(), status.message()),
        };
        self.tell(&format!("{name}: {words}"));
    }

    /// A client of any voter, including one that is being removed.
    fn voter(&mut self) -> Client {
        let may = |it| it == Standing::Voter || it == Standing::Leaving;
        let place = *self.random.pick(&self.trial.standing(may));
        self.trial.members[place].client(CALL_TIME)
    }

    fn tell(&self, words: &str) {
        self.trial.recorder.count("change of the members", words);
    }

    /// The standing of each member, and the last log lines of those that are being added or
    /// removed.
    fn words(&self) -> String {
        let members = self.trial.members.iter().map(|member| {
            let (name, standing) = (&member.name, member.standing());
            match standing {
                Standing::Learner | Standing::Leaving => {
                    format!("{name} {standing:?}:\n{}\n", member.server().last_lines())
                }
                Standing::Voter | Standing::Absent => format!("{name} {standing:?} "),
            }
        });
        members.collect()
    }
}

/// Why the process of a new member ended at its start, if other faults caused it: no member
/// answered, or one answered with an old member list.
fn why_not_begun(how: &str, words: &str) -> Option<&'static str> {
    let reasons = [
        "could not retrieve cluster information",
        "member count is unequal",
        "no match found for existing member",
    ];
    let mut reasons = reasons.into_iter().filter(|it| words.contains(it));
    reasons.next().filter(|_| how.contains("exit status: 1"))
}
