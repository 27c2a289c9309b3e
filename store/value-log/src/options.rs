//! Options of a log.

use crate::{Blocks, Error};

/// Smallest segment: tests and tools.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Largest segment: as far as a [`crate::Position`] reaches.
pub const SEGMENT_BYTES_MAX: u64 = 128 << 20;
const GROUP_BYTES_MIN: usize = 16 << 10;
const GROUP_BYTES_MAX: usize = 64 << 20;

/// When a group counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// On stable storage: survives power loss.
    #[default]
    Durable,
    /// In the page cache: survives the process, not the machine. Flushed when
    /// a segment is left and at close.
    Os,
}

impl Durability {
    /// How the blocks of a log's segments are made ready. Where each group is flushed, blocks
    /// are written first, so that a flush is one flush; elsewhere that would double the work
    /// of the device.
    pub(crate) fn blocks(self) -> Blocks {
        match self {
            Durability::Durable => Blocks::Written,
            Durability::Os => Blocks::Reserved,
        }
    }
}

/// What ends a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Seal {
    /// Many producers share the open group; it is sealed as soon as the
    /// device is idle.
    #[default]
    WhenIdle,
    /// Each [`crate::Log::append_group`] is a frame of its own.
    Explicit,
}

/// The threads that do the log's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Worker {
    /// Two threads of its own: one writes and flushes, one makes segments.
    #[default]
    Threads,
    /// The calling threads: nothing is written before a call of [`crate::Log::work`], or one
    /// that has to wait for a write. For simulations: one thread does everything, in
    /// an order that a seed decides.
    Caller,
    /// The calling threads write, but a thread of the log makes segments. For few and short
    /// writes that do not wait for the device: no thread has to be woken.
    CallerWithPool,
}

impl Worker {
    /// Whether groups are written by the threads that call [`crate::Log::work`].
    pub(crate) fn is_caller(self) -> bool {
        self != Worker::Threads
    }

    /// Whether a thread makes segments.
    pub(crate) fn pool_has_thread(self) -> bool {
        self != Worker::Caller
    }
}

/// How to open a log. `Options::default()` is durable and shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a new segment: a power of two, 64 KiB to 128 MiB. A directory
    /// that holds segments already keeps their size.
    pub segment_bytes: u64,
    /// Segments made ahead, at least 1, so that a commit never waits for one
    /// and never meets a full disk.
    pub spare_segments: usize,
    /// A new log takes room on the disk as it grows, up to twice what it holds, until its first
    /// segment is full. Otherwise, and from then on, segments take their whole room when they are
    /// made. While a log is small, a full disk is met earlier, and some groups wait for the file
    /// system's journal. With [`Durability::Os`] the segments that follow grow as well, while the
    /// disk has much room: that takes no flush.
    pub starts_small: bool,
    /// When a group counts as done.
    pub durability: Durability,
    /// Size of one group buffer (there are two). A larger append is slower: it is
    /// copied once more. A buffer is never larger than a segment.
    pub group_bytes_max: usize,
    /// What ends a group.
    pub seal: Seal,
    /// Free space on the file system that making segments never touches, except
    /// segments that a relocation fills.
    pub reserve_bytes: u64,
    /// The threads that do the log's work.
    pub worker: Worker,
    /// Random number that tells the frames of a new log from bytes that only look like some;
    /// `None`: drawn from the kernel. A log keeps the one it was made with.
    pub salt: Option<u64>,
    /// Recovery shows groups with damaged records too ([`crate::Group::damaged`]), where
    /// the frame's header proves which records it was written with. The visitor may refuse
    /// them. Without this option such a group makes the opening fail.
    pub shows_damaged_groups: bool,
    /// Recovery accepts frames without verifying them. This breaks the log, for
    /// simulations that must notice it.
    #[doc(hidden)]
    pub accepts_torn_frames: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            spare_segments: 2,
            starts_small: true,
            durability: Durability::Durable,
            group_bytes_max: 2 << 20,
            seal: Seal::WhenIdle,
            reserve_bytes: 64 << 20,
            worker: Worker::Threads,
            salt: None,
            shows_damaged_groups: false,
            accepts_torn_frames: false,
        }
    }
}

impl Options {
    /// Sets when a group counts as done, and how many segments are made ahead for that, which
    /// replaces a number that was set before. Where
    /// no group waits for a flush, a segment is only reserved and never recycled, so one
    /// is enough, and a second would be room on the disk for nothing.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
        self.spare_segments = match durability {
            Durability::Durable => Options::default().spare_segments,
            Durability::Os => 1,
        };
    }

    /// Refuses what cannot work, naming the option.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let bytes = self.segment_bytes;
        if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
            return Err(Error::Option {
                name: "segment_bytes",
                value: bytes,
                accepted: "a power of two from 65536 to 134217728",
            });
        }
        if self.spare_segments == 0 {
            return Err(Error::Option {
                name: "spare_segments",
                value: 0,
                accepted: "1 or more",
            });
        }
        if !(GROUP_BYTES_MIN..=GROUP_BYTES_MAX).contains(&self.group_bytes_max) {
            return Err(Error::Option {
                name: "group_bytes_max",
                value: self.group_bytes_max as u64,
                accepted: "16384 to 67108864",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_flushes_has_one_segment_ready_and_one_with_them_its_usual_number() {
        let mut options = Options::default();
        let usual = options.spare_segments;
        options.set_durability(Durability::Os);
        assert_eq!(
            (options.durability, options.spare_segments),
            (Durability::Os, 1)
        );
        options.set_durability(Durability::Durable);
        assert_eq!(
            (options.durability, options.spare_segments),
            (Durability::Durable, usual)
        );
        options.check().unwrap();
    }
}
