//! Injects faults and heals them.

use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use environment::randomness::Random;
use harness::Signal;
use history::Request;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, kill_process, prlimit};
use tokio::{
    sync::OwnedMutexGuard,
    time::{Instant, sleep},
};

use super::{
    CALLS_EACH, changes,
    clock::FASTER_PERCENT_MAX,
    kinds::Kind,
    links::{Flows, PLACES},
    trial::Trial,
};
use crate::{caller::Caller, member::Standing, process::Outcome, values};

const MILLISECOND: Duration = Duration::from_millis(1);
const MOVE_TIME: Duration = Duration::from_secs(10);

/// Injects one fault and heals it. Returns false if another fault prevents it.
pub async fn inject(trial: Arc<Trial>, kind: Kind, mut random: Random) -> Outcome<bool> {
    let leads = matches!(
        kind,
        Kind::KillLeader | Kind::PauseLeader | Kind::CutOffLeader | Kind::MoveLeader
    );
    let member = match leads {
        true => trial.leader().await,
        false => Some(*random.pick(&trial.present())),
    };
    let Some(member) = member else {
        return Ok(false);
    };
    match kind {
        Kind::Kill | Kind::KillLeader => kill(&trial, &[member], &mut random).await,
        Kind::KillAll => kill(&trial, &trial.present(), &mut random).await,
        Kind::Stop => stop(&trial, member, &mut random).await,
        Kind::PauseShortly => pause(&trial, member, 50 + random.below(750)).await,
        Kind::PauseLong | Kind::PauseLeader => {
            pause(&trial, member, 1_500 + random.below(5_000)).await
        }
        Kind::CutOff | Kind::CutOffLeader | Kind::Deafen | Kind::Silence | Kind::CutOneWay => {
            cut(&trial, kind, member, &mut random).await
        }
        Kind::Delay => delay(&trial, &mut random).await,
        Kind::SlowDisk => slow_disk(&trial, member, &mut random).await,
        Kind::FullDisk => full_disk(&trial, member, &mut random).await,
        Kind::NoDescriptor => no_descriptor(&trial, member, &mut random).await,
        Kind::ClockRate | Kind::WallJump => clocks(&trial, kind, member, &mut random).await,
        Kind::MoveLeader => {
            let to = *random.pick(&trial.others(member));
            let Some((target, _)) = trial.status(to).await else {
                return Ok(false);
            };
            let leader = trial.members[member].client(MOVE_TIME);
            Ok(leader.move_leader(target).await.is_ok())
        }
        Kind::ReplaceMember => changes::replace(&trial, false, &mut random).await,
        Kind::ReplaceLeader => changes::replace(&trial, true, &mut random).await,
    }
}

async fn some_time(random: &mut Random, least: u64, more: u64) {
    sleep(MILLISECOND * (least + random.below(more)) as u32).await;
}

/// Locks these members for stopping and starting. Returns `None` if another task has locked
/// one of them.
fn take(trial: &Trial, members: &[usize]) -> Option<Vec<OwnedMutexGuard<()>>> {
    let members = members.iter().map(|&it| &trial.members[it]);
    let guards = members.clone().map(|it| it.hand.clone().try_lock_owned());
    let guards = guards.collect::<Result<_, _>>().ok()?;
    let mut standings = members.map(|it| it.standing());
    standings.all(|it| it != Standing::Absent).then_some(guards)
}

async fn kill(trial: &Trial, members: &[usize], random: &mut Random) -> Outcome<bool> {
    let Some(_hands) = take(trial, members) else {
        return Ok(false);
    };
    for &member in members {
        trial.members[member].server().kill()?;
    }
    some_time(random, 10, 4_000).await;
    for &member in members {
        trial.members[member].start()?;
        some_time(random, 0, 500).await;
    }
    Ok(true)
}

async fn stop(trial: &Trial, member: usize, random: &mut Random) -> Outcome<bool> {
    /// A member that takes longer to stop is killed, as an operator would do.
    const PATIENCE: u32 = 200;
    let Some(_hands) = take(trial, &[member]) else {
        return Ok(false);
    };
    let member = &trial.members[member];
    member.signal(Signal::TERM)?;
    for _ in 0..PATIENCE {
        if member.process().is_none() {
            break;
        }
        sleep(50 * MILLISECOND).await;
    }
    member.server().kill()?;
    some_time(random, 0, 2_000).await;
    member.start()?;
    Ok(true)
}

/// Stops a member with SIGSTOP: its connections stay.
async fn pause(trial: &Trial, member: usize, milliseconds: u64) -> Outcome<bool> {
    let Some(_hands) = take(trial, &[member]) else {
        return Ok(false);
    };
    trial.members[member].signal(Signal::STOP)?;
    sleep(MILLISECOND * milliseconds as u32).await;
    trial.members[member].signal(Signal::CONT)?;
    Ok(true)
}

