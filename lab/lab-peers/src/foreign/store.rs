//! A database of either library, and its sessions.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

use lab::targets::{Embedded, Failure, OpenOptions, Seen, Session};
use lab::workload::DurabilityLevel;

use super::functions::{Functions, Handle, Pinned};
use super::{Library, Wanted};
use crate::CACHE_BYTES;

/// An object of the library, and its destructor.
type Owned = (Handle, unsafe extern "C" fn(Handle));

/// The options of a store that is about to be opened.
pub struct Setup<'a> {
    pub library: &'a Library,
    pub functions: &'a Functions,
    pub options: Handle,
    owned: Vec<Owned>,
}

impl Setup<'_> {
    /// Keeps an object until the store is closed, then calls its destructor.
    pub fn keep(&mut self, handle: Handle, destroy: unsafe extern "C" fn(Handle)) {
        self.owned.push((handle, destroy));
    }

    /// A cache of [`CACHE_BYTES`], which lives until the store is closed.
    pub fn cache(&mut self) -> Handle {
        // SAFETY: no preconditions.
        let cache = unsafe { (self.functions.cache_create_lru)(CACHE_BYTES) };
        self.keep(cache, self.functions.cache_destroy);
        cache
    }
}

/// An open store.
pub struct Store {
    functions: Functions,
    pinned: Option<Pinned>,
    version: Option<String>,
    database: Handle,
    /// Read options, which no call changes.
    reading: Handle,
    /// Write options, which no call changes.
    writing: Handle,
    owned: Vec<Owned>,
}

// SAFETY: both libraries promise that a database may be used by any number of
// threads at once; options are only read once the store is open.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// Opens or creates a store in the directory.
    pub fn open(
        wanted: &'static Wanted,
        directory: &Path,
        options: &OpenOptions,
        set_up: impl FnOnce(&mut Setup<'_>) -> Result<(), Failure>,
    ) -> Result<Box<dyn Embedded>, Failure> {
        let library = Library::open(wanted)?;
        let functions = Functions::of(&library)?;
        // SAFETY: the constructors have no preconditions; each result is destroyed by
        // the destructor of its own kind.
        let (made, reading, writing) = unsafe {
            let made = (functions.options_create)();
            let reading = (functions.readoptions_create)();
            let writing = (functions.writeoptions_create)();
            (functions.options_set_create_if_missing)(made, 1);
            let sync = options.durability == DurabilityLevel::Durable;
            (functions.writeoptions_set_sync)(writing, u8::from(sync));
            (made, reading, writing)
        };
        let mut store = Store {
            functions,
            pinned: Pinned::of(&library).ok(),
            version: library.version(),
            database: std::ptr::null_mut(),
            reading,
            writing,
            owned: vec![
                (reading, functions.readoptions_destroy),
                (writing, functions.writeoptions_destroy),
                (made, functions.options_destroy),
            ],
        };
        let mut setup = Setup {
            library: &library,
            functions: &functions,
            options: made,
            owned: Vec::new(),
        };
        let done = set_up(&mut setup);
        store.owned.append(&mut setup.owned);
        done?;
        let name = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: options and name outlive the call.
        store.database =
            store.checked(|error| unsafe { (functions.open)(made, name.as_ptr(), error) })?;
        Ok(Box::new(store))
    }

    /// Calls a function of the library with a slot for an error message, and returns the
    /// message as an error.
    fn checked<Answer>(
        &self,
        call: impl FnOnce(*mut *mut c_char) -> Answer,
    ) -> Result<Answer, Failure> {
        let mut error = std::ptr::null_mut();
        let answer = call(&raw mut error);
        if error.is_null() {
            return Ok(answer);
        }
        // SAFETY: an error is a terminated string that the library allocated and the
        // caller must free.
        let text = unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.functions.free)(error.cast());
            text
        };
        Err(text.into())
    }

    fn get_pinned(
        &self,
        pinned: &Pinned,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        // SAFETY: the key outlives the call; the slice is destroyed after its
        // bytes were copied.
        unsafe {
            let found = self.checked(|error| {
                let (start, length) = (key.as_ptr().cast(), key.len());
                (pinned.get_pinned)(self.database, self.reading, start, length, error)
            })?;
            if found.is_null() {
                return Ok(false);
            }
            let mut bytes = 0;
            let start = (pinned.pinnableslice_value)(found, &raw mut bytes);
            if bytes > 0 {
                value.extend_from_slice(slice::from_raw_parts(start.cast(), bytes));
            }
            (pinned.pinnableslice_destroy)(found);
        }
        Ok(true)
    }
}

