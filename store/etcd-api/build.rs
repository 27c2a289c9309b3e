//! Compiles our proto files with protox, a protobuf compiler in Rust: no
//! `protoc` needs to be installed.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script writes where cargo tells it to"
)]

use std::{env, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 8] = [
    "kv.proto",
    "auth.proto",
    "rpc.proto",
    "v3lock.proto",
    "v3election.proto",
    "follow.proto",
    "snapshots.proto",
    "view.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".")
        // Stored bytes travel unchanged; see src/encoded_key_value.rs.
        .extern_path(".mvccpb.KeyValue", "crate::EncodedKeyValue")
        // It holds hashes of passwords, which must not reach a log.
        .skip_debug(["inkstonepb.GivenUsers"])
        .compile_fds(descriptors)?;
    Ok(())
}