async fn cut(trial: &Trial, kind: Kind, member: usize, random: &mut Random) -> Outcome<bool> {
    let (outward, inward) = flows(member);
    let flows = match kind {
        Kind::Deafen => inward,
        Kind::Silence => outward,
        Kind::CutOneWay => vec![*random.pick(&[outward, inward].concat())],
        _ => [outward, inward].concat(),
    };
    let _cut = trial.links.cut(flows, random.chance(1, 3));
    some_time(random, 200, 6_000).await;
    Ok(true)
}

/// All flows from a member, and all to it.
pub fn flows(member: usize) -> (Flows, Flows) {
    let others = (0..PLACES).filter(|it| *it != member);
    let both = others.map(|other| ((member, other), (other, member)));
    both.unzip()
}

async fn delay(trial: &Trial, random: &mut Random) -> Outcome<bool> {
    let late = || MILLISECOND * random.below(250) as u32;
    trial.links.delay(late);
    some_time(random, 500, 6_000).await;
    trial.links.delay(|| Duration::ZERO);
    Ok(true)
}

/// Delays each durable write with strace.
async fn slow_disk(trial: &Trial, member: usize, random: &mut Random) -> Outcome<bool> {
    let Some(process) = trial.members[member].process() else {
        return Ok(false);
    };
    let microseconds = 1_000 * (5 + random.below(300));
    let calls = "pwritev2,fdatasync,fsync";
    let mut tracer = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e"])
        .arg(format!("trace={calls}"))
        .arg("-e")
        .arg(format!("inject={calls}:delay_exit={microseconds}"))
        .args(["-p", &process.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start strace: {error}"))?;
    some_time(random, 500, 6_000).await;
    // strace detaches from the member, which continues to run or has ended.
    let _ = kill_process(Pid::from_child(&tracer), Signal::TERM);
    tokio::task::spawn_blocking(move || tracer.wait()).await??;
    Ok(true)
}

/// Fills the disk with a file and then puts large values, because the log has some
/// segments in reserve.
async fn full_disk(trial: &Trial, member: usize, random: &mut Random) -> Outcome<bool> {
    let ballast = trial.roots[member].join("ballast");
    if ballast.exists() {
        return Ok(false);
    }
    trial.members[member].set_full_disk(true);
    fill(&ballast)?;
    write_much(trial, member, random).await;
    std::fs::remove_file(&ballast)?;
    trial.members[member].set_full_disk(false);
    Ok(true)
}

/// Lowers the descriptor limit so that the process can open no file; the member must survive
/// that.
async fn no_descriptor(trial: &Trial, member: usize, random: &mut Random) -> Outcome<bool> {
    let process = trial.members[member].process();
    let Some(process) = process.and_then(|it| Pid::from_raw(it.cast_signed())) else {
        return Ok(false);
    };
    let limit = |limit| prlimit(Some(process), Resource::Nofile, limit);
    let least = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    // The process may have ended by now, and its successor has its own limit.
    let Ok(before) = limit(least) else {
        return Ok(false);
    };
    // Another fault of this kind holds this member's limit, and restores it.
    if before.current == least.current {
        return Ok(false);
    }
    write_much(trial, member, random).await;
    let _ = limit(before);
    Ok(true)
}

/// Puts large values to one key, through any member, for some seconds.
async fn write_much(trial: &Trial, member: usize, random: &mut Random) {
    const CLIENT: u32 = 400;
    let client = CLIENT + member as u32;
    let seed = random.next_u64();
    let mut caller = Caller::new(client, CALLS_EACH, &trial.members, &trial.recorder, seed);
    let end = Instant::now() + MILLISECOND * (1_000 + random.below(6_000)) as u32;
    while Instant::now() < end {
        // The moment makes each value different, whichever fault this is.
        let moment = trial.recorder.moment();
        let bytes = 64 << 10 | random.below(256 << 10);
        let put = Request::Put {
            key: format!("large/{member}"),
            value: values::name(client, moment, bytes),
            lease: 0,
            previous: false,
        };
        caller.call(put, MILLISECOND * 1_500).await;
        sleep(20 * MILLISECOND).await;
    }
}

fn fill(ballast: &Path) -> Outcome {
    const LEAST_BYTES: u64 = 4096;
    let file = File::create(ballast)?;
    let (mut length, mut part) = (0, 1 << 30);
    while part >= LEAST_BYTES {
        match fallocate(&file, FallocateFlags::empty(), length, part) {
            Ok(()) => length += part,
            Err(rustix::io::Errno::NOSPC) => part /= 2,
            Err(error) => return Err(format!("{}: {error}", ballast.display()).into()),
        }
    }
    Ok(())
}

/// Makes the clock of a member run at another rate, or jump, for some seconds.
async fn clocks(trial: &Trial, kind: Kind, member: usize, random: &mut Random) -> Outcome<bool> {
    let clock = &trial.clocks[member];
    let mut around_zero = |most: u64| random.below(2 * most + 1) as i64 - most as i64;
    match kind {
        Kind::ClockRate => clock.set(around_zero(FASTER_PERCENT_MAX * 10_000), 0)?,
        _ => clock.set(0, around_zero(3_600) * 1_000_000_000)?,
    }
    some_time(random, 1_000, 7_000).await;
    clock.set(0, 0)?;
    Ok(true)
}
