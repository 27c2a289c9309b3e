//! The cluster of a trial: three members and a place for a fourth, each behind a
//! proxy, with its own disk and clock.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use etcd_api::etcdserverpb::{
    AlarmRequest, StatusResponse, alarm_request::AlarmAction, maintenance_client::MaintenanceClient,
};
use harness::{MemberConfig, Program, initial_cluster};
use tokio::{net::TcpListener, time::timeout};
use tonic::transport::Channel;

use super::{
    clock::{Shim, SkewedClock},
    kinds::{Kind, Missing},
    links::{Links, PLACES},
};
use crate::{
    client,
    member::{Member, Standing},
    process::{Outcome, is_root},
    recorder::Recorder,
    volume::{self, Volume},
};

/// Number of members while there is no fault.
pub const MEMBERS: usize = 3;
const NAMES: [&str; PLACES] = ["a", "b", "c", "d"];
/// Size of a disk. The image is sparse; a trial writes some hundred MiB.
const DISK_BYTES: u64 = 4 << 30;
/// Time limit for the status of a member.
const STATUS_TIME: Duration = Duration::from_millis(700);

/// Directories and tools of a trial.
pub struct Ground {
    folder: tempfile::TempDir,
    disks: Vec<Volume>,
    shim: Option<Shim>,
    missing: Missing,
}

/// A cluster under test.
pub struct Trial {
    /// One for each place; not all of them are members at present.
    pub members: Vec<Arc<Member>>,
    /// The root of each member's data; a separate file system if the trial runs as root.
    pub roots: Vec<PathBuf>,
    pub clocks: Vec<SkewedClock>,
    pub links: Arc<Links>,
    pub recorder: Arc<Recorder>,
    /// Faults that cannot be injected on this machine.
    pub missing: Mutex<Missing>,
    /// Present faults.
    pub now: Mutex<Vec<Kind>>,
    /// Lock for changes of the member list.
    pub changing: tokio::sync::Mutex<()>,
}

impl Ground {
    /// Prepares the disks, if this process may mount, and the library for the clocks. Must be
    /// called before any other thread starts.
    pub fn prepare(only: &[Kind]) -> Outcome<Ground> {
        let mut missing = Missing::default();
        missing.keep_only(only);
        let mut disks = Vec::new();
        if is_root() {
            volume::enter_private_namespace()?;
            for _ in NAMES {
                disks.push(Volume::create(DISK_BYTES)?);
            }
        } else {
            let why = "needs root, for a file system of its own";
            missing.leave_out(&[Kind::FullDisk], why);
        }
        let folder = tempfile::tempdir()?;
        let shim = Shim::build(folder.path());
        if let Err(error) = &shim {
            eprintln!("{error}");
            let why = "needs a C compiler called cc";
            missing.leave_out(&[Kind::ClockRate, Kind::WallJump], why);
        }
        let strace = std::process::Command::new("strace").arg("-V").output();
        if strace.is_err() {
            missing.leave_out(&[Kind::SlowDisk], "needs strace");
        }
        Ok(Ground {
            folder,
            disks,
            shim: shim.ok(),
            missing,
        })
    }

    /// Keeps all files for inspection, and returns their paths.
    pub fn keep(mut self) -> Vec<PathBuf> {
        let disks = self.disks.iter_mut().map(Volume::keep);
        let mut kept: Vec<PathBuf> = disks.collect();
        kept.push(self.folder.keep());
        kept
    }
}

impl Trial {
    /// Creates and starts a cluster.
    pub async fn begin(
        program: &Program,
        ground: &Ground,
        recorder: &Arc<Recorder>,
    ) -> Outcome<Arc<Trial>> {
        let beside = ground.folder.path();
        let ports = harness::ports::reserve(2 * PLACES)?;
        let (mut members, mut roots, mut clocks) = (Vec::new(), Vec::new(), Vec::new());
        let (mut doors, mut configs) = (Vec::new(), Vec::new());
        for (place, name) in NAMES.iter().enumerate() {
            let door = TcpListener::bind("127.0.0.1:0").await?;
            let clock = SkewedClock::new(beside.join(format!("{name}.clock")))?;
            let mut program = program.clone();
            if let Some(shim) = &ground.shim {
                let library = ("LD_PRELOAD".into(), shim.library.clone().into());
                let page = ("FAULTS_CLOCK".into(), clock.path.clone().into());
                program.environment.extend([library, page]);
            }
            let disk = ground.disks.get(place).map(Volume::root);
            let root = disk.unwrap_or_else(|| beside.join(name));
            std::fs::create_dir_all(&root)?;
            let (client, peer) = (ports[2 * place], ports[2 * place + 1]);
            let config = MemberConfig {
                data: root.join("data"),
                client: format!("127.0.0.1:{client}"),
                peer: format!("127.0.0.1:{peer}"),
                advertised_peer: door.local_addr()?.to_string(),
                ..MemberConfig::alone(name, beside)
            };
            members.push(Arc::new(Member::new(program, config.clone())));
            configs.push(config);
            roots.push(root);
            clocks.push(clock);
            doors.push((door, peer));
        }
        let dialers = members.clone();
        let process = |it: &Arc<Member>| it.process().unwrap_or(0);
        let links = Links::new(move || dialers.iter().map(process).collect());
        for (place, (door, behind)) in doors.into_iter().enumerate() {
            tokio::spawn(Arc::clone(&links).serve(place, door, behind));
        }
        let founders = initial_cluster(&configs[..MEMBERS]);
        for member in &members[..MEMBERS] {
            member.meet(founders.clone(), false);
            member.set_standing(Standing::Voter);
            member.start()?;
        }
        Ok(Arc::new(Trial {
            members,
            roots,
            clocks,
            links,
            recorder: Arc::clone(recorder),
            missing: Mutex::new(ground.missing.clone()),
            now: Mutex::default(),
            changing: Default::default(),
        }))
    }

