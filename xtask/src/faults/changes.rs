//! Members that come and go.
//!
//! ```text
//!   add a learner ──► its process finds its place, and is filled ──► promote
//!                                                                       │
//!   directory removed ◄── its process ends by itself ◄── remove any voter
//! ```
//!
//! Any answer may be lost, so each step looks at the member list first and does
//! what is missing. What the server refuses is asked again: it may be right, while
//! something else is wrong. What is unfinished when the fault's time is over,
//! `settle` finishes once everything else is healed.

use std::time::Duration;

use environment::randomness::Random;
use etcd_api::etcdserverpb::{
    Member as Listed, MemberAddRequest, MemberListRequest, MemberPromoteRequest,
    MemberRemoveRequest, cluster_client::ClusterClient,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Status, transport::Channel};

use super::{
    call::dial,
    member::{Company, Standing},
    trial::{MEMBERS, Trial},
};
use crate::process::Outcome;

/// While other things go wrong, no longer than this.
const FAULT_TIME: Duration = Duration::from_secs(30);
/// In a healed cluster; longer is a fault of the server.
const PATIENCE: Duration = Duration::from_secs(60);
/// A learner that may not vote by then is removed again.
const LEARNER_TIME: Duration = Duration::from_secs(20);
const CALL_TIME: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(200);

/// Who is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaver {
    /// The newcomer among them.
    Any,
    Leader,
}

/// What is asked of the cluster.
#[derive(Clone, Debug)]
enum Change {
    Add(String),
    Promote(u64),
    Remove(u64),
}

impl Change {
    fn name(&self) -> &'static str {
        match self {
            Change::Add(_) => "add a learner",
            Change::Promote(_) => "promote",
            Change::Remove(_) => "remove",
        }
    }

    async fn ask(self, channel: Channel) -> Result<(), Status> {
        let mut client = ClusterClient::new(channel);
        match self {
            Change::Add(peer_url) => {
                let request = MemberAddRequest {
                    peer_ur_ls: vec![peer_url],
                    is_learner: true,
                };
                client.member_add(request).await.map(drop)
            }
            Change::Promote(id) => {
                let request = MemberPromoteRequest { id };
                client.member_promote(request).await.map(drop)
            }
            Change::Remove(id) => {
                let request = MemberRemoveRequest { id };
                client.member_remove(request).await.map(drop)
            }
        }
    }
}

/// A member more, and then one less; now and then the other way round. False:
/// somebody does so already, or other faults are in its way.
pub async fn replace(trial: &Trial, leaver: Leaver, random: &mut Random) -> Outcome<bool> {
    let Ok(_turn) = trial.changing.try_lock() else {
        return Ok(false);
    };
    let until = Instant::now() + FAULT_TIME;
    let between = match random.chance(1, 4) {
        true => MEMBERS - 1,
        false => MEMBERS + 1,
    };
    for voters in [between, MEMBERS] {
        let mut way = Way::new(trial, voters, leaver, random.split());
        if !way.go(until).await? {
            return Ok(false);
        }
        sleep(Duration::from_millis(random.below(2_000))).await;
    }
    Ok(true)
}

/// Three voters and nobody else. To be called when everything is healed.
pub async fn settle(trial: &Trial, random: &mut Random) -> Outcome {
    let _turn = trial.changing.lock().await;
    let mut way = Way::new(trial, MEMBERS, Leaver::Any, random.split());
    match way.go(Instant::now() + PATIENCE).await? {
        true => Ok(()),
        false => Err(format!(
            "healed for {} s, and the members are not settled: {}",
            PATIENCE.as_secs(),
            way.words()
        )
        .into()),
    }
}

/// The way to so many voters.
struct Way<'a> {
    trial: &'a Trial,
    voters: usize,
    leaver: Leaver,
    random: Random,
    /// When a learner was first to be promoted.
    promoting: Option<Instant>,
}

