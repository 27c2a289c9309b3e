//! Group commit: one thread does the work of all that wait.
//!
//! ```text
//!   arrivals (a stack, newest first)
//!     null          nobody leads: whoever arrives leads
//!     LED           somebody leads, nobody waits
//!     ► C ► B ► LED somebody leads, B and C will be the next group
//! ```
//!
//! A leader takes all arrivals at once, commits them in their order, and then, in this
//! order: makes the newest arrival the next leader, so that the next group can start;
//! tells those that have not gone to sleep yet, which costs a store each; and wakes the
//! sleepers *in chains*, as many as there are cores. Who is woken wakes the next in its
//! chain. So a group of 200 never makes 200 threads runnable at once on two cores, where
//! they would only push each other and the next leader aside.
//!
//! Places are on the stacks of the waiting threads: nothing is allocated.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use crate::futex;
use crate::slices;
use crate::spinning::{self, Spin};
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
                owns: PhantomData,
            }
        }
    }

    /// Has `operation` done by a leader, and returns that one's answer. If this thread
    /// comes to lead it calls `lead` with everything that waits, its own included;
    /// `lead` is never called by two threads at a time.
    pub fn commit(
        &self,
        operation: Op,
        lead: impl FnOnce(&mut Group<'_, Op, Out>),
    ) -> Result<Out, Unanswered> {
        let place = Place {
            next: UnsafeCell::new(led()),
            word: AtomicU32::new(WAITING),
            operation: UnsafeCell::new(Some(operation)),
            answer: UnsafeCell::new(None),
        };
        let leads = self.arrive(&place) || place.wait() == LEADER;
        if leads {
            let group = Led::take(self);
            lead(&mut group.as_group());
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

    /// Ends a leadership, or gives it to the newest arrival.
    fn pass_on(&self) {
        let nobody_waits = self.arrivals.compare_exchange(
            led(),
            ptr::null_mut(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if let Err(newest) = nobody_waits {
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
    /// Waits for a leader's word.
    fn wait(&self) -> u32 {
        {
            // The place among the spinners ends with this block.
            let mut spin = Spin::begin(false);
            while spin.as_mut().is_some_and(Spin::again) {
                match self.word.load(Ordering::Acquire) {
                    WAITING => {}
                    told => return told,
                }
            }
        }
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

/// A leadership: when it ends, however it ends, everybody is told.
struct Led<'a, Op, Out> {
    queue: &'a CommitQueue<Op, Out>,
    /// Oldest of the group.
    first: *mut Place<Op, Out>,
    length: usize,
}

impl<'a, Op, Out> Led<'a, Op, Out> {
    /// Takes all arrivals and turns them round.
    fn take(queue: &'a CommitQueue<Op, Out>) -> Led<'a, Op, Out> {
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
        // The group waits for us as for the holder of a lock.
        slices::entered();
        Led {
            queue,
            first,
            length,
        }
    }

    fn as_group(&self) -> Group<'_, Op, Out> {
        Group {
            next: self.first,
            length: self.length,
            lives: PhantomData,
        }
    }
}

impl<Op, Out> Drop for Led<'_, Op, Out> {
    fn drop(&mut self) {
        slices::left();
        self.queue.pass_on();
        // SAFETY: all of the group wait for us; we are among them, and in no
        // danger of being told twice: see `tell_all`.
        unsafe { tell_all(self.first) };
    }
}

/// Tells all of a group: the awake at once, the sleepers in chains.
///
/// The leader is among them. Nobody waits on its word, so being told does it no harm:
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
    let length = sleepers.div_ceil(spinning::cores() as usize);
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
        // SAFETY: everybody in the group waits until the leadership has ended.
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
