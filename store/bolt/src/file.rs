//! The file: its meta page, and pages by their number.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::bucket::{Bucket, Tree, shown};
use crate::checksum::{self, Checksum};
use crate::entries::Entries;
use crate::error::Error;
use crate::format::{
    BRANCH, BRANCH_BYTES_MAX, BUCKETS_MAX, LEAF_BYTES_MAX, META_BYTES, PAGE_BYTES_MAX,
    PAGE_BYTES_MIN, PAGE_HEADER_BYTES, PAGES_MAX,
};
use crate::meta::{Meta, MetaFault};
use crate::page::{Header, Page};

/// A database file that is open for reading. Its pages are checked as they are read.
#[derive(Debug)]
pub struct DatabaseFile {
    file: File,
    path: PathBuf,
    length: u64,
    pub(crate) meta: Meta,
}

impl DatabaseFile {
    /// Opens a file and reads its meta pages.
    #[expect(
        clippy::disallowed_methods,
        reason = "a file that an operator names, and that no simulated disk has"
    )]
    pub fn open(path: &Path) -> Result<DatabaseFile, Error> {
        let system = |error| Error::io(path, error);
        // To open a pipe would wait for its writer.
        if !fs::metadata(path).map_err(system)?.is_file() {
            return Err(Error::file(
                path,
                "it is no file; name etcd's snapshot or its member/snap/db",
            ));
        }
        let file = File::open(path).map_err(system)?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let problem = "a running etcd writes it; stop that one, or take a snapshot";
                return Err(Error::file(path, problem));
            }
            Err(TryLockError::Error(error)) => return Err(system(error)),
        }
        let length = file.metadata().map_err(system)?.len();
        let meta = newest_meta(&file, path)?;
        let needed = meta.pages.checked_mul(u64::from(meta.page_bytes));
        if meta.pages > PAGES_MAX {
            let pages = meta.pages;
            let problem =
                format!("it has {pages} pages, and {PAGES_MAX} are the most that are read");
            return Err(Error::file(path, problem));
        }
        if needed.is_none_or(|needed| needed > length) {
            let (pages, bytes) = (meta.pages, meta.page_bytes);
            let problem = format!(
                "it ends at {length} bytes, and its {pages} pages of {bytes} bytes need more: it was \
                 cut off; take another copy"
            );
            return Err(Error::file(path, problem));
        }
        Ok(DatabaseFile {
            file,
            path: path.to_owned(),
            length,
            meta,
        })
    }

    /// Bytes of all pages, free ones included.
    pub fn size_bytes(&self) -> u64 {
        self.meta.pages * u64::from(self.meta.page_bytes)
    }

    /// Its buckets, ascending by name.
    pub fn buckets(&self) -> Result<Vec<Bucket>, Error> {
        let mut buckets = Vec::new();
        let mut elements = Entries::of_root(self);
        while let Some(element) = elements.next_element() {
            let (page, leaf) = element?;
            if !leaf.is_bucket {
                return Err(self.damaged(
                    page,
                    format!("{} is a value among buckets", shown(&leaf.key)),
                ));
            }
            let bucket = Bucket::decode(page, &leaf.key, &leaf.value);
            buckets.push(bucket.map_err(|problem| self.damaged(page, problem))?);
            if buckets.len() > BUCKETS_MAX {
                let problem = format!("it has more than {BUCKETS_MAX} buckets; etcd makes ten");
                return Err(Error::file(&self.path, problem));
            }
        }
        Ok(buckets)
    }

    /// The bucket of this name.
    pub fn bucket(&self, name: &str) -> Result<Option<Bucket>, Error> {
        let mut buckets = self.buckets()?.into_iter();
        Ok(buckets.find(|bucket| bucket.name == name.as_bytes()))
    }

    /// Keys and values of a bucket, ascending.
    pub fn entries(&self, bucket: &Bucket) -> Entries<'_> {
        match &bucket.tree {
            Tree::Root(page) => Entries::below(self, *page),
            Tree::Inline(page) => Entries::in_page(self, page.clone()),
        }
    }

    /// The checksum behind the pages, which `etcdctl snapshot save` writes, compared with the bytes
    /// before it. `progress` gets the bytes that were read, and how many there are.
    pub fn checksum(&self, progress: impl FnMut(u64, u64)) -> Result<Checksum, Error> {
        let compared = checksum::of(&self.file, self.length, progress);
        compared.map_err(|error| Error::io(&self.path, error))
    }

    /// The page of this number, with the pages that belong to it.
    pub(crate) fn page(&self, id: u64) -> Result<(Page, u32), Error> {
        let (header, bytes) = self.read(id, |header| match header.flags {
            BRANCH => BRANCH_BYTES_MAX,
            _ => LEAF_BYTES_MAX,
        })?;
        let page = Page::new(id, bytes).map_err(|problem| self.damaged(id, problem))?;
        Ok((page, header.overflow))
    }

    /// All bytes of the page of this number, which may be at most as many as `bytes_max` says.
    pub(crate) fn read(
        &self,
        id: u64,
        bytes_max: impl Fn(&Header) -> u64,
    ) -> Result<(Header, Bytes), Error> {
        if id < 2 || id >= self.meta.pages {
            let last = self.meta.pages.saturating_sub(1);
            return Err(self.damaged(id, format!("it is none of the pages 2 to {last}")));
        }
        let page_bytes = u64::from(self.meta.page_bytes);
        let offset = self.offset_of(id);
        // Most pages have no further ones, and are read by one call.
        let mut bytes = vec![0; page_bytes as usize];
        self.read_at(&mut bytes, offset)?;
        let header = bytes
            .first_chunk()
            .expect("a page is larger than its header");
        let header = Header::decode(header);
        if header.id != id {
            return Err(self.damaged(id, format!("it calls itself page {}", header.id)));
        }
        let pages = 1 + u64::from(header.overflow);
        if pages > self.meta.pages - id {
            return Err(self.damaged(id, format!("its {pages} pages reach beyond the last one")));
        }
        let (length, most) = (pages * page_bytes, bytes_max(&header));
        if length > most {
            return Err(self.damaged(
                id,
                format!("it has {length} bytes, and {most} are the most"),
            ));
        }
        if length > page_bytes {
            // It is at most LEAF_BYTES_MAX.
            bytes.resize(length as usize, 0);
            self.read_at(&mut bytes[page_bytes as usize..], offset + page_bytes)?;
        }
        Ok((header, bytes.into()))
    }

    pub(crate) fn damaged(&self, page: u64, problem: impl Into<String>) -> Error {
        Error::page(&self.path, page, problem)
    }

    /// Where a page begins in the file.
    pub(crate) fn offset_of(&self, page: u64) -> u64 {
        page * u64::from(self.meta.page_bytes)
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|error| Error::io(&self.path, error))
    }
}

