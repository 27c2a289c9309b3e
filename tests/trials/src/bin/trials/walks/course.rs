//! One walk, step by step on both systems at the same time.
//!
//! After each step the model moves on by what both systems did. A change of the
//! members that one system did and the other refused ends the walk: from there on
//! the two could not be compared. Where etcd fails, our system goes on alone, and
//! the model is its measure.

use std::{path::Path, time::Duration};

use tokio::time::{Instant, timeout};

use super::{
    act::Act,
    answer::{Answer, Expected, Verdict, compare, judge_alone},
    generate::Walk,
    model::{Member, Model},
    perform::Performed,
    recovery::{SERVE_MAX, Wait},
    step::{At, Call, Ending, Slot, Step},
    system::{Program, System},
    tally::{PROMISED, Tally, What},
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
    /// What happened, with times.
    pub lines: Vec<String>,
}

impl Course {
    pub fn is_worth_keeping(&self) -> bool {
        self.tally.is_worth_keeping() || !self.failures.is_empty()
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
    let begin = |program| System::begin(program, directory, walk);
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
    walker.look_for_crashes();
    Ok(walker.end())
}

impl Walker {
    async fn walk(&mut self, walk: &Walk, tell: impl Fn(usize, Step)) -> Outcome {
        self.both(System::learn_ids).await?;
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
        // Changes that the steps have left open, after answers that the generator did not expect.
        while let Some(step) = self.what_is_left() {
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

    /// The same on both systems at the same time. An error of ours ends the walk; one of etcd
    /// leaves ours alone.
    async fn both<T>(
        &mut self,
        act: impl AsyncFn(&mut System, &Model) -> Outcome<T>,
    ) -> Outcome<(T, Option<T>)> {
        let model = &self.model;
        let etcd = async {
            match &mut self.etcd {
                Some(etcd) => act(etcd, model).await.map(Some),
                None => Ok(None),
            }
        };
        let (ours, etcd) = tokio::join!(act(&mut self.ours, model), etcd);
        let etcd = etcd.unwrap_or_else(|error| {
            self.leave_etcd(&error.to_string());
            None
        });
        Ok((ours?, etcd))
    }

    fn is_over(&self) -> bool {
        !self.course.tally.parted.is_empty() || !self.course.failures.is_empty()
    }

    /// A member to be started, or to be restarted at its new address.
    fn what_is_left(&self) -> Option<Step> {
        let down = self.model.slots(|it| !it.up()).into_iter();
        let waiting = self.model.slots(|it| it.waits_to_move()).into_iter();
        let restart = |slot| Step::Restart(slot, Ending::Asked);
        let mut steps = down.map(Step::Start).chain(waiting.map(restart));
        steps.find(|step| self.model.allows(*step))
    }

    async fn step(&mut self, step: Step) -> Outcome {
        self.note(&step.to_string());
        if step == Step::Check {
            self.course.tally.step("check");
            self.check().await?;
        } else {
            let done = self.act(step, false).await?;
            self.model.apply(step, done);
        }
        self.look_for_crashes();
        self.settle().await
    }

    /// Performs a step other than a check; says whether both did it.
    async fn act(&mut self, step: Step, again: bool) -> Outcome<bool> {
        let (kind, after) = match step {
            Step::Call(call, _) => (call.kind(), call.to_string()),
            _ => (self.kind(step), step.to_string()),
        };
        let act = async |it: &mut System, model: &Model| it.act(step, again, model).await;
        let (ours, etcd) = self.both(act).await?;
        let done = match step {
            Step::Call(call, at) => {
                let expected = self.model.expects_once_more(call, at, again);
                self.judge(call, expected, &ours, etcd.as_ref())
            }
            _ => {
                self.course.tally.step(kind);
                true
            }
        };
        let of_etcd = |wait: fn(&Act) -> Wait| etcd.as_ref().map_or(Wait::Unasked, wait);
        self.serving(&after, ours.serving, of_etcd(|it| it.serving));
        self.departure(kind, ours.departure, of_etcd(|it| it.departure));
        Ok(done)
    }

    /// What the report calls a step that is about a process.
    fn kind(&self, step: Step) -> &'static str {
        let is = |slot: Slot, test: fn(&Member) -> bool| {
            let member = self.model.member(slot);
            member.as_ref().is_some_and(test)
        };
        match step {
            Step::KillLeader(_) => "kill -9, the leader",
            Step::Kill(_) => "kill -9",
            Step::Start(slot) if is(slot, |it| it.started) => "start",
            Step::Start(_) => "first start of an added member",
            Step::Haunt(_) => "start of a removed member",
            Step::Restart(slot, _) if is(slot, Member::waits_to_move) => {
                "restart at the new address"
            }
            Step::Restart(..) => "restart",
            Step::Call(..) | Step::Check => unreachable!("{step} is about no process"),
        }
    }

    /// Compares the answers to a call, and says whether both did it.
    fn judge(&mut self, call: Call, expected: Expected, ours: &Act, etcd: Option<&Act>) -> bool {
        let performed = |act: &Act| act.performed.clone().expect("a call was made");
        let (ours, etcd) = (performed(ours), etcd.map(performed));
        let theirs = etcd.as_ref().map(|it| &it.answer);
        let verdict = match theirs {
            Some(etcd) => compare(&ours.answer, etcd, expected),
            None => judge_alone(&ours.answer, expected),
        };
        let has_majority = self.model.has_majority();
        let tally = &mut self.course.tally;
        tally.call(call.kind(), has_majority, &ours.answer, theirs, verdict);
        let line = format!(
            "{call}: inkstone {ours}; etcd {}; expected {expected:?}; {verdict:?}",
            etcd.as_ref().map_or("-".to_owned(), Performed::to_string)
        );
        self.note(&format!("  {line}"));
        if verdict == Verdict::Worse {
            self.fail(line.clone());
        }
        let answers = [&ours.answer, theirs.unwrap_or(&ours.answer)];
        let done = answers.map(|it| *it == Answer::Done);
        let may_be_done = !matches!(expected, Expected::Refused(_));
        let is_open = |it: &&Answer| matches!(it, Answer::Unavailable(_));
        if call.changes_members() {
            if done[0] != done[1] {
                self.course.tally.parted.push(line);
            } else if may_be_done && answers.iter().any(is_open) {
                self.model.in_doubt = Some(call);
            }
        }
        done == [true, true]
    }

    /// Asks for the change in doubt once more, now that there is a majority.
    async fn settle(&mut self) -> Outcome {
        let may_settle = !self.is_over() && self.model.has_majority();
        let Some(call) = self.model.in_doubt.filter(|_| may_settle) else {
            return Ok(());
        };
        self.note(&format!("{call} once more: its outcome is open"));
        let done = self.act(Step::Call(call, At::Leader), true).await?;
        self.model.in_doubt = Some(call);
        self.model.settle(done);
        Ok(())
    }

    /// Notes how long each system took to serve.
    fn serving(&mut self, after: &str, ours: Wait, etcd: Wait) {
        if (ours, etcd) == (Wait::Unasked, Wait::Unasked) {
            return;
        }
        self.note(&format!("  serves: inkstone {ours}; etcd {etcd}"));
        let (what, again) = match self.model.has_majority() {
            true => (What::Serve, ""),
            false => (What::ServeAgain, ", with a majority again"),
        };
        let tally = &mut self.course.tally;
        for (wait, times) in [(ours, &mut tally.ours), (etcd, &mut tally.etcd)] {
            let time = match wait {
                Wait::Unasked => continue,
                Wait::After(time) => time,
                Wait::Never => SERVE_MAX,
            };
            times.took(what, time);
            if time > PROMISED {
                let seconds = time.as_secs_f64();
                let line = format!("{seconds:.1} s after `{after}`{again}");
                times.slow.push(line);
            }
        }
        let words = format!(
            "after `{after}` it did not serve in {} s",
            SERVE_MAX.as_secs()
        );
        match (ours, etcd) {
            (Wait::Never, Wait::Never) => {
                let words = format!("{words}, and etcd neither");
                self.course.tally.parted.push(words);
            }
            (Wait::Never, _) => self.fail(words),
            (_, Wait::Never) => self.leave_etcd(&words),
            _ => {}
        }
    }

    /// A removed member ends by itself, unless etcd's does not either.
    fn departure(&mut self, after: &str, ours: Wait, etcd: Wait) {
        let tally = &mut self.course.tally;
        for (wait, times) in [(ours, &mut tally.ours), (etcd, &mut tally.etcd)] {
            match wait {
                Wait::After(time) => times.took(What::Depart, time),
                Wait::Never => times.stayed.push(after.to_owned()),
                Wait::Unasked => {}
            }
        }
        if ours != Wait::Unasked {
            self.note(&format!("  removed member: inkstone {ours}; etcd {etcd}"));
        }
        if ours == Wait::Never && matches!(etcd, Wait::After(_)) {
            self.fail(format!(
                "{after}: the removed member's process goes on, and etcd's ends"
            ));
        }
    }

    /// Waits until every member that is up has caught up.
    async fn check(&mut self) -> Outcome {
        let (ours, etcd) = self.both(System::catch_up).await?;
        self.note(&format!("  caught up: inkstone {ours:?}; etcd {etcd:?}"));
        let tally = &mut self.course.tally;
        tally.ours.took(What::CatchUp, ours);
        if let Some(etcd) = etcd {
            tally.etcd.took(What::CatchUp, etcd);
        }
        self.look_for_crashes();
        Ok(())
    }

    fn leave_etcd(&mut self, why: &str) {
        self.note(&format!("WITHOUT ETCD from here: {why}"));
        self.course.tally.etcd_failures.push(why.to_owned());
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
            self.course.tally.etcd_failures.push(crash);
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
