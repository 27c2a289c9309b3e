//! Group commit: one thread does the work of all that wait.
//!
//! ```text
//!   arrivals (a stack, newest first)
//!     null          nobody leads: whoever arrives leads
//!     LED           somebody leads, nobody waits
//!     ► C ► B ► LED somebody leads, B and C will be the next group
//! ```
//!
//! A leader takes all arrivals at once, commits them in their order, and tells them. Those
//! that are awake are told with a store each; the sleepers are woken *in chains*, as many as
//! there are cores: who is woken wakes the next in its chain. So a group of 200 never makes
//! 200 threads runnable at once on two cores, where they would only push each other and the
//! leader aside. What has arrived meanwhile is the same leader's next group. After
//! [`GROUPS_MAX`] groups, or a millisecond, the newest arrival leads: it is the likeliest to
//! be awake.
//!
//! Who waits stays awake for a while and gives way to whoever wants its core
//! ([`Patience`]): that one brings the next operation, or gets on with the group. With
//! more threads than cores that costs one switch of threads for an operation, and no
//! wake-up.
//!
//! Places are on the stacks of the waiting threads: nothing is allocated.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use crate::clock;
use crate::cores;
use crate::futex;
use crate::patience::{GROUPS_MAX, LEADS_MICROS_MAX, Patience};
use crate::slices;
use crate::spinning::Spin;
use crate::sync::{AtomicPtr, AtomicU32, Ordering, UnsafeCell, const_fn};

/// Waits awake.
const WAITING: u32 = 0;
/// Sleeps on its word.
const PARKED: u32 = 1;
/// Has to lead.
const LEADER: u32 = 2;
/// Its operation has been dealt with.
const DONE: u32 = 3;

/// A thread's operation, from arrival to answer.
struct Place<Op, Out> {
    /// Older arrival; later the next in the group, then the next in the chain.
    next: UnsafeCell<*mut Place<Op, Out>>,
    word: AtomicU32,
    /// The leader's alone until the word is `DONE`.
    operation: UnsafeCell<Option<Op>>,
    answer: UnsafeCell<Option<Out>>,
}

/// Operations that threads want done, one group at a time.
///
/// ```
/// let log = std::cell::RefCell::new(Vec::new());
/// let queue = handoff::CommitQueue::new();
/// let length = queue.commit("entry", |group| {
///     for member in group {
///         log.borrow_mut().push(member.take_operation());
///         member.answer(log.borrow().len());
///     }
/// });
/// assert_eq!(length, Ok(1));
/// ```
pub struct CommitQueue<Op, Out> {
    arrivals: AtomicPtr<Place<Op, Out>>,
    /// Threads that wait for a leader.
    waiting: AtomicU32,
    owns: PhantomData<(Op, Out)>,
}

// SAFETY: operations and answers move between threads, nothing is shared.
unsafe impl<Op: Send, Out: Send> Sync for CommitQueue<Op, Out> {}
// SAFETY: as above.
unsafe impl<Op: Send, Out: Send> Send for CommitQueue<Op, Out> {}

/// The leader returned, or panicked, without answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered;

impl fmt::Display for Unanswered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the leader of the group gave no answer: whether the operation was done is unknown"
        )
    }
}

impl std::error::Error for Unanswered {}

/// The group a leader has to commit, in the order of arrival; an iterator.
pub struct Group<'a, Op, Out> {
    next: *mut Place<Op, Out>,
    length: usize,
    lives: PhantomData<&'a mut Place<Op, Out>>,
}

/// One operation of a group.
pub struct Member<'a, Op, Out> {
    place: &'a Place<Op, Out>,
}

impl<Op, Out> Default for CommitQueue<Op, Out> {
    fn default() -> CommitQueue<Op, Out> {
        CommitQueue::new()
    }
}

impl<Op, Out> CommitQueue<Op, Out> {
    const_fn! {
        /// A queue nobody waits in.
        pub fn new() -> CommitQueue<Op, Out> {
            CommitQueue {
                arrivals: AtomicPtr::new(ptr::null_mut()),
                waiting: AtomicU32::new(0),
                owns: PhantomData,
            }
        }
    }

