//! Compresses the files of the page, and writes their table for `src/lib.rs`.
//!
//! ```text
//!   page/**  ──sorted by path──► gzip without a time ──► files/N.gz ──► table.rs: &[File]
//! ```
//!
//! The same files give the same bytes on each machine.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads the crate and writes where cargo tells it to"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

/// Characters of a file's hash in its ETag.
const TAG_CHARACTERS: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=page");
    let page = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("page");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut paths = Vec::new();
    find(&page, "", &mut paths)?;
    paths.sort();
    let mut table = String::from("&[\n");
    for (number, path) in paths.iter().enumerate() {
        let plain = fs::read(page.join(path))?;
        let compressed = out.join(format!("{number}.gz"));
        fs::write(&compressed, compress(&plain)?)?;
        let (kind, tag, bytes) = (kind(path)?, tag(&plain), plain.len());
        writeln!(
            table,
            "File {{ path: {path:?}, kind: {kind:?}, tag: {tag:?}, bytes: {bytes}, \
             compressed: include_bytes!({compressed:?}) }},"
        )?;
    }
    table.push(']');
    fs::write(out.join("table.rs"), table)?;
    Ok(())
}

/// Collects the paths below `folder`, with `/`. Names that begin with a dot are left out.
fn find(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|name| format!("{} is not UTF-8", name.display()))?;
        let path = format!("{prefix}{name}");
        if name.starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            find(&entry.path(), &format!("{path}/"), paths)?;
        } else {
            println!("cargo:rerun-if-changed={}", entry.path().display());
            paths.push(path);
        }
    }
    Ok(())
}

fn compress(plain: &[u8]) -> Result<Vec<u8>, std::io::Error> {
    let mut writer = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::new(), Compression::best());
    writer.write_all(plain)?;
    writer.finish()
}

/// A weak ETag: the plain and the compressed body of a file share it.
fn tag(plain: &[u8]) -> String {
    let mut tag = String::from("W/\"");
    for byte in &Sha256::digest(plain)[..TAG_CHARACTERS / 2] {
        let _ = write!(tag, "{byte:02x}");
    }
    tag + "\""
}

fn kind(path: &str) -> Result<&'static str, String> {
    let (_, suffix) = path.rsplit_once('.').unwrap_or_default();
    Ok(match suffix {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "txt" => "text/plain; charset=utf-8",
        _ => {
            return Err(format!(
                "page/{path}: build.rs knows no content type for it"
            ));
        }
    })
}
