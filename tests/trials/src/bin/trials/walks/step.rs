//! What a walk is made of: steps that name members by their slot, so that the
//! same list is performed on any system. Ids, addresses and the leader are each
//! system's own.

use std::fmt;

/// The most members a walk has at one time.
pub const SLOTS: usize = 5;
/// Names of the members, by slot.
pub const NAMES: [&str; SLOTS] = ["a", "b", "c", "d", "e"];

/// Number of a member's place.
pub type Slot = usize;
/// Number of a peer address; each system has its own ports for them.
pub type Address = usize;
/// The member that a call is about; `None`: an id that no member has.
pub type Target = Option<Slot>;

/// The member that a call is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Leader,
    Follower,
    Slot(Slot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Voter,
    Learner,
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Put,
    /// A linearizable read.
    Get,
    /// A linearizable member list.
    List,
    /// A member for an empty slot.
    Add(Slot, Role, Address),
    /// A learner at the address of this member.
    AddTaken(Slot),
    /// Another address for the member.
    Update(Target, Address),
    /// For the first member the address of the second.
    UpdateTaken(Slot, Slot),
    Promote(Target),
    Remove(Target),
    /// The lead is moved to the member first.
    RemoveLeader(Slot),
    MoveLeader(Slot),
}

impl Call {
    /// What the report calls it.
    pub fn kind(self) -> &'static str {
        match self {
            Call::Put => "put",
            Call::Get => "linearizable get",
            Call::List => "member list",
            Call::Add(_, Role::Learner, _) => "member add --learner",
            Call::Add(_, Role::Voter, _) => "member add",
            Call::AddTaken(_) => "member add, address taken",
            Call::Update(Some(_), _) => "member update",
            Call::Update(None, _) => "member update, unknown id",
            Call::UpdateTaken(..) => "member update, address taken",
            Call::Promote(Some(_)) => "member promote",
            Call::Promote(None) => "member promote, unknown id",
            Call::Remove(Some(_)) => "member remove",
            Call::Remove(None) => "member remove, unknown id",
            Call::RemoveLeader(_) => "member remove, the leader",
            Call::MoveLeader(_) => "move-leader",
        }
    }

    /// The members differ after it is done.
    pub fn changes_members(self) -> bool {
        !matches!(
            self,
            Call::Put | Call::Get | Call::List | Call::MoveLeader(_)
        )
    }

    /// The member that it removes.
    pub fn removes(self) -> Target {
        match self {
            Call::Remove(target) => target,
            Call::RemoveLeader(slot) => Some(slot),
            _ => None,
        }
    }
}

/// How a process comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// SIGKILL.
    Killed,
    /// SIGTERM.
    Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Kill(Slot),
    /// The lead is moved to the member first.
    KillLeader(Slot),
    /// Starts a member that is down, at the address that the member list has.
    Start(Slot),
    /// Starts the process of a removed member in its directory, with its old flags: it
    /// must end, and do no harm.
    Haunt(Slot),
    /// Ends a member that runs and starts it at the address that the member list has.
    Restart(Slot, Ending),
    Call(Call, At),
    /// Every member that runs catches up, and takes reads and writes.
    Check,
}

impl Step {
    /// The member that is made the leader before the step.
    pub fn leader(self) -> Target {
        match self {
            Step::KillLeader(slot) | Step::Call(Call::RemoveLeader(slot), _) => Some(slot),
            _ => None,
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Leader => write!(formatter, "at the leader"),
            At::Follower => write!(formatter, "at a follower"),
            At::Slot(slot) => write!(formatter, "at {}", NAMES[*slot]),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let member = |target: Target| target.map_or("an unknown id", |slot| NAMES[slot]);
        match *self {
            Call::Put => write!(formatter, "put"),
            Call::Get => write!(formatter, "get"),
            Call::List => write!(formatter, "list"),
            Call::Add(slot, role, address) => {
                let (name, role) = (NAMES[slot], format!("{role:?}").to_lowercase());
                write!(formatter, "add {name} as {role} with address {address}")
            }
            Call::AddTaken(of) => write!(formatter, "add at the address of {}", NAMES[of]),
            Call::Update(target, address) => {
                write!(formatter, "update {} to address {address}", member(target))
            }
            Call::UpdateTaken(slot, of) => {
                let (name, of) = (NAMES[slot], NAMES[of]);
                write!(formatter, "update {name} to the address of {of}")
            }
            Call::Promote(target) => write!(formatter, "promote {}", member(target)),
            Call::Remove(target) => write!(formatter, "remove {}", member(target)),
            Call::RemoveLeader(slot) => write!(formatter, "remove {} while it leads", NAMES[slot]),
            Call::MoveLeader(to) => write!(formatter, "move the lead to {}", NAMES[to]),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Kill(slot) => write!(formatter, "kill {}", NAMES[slot]),
            Step::KillLeader(slot) => write!(formatter, "kill {} while it leads", NAMES[slot]),
            Step::Start(slot) => write!(formatter, "start {}", NAMES[slot]),
            Step::Haunt(slot) => write!(formatter, "start the removed {}", NAMES[slot]),
            Step::Restart(slot, Ending::Killed) => {
                write!(formatter, "restart {} (kill -9)", NAMES[slot])
            }
            Step::Restart(slot, Ending::Asked) => {
                write!(formatter, "restart {} (SIGTERM)", NAMES[slot])
            }
            Step::Call(call, at) => write!(formatter, "{call} {at}"),
            Step::Check => write!(formatter, "check"),
        }
    }
}
