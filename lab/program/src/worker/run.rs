//! One run, from an empty directory to a judged result.

use std::sync::Arc;
use std::time::Instant;

use harness::Cluster;

use super::Job;
use super::measure::{Accounts, send_progress};
use super::space::SpaceWatch;
use crate::accounting::{dirty_bytes, footprint_bytes, wait_until_quiet};
use crate::load::{
    Access, Arrivals, Measured, Plan, Remote, STEADY_CHANGE_MAX, Stage, etcd_benchmark,
    read_back_embedded, read_back_remote, run_embedded, write_certificates,
};
use crate::record::{LoadResult, Outcome, Run, Taint, TaintKind};
use crate::schedule::memory_group;
use crate::targets::{
    Embedded, Failure, Offer, OpenOptions, TargetKind, UNDER_HANDOFF, command_line, server_program,
};
use crate::verdict::durability;
use crate::verify::{ClientWrites, Ledger};
use crate::workload::{Arrival, DurabilityLevel, Warmup, Workload};

mod data_set;
mod search;
#[cfg(test)]
mod tests;

/// An open loop that is behind its schedule at the end by more than this share of the
/// measured part is saturated ...
const LAG_SHARE_MAX: f64 = 0.1;
/// ... if the lag is also longer than this.
const LAG_SECONDS_MIN: f64 = 0.25;
/// Greatest share of failed operations of a measured run.
const FAILED_SHARE_MAX: f64 = 0.001;

/// Space that servers allocate ahead for their log: with less free space they may not start.
const FREE_BYTES_MIN: u64 = 64 << 20;

/// Runs the job. An error becomes the run's outcome.
pub fn run(job: &Job, offers: &[Offer]) -> Run {
    let mut run = Run::of(job);
    if let Err(failure) = attempt(job, offers, &mut run) {
        run.outcome = Outcome::Failed {
            because: with_remedy(failure.to_string(), job),
        };
    }
    run
}

fn with_remedy(because: String, job: &Job) -> String {
    let is_full = [
        "No space left",
        "ENOSPC",
        "os error 28",
        "no space",
        "no room",
        "in reserve",
        "space exceeded",
    ];
    let shown = job.directory.display();
    let remedy = "make room, use --directory or a smaller load";
    if is_full.iter().any(|words| because.contains(words)) {
        return format!("{because}. The disk of {shown} is full: {remedy}");
    }
    // Not every server reports a full disk, so the free space is checked too.
    match free_bytes(job) {
        Some(free) if free < FREE_BYTES_MIN => format!(
            "{because}. The disk of {shown} has {} left, which may be why: {remedy}",
            crate::report::number::bytes(free as f64)
        ),
        _ => because,
    }
}

fn free_bytes(job: &Job) -> Option<u64> {
    if matches!(job.target.kind, TargetKind::Endpoints(_)) {
        return None;
    }
    let about = rustix::fs::statvfs(&job.directory).ok()?;
    Some(about.f_bavail * about.f_frsize)
}

/// An open target.
enum Opened {
    Embedded(Offer, Box<dyn Embedded>),
    /// Without a cluster, the servers are not the lab's.
    Servers(Option<Cluster>, Remote),
}

fn attempt(job: &Job, offers: &[Offer], run: &mut Run) -> Result<(), Failure> {
    send_progress(Stage::Open, 0.0, 0.0)?;
    enter_memory_group(job)?;
    rustix::fs::sync();
    let dirty_bytes_before = dirty_bytes();
    let (waited_seconds, quiet) = wait_until_quiet(job.quiet_seconds_max);
    // The plan's values are the lab's own memory, so they exist before the watch.
    let plan = Plan::new(&job.workload, job.seed, None);
    let mut space = SpaceWatch::new(&job.workload);
    let mut opened = open(job, offers, run)?;
    match &opened {
        Opened::Embedded(offer, _) if !offer.keeps_data => {}
        Opened::Embedded(..) => space.begin(&job.directory, Vec::new()),
        Opened::Servers(Some(cluster), _) => space.begin(&job.directory, cluster.pids()),
        Opened::Servers(None, _) => {}
    }
    let of_rounds = data_set::make(job, &opened, &plan, &mut space)?;
    let mut acknowledged = measure(job, (&mut opened, &mut space), run, plan.origin())?;
    run.space = space.into_space();
    acknowledged.extend(of_rounds);
    check_failures(&run.load)?;
    run.disturbance.dirty_bytes_before = dirty_bytes_before;
    run.disturbance.waited_seconds = waited_seconds;
    run.disturbance.was_not_quiet = !quiet;
    run.taints = taints(run, job);
    run.durability = durability(run, job.device.as_ref());
    run.outcome = Outcome::Measured;
    verify(job, opened, acknowledged, &plan, run)
}