    /// Places of all present members, voters and learners.
    pub fn present(&self) -> Vec<usize> {
        self.standing(|standing| standing != Standing::Absent)
    }

    /// Places of the voters that are not being removed.
    pub fn voters(&self) -> Vec<usize> {
        self.standing(|standing| standing == Standing::Voter)
    }

    /// Places of the members without this one.
    pub fn others(&self, member: usize) -> Vec<usize> {
        let mut others = self.present();
        others.retain(|it| *it != member);
        others
    }

    /// Places of the members with a fitting standing.
    pub fn standing(&self, fits: impl Fn(Standing) -> bool) -> Vec<usize> {
        let fits = |place: &usize| fits(self.members[*place].standing());
        (0..PLACES).filter(fits).collect()
    }

    /// A new connection to a member.
    pub async fn dial(&self, member: usize) -> Outcome<Channel> {
        client::dial(self.members[member].url()).await
    }

    /// Fails if a member has ended by itself; one with a full disk is started again.
    /// Learners and members that are being removed belong to the task that changes the members.
    pub fn look_after_members(&self) -> Outcome {
        for place in self.voters() {
            let member = &self.members[place];
            let Some(how) = member.server().status()? else {
                continue;
            };
            if !member.is_excused() {
                let (name, lines) = (&member.name, member.server().last_lines());
                return Err(format!("member {name} ended by itself: {how}\n{lines}").into());
            }
            self.recorder.count("restart", "after a full disk");
            member.start()?;
        }
        Ok(())
    }

    /// Whether every member uses the clock of the trial. A program that
    /// asks the kernel directly does not, and then clock faults are excluded.
    pub fn look_at_clocks(&self) -> bool {
        let mut voters = self.voters().into_iter();
        let ours = voters.all(|it| self.clocks[it].readings().is_ok_and(|it| it > 0));
        let mut missing = self.missing.lock().expect("no holder panics");
        if !ours && missing.why(Kind::ClockRate).is_none() {
            let why = "the program does not ask the C library for the time";
            missing.leave_out(&[Kind::ClockRate, Kind::WallJump], why);
        }
        ours
    }

    /// Does what an operator would do after an error of a member: restarts it if its log has
    /// failed, and clears an alarm once there is room. Only a member that had a full disk may
    /// report such an error.
    pub async fn mend(&self, place: usize, words: &str) -> Outcome {
        let member = &self.members[place];
        if words.contains("database space exceeded") {
            // Other members may have to be repaired first.
            drop(timeout(STATUS_TIME, self.disarm(place)).await);
        }
        if !words.contains("restart the node") {
            return Ok(());
        }
        if !member.is_excused() {
            return Err(format!("member {} wants a restart: {words}", member.name).into());
        }
        self.recorder.count("restart", "after a full disk");
        member.server().kill()?;
        member.start()
    }

    /// Clears all alarms.
    async fn disarm(&self, member: usize) -> Outcome {
        let mut client = MaintenanceClient::new(self.dial(member).await?);
        let list = AlarmRequest {
            action: AlarmAction::Get.into(),
            ..AlarmRequest::default()
        };
        for alarm in client.alarm(list).await?.into_inner().alarms {
            let take_back = AlarmRequest {
                action: AlarmAction::Deactivate.into(),
                member_id: alarm.member_id,
                alarm: alarm.alarm,
            };
            client.alarm(take_back).await?;
        }
        Ok(())
    }

    /// The status of a member, and its id.
    pub async fn status(&self, member: usize) -> Option<(u64, StatusResponse)> {
        let status = self.members[member].client(STATUS_TIME).status().await;
        let status = status.ok()?;
        Some((status.header.as_ref()?.member_id, status))
    }

    /// The leader of the newest term that a member reports.
    pub async fn leader(&self) -> Option<usize> {
        let mut known = Vec::new();
        for member in self.present() {
            let status = self.status(member).await;
            known.extend(status.map(|(id, status)| (member, id, status)));
        }
        let (.., newest) = known.iter().max_by_key(|(.., it)| it.raft_term)?;
        let leads = known.iter().find(|(_, id, _)| *id == newest.leader);
        leads.map(|it| it.0)
    }
}
