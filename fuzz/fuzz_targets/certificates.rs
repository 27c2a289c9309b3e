//! PEM files, lists of revoked certificates, and certificates that a client shows.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    tls::fuzzing::pem(data);
    tls::fuzzing::revocation_list(data);
    tls::fuzzing::certificate(data);
});