/// Enters the control group of the job. Fails where the workload limits the memory and the job
/// has no group.
fn enter_memory_group(job: &Job) -> Result<(), Failure> {
    match (&job.memory_group, job.workload.memory.limit) {
        (Some(group), _) => Ok(memory_group::enter(group)?),
        (None, None) => Ok(()),
        (None, Some(limit)) => {
            Err(format!("memory.limit = {limit}: the lab made no control group").into())
        }
    }
}

/// Fails if too many operations failed: a target that refuses work does less of it.
fn check_failures(load: &LoadResult) -> Result<(), Failure> {
    let (failed, all) = (load.failed(), load.failed() + load.operations());
    if failed as f64 > FAILED_SHARE_MAX * all as f64 {
        let errors = load.errors.join("; ");
        return Err(format!("{failed} of {all} operations failed; first: {errors}").into());
    }
    Ok(())
}

/// Waits until the work that a preload leaves behind (spare segments, compactions, dirty
/// pages) is done, because it is no part of the cost of the measured operations.
fn settle(job: &Job) {
    rustix::fs::sync();
    wait_until_quiet(job.quiet_seconds_max.max(1.0));
}

fn open(job: &Job, offers: &[Offer], run: &mut Run) -> Result<Opened, Failure> {
    match &job.target.kind {
        TargetKind::Embedded {
            target, handoff, ..
        } => {
            let offer = *find(offers, target)?;
            check_offer(&offer, &job.workload)?;
            run.target.version = offer.version.to_owned();
            let target = (offer.open)(&job.directory, &open_options(&job.workload))?;
            if let Some(version) = target.version() {
                run.target.version = version;
            }
            if handoff.is_some() {
                run.target.version.push_str(UNDER_HANDOFF);
            }
            Ok(Opened::Embedded(offer, target))
        }
        TargetKind::Server {
            binary,
            members,
            flags,
            ask_leader,
            with_tls,
            with_users,
        } => {
            let program = server_program(binary, flags);
            run.target.version = program.version()?;
            run.target.members = *members;
            let count = (*members).max(1) as usize;
            let mut cluster = Cluster::prepare(&program, &vec![job.directory.clone(); count])?;
            let certificates = with_tls.then(|| job.directory.join("certificates"));
            if let Some(directory) = &certificates {
                write_certificates(directory)?;
                cluster.secure(directory)?;
            }
            cluster.start_all()?;
            run.target.command = command_line(&cluster);
            let mut urls = cluster.client_urls();
            if *ask_leader {
                urls.truncate(1);
            }
            let mut remote = remote(job, urls);
            remote.access = Access::new(certificates.as_deref(), *with_users)?;
            remote.create_users()?;
            Ok(Opened::Servers(Some(cluster), remote))
        }
        TargetKind::Endpoints(urls) => {
            run.target.members = urls.len() as u32;
            let remote = remote(job, urls.clone());
            run.target.version = remote.version()?;
            Ok(Opened::Servers(None, remote))
        }
    }
}

fn remote(job: &Job, urls: Vec<String>) -> Remote {
    Remote {
        urls,
        connections: job.workload.clients.connections,
        threads: job.threads,
        access: Access::default(),
    }
}

fn find<'a>(offers: &'a [Offer], name: &str) -> Result<&'a Offer, Failure> {
    offers
        .iter()
        .find(|offer| offer.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = offers.iter().map(|offer| offer.name).collect();
            let names = names.join(", ");
            format!("this worker has no target `{name}`; it has {names}").into()
        })
}

