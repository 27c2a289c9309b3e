//! Group commit: one thread, the leader, does the work of all threads that wait.
//!
//! ```text
//!   arrivals (a stack, newest first)
//!     null          there is no leader: the next arrival leads
//!     LED           there is a leader, and no thread waits
//!     ► C ► B ► LED there is a leader; B and C will be the next group
//! ```
//!
//! A leader takes all arrivals at once, commits them in their order, and announces the end
//! to each. A store is enough for a thread that is awake. Sleepers are woken *in chains*, as
//! many as there are cores: each woken thread wakes the next in its chain. So a group of 200
//! never makes 200 threads runnable at once on two cores, where they would only displace each
//! other and the leader. Threads that arrive while the leader works are its next group. After
//! [`GROUPS_MAX`] groups, or a millisecond, the newest arrival becomes the leader: it is the
//! likeliest to be awake.
//!
//! A waiting thread stays awake for a while and yields its core to threads that want it
//! ([`Patience`]): such a thread brings the next operation, or goes on with the group. With
//! more threads than cores that costs one switch of threads for an operation, and no
//! wake-up.
//!
//! Nodes are on the stacks of the waiting threads: nothing is allocated.

use std::marker::PhantomData;
use std::ptr;

use crate::clock;
use crate::cores;
use crate::futex;
use crate::patience::{GROUPS_MAX, LEADS_MICROS_MAX, Patience};
use crate::slices;
use crate::spinning::Spin;
use crate::sync::{AtomicPtr, AtomicU32, Ordering, UnsafeCell, const_fn};

/// The thread waits awake.
const WAITING: u32 = 0;
/// The thread sleeps on its word.
const PARKED: u32 = 1;
/// The thread is the next leader.
const LEADER: u32 = 2;
/// The group of the thread's operation has been committed.
const DONE: u32 = 3;

/// A thread's operation, from arrival to answer.
struct QueueNode<Op, Out> {
    /// Older arrival; later the next in the group, then the next in the chain.
    next: UnsafeCell<*mut QueueNode<Op, Out>>,
    word: AtomicU32,
    /// Only the leader accesses it until the word is `DONE`.
    operation: UnsafeCell<Option<Op>>,
    answer: UnsafeCell<Option<Out>>,
}

/// A queue of operations, which threads commit in groups, one group at a time.
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
    arrivals: AtomicPtr<QueueNode<Op, Out>>,
    /// Threads that wait for a leader's announcement.
    waiting: AtomicU32,
    owns: PhantomData<(Op, Out)>,
}

// SAFETY: operations and answers move between threads, nothing is shared.
unsafe impl<Op: Send, Out: Send> Sync for CommitQueue<Op, Out> {}
// SAFETY: as above.
unsafe impl<Op: Send, Out: Send> Send for CommitQueue<Op, Out> {}

/// Error for an operation that its leader did not answer before it returned or panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the leader of the group gave no answer: whether the operation was done is unknown")]
pub struct Unanswered;

/// The operations that a leader has to commit: an iterator in the order of arrival.
pub struct Group<'a, Op, Out> {
    next: *mut QueueNode<Op, Out>,
    length: usize,
    lives: PhantomData<&'a mut QueueNode<Op, Out>>,
}

/// One operation of a group.
pub struct Member<'a, Op, Out> {
    node: &'a QueueNode<Op, Out>,
}

impl<Op, Out> Default for CommitQueue<Op, Out> {
    fn default() -> CommitQueue<Op, Out> {
        CommitQueue::new()
    }
}

impl<Op, Out> CommitQueue<Op, Out> {
    const_fn! {
        /// An empty queue.
        pub fn new() -> CommitQueue<Op, Out> {
            CommitQueue {
                arrivals: AtomicPtr::new(ptr::null_mut()),
                waiting: AtomicU32::new(0),
                owns: PhantomData,
            }
        }
    }

