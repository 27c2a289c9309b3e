//! One walk, step by step on both systems at the same time.
//!
//! After each step the model moves on by what both systems did. A change of the
//! members that one system did and the other refused ends the walk: from there on
//! the two could not be compared. Where etcd fails, our system goes on alone, and
//! the model is its measure.

use std::{path::Path, time::Duration};

use tokio::time::{Instant, timeout};

use super::{
    act::{Act, Departure},
    answer::{Answer, Expected, Verdict, compare, judge_alone},
    generate::Walk,
    model::{Member, Model},
    perform::{Order, Performed},
    recovery::{SERVE_MAX, Serving},
    step::{At, Ending, Step},
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
    /// Its logs say why a system failed, or why ours was slow.
    pub fn is_worth_keeping(&self) -> bool {
        let is_slow = !self.tally.ours.slow.is_empty();
        is_slow || !self.failures.is_empty() || !self.etcd_failures.is_empty()
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

    /// A member to be started, or to be restarted at its new address.
    fn what_is_left(&self) -> Option<Step> {
        let down = self.model.slots(|it| !it.up()).into_iter();
        let waiting = self.model.slots(|it| it.waits_to_move()).into_iter();
        let ending = Ending::Asked;
        let mut steps = down
            .map(|slot| Step::Start { slot })
            .chain(waiting.map(|slot| Step::Restart { slot, ending }));
        steps.find(|step| self.model.allows(*step))
    }

    async fn step(&mut self, step: Step) -> Outcome {
        self.note(&step.to_string());
        match step {
            Step::Check => {
                self.course.tally.step("check");
                self.check().await?;
            }
            Step::Call { call, at } => {
                let expected = self.model.expects(call, at);
                let again = false;
                let order = Order {
                    call,
                    at,
                    expected,
                    again,
                };
                let done = self.call(order).await?;
                self.model.apply(step, done);
            }
            process => {
                self.process(process).await?;
                self.model.apply(step, true);
            }
        }
        self.look_for_crashes();
        self.settle().await
    }

    /// Ends or starts a process.
    async fn process(&mut self, step: Step) -> Outcome {
        let kind = self.kind(step);
        self.course.tally.step(kind);
        let model = self.model.clone();
        let etcd = self.etcd.as_mut().map(|it| it.act(step, &model));
        let acts = both(self.ours.act(step, &model), etcd).await;
        let (ours, etcd) = self.take(acts)?;
        self.serving(&step.to_string(), ours.serving, etcd.as_ref());
        self.departure(kind, ours.departure, etcd.as_ref());
        Ok(())
    }

    /// What the report calls a step that is about a process.
    fn kind(&self, step: Step) -> &'static str {
        let is = |slot: usize, test: fn(&Member) -> bool| {
            let member = self.model.member(slot);
            member.is_some_and(|it| test(&it))
        };
        match step {
            Step::Kill { leading: true, .. } => "kill -9, the leader",
            Step::Kill { .. } => "kill -9",
            Step::Start { slot } if is(slot, |it| it.started) => "start",
            Step::Start { .. } => "first start of an added member",
            Step::Haunt { .. } => "start of a removed member",
            Step::Restart { slot, .. } if is(slot, Member::waits_to_move) => {
                "restart at the new address"
            }
            Step::Restart { .. } => "restart",
            Step::Call { .. } | Step::Check => unreachable!("{step} is about no process"),
        }
    }

    /// Whether the call was done by both.
    async fn call(&mut self, order: Order) -> Outcome<bool> {
        let model = self.model.clone();
        let etcd = self.etcd.as_mut().map(|it| it.call(order, &model));
        let acts = both(self.ours.call(order, &model), etcd).await;
        let (ours, etcd) = self.take(acts)?;
        let performed = |act: &Act| act.performed.clone().expect("a call was made");
        let done = self.judge(order, &performed(&ours), etcd.as_ref().map(performed));
        self.serving(&order.call.to_string(), ours.serving, etcd.as_ref());
        self.departure(order.call.kind(), ours.departure, etcd.as_ref());
        Ok(done)
    }

    /// Compares, and says whether both did it.
    fn judge(&mut self, order: Order, ours: &Performed, etcd: Option<Performed>) -> bool {
        let Order { call, expected, .. } = order;
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
        let theirs = theirs.unwrap_or(&ours.answer);
        let is_done = |answer: &Answer| *answer == Answer::Done;
        let may_be_done = !matches!(expected, Expected::Refused(_));
        let is_open = |answer: &Answer| matches!(answer, Answer::Unavailable(_));
        if call.changes_members() {
            if is_done(&ours.answer) != is_done(theirs) {
                self.course.parted = Some(line);
            } else if may_be_done && (is_open(&ours.answer) || is_open(theirs)) {
                self.model.in_doubt = Some(call);
            }
        }
        is_done(&ours.answer) && is_done(theirs)
    }

    /// Asks for the change in doubt once more, now that there is a majority.
    async fn settle(&mut self) -> Outcome {
        let may_settle = !self.is_over() && self.model.has_majority();
        let Some(call) = self.model.in_doubt.filter(|_| may_settle) else {
            return Ok(());
        };
        self.note(&format!("{call} once more: its outcome is open"));
        let order = Order {
            call,
            at: At::Leader,
            expected: Expected::Done,
            again: true,
        };
        let done = self.call(order).await?;
        self.model.in_doubt = Some(call);
        self.model.settle(done);
        Ok(())
    }

    /// Notes how long each system took to serve.
    fn serving(&mut self, after: &str, ours: Serving, etcd: Option<&Act>) {
        let etcd = etcd.map_or(Serving::Unasked, |it| it.serving);
        if (ours, etcd) == (Serving::Unasked, Serving::Unasked) {
            return;
        }
        self.note(&format!("  serves: inkstone {ours}; etcd {etcd}"));
        let again = !self.model.has_majority();
        note_serving(ours, after, again, &mut self.course.tally.ours);
        note_serving(etcd, after, again, &mut self.course.tally.etcd);
        let words = format!(
            "after `{after}` it did not serve in {} s",
            SERVE_MAX.as_secs()
        );
        match (ours, etcd) {
            (Serving::Never, Serving::Never) => {
                self.course.parted = Some(format!("{words}, and etcd neither"));
            }
            (Serving::Never, _) => self.fail(words),
            (_, Serving::Never) => self.leave_etcd(words),
            _ => {}
        }
    }

    /// A removed member ends by itself, unless etcd's does not either.
    fn departure(&mut self, after: &str, ours: Option<Departure>, etcd: Option<&Act>) {
        let etcd = etcd.and_then(|it| it.departure);
        let tally = &mut self.course.tally;
        for (departure, times) in [(ours, &mut tally.ours), (etcd, &mut tally.etcd)] {
            match departure {
                Some(Departure::After(time)) => times.departure.push(time),
                Some(Departure::Never) => times.stayed.push(after.to_owned()),
                None => {}
            }
        }
        if let Some(ours) = ours {
            self.note(&format!(
                "  removed member: inkstone {ours:?}; etcd {etcd:?}"
            ));
        }
        let etcd_ended = matches!(etcd, Some(Departure::After(_)));
        if ours == Some(Departure::Never) && etcd_ended {
            self.fail(format!(
                "{after}: the removed member's process goes on, and etcd's ends"
            ));
        }
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

/// `again`: there was no majority before.
fn note_serving(serving: Serving, after: &str, again: bool, times: &mut Times) {
    let time = match serving {
        Serving::Unasked => return,
        Serving::After(time) => time,
        Serving::Never => SERVE_MAX,
    };
    match again {
        true => times.serve_again.push(time),
        false => times.serve.push(time),
    }
    if time > PROMISED {
        let again = if again { ", with a majority again" } else { "" };
        let seconds = time.as_secs_f64();
        times
            .slow
            .push(format!("{seconds:.1} s after `{after}`{again}"));
    }
}