fn check_offer(offer: &Offer, workload: &Workload) -> Result<(), Failure> {
    let asked = workload.durability;
    let level = asked.level;
    let mistake = if !offer.promises.contains(&level) && level != DurabilityLevel::None {
        let promises = offer.promises;
        format!("cannot promise durability.level = {level:?}: it offers {promises:?}")
    } else if (asked.buffer_bytes > 0 || asked.segment_bytes > 0) && !offer.gathers {
        "is no log: durability.buffer_bytes and durability.segment_bytes must be 0".into()
    } else if workload.mix.insert > 0.0 && !offer.grows {
        "has room for load.keys keys only: mix.insert must be 0".into()
    } else if workload.mix.range.share > 0.0 && !offer.has_ranges {
        "keeps no order of keys: mix.range.share must be 0".into()
    } else {
        return Ok(());
    };
    Err(format!("target {} {mistake}", offer.name).into())
}

fn open_options(workload: &Workload) -> OpenOptions {
    let load = &workload.load;
    let key_bytes = load.key.size.max(load.key.kind.bytes_min(load.keys)) as u64;
    OpenOptions {
        durability: workload.durability.level,
        keys: load.keys,
        entry_bytes_max: key_bytes + load.value.length.max(),
        buffer_bytes: workload.durability.buffer_bytes,
        segment_bytes: workload.durability.segment_bytes,
    }
}

/// Runs the load, and stores the results of the measured part in `run`. The times of the
/// returned writes count from `since`.
fn measure(
    job: &Job,
    (opened, space): (&mut Opened, &mut SpaceWatch),
    run: &mut Run,
    since: Instant,
) -> Result<Vec<ClientWrites>, Failure> {
    let first = Round { number: 0, since };
    let (load, acknowledged, steadiness) = match &job.workload.arrival {
        Arrival::Search { objective, process } => {
            search::search(job, (opened, space), run, (*objective, *process), first)?
        }
        Arrival::Closed => once(job, (opened, space), run, None, first)?,
        Arrival::Open { rate, process } => {
            let arrivals = arrivals(&job.workload, *process, *rate, job.seed)?;
            once(job, (opened, space), run, Some((arrivals, *rate)), first)?
        }
    };
    run.steadiness = steadiness;
    run.load = load;
    if !matches!(job.target.kind, TargetKind::Endpoints(_)) {
        run.footprint_bytes = Some(footprint_bytes(&job.directory));
    }
    Ok(acknowledged)
}

fn arrivals(
    workload: &Workload,
    process: crate::workload::Process,
    rate: f64,
    seed: u64,
) -> Result<Arrivals, Failure> {
    let time = &workload.time;
    let seconds = time.warmup.max().as_seconds()
        + time.measure.as_seconds()
        + 2.0 * time.interval.as_seconds();
    Ok(Arrivals::new(process, rate, seconds, seed)?)
}

/// One of several loads on the same open target.
#[derive(Clone, Copy)]
struct Round {
    number: u32,
    /// The moment from which the times of acknowledged writes count in all rounds.
    since: Instant,
}

/// Runs one warm-up and one measured part, and stores their costs in `run`.
fn once(
    job: &Job,
    (opened, space): (&mut Opened, &mut SpaceWatch),
    run: &mut Run,
    open_loop: Option<(Arrivals, f64)>,
    round: Round,
) -> Result<Measured, Failure> {
    let (arrivals, rate) = open_loop.unzip();
    let plan = Plan::new(&job.workload, job.seed, arrivals).in_round(round.number);
    let plan = Arc::new(plan);
    let device = job.device.as_ref();
    let (mut measured, accounts) = match opened {
        Opened::Embedded(_, target) => {
            let mut accounts = Accounts::new(device, None, space);
            (
                run_embedded(&plan, target.as_ref(), &mut accounts)?,
                accounts,
            )
        }
        Opened::Servers(cluster, remote) => {
            let device = device.filter(|_| cluster.is_some());
            let mut accounts = Accounts::new(device, cluster.as_mut(), space);
            let measured = match &job.workload.clients.generator {
                None => remote.run(&plan, &mut accounts)?,
                Some(program) => etcd_benchmark::run(&plan, program, remote, &mut accounts)?,
            };
            (measured, accounts)
        }
    };
    for client in &mut measured.1 {
        client.shift(plan.origin().duration_since(round.since).as_nanos() as u64);
    }
    accounts.settle(run);
    measured.0.rate_offered = rate;
    measured.0.saturated = rate.is_some_and(|rate| is_saturated(&plan, &measured.0, rate));
    Ok(measured)
}