    /// Has a leader commit `operation`, and returns the leader's answer.
    ///
    /// If the calling thread becomes the leader, it calls `lead` with all waiting operations,
    /// its own included, and again with those that arrived during the call: up to 16 times in
    /// all, and not again after a millisecond. Only one thread at a time is in `lead`. If `lead`
    /// panics, so does this call, and the unanswered operations of that group end with
    /// [`Unanswered`].
    pub fn commit(
        &self,
        operation: Op,
        mut lead: impl FnMut(&mut Group<'_, Op, Out>),
    ) -> Result<Out, Unanswered> {
        let node = QueueNode {
            next: UnsafeCell::new(led()),
            word: AtomicU32::new(WAITING),
            operation: UnsafeCell::new(Some(operation)),
            answer: UnsafeCell::new(None),
        };
        let leads = self.arrive(&node) || self.wait(&node) == LEADER;
        if leads {
            let mut leadership = Leadership::begin(self);
            while leadership.commit_a_group(&mut lead) {}
        } else {
            // SAFETY: the word is `DONE`, so this thread has to wake the rest of the chain.
            unsafe { wake_chain(get(&node.next)) };
        }
        // SAFETY: the leader has finished: only this thread accesses the node.
        node.answer
            .with_mut(|answer| unsafe { (*answer).take() })
            .ok_or(Unanswered)
    }

    /// Pushes the node on the stack; true if there was no leader, so that this thread leads.
    fn arrive(&self, node: &QueueNode<Op, Out>) -> bool {
        let mut top = self.arrivals.load(Ordering::Relaxed);
        loop {
            let below = if top.is_null() { led() } else { top };
            // SAFETY: no other thread knows the node yet.
            unsafe { set(&node.next, below) };
            match self.arrivals.compare_exchange_weak(
                top,
                ptr::from_ref(node).cast_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return top.is_null(),
                Err(now) => top = now,
            }
        }
    }

    /// Waits until a leader sets the word; returns it.
    fn wait(&self, node: &QueueNode<Op, Out>) -> u32 {
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let word = node.wait_awake(others).unwrap_or_else(|| node.sleep());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        word
    }

    /// Ends a leadership; false if a thread waits.
    fn end(&self) -> bool {
        self.arrivals
            .compare_exchange(led(), ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Ends a leadership, or gives it to the newest arrival.
    fn pass_on(&self) {
        if !self.end() {
            let newest = self.arrivals.load(Ordering::Acquire);
            // SAFETY: a waiting thread stays until a leader has set its word.
            unsafe { QueueNode::announce(newest, LEADER) };
        }
    }
}

impl<Op, Out> Drop for CommitQueue<Op, Out> {
    fn drop(&mut self) {
        debug_assert!(
            self.arrivals.load(Ordering::Relaxed).is_null(),
            "a commit queue was dropped while it had a leader"
        );
    }
}

impl<Op, Out> QueueNode<Op, Out> {
    /// The word, if a leader has set it.
    fn announced(&self) -> Option<u32> {
        let word = self.word.load(Ordering::Acquire);
        (word != WAITING).then_some(word)
    }

    /// Waits awake until a leader sets the word, while `others` threads wait as well; `None`
    /// if that takes too long.
    fn wait_awake(&self, others: u32) -> Option<u32> {
        self.spin().or_else(|| self.yield_until_answered(others))
    }

    fn spin(&self) -> Option<u32> {
        // This thread counts as a spinner until the function returns.
        let mut spin = Spin::begin(false)?;
        while spin.again() {
            if let Some(word) = self.announced() {
                return Some(word);
            }
        }
        None
    }

    fn yield_until_answered(&self, others: u32) -> Option<u32> {
        let mut patience = Patience::new(others as usize)?;
        while patience.yield_core() {
            if let Some(word) = self.announced() {
                patience.was_answered();
                return Some(word);
            }
        }
        None
    }

    /// Sleeps until a leader has set the word; returns it.
    fn sleep(&self) -> u32 {
        let parked =
            self.word
                .compare_exchange(WAITING, PARKED, Ordering::Acquire, Ordering::Acquire);
        if let Err(word) = parked {
            return word;
        }
        loop {
            match self.word.load(Ordering::Acquire) {
                PARKED => futex::wait(&self.word, PARKED, None),
                word => return word,
            };
        }
    }

    /// Sets the word to `LEADER` or `DONE` and wakes the thread if it sleeps.
    ///
    /// # Safety
    /// The node's thread waits, and no other thread sets its word.
    unsafe fn announce(node: *const QueueNode<Op, Out>, outcome: u32) {
        // SAFETY: the thread waits until the swap; afterwards only the address is used.
        let word = unsafe { &raw const (*node).word };
        // SAFETY: as above.
        if unsafe { (*word).swap(outcome, Ordering::AcqRel) } == PARKED {
            futex::wake_one(word);
        }
    }

    /// Sets the word to `DONE` if the thread is awake; false if it sleeps.
    ///
    /// # Safety
    /// As for [`QueueNode::announce`].
    unsafe fn finish_if_awake(node: *const QueueNode<Op, Out>) -> bool {
        // SAFETY: the thread waits until the exchange succeeds.
        let finished = unsafe {
            (*node)
                .word
                .compare_exchange(WAITING, DONE, Ordering::AcqRel, Ordering::Relaxed)
        };
        finished.is_ok()
    }
}

/// A leadership. When it is dropped, also by a panic, another thread leads or none waits.
struct Leadership<'a, Op, Out> {
    queue: &'a CommitQueue<Op, Out>,
    groups_left: u32,
    /// As [`clock::micros`] counts.
    ends: u32,
    has_ended: bool,
}

impl<'a, Op, Out> Leadership<'a, Op, Out> {
    fn begin(queue: &'a CommitQueue<Op, Out>) -> Leadership<'a, Op, Out> {
        // Others wait for the leader as for the holder of a lock: it must not step back.
        slices::entered();
        Leadership {
            queue,
            groups_left: GROUPS_MAX,
            ends: clock::micros().wrapping_add(LEADS_MICROS_MAX),
            has_ended: false,
        }
    }

    /// Commits all arrivals as one group; false when the leadership has ended.
    fn commit_a_group(&mut self, lead: &mut impl FnMut(&mut Group<'_, Op, Out>)) -> bool {
        let taken = Taken::from(self.queue);
        lead(&mut taken.as_group());
        drop(taken);
        self.has_ended = self.queue.end();
        self.groups_left -= 1;
        let may_continue = !self.has_ended && self.groups_left > 0;
        may_continue && !clock::has_come(self.ends, clock::micros())
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

/// A group that the leader has taken. All its threads are released when this is dropped, also
/// by a panic.
struct Taken<Op, Out> {
    /// The oldest.
    first: *mut QueueNode<Op, Out>,
    length: usize,
}

impl<Op, Out> Taken<Op, Out> {
    /// Takes all arrivals and links them in the order of arrival.
    fn from(queue: &CommitQueue<Op, Out>) -> Taken<Op, Out> {
        let mut node = queue.arrivals.swap(led(), Ordering::AcqRel);
        let mut first = ptr::null_mut();
        let mut length = 0;
        while node != led() {
            // SAFETY: the group's threads wait, and only the leader uses their links.
            let older = unsafe { get(&(*node).next) };
            // SAFETY: as above.
            unsafe { set(&(*node).next, first) };
            first = node;
            node = older;
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
        // SAFETY: each thread of the group is the leader or waits for it.
        unsafe { finish_all(self.first) };
    }
}

/// Releases all threads of a group: those that are awake at once, the sleepers in chains.
///
/// The leader's own node may be in the group. It is skipped if its word is `LEADER`; otherwise
/// its word is `WAITING`, which no thread reads any more.
///
/// # Safety
/// `first` is the oldest of a list that ends with null, and no word in it is `DONE`.
unsafe fn finish_all<Op, Out>(first: *mut QueueNode<Op, Out>) {
    let mut node = first;
    let mut asleep = ptr::null_mut();
    let mut sleepers = 0;
    // SAFETY: each node exists until its word is set, and is not touched afterwards.
    unsafe {
        while !node.is_null() {
            let next = get(&(*node).next);
            set(&(*node).next, ptr::null_mut());
            let leads = (*node).word.load(Ordering::Relaxed) == LEADER;
            if !leads && !QueueNode::finish_if_awake(node) {
                set(&(*node).next, asleep);
                asleep = node;
                sleepers += 1;
            }
            node = next;
        }
        wake_in_chains(asleep, sleepers);
    }
}

/// Cuts a list of sleepers into as many chains as there are cores, and wakes the first of
/// each.
///
/// # Safety
/// The list has `sleepers` nodes, ends with null, and no word in it is `DONE`.
unsafe fn wake_in_chains<Op, Out>(first: *mut QueueNode<Op, Out>, sleepers: usize) {
    let length = sleepers.div_ceil(cores::number() as usize);
    let mut rest = first;
    while !rest.is_null() {
        let chain = rest;
        // SAFETY: all threads in the chain still wait.
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

/// Wakes the first thread of a chain, which wakes the rest.
///
/// # Safety
/// `chain` is null, or a sleeper, and no other thread sets its word.
unsafe fn wake_chain<Op, Out>(chain: *mut QueueNode<Op, Out>) {
    if !chain.is_null() {
        // SAFETY: the caller's promise.
        unsafe { QueueNode::announce(chain, DONE) };
    }
}

impl<'a, Op, Out> Iterator for Group<'a, Op, Out> {
    type Item = Member<'a, Op, Out>;

    fn next(&mut self) -> Option<Member<'a, Op, Out>> {
        // SAFETY: every thread of the group waits until the group is released.
        let node = unsafe { self.next.as_ref() }?;
        // SAFETY: only the leader uses the links of the group.
        self.next = unsafe { get(&node.next) };
        self.length -= 1;
        Some(Member { node })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.length, Some(self.length))
    }
}

impl<Op, Out> ExactSizeIterator for Group<'_, Op, Out> {}

impl<Op, Out> Member<'_, Op, Out> {
    /// Takes the operation out of the queue.
    ///
    /// # Panics
    /// If it was taken before.
    pub fn take_operation(&self) -> Op {
        // SAFETY: each node has one member, and only the leader has members.
        let operation = self
            .node
            .operation
            .with_mut(|operation| unsafe { (*operation).take() });
        operation.expect("a member's operation is taken once")
    }

    /// Sets the value that [`CommitQueue::commit`] returns for this operation; a later call
    /// replaces it.
    pub fn answer(&self, answer: Out) {
        // SAFETY: as above.
        self.node
            .answer
            .with_mut(|slot| unsafe { *slot = Some(answer) });
    }
}

/// The bottom of the stack while there is a leader: an address, never a node.
fn led<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

unsafe fn get<T: Copy>(cell: &UnsafeCell<T>) -> T {
    // SAFETY: the caller has exclusive access.
    cell.with(|value| unsafe { *value })
}

unsafe fn set<T>(cell: &UnsafeCell<T>, to: T) {
    // SAFETY: the caller has exclusive access.
    cell.with_mut(|value| unsafe { *value = to });
}
