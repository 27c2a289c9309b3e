//! Functions of LevelDB's and RocksDB's C interfaces. Those of `Functions` are in both, under the
//! same names except for the prefix. Signatures are those of `leveldb/c.h` and `rocksdb/c.h`;
//! a `bool` is an unsigned char in both.

use std::ffi::{c_char, c_void};

/// An opaque pointer of the library.
pub type Handle = *mut c_void;

/// Slot in which a library stores an error message; null without an error.
pub type ErrorSlot = *mut *mut c_char;

/// Declares a structure of functions by their names behind the library's prefix.
macro_rules! functions {
    (
        $(#[$attribute:meta])*
        struct $structure:ident {
            $($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        pub struct $structure {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $structure {
            /// Looks up all functions. Fails where one is missing.
            pub fn of(
                library: &$crate::foreign::Library,
            ) -> Result<$structure, lab::targets::Failure> {
                Ok($structure {
                    // SAFETY: the signatures are those of the headers.
                    $($name: unsafe { library.function(stringify!($name)) }?,)*
                })
            }
        }
    };
}
pub(crate) use functions;

functions! {
    /// Pointers into an open library.
    struct Functions {
        open: fn(Handle, *const c_char, ErrorSlot) -> Handle;
        close: fn(Handle);
        put: fn(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
        write: fn(Handle, Handle, Handle, ErrorSlot);
        compact_range: fn(Handle, *const c_char, usize, *const c_char, usize);
        get: fn(Handle, Handle, *const c_char, usize, *mut usize, ErrorSlot) -> *mut c_char;
        free: fn(*mut c_void);
        create_iterator: fn(Handle, Handle) -> Handle;
        iter_destroy: fn(Handle);
        iter_valid: fn(Handle) -> u8;
        iter_seek: fn(Handle, *const c_char, usize);
        iter_next: fn(Handle);
        iter_key: fn(Handle, *mut usize) -> *const c_char;
        iter_value: fn(Handle, *mut usize) -> *const c_char;
        iter_get_error: fn(Handle, ErrorSlot);
        writebatch_create: fn() -> Handle;
        writebatch_destroy: fn(Handle);
        writebatch_put: fn(Handle, *const c_char, usize, *const c_char, usize);
        options_create: fn() -> Handle;
        options_destroy: fn(Handle);
        options_set_create_if_missing: fn(Handle, u8);
        options_set_write_buffer_size: fn(Handle, usize);
        readoptions_create: fn() -> Handle;
        readoptions_destroy: fn(Handle);
        writeoptions_create: fn() -> Handle;
        writeoptions_destroy: fn(Handle);
        writeoptions_set_sync: fn(Handle, u8);
        cache_create_lru: fn(usize) -> Handle;
        cache_destroy: fn(Handle);
    }
}

functions! {
    /// Functions of reads that copy only once; only RocksDB has them.
    struct Pinned {
        get_pinned: fn(Handle, Handle, *const c_char, usize, ErrorSlot) -> Handle;
        pinnableslice_value: fn(Handle, *mut usize) -> *const c_char;
        pinnableslice_destroy: fn(Handle);
    }
}
