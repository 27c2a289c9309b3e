//! The check of a whole file: each page belongs to a tree, to the free list, or is free.

use crate::bucket::Tree;
use crate::entries::{Entries, Entry};
use crate::error::Error;
use crate::file::DatabaseFile;
use crate::format::{COUNT_IS_FIRST, FREE_LIST, LEAF_BYTES_MAX, NO_FREE_LIST, PAGE_HEADER_BYTES};
use crate::meta::u64_at;
use crate::page_set::PageSet;

impl DatabaseFile {
    /// Reads every page that is in use, and refuses pages that two others refer to, or that are
    /// neither in use nor free. In a file without a free list, pages that are not in use are free.
    /// `progress` gets the bytes of keys and values that were read.
    pub fn check(&self, mut progress: impl FnMut(u64)) -> Result<(), Error> {
        let mut read = |entry: Result<Entry, Error>| {
            let (key, value) = entry?;
            progress((key.len() + value.len()) as u64);
            Ok(())
        };
        let mut walk = Entries::of_root(self);
        let buckets = self.buckets()?;
        while let Some(element) = walk.next_element() {
            element?;
        }
        for bucket in &buckets {
            match bucket.tree {
                Tree::Root(page) => {
                    walk.go_on_below(page);
                    walk.by_ref().try_for_each(&mut read)?;
                }
                Tree::Inline(_) => {
                    self.entries(bucket).try_for_each(&mut read)?;
                }
            }
        }
        match self.meta.free_list {
            NO_FREE_LIST => Ok(()),
            page => self.check_free(page, walk.seen),
        }
    }

    /// Compares the free list with the pages in use.
    fn check_free(&self, page: u64, mut used: PageSet) -> Result<(), Error> {
        let (header, bytes) = self.read(page, |_| LEAF_BYTES_MAX)?;
        if header.flags != FREE_LIST {
            let problem = format!(
                "its flags are {:#x}, and it must be the free list",
                header.flags
            );
            return Err(self.damaged(page, problem));
        }
        for id in page..=page + u64::from(header.overflow) {
            if !used.insert(id) {
                return Err(self.damaged(id, "the free list is in use as another page"));
            }
        }
        let body = &bytes[PAGE_HEADER_BYTES..];
        let (count, list) = match header.count {
            COUNT_IS_FIRST if body.len() >= 8 => (u64_at(body, 0), &body[8..]),
            count => (u64::from(count), body),
        };
        if count > list.len() as u64 / 8 {
            let problem = format!("it lists {count} pages, and they do not fit in it");
            return Err(self.damaged(page, problem));
        }
        // At most the length of the list.
        let ids = list.chunks_exact(8).take(count as usize);
        for id in ids.map(|id| u64_at(id, 0)) {
            if id < 2 || id >= self.meta.pages {
                return Err(self.damaged(page, format!("it lists page {id}, which there is not")));
            }
            if !used.insert(id) {
                return Err(self.damaged(id, "it is listed as free, and is in use or listed twice"));
            }
        }
        match (2..self.meta.pages).find(|id| !used.contains(*id)) {
            None => Ok(()),
            Some(lost) => Err(self.damaged(lost, "it is neither in use nor free")),
        }
    }
}
