//! One walk, step by step on both systems at the same time.
//!
//! After each step the model moves on by what both systems did. A change of the
//! members that one system did and the other refused ends the walk: from there on
//! the two could not be compared. Where etcd fails, our system goes on alone, and
//! the model is its measure.

use std::{path::Path, time::Duration};

use tokio::time::{Instant, timeout};

use super::{
    answer::{Answer, Expected, Verdict, compare, judge_alone},
    generate::Walk,
    model::Model,
    perform::{Departure, Performed},
    recovery::SERVE_MAX,
    step::{At, Call, NAMES, Step, Target},
    system::{Program, System},
    tally::{PROMISED, Tally, Times},
};
use crate::process::Outcome;

/// A walk that is not over by then hangs.
const WALK_MAX: Duration = Duration::from_secs(900);

/// What a walk has shown.
#[derive(Debug, Default)]
pub struct Course {
    pub tally: Tally,
    /// What our system did wrong; the first of them ends the walk.
    pub failures: Vec<String>,
    /// Where etcd failed, so that the walk went on without it.
    pub etcd_failures: Vec<String>,
    /// The walk ended early: the systems went different ways.
    pub parted: Option<String>,
    /// What happened, with times.
    pub lines: Vec<String>,
}

impl Course {
    pub fn is_worth_keeping(&self) -> bool {
        !self.failures.is_empty() || !self.etcd_failures.is_empty()
    }
}

struct Walker {
    model: Model,
    ours: System,
    etcd: Option<System>,
    course: Course,
    began: Instant,
}

/// Performs the walk in `directory`; `tell` hears of each step before it is done.
pub async fn run(
    walk: &Walk,
    ours: &Program,
    etcd: Option<&Program>,
    directory: &Path,
    tell: impl Fn(usize, Step),
) -> Outcome<Course> {
    let begin = |program| System::begin(program, directory, walk.voters);
    let mut walker = Walker {
        model: Model::new(walk.voters),
        ours: begin(ours)?,
        etcd: etcd.map(begin).transpose()?,
        course: Course::default(),
        began: Instant::now(),
    };
    let walked = timeout(WALK_MAX, walker.walk(walk, tell)).await;
    match walked {
        Ok(Ok(())) => {}
        Ok(Err(error)) => walker.fail(error.to_string()),
        Err(_) => walker.fail(format!("it is not over after {} s", WALK_MAX.as_secs())),
    }
    Ok(walker.end())
}

/// The same on both systems at the same time.
async fn both<T>(
    ours: impl Future<Output = Outcome<T>>,
    etcd: Option<impl Future<Output = Outcome<T>>>,
) -> (Outcome<T>, Option<Outcome<T>>) {
    let etcd = async {
        match etcd {
            Some(etcd) => Some(etcd.await),
            None => None,
        }
    };
    tokio::join!(ours, etcd)
}

impl Walker {
    async fn walk(&mut self, walk: &Walk, tell: impl Fn(usize, Step)) -> Outcome {
        let model = self.model.clone();
        let etcd = self.etcd.as_mut().map(|it| it.learn_ids(&model));
        let learned = both(self.ours.learn_ids(&model), etcd).await;
        self.take(learned)?;
        for (number, &step) in walk.steps.iter().enumerate() {
            tell(number, step);
            if !self.model.allows(step) {
                self.note(&format!("{step}: left out"));
                continue;
            }
            self.step(step).await?;
            if self.is_over() {
                return Ok(());
            }
        }
        self.bring_all_back().await
    }

    fn is_over(&self) -> bool {
        self.course.parted.is_some() || !self.course.failures.is_empty()
    }

    /// What the steps of the walk have left to be done, after answers that the
    /// generator did not expect.
    async fn bring_all_back(&mut self) -> Outcome {
        while let Some(&slot) = self.model.slots(|it| !it.up).first() {
            let step = Step::Start { slot };
            if !self.model.allows(step) {
                break;
            }
            self.step(step).await?;
            if self.is_over() {
                return Ok(());
            }
        }
        match self.model.has_majority() {
            true => self.check().await,
            false => Ok(()),
        }
    }

    async fn step(&mut self, step: Step) -> Outcome {
        self.note(&step.to_string());
        let done = match step {
            Step::Call { call, at } => {
                self.lead(call).await?;
                let expected = self.model.expects(call, at);
                self.call(call, at, expected, false).await?
            }
            Step::Check => {
                self.course.tally.step("check");
                self.check().await?;
                true
            }
            process => {
                self.process(process).await?;
                true
            }
        };
        self.model.apply(step, done);
        self.look_for_crashes();
        if !self.is_over() && self.model.has_majority() {
            self.serve(step).await?;
            self.settle().await?;
        }
        Ok(())
    }