impl<'a> Way<'a> {
    fn new(trial: &'a Trial, voters: usize, leaver: Leaver, random: Random) -> Way<'a> {
        Way {
            trial,
            voters,
            leaver,
            random,
            promoting: None,
        }
    }

    /// False: not there in time.
    async fn go(&mut self, until: Instant) -> Outcome<bool> {
        while Instant::now() < until {
            if self.step().await? {
                return Ok(true);
            }
            sleep(STEP).await;
        }
        Ok(false)
    }

    /// Whether nothing is left to be done.
    async fn step(&mut self) -> Outcome<bool> {
        let Some(listed) = self.list().await else {
            return Ok(false);
        };
        self.compare(&listed)?;
        let places = |standing| self.trial.standing(|it| it == standing);
        let (leaving, learners) = (places(Standing::Leaving), places(Standing::Learner));
        let (voters, absent) = (self.trial.voters(), places(Standing::Absent));
        if let Some(&place) = leaving.first() {
            match self.find(&listed, place) {
                Some(member) => self.ask(Change::Remove(member.id)).await,
                None => self.see_off(place)?,
            }
        } else if let Some(&place) = learners.first() {
            self.receive(place, &listed)?;
            let member = self.find(&listed, place);
            self.promote(place, member.map(|it| it.id)).await;
        } else if voters.len() < self.voters {
            let place = absent.first().ok_or("no place is left")?;
            let peer_url = self.trial.members[*place].peer_url();
            self.ask(Change::Add(peer_url)).await;
        } else if voters.len() > self.voters {
            let leaver = self.draw_leaver(&voters).await;
            self.trial.members[leaver].set_standing(Standing::Leaving);
        } else {
            return Ok(true);
        }
        Ok(false)
    }

    async fn draw_leaver(&mut self, voters: &[usize]) -> usize {
        let leader = match self.leaver {
            Leaver::Leader => self.trial.leader().await,
            Leaver::Any => None,
        };
        let leader = leader.filter(|it| voters.contains(it));
        leader.unwrap_or_else(|| *self.random.pick(voters))
    }

    fn find<'l>(&self, listed: &'l [Listed], place: usize) -> Option<&'l Listed> {
        let peer_url = self.trial.members[place].peer_url();
        listed.iter().find(|it| it.peer_ur_ls.contains(&peer_url))
    }

    /// Brings what the trial believes in line with what the cluster says.
    fn compare(&self, listed: &[Listed]) -> Outcome {
        for (place, member) in self.trial.members.iter().enumerate() {
            match (member.standing(), self.find(listed, place)) {
                // Added after all, by a question that had no answer.
                (Standing::Absent, Some(_)) => member.set_standing(Standing::Learner),
                (Standing::Learner, Some(it)) if !it.is_learner => {
                    member.set_standing(Standing::Voter);
                }
                (Standing::Voter, Some(it)) if it.is_learner => {
                    return Err(format!("member {} was a voter: {listed:?}", member.name).into());
                }
                (Standing::Voter | Standing::Learner, None) => {
                    let name = member.name;
                    return Err(format!("nobody removed member {name}: {listed:?}").into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Starts a newcomer's process; again, where it has found nobody to ask.
    fn receive(&self, place: usize, listed: &[Listed]) -> Outcome {
        let (trial, member) = (self.trial, &self.trial.members[place]);
        // Whoever holds it starts the process, too.
        let Ok(_hand) = trial.hands[place].try_lock() else {
            return Ok(());
        };
        let (is_gone, how) = member.reap()?;
        if !is_gone {
            return Ok(());
        }
        if let Some(how) = how {
            let words = member.last_words();
            let reason = why_not_begun(&how, &words);
            if reason.is_none() && !trial.is_excused(place) {
                let name = member.name;
                return Err(format!("newcomer {name} ended by itself: {how}\n{words}").into());
            }
            let reason = reason.unwrap_or("its disk was full");
            self.tell(format!("newcomer started again: {reason}"));
        }
        let names = trial.members.iter().enumerate();
        let pairs = names.filter_map(|(place, it)| {
            let listed = self.find(listed, place)?;
            Some(format!("{}={}", it.name, listed.peer_ur_ls.first()?))
        });
        member.meet(Company {
            initial_cluster: pairs.collect::<Vec<_>>().join(","),
            exists: true,
        });
        trial.start(place)
    }

    /// One that does not come to be promoted is let go.
    async fn promote(&mut self, place: usize, id: Option<u64>) {
        let since = *self.promoting.get_or_insert_with(Instant::now);
        if since.elapsed() > LEARNER_TIME {
            self.trial.members[place].set_standing(Standing::Leaving);
            self.promoting = None;
            self.tell("learner given up".to_owned());
        } else if let Some(id) = id {
            self.ask(Change::Promote(id)).await;
        }
    }

    /// Clears up behind a member that was removed, once it has ended by itself.
    fn see_off(&self, place: usize) -> Outcome {
        let (trial, member) = (self.trial, &self.trial.members[place]);
        let Ok(_hand) = trial.hands[place].try_lock() else {
            return Ok(());
        };
        let (is_gone, how) = member.reap()?;
        let is_excused = trial.is_excused(place);
        if let Some(how) = how {
            let words = member.last_words();
            let is_told = words.contains("permanently removed from the cluster");
            let expected = is_told || why_not_begun(&how, &words).is_some();
            if !expected && !is_excused {
                let name = member.name;
                return Err(format!("removed member {name} ended: {how}\n{words}").into());
            }
            self.tell(format!("removed member ended: {how}"));
        } else if !is_gone && is_excused {
            // It may be unable to write down that it was removed.
            member.kill()?;
        } else if !is_gone {
            return Ok(());
        }
        trial.links.set_process(place, 0);
        member.wipe()?;
        member.set_standing(Standing::Absent);
        Ok(())
    }

    /// The members as the cluster knows them now.
    async fn list(&mut self) -> Option<Vec<Listed>> {
        let channel = self.channel().await?;
        let request = MemberListRequest { linearizable: true };
        let mut client = ClusterClient::new(channel);
        let answer = timeout(CALL_TIME, client.member_list(request)).await;
        Some(answer.ok()?.ok()?.into_inner().members)
    }

    /// Asks once, any member, and notes what came of it.
    async fn ask(&mut self, change: Change) {
        let Some(channel) = self.channel().await else {
            return;
        };
        let name = change.name();
        let words = match timeout(CALL_TIME, change.ask(channel)).await {
            Ok(Ok(())) => "done".to_owned(),
            Ok(Err(status)) => format!("{:?}: {}", status.code(), status.message()),
            Err(_) => "no answer in time".to_owned(),
        };
        self.tell(format!("{name}: {words}"));
    }

    /// To any voter, and perhaps to one that is to leave.
    async fn channel(&mut self) -> Option<Channel> {
        let may = |it| it == Standing::Voter || it == Standing::Leaving;
        let place = *self.random.pick(&self.trial.standing(may));
        dial(&self.trial.members[place]).await
    }

    fn tell(&self, words: String) {
        let mut changes = self.trial.changes.lock().expect("no holder panics");
        *changes.entry(words).or_default() += 1;
    }

    /// Where everybody stands, and the last words of those who are on their way.
    fn words(&self) -> String {
        let members = self.trial.members.iter().map(|member| {
            let (name, standing) = (member.name, member.standing());
            match standing {
                Standing::Learner | Standing::Leaving => {
                    format!("{name} {standing:?}:\n{}\n", member.last_words())
                }
                Standing::Voter | Standing::Absent => format!("{name} {standing:?} "),
            }
        });
        members.collect()
    }
}

/// Why a newcomer's process did not begin, if others were to blame: it has asked,
/// and nobody answered, or not from the present.
fn why_not_begun(how: &str, words: &str) -> Option<&'static str> {
    let reasons = [
        "could not retrieve cluster information",
        "member count is unequal",
        "no match found for existing member",
    ];
    let mut reasons = reasons.into_iter().filter(|it| words.contains(it));
    reasons.next().filter(|_| how.contains("exit status: 1"))
}
