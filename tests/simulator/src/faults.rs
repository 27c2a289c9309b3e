//! Faults of a run, with their probabilities.

use cluster::Mutant;

/// Kind of the clients' requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Requests of all kinds.
    Everything,
    /// Grants and renewals of leases.
    Leases,
    /// Mostly commands that change nothing.
    Nothing,
}

/// Place of the writes that members acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Acknowledged writes are on the members' devices.
    Flushed,
    /// Acknowledged writes are in page caches, and on the devices a little later. A majority
    /// always has everything: where a loss of power would leave too few, the member's process
    /// is killed instead, which keeps its page cache.
    CachedByMost,
    /// The same, but any number of members may lose power. Writes that are on no voter's
    /// device and at no running voter may be lost.
    CachedByAny,
}

/// Faults of a run. Probabilities are in parts of a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Messages that are lost.
    pub drop_permille: u64,
    /// Messages that arrive twice.
    pub double_permille: u64,
    /// Messages that arrive late, and so out of order.
    pub late_permille: u64,
    /// Steps in which the network is cut at a random place, or healed.
    pub cut_permille: u64,
    /// Steps in which a member loses power, between two I/Os or during one.
    pub crash_permille: u64,
    /// Steps in which all members lose power at once, or most of them.
    pub blackout_permille: u64,
    /// Steps in which a member's process is killed; its page cache survives.
    pub kill_permille: u64,
    /// Steps in which a member is paused for a while.
    pub pause_permille: u64,
    /// Steps in which a disk becomes slow for a while.
    pub slow_disk_permille: u64,
    /// Steps in which a member is stopped in an orderly way: it hands over the lead and
    /// finishes its commands, and starts again later.
    pub stop_permille: u64,
    /// Steps in which the leader is asked to transfer the lead.
    pub transfer_permille: u64,
    /// Steps in which the operator may change the membership: members join as learners or
    /// voters, are promoted and removed.
    pub membership_permille: u64,
    /// Steps in which the leader's messages no longer reach the others.
    pub isolate_permille: u64,
    /// Steps in which a follower is cut from the leader; a little later, the followers that
    /// still hear the leader lose power, and the leader is alone.
    pub strand_permille: u64,
    /// Steps in which the hostile peer sends a frame to a member.
    pub hostile_permille: u64,
    /// Frames in which a bit is flipped on the way; their checksums detect it.
    pub flip_permille: u64,
    /// Messages of the member with bad memory in which a bit is flipped before the checksum
    /// is computed. With 0 there is no such member.
    pub bad_memory_permille: u64,
    /// The member with bad memory is a voter rather than a learner, which Raft does not
    /// tolerate.
    pub bad_memory_votes: bool,
    /// Steps in which a member, or all of them, run out of disk space, of their quota or of
    /// descriptors for a while.
    pub shortage_permille: u64,
    /// Greatest time between a loss of power and the restart of the member.
    pub restart_milliseconds_max: u64,
    /// Greatest constant deviation of the speed of a member's clock.
    pub drift_permille: u64,
    /// Leaders read under a lease.
    pub lease_reads: bool,
    pub keeping: Keeping,
    pub work: Work,
    /// A rule that all members break, to prove that the judge detects it.
    pub mutant: Option<Mutant>,
}

impl Faults {
    /// No faults; messages have small random delays.
    pub const NONE: Faults = Faults {
        drop_permille: 0,
        double_permille: 0,
        late_permille: 0,
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

    /// Many faults of most kinds.
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