    /// Ends and starts processes.
    async fn process(&mut self, step: Step) -> Outcome {
        if let Step::Kill {
            slot,
            leading: true,
        } = step
            && self.model.has_majority()
        {
            self.make_lead(slot).await;
        }
        self.course.tally.step(match step {
            Step::Kill { leading: true, .. } => "kill -9, the leader",
            Step::Kill { .. } => "kill -9",
            Step::Start { slot } if self.model.member(slot).is_some_and(|it| it.started) => "start",
            Step::Start { .. } => "first start of an added member",
            Step::Restart { slot, .. } => match self.model.member(slot) {
                Some(member) if member.waits_to_move => "restart at the new address",
                _ => "restart",
            },
            Step::Call { .. } | Step::Check => unreachable!("{step} is about no process"),
        });
        let model = self.model.clone();
        let etcd = self.etcd.as_mut().map(|it| it.process(step, &model));
        let done = both(self.ours.process(step, &model), etcd).await;
        self.take(done).map(drop)
    }

    async fn make_lead(&mut self, slot: usize) {
        let model = self.model.clone();
        let etcd = async {
            match &mut self.etcd {
                Some(etcd) => etcd.make_lead(slot, &model).await,
                None => true,
            }
        };
        let led = tokio::join!(self.ours.make_lead(slot, &model), etcd);
        if led != (true, true) {
            let (name, (ours, etcd)) = (NAMES[slot], led);
            self.note(&format!("{name} leads: inkstone {ours}, etcd {etcd}"));
        }
    }

    /// Moves the lead to a member that is to be removed as the leader.
    async fn lead(&mut self, call: Call) -> Outcome {
        if let Call::Remove {
            target: Target::Slot(slot),
            leading: true,
        } = call
            && self.model.has_majority()
        {
            self.make_lead(slot).await;
        }
        Ok(())
    }

    /// Whether the change, if it is one, was done by both.
    async fn call(&mut self, call: Call, at: At, expected: Expected, again: bool) -> Outcome<bool> {
        let model = self.model.clone();
        let asked = (call, at);
        let etcd = self.etcd.as_mut();
        let etcd = etcd.map(|it| it.perform(asked, expected, again, &model));
        let performed = both(self.ours.perform(asked, expected, again, &model), etcd).await;
        let (ours, etcd) = self.take(performed)?;
        let done = self.judge(call, expected, &ours, etcd.as_ref());
        self.see_off(ours.departure, etcd.and_then(|it| it.departure));
        if done {
            self.adopt(call).await?;
        }
        Ok(done)
    }

    /// Compares, and says whether both did it.
    fn judge(
        &mut self,
        call: Call,
        expected: Expected,
        ours: &Performed,
        etcd: Option<&Performed>,
    ) -> bool {
        let answers = (&ours.answer, etcd.map(|it| &it.answer));
        let verdict = match answers {
            (ours, Some(etcd)) => compare(ours, etcd, expected),
            (ours, None) => judge_alone(ours, expected),
        };
        let tally = &mut self.course.tally;
        let has_majority = self.model.has_majority();
        tally.call(call.kind(), has_majority, answers.0, answers.1, verdict);
        let words = |it: &Performed| {
            let (answer, requests) = (it.answer.words(), it.requests);
            format!(
                "{answer} ({requests} requests, {:.1} s)",
                it.took.as_secs_f64()
            )
        };
        let etcd = etcd.map_or("-".to_owned(), words);
        let line = format!(
            "{call}: inkstone {}; etcd {etcd}; expected {expected:?}; {verdict:?}",
            words(ours)
        );
        self.note(&format!("  {line}"));
        if verdict == Verdict::Worse {
            self.fail(line.clone());
        }
        let is_done = |answer: &Answer| *answer == Answer::Done;
        let (ours, etcd) = (answers.0, answers.1.unwrap_or(answers.0));
        if call.changes_members() {
            let is_open = |answer: &Answer| matches!(answer, Answer::Unavailable(_));
            if is_done(ours) != is_done(etcd) {
                self.course.parted = Some(line);
            } else if is_open(ours) || is_open(etcd) {
                self.model.in_doubt = Some(call);
            }
        }
        is_done(ours) && is_done(etcd)
    }

    async fn adopt(&mut self, call: Call) -> Outcome {
        let model = self.model.clone();
        let etcd = self.etcd.as_mut().map(|it| it.adopt(call, &model));
        let adopted = both(self.ours.adopt(call, &model), etcd).await;
        self.take(adopted).map(drop)
    }

    /// A removed member ends by itself, or etcd's does not either.
    fn see_off(&mut self, ours: Option<Departure>, etcd: Option<Departure>) {
        if let Some(etcd) = etcd {
            note_departure(etcd, &mut self.course.tally.etcd);
        }
        if let Some(ours) = ours {
            note_departure(ours, &mut self.course.tally.ours);
            let etcd_went_on = etcd.is_some_and(|it| it.ended.is_none());
            if ours.ended.is_none() && !etcd_went_on {
                let name = NAMES[ours.slot];
                self.fail(format!(
                    "{name} was removed and its process went on for 10 s"
                ));
            }
        }
    }

