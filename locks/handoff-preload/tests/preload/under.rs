//! Running a case natively and preloaded, and wrappers of the functions that cases call.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libc::{c_int, clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

/// Variable that is set in the process that runs the case.
const INSIDE: &str = "HANDOFF_TEST_CASE";
/// Time after which a process is taken to hang.
const GENEROUS: Duration = Duration::from_secs(300);

/// The library that cargo has built for this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libhandoff_preload.so");
    assert!(library.exists(), "{} was not built", library.display());
    library
}

/// Whether this process calls the library's functions.
pub fn is_preloaded() -> bool {
    // SAFETY: a string that ends with a zero; the answer is read at once.
    let file = unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_cond_wait".as_ptr());
        let mut about: libc::Dl_info = std::mem::zeroed();
        assert!(libc::dladdr(address, &raw mut about) != 0);
        CStr::from_ptr(about.dli_fname)
            .to_string_lossy()
            .into_owned()
    };
    file.ends_with("libhandoff_preload.so")
}

/// Runs `case`, the body of the test `name`, natively and preloaded.
pub fn both(name: &str, case: fn()) {
    if let Ok(expected) = std::env::var(INSIDE) {
        assert_eq!(is_preloaded(), expected == "preloaded", "{expected}");
        return case();
    }
    run(name, false, &[]);
    run(name, true, &[]);
}

/// Runs the test `name` in a process of its own; its output.
pub fn run(name: &str, preloaded: bool, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, if preloaded { "preloaded" } else { "native" })
        .envs(variables.iter().copied())
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if preloaded {
        command.env("LD_PRELOAD", library());
    }
    let output = ended(&mut command);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !text.contains("cannot be preloaded"),
        "{name}, preloaded: {preloaded}: {}\n{}\n{text}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
    );
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(ran, "there is no test {name}");
    output
}

/// The output of a process, which is killed if it hangs.
fn ended(command: &mut Command) -> Output {
    let mut child = command.spawn().unwrap();
    let give_up = now() + GENEROUS;
    while child.try_wait().unwrap().is_none() {
        if now() > give_up {
            child.kill().unwrap();
            break;
        }
        pause();
    }
    child.wait_with_output().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the limit of a test that hangs")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "between two looks")]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Waits until the function returns true.
pub fn poll(until: impl Fn() -> bool) {
    let give_up = now() + GENEROUS;
    while !until() {
        assert!(now() < give_up, "never came true");
        pause();
    }
}

/// The moment that many milliseconds from now on a clock; before now if negative.
pub fn from_now(clock: clockid_t, milliseconds: i64) -> timespec {
    // SAFETY: all zeros are a moment, and the clock exists.
    let mut moment = unsafe {
        let mut moment: timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(clock, &raw mut moment), 0);
        moment
    };
    let nanos = moment.tv_nsec + milliseconds * 1_000_000;
    moment.tv_sec += nanos.div_euclid(1_000_000_000);
    moment.tv_nsec = nanos.rem_euclid(1_000_000_000);
    moment
}

/// Whether the moment has passed.
pub fn has_passed(clock: clockid_t, moment: timespec) -> bool {
    let now = from_now(clock, 0);
    (now.tv_sec, now.tv_nsec) >= (moment.tv_sec, moment.tv_nsec)
}

/// A `pthread_mutex_t`, called as C does.
pub struct Mutex(UnsafeCell<pthread_mutex_t>);

// SAFETY: made to be shared.
unsafe impl Sync for Mutex {}
// SAFETY: not moved while in use.
unsafe impl Send for Mutex {}

unsafe extern "C" {
    fn pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        moment: *const timespec,
    ) -> c_int;
    fn pthread_cond_clockwait(
        condition: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        moment: *const timespec,
    ) -> c_int;
}

/// Makes a method of each function that takes the object and further arguments.
macro_rules! calls {
    ($($method:ident = $function:path, ($($argument:ident: $kind:ty),*);)*) => {
        $(
            pub fn $method(&self, $($argument: $kind),*) -> c_int {
                // SAFETY: the object is initialised.
                unsafe { $function(self.0.get(), $($argument),*) }
            }
        )*
    };
}

