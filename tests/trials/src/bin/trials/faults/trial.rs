//! The cluster of a trial: three members and a place for a fourth, each behind a
//! proxy, with its own disk and clock.

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
    member::{Company, Home, Member, Standing},
    recorder::Recorder,
};
use crate::{
    process::{Outcome, is_root},
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
    pub links: Arc<Links>,
    pub recorder: Arc<Recorder>,
    /// Lock for stopping and starting a member.
    pub hands: [Arc<tokio::sync::Mutex<()>>; PLACES],
    /// Members with a full disk at some time since their start.
    excused: [AtomicBool; PLACES],
    /// Faults that cannot be injected on this machine.
    pub missing: Mutex<Missing>,
    /// Number of injected faults of each kind.
    pub done: Mutex<BTreeMap<Kind, u64>>,
    /// Present faults.
    pub now: Mutex<Vec<Kind>>,
    /// Lock for changes of the member list.
    pub changing: tokio::sync::Mutex<()>,
    /// Answers to such changes, with their counts.
    pub changes: Mutex<BTreeMap<String, u64>>,
    /// Members that ended, or had to be restarted, because their disk was full.
    pub ended_for_want_of_room: Mutex<u64>,
}

impl Ground {
    /// Prepares the disks, if this process may mount, and the library for the clocks. Must be
    /// called before any other thread starts.
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
        binary: &Path,
        ground: &Ground,
        recorder: &Arc<Recorder>,
    ) -> Outcome<Arc<Trial>> {
        let ports = harness::ports::reserve(2 * PLACES)?;
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
            let member = Member::new(binary.to_owned(), ground.shim.as_ref(), home)?;
            member.meet(company.clone());
            members.push(Arc::new(member));
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

    /// Starts a member that does not run.
    pub fn start(&self, member: usize) -> Outcome {
        self.excused[member].store(false, Ordering::SeqCst);
        let process = self.members[member].start()?;
        self.links.set_process(member, process);
        Ok(())
    }

    /// Whether its disk was full at some time since its process started.
    pub fn is_excused(&self, member: usize) -> bool {
        self.excused[member].load(Ordering::SeqCst)
    }

    /// Allows the member's process to end or fail because of a full disk, until its next start:
    /// it may detect late that it has no room.
    pub fn excuse(&self, member: usize) {
        self.excused[member].store(true, Ordering::SeqCst);
    }

    /// Fails if a member has ended by itself; one with a full disk is started again.
    /// Learners and members that are being removed belong to the task that changes the members.
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

    /// Whether every member uses the clock of the trial. A program that
    /// asks the kernel directly does not, and then clock faults are excluded.
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

    /// Does what an operator would do after an error of a member: restarts it if its log has
    /// failed, and clears an alarm once there is room. Only a member that had a full disk may
    /// report such an error.
    pub async fn mend(&self, member: usize, words: &str) -> Outcome {
        if words.contains("database space exceeded") {
            let asked = disarm(&self.members[member]);
            // Other members may have to be repaired first.
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

    /// The status of a member.
    pub async fn status(&self, member: usize) -> Option<StatusResponse> {
        let ask = async {
            let channel = dial(&self.members[member]).await?;
            let mut client = MaintenanceClient::new(channel);
            let answer = client.status(StatusRequest {}).await.ok()?;
            Some(answer.into_inner())
        };
        timeout(STATUS_TIME, ask).await.ok()?
    }

    /// The leader of the newest term that a member reports.
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

    /// Asks the leader to hand its lead over; returns false if it could not.
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

/// Clears all alarms; `None` if the member could not be asked.
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
