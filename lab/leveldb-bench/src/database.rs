//! LevelDB through its C functions, which are looked up at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

/// An opaque object of LevelDB.
type Opaque = *mut c_void;
type Failure = *mut *mut c_char;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl Functions {
            fn of(library: &libloading::Library) -> Result<Functions, libloading::Error> {
                Ok(Functions {
                    // SAFETY: the types that LevelDB's header declares.
                    $($name: unsafe { *library.get(concat!("leveldb_", stringify!($name)))? },)*
                })
            }
        }
    };
}

functions! {
    open: fn(Opaque, *const c_char, Failure) -> Opaque;
    close: fn(Opaque);
    put: fn(Opaque, Opaque, *const c_char, usize, *const c_char, usize, Failure);
    get: fn(Opaque, Opaque, *const c_char, usize, *mut usize, Failure) -> *mut c_char;
    free: fn(*mut c_void);
    options_create: fn() -> Opaque;
    options_set_create_if_missing: fn(Opaque, u8);
    readoptions_create: fn() -> Opaque;
    writeoptions_create: fn() -> Opaque;
    major_version: fn() -> c_int;
    minor_version: fn() -> c_int;
}

/// An open database, which threads may share: LevelDB has its own locks.
pub struct Database {
    functions: Functions,
    database: Opaque,
    read_options: Opaque,
    write_options: Opaque,
    pub version: String,
}

// SAFETY: LevelDB's header promises it for a database, and options are only read.
unsafe impl Sync for Database {}

impl Database {
    pub fn open(library: &str, directory: &Path) -> Result<Database, String> {
        let shown = directory.display();
        // SAFETY: the library runs its constructors.
        let library = unsafe { libloading::Library::new(library) }.map_err(|why| {
            format!("{why}: install LevelDB 1.23 (Debian: libleveldb1d) or name it with --leveldb")
        })?;
        // The functions are used until the process ends.
        let library = Box::leak(Box::new(library));
        let functions = Functions::of(library).map_err(|why| format!("LevelDB: {why}"))?;
        let path = CString::new(directory.as_os_str().as_bytes())
            .map_err(|_| format!("{shown} has a zero in its name"))?;
        let mut failure = null_mut();
        // SAFETY: as LevelDB's header says; the options live as long as the process.
        unsafe {
            let options = (functions.options_create)();
            (functions.options_set_create_if_missing)(options, 1);
            let database = (functions.open)(options, path.as_ptr(), &raw mut failure);
            checked(failure).map_err(|why| format!("{shown}: {why}"))?;
            let (major, minor) = ((functions.major_version)(), (functions.minor_version)());
            Ok(Database {
                database,
                read_options: (functions.readoptions_create)(),
                write_options: (functions.writeoptions_create)(),
                version: format!("{major}.{minor}"),
                functions,
            })
        }
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
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
    pub fn get(&self, key: &[u8]) -> Result<bool, String> {
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
        if !value.is_null() {
            // SAFETY: LevelDB allocated the value for the caller.
            unsafe { (self.functions.free)(value.cast()) };
        }
        Ok(!value.is_null())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: the database was opened once, and dropping it ends all uses.
        unsafe { (self.functions.close)(self.database) };
    }
}

fn checked(failure: *mut c_char) -> Result<(), String> {
    if failure.is_null() {
        return Ok(());
    }
    // SAFETY: LevelDB's message; the program ends with it, so it stays allocated.
    let why = unsafe { CStr::from_ptr(failure) };
    Err(format!("LevelDB: {}", why.to_string_lossy()))
}
