//! Memory limit for frames that are being received, over all connections together.
//!
//! A frame up to [`SMALL_BYTES_MAX`] is received without a reservation. For a larger one the
//! connection reserves its whole length before it reads the bytes. Each member may hold one
//! reservation at a time, and the reservations of all members together have one bound, so
//! memory does not grow with the number of connections. A frame that is being received never
//! waits for more room. A sender that stalls loses its connection, and with it the
//! reservation: see [`Gate::time_for`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use crate::lock::lock;

/// Frames up to this size need no reservation.
pub(crate) const SMALL_BYTES_MAX: usize = 256 << 10;
/// Slowest rate of a sender that is accepted; a slower member could not follow the log.
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;
/// Bytes of one permit of the semaphore.
const UNIT_BYTES: usize = 4 << 10;
/// Streams that a member may have open at a time; a sender of snapshots needs one.
const STREAMS_MAX: usize = 32;

/// The bound for all members together.
#[derive(Debug)]
pub(crate) struct Intake {
    units: Arc<Semaphore>,
    units_max: u32,
    stall_max: Duration,
    /// Runtime for timers, because streams are read under any executor.
    runtime: Handle,
    /// Shares of members with connections.
    shares: Mutex<HashMap<u64, Weak<Share>>>,
}

/// Permits that all connections of one member share.
#[derive(Debug)]
struct Share {
    large_frame: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// Reserves room for the frames of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    intake: Arc<Intake>,
    share: Arc<Share>,
}

/// Reservation for one frame; dropping it frees the room.
#[derive(Debug)]
pub(crate) struct Room {
    _turn: OwnedSemaphorePermit,
    _units: OwnedSemaphorePermit,
}

impl Intake {
    pub fn new(bytes_max: usize, stall_max: Duration, runtime: Handle) -> Intake {
        let units_max = bytes_max.div_ceil(UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        let units_max = u32::try_from(units_max).unwrap_or(u32::MAX);
        Intake {
            units: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
            stall_max,
            runtime,
            shares: Mutex::default(),
        }
    }

    /// Returns the gate for a connection of `member`.
    pub fn gate(self: &Arc<Intake>, member: u64) -> Gate {
        Gate {
            intake: Arc::clone(self),
            share: self.share(member),
        }
    }

    /// Returns a permit for one more stream of `member`, or `None` at the limit. Dropping the
    /// permit frees the place.
    pub fn stream(&self, member: u64) -> Option<impl Sized> {
        let share = self.share(member);
        let place = Arc::clone(&share.streams).try_acquire_owned().ok()?;
        Some((share, place))
    }

    fn share(&self, member: u64) -> Arc<Share> {
        let mut shares = lock(&self.shares);
        if let Some(share) = shares.get(&member).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Share {
            large_frame: Arc::new(Semaphore::new(1)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        });
        shares.insert(member, Arc::downgrade(&share));
        share
    }
}

impl Gate {
    /// Waits until there is room for a frame of `bytes` bytes. Dropping the future reserves
    /// nothing.
    pub async fn room(&self, bytes: usize) -> Room {
        let never_closed = "the semaphores are never closed";
        let turn = Arc::clone(&self.share.large_frame).acquire_owned();
        let turn = turn.await.expect(never_closed);
        // A frame above the bound takes all of it.
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let units = units.min(self.intake.units_max);
        let units = Arc::clone(&self.intake.units).acquire_many_owned(units);
        Room {
            _turn: turn,
            _units: units.await.expect(never_closed),
        }
    }

    /// A sleep of `length` that works under any executor.
    pub fn sleep(&self, length: Duration) -> Sleep {
        let _entered = self.intake.runtime.enter();
        sleep(length)
    }

    /// Longest pause between two reads in the middle of a frame.
    pub fn stall_max(&self) -> Duration {
        self.intake.stall_max
    }

    /// Time limit for the rest of a frame of `bytes` bytes that has begun to arrive.
    pub fn time_for(&self, bytes: usize) -> Duration {
        self.intake.stall_max + Duration::from_secs(bytes as u64 / BYTES_PER_SECOND_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 64 << 20;

    fn intake(bytes_max: usize, stall_max: Duration) -> (tokio::runtime::Runtime, Arc<Intake>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let intake = Intake::new(bytes_max, stall_max, runtime.handle().clone());
        (runtime, Arc::new(intake))
    }

    fn taken(gate: &Gate, bytes: usize) -> Option<Room> {
        let mut future = std::pin::pin!(gate.room(bytes));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(room) => Some(room),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn room_is_one_large_frame_per_member_and_the_bound_for_all_together() {
        let (_runtime, intake) = intake(2 * LARGE, Duration::ZERO);
        let [one, again, two, three] = [1, 1, 2, 3].map(|member| intake.gate(member));
        let first = taken(&one, LARGE).unwrap();
        assert!(taken(&again, LARGE).is_none());
        let second = taken(&two, LARGE).unwrap();
        assert!(taken(&three, LARGE).is_none());
        drop(second);
        assert!(taken(&three, LARGE).is_some());
        drop(first);
        assert!(taken(&again, usize::MAX).is_some(), "all of it");
    }

    #[test]
    fn a_stream_beyond_the_limit_of_its_member_is_refused() {
        let (_runtime, intake) = intake(LARGE, Duration::ZERO);
        let streams: Vec<_> = (0..STREAMS_MAX)
            .map(|_| intake.stream(1).unwrap())
            .collect();
        assert!(intake.stream(1).is_none());
        assert!(intake.stream(2).is_some());
        drop(streams);
        assert!(intake.stream(1).is_some());
    }

    #[test]
    fn time_limit_grows_with_the_size_of_the_frame() {
        let (_runtime, intake) = intake(LARGE, Duration::from_secs(10));
        let gate = intake.gate(1);
        assert_eq!(gate.time_for(100), Duration::from_secs(10));
        assert_eq!(gate.time_for(64 << 20), Duration::from_secs(10 + 1024));
    }
}
