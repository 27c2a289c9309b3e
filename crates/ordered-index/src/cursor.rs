//! A walk over a key range from both ends.
use crate::Entry;
use std::marker::PhantomData;

/// A walk over a key range from both ends; the two ends stop where they meet.
#[derive(Debug)]
pub struct Cursor<'a> {
    borrowed: PhantomData<&'a ()>,
}

impl Cursor<'_> {
    /// The smallest key not yet seen.
    #[expect(clippy::should_implement_trait, reason = "lends its key buffer")]
    pub fn next(&mut self) -> Option<(&[u8], Entry)> {
        let _ = self.borrowed;
        panic!("not built yet")
    }
    /// The greatest key not yet seen.
    pub fn next_back(&mut self) -> Option<(&[u8], Entry)> {
        panic!("not built yet")
    }
    /// Keys not yet seen; known from the start, without a walk.
    pub fn remaining(&self) -> u64 {
        panic!("not built yet")
    }
}
