//! Bytes from a stranger on the peer port: no panic, and no frame that was not
//! sent. The first byte chooses the pieces in which they come, and whether
//! their checksums are made right, without which nothing gets far.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    peers::fuzzing::greetings(bytes);
    let mut bytes = bytes.to_vec();
    if choice % 2 == 0 {
        peers::fuzzing::seal(&mut bytes);
    }
    peers::fuzzing::frames(&bytes, usize::from(*choice));
});