impl Mutex {
    pub const fn new() -> Mutex {
        Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// A mutex of this kind, with further attributes that `more` sets.
    pub fn of_kind(kind: c_int, more: impl Fn(*mut libc::pthread_mutexattr_t)) -> Mutex {
        let mutex = Mutex::new();
        // SAFETY: new attributes, and a mutex that no other thread uses.
        unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            assert_eq!(
                libc::pthread_mutexattr_settype(&raw mut attributes, kind),
                0
            );
            more(&raw mut attributes);
            assert_eq!(
                libc::pthread_mutex_init(mutex.get(), &raw const attributes),
                0
            );
            libc::pthread_mutexattr_destroy(&raw mut attributes);
        }
        mutex
    }

    pub fn get(&self) -> *mut pthread_mutex_t {
        self.0.get()
    }

    calls! {
        lock = libc::pthread_mutex_lock, ();
        trylock = libc::pthread_mutex_trylock, ();
        unlock = libc::pthread_mutex_unlock, ();
        destroy = libc::pthread_mutex_destroy, ();
        init = libc::pthread_mutex_init, (attributes: *const libc::pthread_mutexattr_t);
        timedlock = libc::pthread_mutex_timedlock, (moment: *const timespec);
        clocklock = pthread_mutex_clocklock, (clock: clockid_t, moment: *const timespec);
    }

    pub fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        assert_eq!(self.lock(), 0);
        let result = work();
        assert_eq!(self.unlock(), 0);
        result
    }
}

/// A `pthread_cond_t`, called as C does.
pub struct Condition(UnsafeCell<pthread_cond_t>);

// SAFETY: made to be shared.
unsafe impl Sync for Condition {}
// SAFETY: not moved while in use.
unsafe impl Send for Condition {}

impl Condition {
    pub const fn new() -> Condition {
        Condition(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER))
    }

    /// A condition variable with this clock, shared between processes or not.
    pub fn with_attributes(clock: clockid_t, shared: c_int) -> Condition {
        let condition = Condition::new();
        // SAFETY: new attributes, and a condition variable that no other thread uses.
        unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_condattr_init(&raw mut attributes);
            let attributes = &raw mut attributes;
            assert_eq!(libc::pthread_condattr_setclock(attributes, clock), 0);
            assert_eq!(libc::pthread_condattr_setpshared(attributes, shared), 0);
            assert_eq!(libc::pthread_cond_init(condition.0.get(), attributes), 0);
            libc::pthread_condattr_destroy(attributes);
        }
        condition
    }

    pub fn get(&self) -> *mut pthread_cond_t {
        self.0.get()
    }

    calls! {
        signal = libc::pthread_cond_signal, ();
        broadcast = libc::pthread_cond_broadcast, ();
        destroy = libc::pthread_cond_destroy, ();
        init = libc::pthread_cond_init, (attributes: *const libc::pthread_condattr_t);
    }

    pub fn wait(&self, mutex: &Mutex) -> c_int {
        // SAFETY: initialised objects.
        unsafe { libc::pthread_cond_wait(self.0.get(), mutex.get()) }
    }

    pub fn timedwait(&self, mutex: &Mutex, moment: &timespec) -> c_int {
        // SAFETY: initialised objects.
        unsafe { libc::pthread_cond_timedwait(self.0.get(), mutex.get(), moment) }
    }

    pub fn clockwait(&self, mutex: &Mutex, clock: clockid_t, moment: &timespec) -> c_int {
        // SAFETY: initialised objects.
        unsafe { pthread_cond_clockwait(self.0.get(), mutex.get(), clock, moment) }
    }
}

/// A number that several threads change inside a mutex.
pub struct Inside<T>(UnsafeCell<T>);

// SAFETY: the cases use it inside a mutex, which is what they test.
unsafe impl<T> Sync for Inside<T> {}

impl<T: Copy> Inside<T> {
    pub const fn new(value: T) -> Inside<T> {
        Inside(UnsafeCell::new(value))
    }

    pub fn get(&self) -> T {
        // SAFETY: inside a mutex.
        unsafe { *self.0.get() }
    }

    pub fn set(&self, value: T) {
        // SAFETY: inside a mutex.
        unsafe { *self.0.get() = value };
    }
}

/// Eight threads wait until a ninth notifies all of them.
pub fn eight_wait_for_one(mutex: &Mutex, condition: &Condition) {
    let (waiting, done) = (Inside::new(0), Inside::new(false));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                mutex.with(|| {
                    waiting.set(waiting.get() + 1);
                    while !done.get() {
                        assert_eq!(condition.wait(mutex), 0);
                    }
                });
            });
        }
        poll(|| mutex.with(|| waiting.get() == 8));
        mutex.with(|| {
            done.set(true);
            assert_eq!(condition.broadcast(), 0);
        });
    });
}
