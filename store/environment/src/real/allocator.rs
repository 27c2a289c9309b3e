//! Makes the C library's allocator return memory to the system.

/// Makes the C library return large blocks of memory to the system when they are freed. By
/// default glibc raises the threshold between mapped blocks and its heap to the largest block
/// that was freed. After that, values of a mebibyte lie on the heap between small blocks that
/// live longer, and their memory stays with the process: half a gigabyte after 200 answers of 10
/// MiB. Must be called before other threads are started. Does nothing if the C library is not
/// GNU's.
pub fn return_large_pieces() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Blocks of at least this size are mapped and unmapped one by one.
        const MAPPED_BYTES_MIN: i32 = 512 << 10;
        /// Free bytes at the end of the heap above which they are returned.
        const FREE_BYTES_MAX: i32 = 64 << 20;
        for (parameter, bytes) in [
            (libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
            (libc::M_TRIM_THRESHOLD, FREE_BYTES_MAX),
        ] {
            // SAFETY: sets a parameter of the allocator; no pointer is passed.
            let taken = unsafe { libc::mallopt(parameter, bytes) };
            assert_eq!(taken, 1, "both bounds are within what the C library allows");
        }
    }
}

/// Makes the C library return memory that was freed, also between blocks that are in use. It takes
/// the locks of the allocator, and other threads that allocate wait for it, so it is for the end of work that
/// needed much memory once. Does nothing if the C library is not GNU's.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: has no precondition; only memory that is free is returned.
        unsafe { libc::malloc_trim(0) };
    }
}