/// Whether the target could not follow the rate: at the end of the measured part, more due
/// operations are unanswered than a temporary lag explains.
fn is_saturated(plan: &Plan, load: &LoadResult, rate: f64) -> bool {
    let arrivals = plan.arrivals.as_ref().expect("an open loop has a rate");
    let (from, until) = plan.measured();
    let due = arrivals.due_before(until) - arrivals.due_before(from);
    let answered = load.operations() + load.failed();
    let lag_max = (load.seconds * LAG_SHARE_MAX).max(LAG_SECONDS_MIN) * rate;
    due.saturating_sub(answered) as f64 > lag_max.max(1.0)
        || load.backlog_max as f64 > lag_max * 2.0
}

fn taints(run: &Run, job: &Job) -> Vec<Taint> {
    let mut taints = run.disturbance.taints();
    if run.disturbance.was_not_quiet {
        taints.push(Taint {
            kind: TaintKind::NotQuiet,
            value: run.disturbance.waited_seconds,
            limit: job.quiet_seconds_max,
        });
    }
    let waits_for_steady_rate = matches!(job.workload.time.warmup, Warmup::UntilSteady(_));
    if waits_for_steady_rate && !run.steadiness.steady {
        taints.push(Taint {
            kind: TaintKind::NotSteady,
            value: run.steadiness.last_change.abs(),
            limit: STEADY_CHANGE_MAX,
        });
    }
    taints
}

/// Closes and opens an embedded target, or kills and restarts servers, and reads back the
/// acknowledged writes.
fn verify(
    job: &Job,
    opened: Opened,
    acknowledged: Vec<ClientWrites>,
    plan: &Plan,
    run: &mut Run,
) -> Result<(), Failure> {
    if let Some(because) = skip_reason(job, &opened) {
        run.verification.skipped_because = Some(because);
        return match opened {
            Opened::Embedded(_, target) => target.close(),
            Opened::Servers(..) => Ok(()),
        };
    }
    send_progress(Stage::Verify, 0.0, 0.0)?;
    let load = &job.workload.load;
    let preloaded = if load.preload { load.keys } else { 0 };
    let mut ledger = Ledger::new(acknowledged, preloaded);
    let keys = ledger.keys(job.verify_keys_max as usize);
    let after = match opened {
        Opened::Embedded(offer, target) => {
            target.close()?;
            let target = (offer.open)(&job.directory, &open_options(&job.workload))
                .map_err(|error| format!("cannot be opened again: {error}"))?;
            read_back_embedded(plan, target.as_ref(), &mut ledger, &keys)?;
            target.close()?;
            "closed and opened"
        }
        Opened::Servers(Some(mut cluster), mut remote) => {
            cluster.kill_all()?;
            cluster.start_all()?;
            remote.urls = cluster.client_urls();
            read_back_remote(plan, &remote, &mut ledger, &keys)?;
            "killed and restarted"
        }
        Opened::Servers(None, remote) => {
            read_back_remote(plan, &remote, &mut ledger, &keys)?;
            "nothing: the servers are not the lab's"
        }
    };
    run.verification = ledger.verification(after);
    if !run.verification.is_good() {
        let found = &run.verification;
        run.outcome = Outcome::Lost {
            because: format!(
                "of {} keys {} are missing and {} wrong: {}",
                found.keys_checked,
                found.keys_missing,
                found.keys_wrong,
                found.examples.join("; ")
            ),
        };
    }
    Ok(())
}

fn skip_reason(job: &Job, opened: &Opened) -> Option<String> {
    if job.verify_keys_max == 0 {
        return Some("it was not wanted".into());
    }
    if job.workload.clients.generator.is_some() {
        return Some("the lab does not know what etcd's benchmark wrote".into());
    }
    match opened {
        Opened::Embedded(offer, _) if !offer.keeps_data => {
            Some(format!("target {} keeps no data", offer.name))
        }
        _ => None,
    }
}
