//! The files of the page at `/ui`.
//!
//! ```text
//!   page/index.html, *.js, *.css ──build.rs──► gzip ──► the binary ──► server: GET /ui/…
//!                                                          └─ inflated for a client without gzip
//! ```
//!
//! The page is plain modules, styles and one document, written as browsers read them: there is
//! no build step besides the compression. It holds no data; it asks the JSON gateway for that,
//! in the name of the user that signed in.

use std::io::Read;

use flate2::read::GzDecoder;

#[cfg(test)]
mod tests;

/// The document at `/ui/`.
pub const INDEX: &str = "index.html";

/// Most bytes of all files, compressed.
pub const COMPRESSED_BYTES_MAX: usize = 200_000;

/// The policy with which each file is served: everything comes from this server, nothing is
/// inline, and no other page may frame it.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'none'; \
    form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// One file of the page.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// Its path below `/ui/`.
    pub path: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// Its ETag, made of its bytes; the same for both encodings, and therefore weak.
    pub tag: &'static str,
    /// Bytes before the compression.
    pub bytes: usize,
    /// Its bytes in gzip.
    pub compressed: &'static [u8],
}

/// Ascending by path.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// All files, ascending by path.
pub fn files() -> &'static [File] {
    FILES
}

/// The file of a path below `/ui/`.
pub fn find(path: &str) -> Option<&'static File> {
    let place = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(place)
}

impl File {
    /// The bytes of the file.
    pub fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::with_capacity(self.bytes);
        let read = GzDecoder::new(self.compressed).read_to_end(&mut plain);
        read.expect("the build compressed it");
        plain
    }
}