    /// Asks for the change in doubt once more, now that there is a majority.
    async fn settle(&mut self) -> Outcome {
        let Some(call) = self.model.in_doubt.filter(|_| !self.is_over()) else {
            return Ok(());
        };
        self.note(&format!("{call} once more: its outcome is open"));
        let done = self.call(call, At::Leader, Expected::Done, true).await?;
        self.model.in_doubt.get_or_insert(call);
        self.model.settle(done);
        if !self.is_over() && self.model.has_majority() {
            let at = At::Leader;
            self.serve(Step::Call { call, at }).await?;
        }
        Ok(())
    }

    /// Measures how long each system takes to serve.
    async fn serve(&mut self, after: Step) -> Outcome {
        let model = self.model.clone();
        let etcd = self.etcd.as_mut().map(|it| it.time_to_serve(&model));
        let served = both(self.ours.time_to_serve(&model), etcd).await;
        let (ours, etcd) = self.take(served)?;
        note_serving(ours, after, &mut self.course.tally.ours);
        if let Some(etcd) = etcd {
            note_serving(etcd, after, &mut self.course.tally.etcd);
        }
        let words = |it: Option<Duration>| match it {
            Some(it) => format!("{:.3} s", it.as_secs_f64()),
            None => "NOT".to_owned(),
        };
        let (of_ours, of_etcd) = (words(ours), etcd.map_or("-".to_owned(), words));
        self.note(&format!("  serves: inkstone {of_ours}; etcd {of_etcd}"));
        let seconds = SERVE_MAX.as_secs();
        if ours.is_none() {
            self.fail(format!("after `{after}` it did not serve in {seconds} s"));
        }
        if etcd == Some(None) {
            self.leave_etcd(format!("after `{after}` it did not serve in {seconds} s"));
        }
        self.look_for_crashes();
        Ok(())
    }

    /// Waits until every member that is up has caught up.
    async fn check(&mut self) -> Outcome {
        let model = self.model.clone();
        let etcd = self.etcd.as_mut().map(|it| it.catch_up(&model));
        let caught_up = both(self.ours.catch_up(&model), etcd).await;
        let (ours, etcd) = self.take(caught_up)?;
        self.note(&format!("  caught up: inkstone {ours:?}; etcd {etcd:?}"));
        match ours {
            Ok(time) => self.course.tally.ours.catch_up.push(time),
            Err(fault) => self.fail(fault),
        }
        match etcd {
            Some(Ok(time)) => self.course.tally.etcd.catch_up.push(time),
            Some(Err(fault)) => self.leave_etcd(fault),
            None => {}
        }
        self.look_for_crashes();
        Ok(())
    }

    /// An error of ours ends the walk; one of etcd leaves ours alone.
    fn take<T>(
        &mut self,
        (ours, etcd): (Outcome<T>, Option<Outcome<T>>),
    ) -> Outcome<(T, Option<T>)> {
        let etcd = match etcd {
            Some(Err(error)) => {
                self.leave_etcd(error.to_string());
                None
            }
            Some(Ok(value)) => Some(value),
            None => None,
        };
        Ok((ours?, etcd))
    }

    fn leave_etcd(&mut self, why: String) {
        self.note(&format!("WITHOUT ETCD from here: {why}"));
        self.course.etcd_failures.push(why);
        if let Some(etcd) = self.etcd.take() {
            self.course.tally.etcd.restarts += etcd.ends.len();
        }
    }

    fn look_for_crashes(&mut self) {
        for crash in std::mem::take(&mut self.ours.crashes) {
            self.fail(crash);
        }
        let etcd = self.etcd.as_mut().map(|it| std::mem::take(&mut it.crashes));
        for crash in etcd.unwrap_or_default() {
            self.note(&format!("etcd: {crash}"));
            self.course.etcd_failures.push(crash);
        }
    }

    fn fail(&mut self, why: String) {
        self.note(&format!("FAILED: {why}"));
        self.course.failures.push(why);
    }

    fn note(&mut self, line: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.course.lines.push(format!("{seconds:7.2} {line}"));
    }

    fn end(mut self) -> Course {
        let systems = [
            (Some(&self.ours), &mut self.course.tally.ours),
            (self.etcd.as_ref(), &mut self.course.tally.etcd),
        ];
        for (system, times) in systems {
            let Some(system) = system else { continue };
            times.restarts += system.ends.len();
            let ends = system.ends.iter();
            let lines = ends.map(|end| format!("{}: {end}", system.program.name));
            self.course.lines.extend(lines);
        }
        self.course
    }
}

fn note_departure(departure: Departure, times: &mut Times) {
    match departure.ended {
        Some(time) => times.departure.push(time),
        None => times.stayed += 1,
    }
}

fn note_serving(served: Option<Duration>, after: Step, times: &mut Times) {
    let time = served.unwrap_or(SERVE_MAX);
    times.serve.push(time);
    if time > PROMISED {
        times
            .slow
            .push(format!("{:.1} s after `{after}`", time.as_secs_f64()));
    }
}
