//! What goes wrong in a run, and how often.

use cluster::Mutant;

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Some of everything.
    Everything,
    /// They ask for leases and renew them.
    Leases,
    /// Most of what they do changes nothing.
    Nothing,
}

/// How members keep what they acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It is on their devices.
    Flushed,
    /// It is in their page caches, and on their devices a little later. The power
    /// fails for so few at a time that a majority has everything: where it would be
    /// too many, one loses its process and not its page cache.
    CachedByMost,
    /// The same, and the power fails for as many as chance wants: what no voter's
    /// device had, and no voter that still ran, may be lost.
    CachedByAny,
}

/// Odds, in parts of a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Messages that are lost.
    pub drop_permille: u64,
    /// Messages that come twice.
    pub double_permille: u64,
    /// Messages that come late, and so out of order.
    pub late_permille: u64,
    /// So late at most.
    pub late_milliseconds_max: u64,
    /// Steps in which the network is cut somewhere, or mended.
    pub cut_permille: u64,
    /// Steps in which a member loses power, between two I/Os or amid one.
    pub crash_permille: u64,
    /// Steps in which all members lose power at once, or most of them.
    pub blackout_permille: u64,
    /// Steps in which a member's process is killed, and its page cache is not.
    pub kill_permille: u64,
    /// Steps in which a member stops for a while and then goes on.
    pub pause_permille: u64,
    /// Steps in which a disk becomes slow for a while.
    pub slow_disk_permille: u64,
    /// Steps in which a member is stopped as an operator does it: it hands over
    /// and finishes, and comes back.
    pub stop_permille: u64,
    /// Steps in which a member is asked to hand the lead to another.
    pub transfer_permille: u64,
    /// Steps in which the operator thinks of changing the membership: members
    /// join as learners or voters, are promoted and removed.
    pub membership_permille: u64,
    /// Steps in which nobody hears whoever leads any more.
    pub isolate_permille: u64,
    /// Steps in which a follower hears the leader no more; a little later, those
    /// who hear it still lose power and the leader is alone.
    pub strand_permille: u64,
    /// Steps in which a peer that is no honest member sends something to a member.
    pub hostile_permille: u64,
    /// Frames in which a bit is flipped on the way: their checksums show it.
    pub flip_permille: u64,
    /// Messages of the member with bad memory in which a bit is flipped before their
    /// checksums are made. 0: there is no such member.
    pub bad_memory_permille: u64,
    /// That member is a voter rather than a learner: what Raft does not bear.
    pub bad_memory_votes: bool,
    /// Steps in which a member, or all of them, run out of room, of their quota or of
    /// descriptors for a while.
    pub shortage_permille: u64,
    /// After a loss of power, a member is back within this.
    pub restart_milliseconds_max: u64,
    /// By how much a member's clock may run faster or slower than time, from the
    /// beginning to the end.
    pub drift_permille: u64,
    /// Leaders read under a lease.
    pub lease_reads: bool,
    /// How members keep what they acknowledge.
    pub keeping: Keeping,
    /// What clients do.
    pub work: Work,
    /// A rule that all members break.
    pub mutant: Option<Mutant>,
}

impl Faults {
    /// Nothing goes wrong but delays.
    pub const NONE: Faults = Faults {
        drop_permille: 0,
        double_permille: 0,
        late_permille: 0,
        late_milliseconds_max: 300,
        cut_permille: 0,
        crash_permille: 0,
        blackout_permille: 0,
        kill_permille: 0,
        pause_permille: 0,
        slow_disk_permille: 0,
        stop_permille: 0,
        transfer_permille: 0,
        membership_permille: 0,
        isolate_permille: 0,
        strand_permille: 0,
        hostile_permille: 0,
        flip_permille: 0,
        bad_memory_permille: 0,
        bad_memory_votes: false,
        shortage_permille: 0,
        restart_milliseconds_max: 500,
        drift_permille: 0,
        lease_reads: false,
        keeping: Keeping::Flushed,
        work: Work::Everything,
        mutant: None,
    };

    /// A bad day.
    pub const MANY: Faults = Faults {
        drop_permille: 30,
        double_permille: 20,
        late_permille: 30,
        cut_permille: 3,
        crash_permille: 3,
        pause_permille: 3,
        slow_disk_permille: 3,
        stop_permille: 2,
        transfer_permille: 3,
        membership_permille: 5,
        ..Faults::NONE
    };
}