    /// Has `operation` done by a leader, and returns that one's answer. If this thread
    /// comes to lead it calls `lead` with everything that waits, its own included, and
    /// again with what has come meanwhile: up to 16 times in all, and not again after a
    /// millisecond. `lead` is never called by two threads at a time; where it panics, this
    /// does, too, and those of that group are [`Unanswered`].
    pub fn commit(
        &self,
        operation: Op,
        mut lead: impl FnMut(&mut Group<'_, Op, Out>),
    ) -> Result<Out, Unanswered> {
        let place = Place {
            next: UnsafeCell::new(led()),
            word: AtomicU32::new(WAITING),
            operation: UnsafeCell::new(Some(operation)),
            answer: UnsafeCell::new(None),
        };
        let leads = self.arrive(&place) || self.wait(&place) == LEADER;
        if leads {
            let mut leadership = Leadership::begin(self);
            while leadership.commit_a_group(&mut lead) {}
        } else {
            // SAFETY: done, so the chain's rest is ours to wake.
            unsafe { wake_chain(get(&place.next)) };
        }
        // SAFETY: done: the place is ours alone again.
        place
            .answer
            .with_mut(|answer| unsafe { (*answer).take() })
            .ok_or(Unanswered)
    }

    /// Puts the place on top; true if nobody leads.
    fn arrive(&self, place: &Place<Op, Out>) -> bool {
        let mut top = self.arrivals.load(Ordering::Relaxed);
        loop {
            let below = if top.is_null() { led() } else { top };
            // SAFETY: nobody knows the place yet.
            unsafe { set(&place.next, below) };
            match self.arrivals.compare_exchange_weak(
                top,
                ptr::from_ref(place).cast_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return top.is_null(),
                Err(now) => top = now,
            }
        }
    }

    /// Waits for a leader's word.
    fn wait(&self, place: &Place<Op, Out>) -> u32 {
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let told = place.wait_awake(others).unwrap_or_else(|| place.sleep());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        told
    }

    /// Ends a leadership; false if somebody waits.
    fn end(&self) -> bool {
        self.arrivals
            .compare_exchange(led(), ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Ends a leadership, or gives it to the newest arrival.
    fn pass_on(&self) {
        if !self.end() {
            let newest = self.arrivals.load(Ordering::Acquire);
            // SAFETY: whoever waits stays until a leader has told it.
            unsafe { Place::tell(newest, LEADER) };
        }
    }
}

impl<Op, Out> Drop for CommitQueue<Op, Out> {
    fn drop(&mut self) {
        debug_assert!(
            self.arrivals.load(Ordering::Relaxed).is_null(),
            "a queue is dropped while somebody borrows it"
        );
    }
}

impl<Op, Out> Place<Op, Out> {
    /// What a leader has told; `None`: nothing yet.
    fn told(&self) -> Option<u32> {
        let word = self.word.load(Ordering::Acquire);
        (word != WAITING).then_some(word)
    }

    /// Waits beside so many others for a leader's word. `None`: that is taking too long.
    fn wait_awake(&self, others: u32) -> Option<u32> {
        self.spin().or_else(|| self.give_way(others))
    }

    fn spin(&self) -> Option<u32> {
        // The place among the spinners ends with this function.
        let mut spin = Spin::begin(false)?;
        while spin.again() {
            if let Some(told) = self.told() {
                return Some(told);
            }
        }
        None
    }

    fn give_way(&self, others: u32) -> Option<u32> {
        let mut patience = Patience::new(others as usize)?;
        while patience.give_way() {
            if let Some(told) = self.told() {
                patience.paid_off();
                return Some(told);
            }
        }
        None
    }

    /// Sleeps until a leader says something, if none has.
    fn sleep(&self) -> u32 {
        let parked =
            self.word
                .compare_exchange(WAITING, PARKED, Ordering::Acquire, Ordering::Acquire);
        if let Err(told) = parked {
            return told;
        }
        loop {
            match self.word.load(Ordering::Acquire) {
                PARKED => futex::wait(&self.word, PARKED, None),
                told => return told,
            };
        }
    }

    /// # Safety
    /// The place waits, and nobody else tells it anything.
    unsafe fn tell(place: *const Place<Op, Out>, what: u32) {
        // SAFETY: it waits until the swap; afterwards only the address is used.
        let word = unsafe { &raw const (*place).word };
        // SAFETY: as above.
        if unsafe { (*word).swap(what, Ordering::AcqRel) } == PARKED {
            futex::wake_one(word);
        }
    }

    /// Tells a place that is awake; false if it sleeps.
    ///
    /// # Safety
    /// As for [`Place::tell`].
    unsafe fn tell_if_awake(place: *const Place<Op, Out>) -> bool {
        // SAFETY: it waits until the exchange succeeds.
        let told = unsafe {
            (*place)
                .word
                .compare_exchange(WAITING, DONE, Ordering::AcqRel, Ordering::Relaxed)
        };
        told.is_ok()
    }
}

/// A leadership: when it ends, however it ends, somebody else leads or nobody waits.
struct Leadership<'a, Op, Out> {
    queue: &'a CommitQueue<Op, Out>,
    groups_left: u32,
    /// As [`clock::micros`] counts.
    ends: u32,
    has_ended: bool,
}

impl<'a, Op, Out> Leadership<'a, Op, Out> {
    fn begin(queue: &'a CommitQueue<Op, Out>) -> Leadership<'a, Op, Out> {
        // All wait for us as for the holder of a lock.
        slices::entered();
        Leadership {
            queue,
            groups_left: GROUPS_MAX,
            ends: clock::micros().wrapping_add(LEADS_MICROS_MAX),
            has_ended: false,
        }
    }

    /// Commits all that has arrived; false when the leadership has ended.
    fn commit_a_group(&mut self, lead: &mut impl FnMut(&mut Group<'_, Op, Out>)) -> bool {
        let taken = Taken::from(self.queue);
        lead(&mut taken.as_group());
        drop(taken);
        self.has_ended = self.queue.end();
        self.groups_left -= 1;
        let goes_on = !self.has_ended && self.groups_left > 0;
        goes_on && !clock::has_come(self.ends, clock::micros())
    }
}

impl<Op, Out> Drop for Leadership<'_, Op, Out> {
    fn drop(&mut self) {
        slices::left();
        if !self.has_ended {
            self.queue.pass_on();
        }
    }
}

/// A group: all in it are told when this goes, however it goes.
struct Taken<Op, Out> {
    /// The oldest.
    first: *mut Place<Op, Out>,
    length: usize,
}

impl<Op, Out> Taken<Op, Out> {
    /// Takes all arrivals and turns them round.
    fn from(queue: &CommitQueue<Op, Out>) -> Taken<Op, Out> {
        let mut place = queue.arrivals.swap(led(), Ordering::AcqRel);
        let mut first = ptr::null_mut();
        let mut length = 0;
        while place != led() {
            // SAFETY: those in the group wait, and their links are the leader's.
            let older = unsafe { get(&(*place).next) };
            // SAFETY: as above.
            unsafe { set(&(*place).next, first) };
            first = place;
            place = older;
            length += 1;
        }
        Taken { first, length }
    }

    fn as_group(&self) -> Group<'_, Op, Out> {
        Group {
            next: self.first,
            length: self.length,
            lives: PhantomData,
        }
    }
}

impl<Op, Out> Drop for Taken<Op, Out> {
    fn drop(&mut self) {
        // SAFETY: all of the group wait for us, or are us, in no danger of being told
        // twice: see `tell_all`.
        unsafe { tell_all(self.first) };
    }
}

/// Tells all of a group: the awake at once, the sleepers in chains.
///
/// The leader may be among them. Nobody waits on its word, so being told does it no harm:
/// it is awake, or has been told `LEADER`.
///
/// # Safety
/// Oldest first, linked to null, nobody told yet.
unsafe fn tell_all<Op, Out>(first: *mut Place<Op, Out>) {
    let mut place = first;
    let mut asleep = ptr::null_mut();
    let mut sleepers = 0;
    // SAFETY: each place waits until it is told, and is not touched afterwards.
    unsafe {
        while !place.is_null() {
            let next = get(&(*place).next);
            set(&(*place).next, ptr::null_mut());
            let leads = (*place).word.load(Ordering::Relaxed) == LEADER;
            if !leads && !Place::tell_if_awake(place) {
                set(&(*place).next, asleep);
                asleep = place;
                sleepers += 1;
            }
            place = next;
        }
        wake_in_chains(asleep, sleepers);
    }
}

/// # Safety
/// So many sleepers, linked to null, nobody told yet.
unsafe fn wake_in_chains<Op, Out>(first: *mut Place<Op, Out>, sleepers: usize) {
    let length = sleepers.div_ceil(cores::number() as usize);
    let mut rest = first;
    while !rest.is_null() {
        let chain = rest;
        // SAFETY: nobody in the chain has been told.
        unsafe {
            for _ in 1..length {
                let next = get(&(*rest).next);
                if next.is_null() {
                    break;
                }
                rest = next;
            }
            let last = rest;
            rest = get(&(*last).next);
            set(&(*last).next, ptr::null_mut());
            wake_chain(chain);
        }
    }
}

/// Wakes the first of a chain, which will wake the rest.
///
/// # Safety
/// Null, or a sleeper that nobody else tells.
unsafe fn wake_chain<Op, Out>(chain: *mut Place<Op, Out>) {
    if !chain.is_null() {
        // SAFETY: the caller's promise.
        unsafe { Place::tell(chain, DONE) };
    }
}

impl<'a, Op, Out> Iterator for Group<'a, Op, Out> {
    type Item = Member<'a, Op, Out>;

    fn next(&mut self) -> Option<Member<'a, Op, Out>> {
        // SAFETY: everybody in the group waits until the group is told.
        let place = unsafe { self.next.as_ref() }?;
        // SAFETY: links of the group are the leader's.
        self.next = unsafe { get(&place.next) };
        self.length -= 1;
        Some(Member { place })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.length, Some(self.length))
    }
}

impl<Op, Out> ExactSizeIterator for Group<'_, Op, Out> {}

impl<Op, Out> Member<'_, Op, Out> {
    /// The operation; it can be taken once.
    pub fn take_operation(&self) -> Op {
        // SAFETY: each place has one member, and members are the leader's.
        let operation = self
            .place
            .operation
            .with_mut(|operation| unsafe { (*operation).take() });
        operation.expect("a member's operation is taken once")
    }

    /// What the operation's thread gets back. The last answer counts.
    pub fn answer(&self, answer: Out) {
        // SAFETY: as above.
        self.place
            .answer
            .with_mut(|place| unsafe { *place = Some(answer) });
    }
}

/// The bottom of the stack while somebody leads: an address, never a place.
fn led<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

unsafe fn get<T: Copy>(cell: &UnsafeCell<T>) -> T {
    // SAFETY: the caller alone has it.
    cell.with(|value| unsafe { *value })
}

unsafe fn set<T>(cell: &UnsafeCell<T>, to: T) {
    // SAFETY: the caller alone has it.
    cell.with_mut(|value| unsafe { *value = to });
}