/// Bytes of the library.
///
/// # Safety
/// They can be read, and stay as they are while the result is alive.
unsafe fn bytes_at<'b>(start: *const c_char, bytes: usize) -> &'b [u8] {
    match bytes {
        0 => &[],
        // SAFETY: the caller promises it.
        _ => unsafe { slice::from_raw_parts(start.cast(), bytes) },
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: no session exists any more, since sessions borrow the store. Objects are
        // destroyed after the database that uses them.
        unsafe {
            if !self.database.is_null() {
                (self.functions.close)(self.database);
            }
            for (handle, destroy) in &self.owned {
                destroy(*handle);
            }
        }
    }
}

impl Embedded for Store {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(self))
    }

    fn version(&self) -> Option<String> {
        self.version.clone()
    }

    fn compact(&self) -> Result<(), Failure> {
        let all = std::ptr::null();
        // SAFETY: no bound on either side means all keys. The call has no error; one of the store's is
        // seen by the operations behind it.
        unsafe { (self.functions.compact_range)(self.database, all, 0, all, 0) };
        Ok(())
    }
}

impl Session for &Store {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        // SAFETY: key and value outlive the call, which copies them.
        self.checked(|error| unsafe {
            (self.functions.put)(
                self.database,
                self.writing,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                error,
            )
        })
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        if let Some(pinned) = &self.pinned {
            return self.get_pinned(pinned, key, value);
        }
        let mut bytes = 0;
        // SAFETY: the key outlives the call; the caller must free the answer.
        unsafe {
            let (reading, start, length) = (self.reading, key.as_ptr().cast(), key.len());
            let (get, bytes_at) = (self.functions.get, &raw mut bytes);
            let found =
                self.checked(|error| get(self.database, reading, start, length, bytes_at, error))?;
            if found.is_null() {
                return Ok(false);
            }
            value.extend_from_slice(slice::from_raw_parts(found.cast(), bytes));
            (self.functions.free)(found.cast());
        }
        Ok(true)
    }

    fn range(&mut self, from: &[u8], limit: u64) -> Result<Seen, Failure> {
        let functions = &self.functions;
        let mut seen = Seen::default();
        // SAFETY: the iterator is used by this thread only and destroyed before
        // the store; key and value pointers are not kept beyond the next step.
        unsafe {
            let iterator = (functions.create_iterator)(self.database, self.reading);
            (functions.iter_seek)(iterator, from.as_ptr().cast(), from.len());
            let mut goes_on = true;
            while goes_on && (functions.iter_valid)(iterator) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = (functions.iter_key)(iterator, &raw mut key_bytes);
                let value = (functions.iter_value)(iterator, &raw mut value_bytes);
                let (key, value) = (bytes_at(key, key_bytes), bytes_at(value, value_bytes));
                goes_on = seen.read(key, value, limit);
                (functions.iter_next)(iterator);
            }
            let ended = self.checked(|error| (functions.iter_get_error)(iterator, error));
            (functions.iter_destroy)(iterator);
            ended.map(|()| seen)
        }
    }

    fn load(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failure> {
        let functions = &self.functions;
        // SAFETY: the batch copies keys and values, and is destroyed after its
        // write.
        unsafe {
            let batch = (functions.writebatch_create)();
            for (key, value) in entries {
                let (key_start, value_start) = (key.as_ptr().cast(), value.as_ptr().cast());
                (functions.writebatch_put)(batch, key_start, key.len(), value_start, value.len());
            }
            let written =
                self.checked(|error| (functions.write)(self.database, self.writing, batch, error));
            (functions.writebatch_destroy)(batch);
            written
        }
    }
}
