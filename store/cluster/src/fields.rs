//! Reads the fields of a message from its bytes. All numbers are little-endian.

use bytes::{Buf, Bytes};

use crate::EntryId;

/// The bytes of a message that are not read yet.
pub(crate) struct Fields(pub Bytes);

impl Fields {
    pub fn bytes(&mut self, length: usize) -> Result<Bytes, String> {
        if length > self.0.len() {
            return Err("the message is cut off".into());
        }
        Ok(self.0.split_to(length))
    }

    /// Bytes behind their length.
    pub fn sized(&mut self) -> Result<Bytes, String> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }

    pub fn u8(&mut self) -> Result<u8, String> {
        Ok(self.bytes(1)?[0])
    }

    pub fn u16(&mut self) -> Result<u16, String> {
        Ok(self.bytes(2)?.get_u16_le())
    }

    pub fn u32(&mut self) -> Result<u32, String> {
        Ok(self.bytes(4)?.get_u32_le())
    }

    pub fn u64(&mut self) -> Result<u64, String> {
        Ok(self.bytes(8)?.get_u64_le())
    }

    pub fn entry_id(&mut self) -> Result<EntryId, String> {
        Ok(EntryId::new(self.u64()?, self.u64()?))
    }

    /// Numbers up to the end of the message.
    pub fn all_u64(&mut self) -> Result<Vec<u64>, String> {
        let mut numbers = Vec::with_capacity(self.0.len() / 8);
        while !self.0.is_empty() {
            numbers.push(self.u64()?);
        }
        Ok(numbers)
    }
}
