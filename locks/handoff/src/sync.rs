//! Atomics and cells of the locks. The models in `tests/` compile the same sources with
//! loom's or shuttle's instead.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
pub(crate) use std::thread::yield_now;

/// Declares a constructor: `const` here, plain in the models, because their atomics
/// cannot be made at compile time.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visible:vis fn $($rest:tt)*) => {
        $(#[$attribute])* $visible const fn $($rest)*
    };
}
pub(crate) use const_fn;

/// A cell with the interface of loom's, which watches accesses; here they cost nothing.
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
