//! A set of pages: one bit each.

/// Pages that were met.
#[derive(Debug)]
pub(crate) struct PageSet {
    bits: Vec<u64>,
}

impl PageSet {
    /// An empty set of the pages of a file.
    pub fn of(pages: u64) -> PageSet {
        let words = usize::try_from(pages.div_ceil(64)).expect("the file has these pages");
        PageSet {
            bits: vec![0; words],
        }
    }

    /// Adds a page; false if it was there already.
    pub fn insert(&mut self, page: u64) -> bool {
        let (word, bit) = place(page);
        let was_missing = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        was_missing
    }

    pub fn contains(&self, page: u64) -> bool {
        let (word, bit) = place(page);
        self.bits[word] & bit != 0
    }
}

fn place(page: u64) -> (usize, u64) {
    let word = usize::try_from(page / 64).expect("the page is in the file");
    (word, 1 << (page % 64))
}
