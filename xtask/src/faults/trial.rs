//! The cluster of a trial: three members and a place for a fourth, each behind a
//! proxy, on a disk and with a clock of its own.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use etcd_api::etcdserverpb::{
    AlarmRequest, MoveLeaderRequest, StatusRequest, StatusResponse, alarm_request::AlarmAction,
    maintenance_client::MaintenanceClient,
};
use tokio::time::timeout;

use super::{
    call::dial,
    clock::Shim,
    kinds::{Kind, Missing},
    links::{Links, PLACES},
    member::{Company, Home, Member, Plan, Standing},
    recorder::Recorder,
};
use crate::{
    power_cut::volume::{self, Volume},
    process::{Outcome, is_root},
};

/// Of the cluster, whenever nothing is wrong.
pub const MEMBERS: usize = 3;
const NAMES: [&str; PLACES] = ["a", "b", "c", "d"];
/// Sparse; a trial writes some hundred MiB.
const DISK_BYTES: u64 = 4 << 30;
/// A member that says nothing for so long says nothing.
const STATUS_TIME: Duration = Duration::from_millis(700);

/// Where everything of a trial is.
pub struct Ground {
    folder: tempfile::TempDir,
    disks: Vec<Volume>,
    shim: Option<Shim>,
    missing: Missing,
}

/// A cluster under test.
pub struct Trial {
    /// One for each place; not all are members now.
    pub members: Vec<Arc<Member>>,
    pub links: Arc<Links>,
    pub recorder: Arc<Recorder>,
    /// Held by whoever stops and starts a member.
    pub hands: [Arc<tokio::sync::Mutex<()>>; PLACES],
    /// Members whose disk was full since they were started.
    excused: [AtomicBool; PLACES],
    /// What is not tried here.
    pub missing: Mutex<Missing>,
    /// How often each kind was done.
    pub done: Mutex<BTreeMap<Kind, u64>>,
    /// What goes wrong now.
    pub now: Mutex<Vec<Kind>>,
    /// Held by whoever changes who is a member.
    pub changing: tokio::sync::Mutex<()>,
    /// What such changes were answered with, and how often.
    pub changes: Mutex<BTreeMap<String, u64>>,
    /// Members that ended, or had to be restarted, because their disk was full.
    pub ended_for_want_of_room: Mutex<u64>,
}

impl Ground {
    /// Disks, if we may mount, and the library for the clocks. To be called
    /// before any other thread starts.
    pub fn prepare() -> Outcome<Ground> {
        let mut missing = Missing::default();
        let mut disks = Vec::new();
        if is_root() {
            volume::enter_private_namespace()?;
            for _ in NAMES {
                disks.push(Volume::of_bytes(DISK_BYTES)?);
            }
        } else {
            let why = "needs root, for a file system of its own";
            missing.leave_out(Kind::FullDisk, why);
        }
        let folder = tempfile::tempdir()?;
        let shim = Shim::build(folder.path());
        if let Err(error) = &shim {
            eprintln!("{error}");
            let why = "needs a C compiler called cc";
            missing.leave_out(Kind::ClockRate, why);
            missing.leave_out(Kind::WallJump, why);
        }
        let strace = std::process::Command::new("strace").arg("-V").output();
        if strace.is_err() {
            missing.leave_out(Kind::SlowDisk, "needs strace");
        }
        Ok(Ground {
            folder,
            disks,
            shim: shim.ok(),
            missing,
        })
    }

    fn root(&self, member: usize) -> Outcome<PathBuf> {
        match self.disks.get(member) {
            Some(disk) => Ok(disk.root()),
            None => {
                let root = self.folder.path().join(NAMES[member]);
                std::fs::create_dir(&root)?;
                Ok(root)
            }
        }
    }

    /// Leaves everything for people to look at.
    pub fn keep(mut self) -> Vec<PathBuf> {
        let disks = self.disks.iter_mut().map(Volume::keep);
        let mut kept: Vec<PathBuf> = disks.collect();
        kept.push(self.folder.keep());
        kept
    }
}

