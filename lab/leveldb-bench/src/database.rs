//! LevelDB through its C functions, which are looked up at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

/// An opaque object of LevelDB.
type Opaque = *mut c_void;
type Failure = *mut *mut c_char;

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl Functions {
            fn of(library: *mut c_void) -> Result<Functions, String> {
                $(
                    type $field = unsafe extern "C" fn($($argument),*) $(-> $answer)?;
                    let $field = find(library, $symbol)?;
                )*
                Ok(Functions {
                    // SAFETY: the types that LevelDB's header declares.
                    $($field: unsafe { std::mem::transmute::<*mut c_void, $field>($field) },)*
                })
            }
        }
    };
}

#[allow(non_camel_case_types, reason = "the macro names types like fields")]
mod functions {
    use super::*;
    functions! {
        open = c"leveldb_open": fn(Opaque, *const c_char, Failure) -> Opaque;
        close = c"leveldb_close": fn(Opaque);
        put = c"leveldb_put": fn(Opaque, Opaque, *const c_char, usize, *const c_char, usize, Failure);
        get = c"leveldb_get": fn(Opaque, Opaque, *const c_char, usize, *mut usize, Failure) -> *mut c_char;
        release = c"leveldb_free": fn(*mut c_void);
        options = c"leveldb_options_create": fn() -> Opaque;
        create_if_missing = c"leveldb_options_set_create_if_missing": fn(Opaque, u8);
        read_options = c"leveldb_readoptions_create": fn() -> Opaque;
        write_options = c"leveldb_writeoptions_create": fn() -> Opaque;
        major_version = c"leveldb_major_version": fn() -> c_int;
        minor_version = c"leveldb_minor_version": fn() -> c_int;
    }

    pub(super) struct LevelDb {
        functions: Functions,
        database: Opaque,
        read_options: Opaque,
        write_options: Opaque,
        pub(super) version: String,
    }

    impl LevelDb {
        pub(super) fn open(library: &str, directory: &Path) -> Result<LevelDb, String> {
            let functions = Functions::of(load(library)?)?;
            let path = CString::new(directory.as_os_str().as_bytes())
                .map_err(|_| format!("{} has a zero in its name", directory.display()))?;
            let mut failure = null_mut();
            // SAFETY: as LevelDB's header says; the options live as long as the process.
            unsafe {
                let options = (functions.options)();
                (functions.create_if_missing)(options, 1);
                let database = (functions.open)(options, path.as_ptr(), &raw mut failure);
                checked(failure).map_err(|why| format!("{}: {why}", directory.display()))?;
                let version = format!(
                    "{}.{}",
                    (functions.major_version)(),
                    (functions.minor_version)()
                );
                Ok(LevelDb {
                    database,
                    read_options: (functions.read_options)(),
                    write_options: (functions.write_options)(),
                    version,
                    functions,
                })
            }
        }

        pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
            let mut failure = null_mut();
            // SAFETY: an open database; pointers and lengths of slices.
            unsafe {
                (self.functions.put)(
                    self.database,
                    self.write_options,
                    key.as_ptr().cast(),
                    key.len(),
                    value.as_ptr().cast(),
                    value.len(),
                    &raw mut failure,
                );
            }
            checked(failure)
        }

        /// Whether the key was there.
        pub(super) fn get(&self, key: &[u8]) -> Result<bool, String> {
            let mut failure = null_mut();
            let mut length = 0;
            // SAFETY: an open database; the caller must release the value.
            let value = unsafe {
                (self.functions.get)(
                    self.database,
                    self.read_options,
                    key.as_ptr().cast(),
                    key.len(),
                    &raw mut length,
                    &raw mut failure,
                )
            };
            checked(failure)?;
            if value.is_null() {
                return Ok(false);
            }
            // SAFETY: LevelDB allocated the value for the caller.
            unsafe { (self.functions.release)(value.cast()) };
            Ok(true)
        }
    }

    impl Drop for LevelDb {
        fn drop(&mut self) {
            // SAFETY: the database was opened once, and dropping it ends all uses.
            unsafe { (self.functions.close)(self.database) };
        }
    }
}

/// An open database, which threads may share: LevelDB has its own locks.
pub struct Database(functions::LevelDb);

// SAFETY: LevelDB's header promises it for a database, and options are only read.
unsafe impl Sync for Database {}

impl Database {
    pub fn open(library: &str, directory: &Path) -> Result<Database, String> {
        functions::LevelDb::open(library, directory).map(Database)
    }

    pub fn version(&self) -> &str {
        &self.0.version
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.0.put(key, value)
    }

    pub fn get(&self, key: &[u8]) -> Result<bool, String> {
        self.0.get(key)
    }
}

fn load(library: &str) -> Result<*mut c_void, String> {
    let name = CString::new(library).map_err(|_| "--leveldb has a zero in it".to_owned())?;
    // SAFETY: a string with its zero; the library runs its constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: set by the failure above.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(format!(
            "{}: install LevelDB 1.23 (Debian: libleveldb1d) or name it with --leveldb",
            why.to_string_lossy()
        ));
    }
    Ok(handle)
}

fn find(library: *mut c_void, symbol: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: an open library and a string with its zero.
    let address = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    if address.is_null() {
        return Err(format!("LevelDB has no {}", symbol.to_string_lossy()));
    }
    Ok(address)
}

fn checked(failure: *mut c_char) -> Result<(), String> {
    if failure.is_null() {
        return Ok(());
    }
    // SAFETY: LevelDB's message; the program ends with it, so it stays allocated.
    let why = unsafe { CStr::from_ptr(failure) };
    Err(format!("LevelDB: {}", why.to_string_lossy()))
}