/// The newer of the valid meta pages. The second one's place depends on the size of a page, which
/// the first one says if it is valid.
fn newest_meta(file: &File, path: &Path) -> Result<Meta, Error> {
    let at = |offset| meta_at(file, offset).map_err(|error| Error::io(path, error));
    let mut metas = vec![at(0)?];
    let sizes = match &metas[0] {
        Ok(meta) => meta.page_bytes..=meta.page_bytes,
        Err(_) => PAGE_BYTES_MIN..=PAGE_BYTES_MAX,
    };
    let mut size = *sizes.start();
    while sizes.contains(&size) {
        let found = at(u64::from(size))?;
        metas.extend(keep_at(size, found));
        size *= 2;
    }
    let valid = metas.iter().filter_map(|meta| meta.as_ref().ok());
    if let Some(newest) = valid.max_by_key(|meta| meta.transaction) {
        return Ok(*newest);
    }
    let mut faults = metas.iter().filter_map(|meta| meta.as_ref().err());
    // Where nothing looks like etcd's, the beginning of the file says best what it is.
    let fault = faults
        .clone()
        .find(|fault| !matches!(fault, MetaFault::Foreign(_)));
    let fault = fault.or(faults.next()).map(ToString::to_string);
    Err(Error::file(path, fault.unwrap_or_default()))
}

/// A meta page that says that its place is right, or the fault of one.
fn keep_at(size: u32, found: Result<Meta, MetaFault>) -> Option<Result<Meta, MetaFault>> {
    match found {
        Ok(meta) if meta.page_bytes != size => None,
        found => Some(found),
    }
}

/// The meta page at an offset, or why there is none.
fn meta_at(file: &File, offset: u64) -> io::Result<Result<Meta, MetaFault>> {
    let mut page = [0; PAGE_HEADER_BYTES + META_BYTES];
    match file.read_exact_at(&mut page, offset) {
        Ok(()) => Ok(Meta::decode(&page)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            let problem = "it ends within its first page";
            Ok(Err(MetaFault::Foreign(problem.to_owned())))
        }
        Err(error) => Err(error),
    }
}