impl Trial {
    /// A new cluster, started.
    pub async fn begin(
        binary: &Path,
        ground: &Ground,
        recorder: &Arc<Recorder>,
    ) -> Outcome<Arc<Trial>> {
        let ports = free_ports::reserve(2 * PLACES)?;
        let mut doors = Vec::new();
        for _ in NAMES {
            let door = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            doors.push((door.local_addr()?.port(), door));
        }
        let founders = NAMES.iter().zip(&doors).take(MEMBERS);
        let founders = founders.map(|(name, (port, _))| format!("{name}=http://127.0.0.1:{port}"));
        let company = Company {
            initial_cluster: founders.collect::<Vec<_>>().join(","),
            exists: false,
        };
        let plan = Plan {
            binary: binary.to_owned(),
            shim: ground.shim.clone(),
        };
        let links = Links::new();
        let mut members = Vec::new();
        for (index, (door_port, door)) in doors.into_iter().enumerate() {
            let home = Home {
                name: NAMES[index],
                root: ground.root(index)?,
                beside: ground.folder.path().to_owned(),
                client_port: ports[2 * index],
                door_port,
                listen_port: ports[2 * index + 1],
            };
            let behind = home.listen_port;
            members.push(Arc::new(Member::new(&plan, home, company.clone())?));
            tokio::spawn(Arc::clone(&links).serve(index, door, behind));
        }
        let trial = Arc::new(Trial {
            members,
            links,
            recorder: Arc::clone(recorder),
            hands: Default::default(),
            excused: Default::default(),
            missing: Mutex::new(ground.missing.clone()),
            done: Mutex::default(),
            now: Mutex::default(),
            changing: Default::default(),
            changes: Mutex::default(),
            ended_for_want_of_room: Mutex::default(),
        });
        for member in 0..MEMBERS {
            trial.members[member].set_standing(Standing::Voter);
            trial.start(member)?;
        }
        Ok(trial)
    }

    /// Whoever is a member, voting or not.
    pub fn present(&self) -> Vec<usize> {
        self.standing(|standing| standing != Standing::Absent)
    }

    /// Whoever votes and is to stay.
    pub fn voters(&self) -> Vec<usize> {
        self.standing(|standing| standing == Standing::Voter)
    }

    /// Members, but for this one.
    pub fn others(&self, member: usize) -> Vec<usize> {
        let mut others = self.present();
        others.retain(|it| *it != member);
        others
    }

    /// The places of those who stand so.
    pub fn standing(&self, fits: impl Fn(Standing) -> bool) -> Vec<usize> {
        let fits = |place: &usize| fits(self.members[*place].standing());
        (0..PLACES).filter(fits).collect()
    }

    /// Starts a member that does not run.
    pub fn start(&self, member: usize) -> Outcome {
        self.excused[member].store(false, Ordering::SeqCst);
        let process = self.members[member].start()?;
        self.links.set_process(member, process);
        Ok(())
    }

    /// Its disk was full in this process's life.
    pub fn is_excused(&self, member: usize) -> bool {
        self.excused[member].load(Ordering::SeqCst)
    }

    /// A member whose disk was full may end or fail for as long as this process
    /// lives: it may find out late that it has no room.
    pub fn excuse(&self, member: usize) {
        self.excused[member].store(true, Ordering::SeqCst);
    }

    /// Nobody may have ended but by our hand; who had no room is started again.
    /// Newcomers and leavers are looked after by whoever changes the members.
    pub fn look_after_members(&self) -> Outcome {
        for index in self.voters() {
            let member = &self.members[index];
            let excused = self.is_excused(index);
            let (is_gone, how) = member.reap()?;
            if !is_gone {
                continue;
            }
            if !excused {
                let how = how.unwrap_or_default();
                let words = member.last_words();
                return Err(
                    format!("member {} ended by itself: {how}\n{words}", member.name).into(),
                );
            }
            *self
                .ended_for_want_of_room
                .lock()
                .expect("no holder panics") += 1;
            self.start(index)?;
        }
        Ok(())
    }

