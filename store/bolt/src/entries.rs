//! A walk over one tree, in the order of its keys.
//!
//! Each page is checked when it is reached: its number, size, kind and elements; that its keys
//! ascend and lie between the keys of the branches above it; that no page is reached twice.

use bytes::Bytes;

use crate::error::Error;
use crate::file::DatabaseFile;
use crate::format::LEVELS_MAX;
use crate::page::{Leaf, Page, PageKind, Place};
use crate::page_set::PageSet;

/// A key and its value.
pub type Entry = (Bytes, Bytes);

/// Keys and values of a bucket, ascending. It ends after its first error.
#[derive(Debug)]
pub struct Entries<'a> {
    file: &'a DatabaseFile,
    /// Pages of the trees that were walked.
    pub(crate) seen: PageSet,
    /// From the root to the page that is read; empty at the end.
    path: Vec<Level>,
    /// The page that comes next, as the walk goes down.
    next: Option<Step>,
    /// The last key.
    last: Option<Bytes>,
    /// Whether it walks over the page of a bucket without pages of its own.
    is_inline: bool,
}

/// A page on the way to the leaf that is read.
#[derive(Debug)]
struct Level {
    page: Page,
    /// Its next element.
    element: u16,
    /// Keys are less than this.
    end: Option<Bytes>,
}

/// A page to go to.
#[derive(Debug)]
struct Step {
    page: u64,
    /// Keys of the page, from the one to before the other.
    begin: Option<Bytes>,
    end: Option<Bytes>,
}

impl<'a> Entries<'a> {
    /// The tree of buckets.
    pub(crate) fn of_root(file: &'a DatabaseFile) -> Entries<'a> {
        Entries::below(file, file.meta.root)
    }

    /// The tree below a page.
    pub(crate) fn below(file: &'a DatabaseFile, page: u64) -> Entries<'a> {
        let mut entries = Entries::at_end(file, PageSet::of(file.meta.pages));
        entries.go_on_below(page);
        entries
    }

    /// The leaf of an inline bucket.
    pub(crate) fn in_page(file: &'a DatabaseFile, page: Page) -> Entries<'a> {
        // It belongs to a page that the walk over the buckets has met.
        let mut entries = Entries::at_end(file, PageSet::of(0));
        entries.is_inline = true;
        entries.path.push(Level {
            page,
            element: 0,
            end: None,
        });
        entries
    }

    fn at_end(file: &'a DatabaseFile, seen: PageSet) -> Entries<'a> {
        Entries {
            file,
            seen,
            path: Vec::new(),
            next: None,
            last: None,
            is_inline: false,
        }
    }

    /// Goes on with another tree, which may share no page with those before.
    pub(crate) fn go_on_below(&mut self, page: u64) {
        self.last = None;
        self.next = Some(Step {
            page,
            begin: None,
            end: None,
        });
    }

    /// The next entry, and where it is.
    pub fn next_placed(&mut self) -> Option<Result<(Place, Entry), Error>> {
        let entry = self.next()?;
        let level = self.path.last();
        let place = level.map_or_else(Place::default, |level| {
            let place = level.page.entry_place(level.element - 1);
            let page_offset = match self.is_inline {
                true => 0,
                false => self.file.offset_of(level.page.id),
            };
            Place {
                offset: page_offset + place.offset,
                ..place
            }
        });
        Some(entry.map(|entry| (place, entry)))
    }

    /// The next element of a leaf with the number of its page.
    pub(crate) fn next_element(&mut self) -> Option<Result<(u64, Leaf), Error>> {
        let element = self.find();
        if element.is_err() {
            self.path.clear();
            self.next = None;
        }
        element.transpose()
    }

    fn find(&mut self) -> Result<Option<(u64, Leaf)>, Error> {
        loop {
            if let Some(step) = self.next.take() {
                self.enter(step)?;
            }
            let Some(level) = self.path.last_mut() else {
                return Ok(None);
            };
            if level.element == level.page.count {
                self.path.pop();
                continue;
            }
            let (number, page) = (level.element, level.page.clone());
            level.element += 1;
            let damaged = |problem| self.file.damaged(page.id, problem);
            match page.kind {
                PageKind::Leaf => {
                    let leaf = page.leaf(number).map_err(damaged)?;
                    let end = level.end.clone();
                    self.order(&page, &leaf.key, end.as_ref())?;
                    // A copy, so that it keeps no page in memory.
                    self.last = Some(Bytes::copy_from_slice(&leaf.key));
                    return Ok(Some((page.id, leaf)));
                }
                PageKind::Branch => {
                    let end = match number + 1 < page.count {
                        true => Some(page.child(number + 1).map_err(damaged)?.first_key),
                        false => level.end.clone(),
                    };
                    let child = page.child(number).map_err(damaged)?;
                    self.order(&page, &child.first_key, end.as_ref())?;
                    self.next = Some(Step {
                        page: child.page,
                        begin: Some(child.first_key),
                        end,
                    });
                }
            }
        }
    }

    /// Refuses a key that is not behind the last one, or not before the end of its page.
    fn order(&self, page: &Page, key: &Bytes, end: Option<&Bytes>) -> Result<(), Error> {
        let ascends = self.last.as_ref().is_none_or(|last| last < key);
        match ascends && end.is_none_or(|end| key < end) {
            true => Ok(()),
            false => Err(self.file.damaged(page.id, "its keys are not in order")),
        }
    }

    /// Reads the page of a step.
    fn enter(&mut self, step: Step) -> Result<(), Error> {
        let (page, overflow) = self.file.page(step.page)?;
        for id in step.page..=step.page + u64::from(overflow) {
            if !self.seen.insert(id) {
                return Err(self.file.damaged(id, "two others refer to it"));
            }
        }
        if self.path.len() == LEVELS_MAX {
            let problem = format!("it is more than {LEVELS_MAX} levels below its root");
            return Err(self.file.damaged(step.page, problem));
        }
        if let Some(begin) = &step.begin {
            let first = match page.kind {
                _ if page.count == 0 => Err("it is empty".to_owned()),
                PageKind::Branch => page.child(0).map(|child| child.first_key),
                PageKind::Leaf => page.leaf(0).map(|leaf| leaf.key),
            };
            let first = first.map_err(|problem| self.file.damaged(step.page, problem))?;
            if first < begin {
                let problem = "its first key is less than the branch above it says";
                return Err(self.file.damaged(step.page, problem));
            }
        }
        self.path.push(Level {
            page,
            element: 0,
            end: step.end,
        });
        Ok(())
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let element = self.next_element()?;
        Some(element.and_then(|(page, leaf)| match leaf.is_bucket {
            false => Ok((leaf.key, leaf.value)),
            true => {
                self.path.clear();
                Err(self
                    .file
                    .damaged(page, "it has a bucket inside of a bucket; etcd makes none"))
            }
        }))
    }
}
