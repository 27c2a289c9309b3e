//! What a walk is made of: steps that name members by their slot, so that the
//! same list is performed on any system. Ids, addresses and the leader are each
//! system's own.

use std::fmt;

/// The most members a walk has at one time.
pub const SLOTS: usize = 5;
/// Names of the members, by slot.
pub const NAMES: [&str; SLOTS] = ["a", "b", "c", "d", "e"];

/// The member that a call is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Leader,
    Follower,
    Slot(usize),
}

/// Number of a peer address; each system has its own ports for them.
pub type Address = usize;

/// The member that a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Slot(usize),
    /// An id that no member has.
    Unknown,
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
    Add {
        slot: usize,
        learner: bool,
        address: Address,
    },
    /// A learner at the address of a member.
    AddTaken {
        of: usize,
    },
    /// Another address for the member.
    Update {
        target: Target,
        address: Address,
    },
    /// The address of another member for the member.
    UpdateTaken {
        slot: usize,
        of: usize,
    },
    Promote(Target),
    /// With `leading` the lead is moved to the member first.
    Remove {
        target: Target,
        leading: bool,
    },
    MoveLeader {
        to: usize,
    },
}

impl Call {
    /// What the report calls it.
    pub fn kind(self) -> &'static str {
        match self {
            Call::Put => "put",
            Call::Get => "linearizable get",
            Call::List => "member list",
            Call::Add { learner: true, .. } => "member add --learner",
            Call::Add { learner: false, .. } => "member add",
            Call::AddTaken { .. } => "member add, address taken",
            Call::Update {
                target: Target::Slot(_),
                ..
            } => "member update",
            Call::Update { .. } => "member update, unknown id",
            Call::UpdateTaken { .. } => "member update, address taken",
            Call::Promote(Target::Slot(_)) => "member promote",
            Call::Promote(Target::Unknown) => "member promote, unknown id",
            Call::Remove { leading: true, .. } => "member remove, the leader",
            Call::Remove {
                target: Target::Slot(_),
                ..
            } => "member remove",
            Call::Remove { .. } => "member remove, unknown id",
            Call::MoveLeader { .. } => "move-leader",
        }
    }

    /// The members differ after it is done.
    pub fn changes_members(self) -> bool {
        !matches!(
            self,
            Call::Put | Call::Get | Call::List | Call::MoveLeader { .. }
        )
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
    /// With `leading` the lead is moved to the member first.
    Kill {
        slot: usize,
        leading: bool,
    },
    /// Starts a member that is down, at the address that the member list has.
    Start {
        slot: usize,
    },
    /// Starts the process of a removed member in its directory, with its old flags: it
    /// must end, and do no harm.
    Haunt {
        slot: usize,
    },
    /// Ends a member that runs and starts it at the address that the member list has.
    Restart {
        slot: usize,
        ending: Ending,
    },
    Call {
        call: Call,
        at: At,
    },
    /// Every member that runs catches up, and takes reads and writes.
    Check,
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

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Slot(slot) => write!(formatter, "{}", NAMES[*slot]),
            Target::Unknown => write!(formatter, "an unknown id"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Put => write!(formatter, "put"),
            Call::Get => write!(formatter, "get"),
            Call::List => write!(formatter, "list"),
            Call::Add {
                slot,
                learner,
                address,
            } => {
                let role = if *learner { "learner" } else { "voter" };
                write!(
                    formatter,
                    "add {} as {role} with address {address}",
                    NAMES[*slot]
                )
            }
            Call::AddTaken { of } => write!(formatter, "add at the address of {}", NAMES[*of]),
            Call::Update { target, address } => {
                write!(formatter, "update {target} to address {address}")
            }
            Call::UpdateTaken { slot, of } => {
                let (slot, of) = (NAMES[*slot], NAMES[*of]);
                write!(formatter, "update {slot} to the address of {of}")
            }
            Call::Promote(target) => write!(formatter, "promote {target}"),
            Call::Remove { target, leading } => {
                let lead = if *leading { " while it leads" } else { "" };
                write!(formatter, "remove {target}{lead}")
            }
            Call::MoveLeader { to } => write!(formatter, "move the lead to {}", NAMES[*to]),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Kill { slot, leading } => {
                let lead = if *leading { " while it leads" } else { "" };
                write!(formatter, "kill {}{lead}", NAMES[*slot])
            }
            Step::Start { slot } => write!(formatter, "start {}", NAMES[*slot]),
            Step::Haunt { slot } => write!(formatter, "start the removed {}", NAMES[*slot]),
            Step::Restart { slot, ending } => {
                let how = match ending {
                    Ending::Killed => "kill -9",
                    Ending::Asked => "SIGTERM",
                };
                write!(formatter, "restart {} ({how})", NAMES[*slot])
            }
            Step::Call { call, at } => write!(formatter, "{call} {at}"),
            Step::Check => write!(formatter, "check"),
        }
    }
}