    /// Whether every member lives by the clock that we gave it; a program that
    /// asks the kernel by itself does not, and its clocks are left alone.
    pub fn look_at_clocks(&self) -> bool {
        let voters = self.voters().into_iter();
        let mut readings = voters.map(|it| self.members[it].clock.readings());
        let ours = readings.all(|it| it.is_ok_and(|it| it > 0));
        let mut missing = self.missing.lock().expect("no holder panics");
        if !ours && missing.0.iter().all(|(kind, _)| *kind != Kind::ClockRate) {
            let why = "the program does not ask the C library for the time";
            missing.leave_out(Kind::ClockRate, why);
            missing.leave_out(Kind::WallJump, why);
        }
        ours
    }

    /// What an operator does about a member's words: one whose log has failed is
    /// restarted, and an alarm is taken back once there is room. Only a member
    /// whose disk was full may say so.
    pub async fn mend(&self, member: usize, words: &str) -> Outcome {
        if words.contains("database space exceeded") {
            let asked = disarm(&self.members[member]);
            // Others may have to be mended first.
            drop(timeout(STATUS_TIME, asked).await);
        }
        if !words.contains("restart the node") {
            return Ok(());
        }
        if !self.is_excused(member) {
            let name = self.members[member].name;
            return Err(format!("member {name} wants a restart: {words}").into());
        }
        self.members[member].kill()?;
        self.start(member)?;
        *self
            .ended_for_want_of_room
            .lock()
            .expect("no holder panics") += 1;
        Ok(())
    }

    /// What a member says of itself.
    pub async fn status(&self, member: usize) -> Option<StatusResponse> {
        let ask = async {
            let channel = dial(&self.members[member]).await?;
            let mut client = MaintenanceClient::new(channel);
            let answer = client.status(StatusRequest {}).await.ok()?;
            Some(answer.into_inner())
        };
        timeout(STATUS_TIME, ask).await.ok()?
    }

    /// The member that leads, as far as the newest term knows.
    pub async fn leader(&self) -> Option<usize> {
        let mut statuses = Vec::new();
        for member in self.present() {
            statuses.push((member, self.status(member).await));
        }
        let known = statuses
            .into_iter()
            .filter_map(|(member, it)| Some((member, it?)));
        let known: Vec<(usize, StatusResponse)> = known.collect();
        let newest = known.iter().map(|it| &it.1).max_by_key(|it| it.raft_term)?;
        let mut leads = known.iter().filter(|it| id(&it.1) == Some(newest.leader));
        leads.next().map(|it| it.0)
    }

    /// Asks the leader to hand over; false: it could not.
    pub async fn move_leader(&self, from: usize, to: usize) -> Outcome<bool> {
        let Some(target) = self.status(to).await.and_then(|it| id(&it)) else {
            return Ok(false);
        };
        let Some(channel) = dial(&self.members[from]).await else {
            return Ok(false);
        };
        let mut client = MaintenanceClient::new(channel);
        let request = MoveLeaderRequest { target_id: target };
        Ok(client.move_leader(request).await.is_ok())
    }
}

/// Takes back all alarms; `None`: it did not come to that.
async fn disarm(member: &Member) -> Option<()> {
    let mut client = MaintenanceClient::new(dial(member).await?);
    let list = AlarmRequest {
        action: AlarmAction::Get.into(),
        ..AlarmRequest::default()
    };
    let listed = client.alarm(list).await.ok()?.into_inner();
    for alarm in &listed.alarms {
        let take_back = AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id: alarm.member_id,
            alarm: alarm.alarm,
        };
        client.alarm(take_back).await.ok()?;
    }
    Some(())
}

fn id(status: &StatusResponse) -> Option<u64> {
    status.header.as_ref().map(|header| header.member_id)
}
