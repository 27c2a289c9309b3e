//! Reading and writing the fields of state records: little-endian numbers,
//! texts with their length in front, lists with their count.

use bytes::{Buf, BufMut, BytesMut};

use crate::Error;
use crate::alarm::Alarm;
use crate::source::SourceCluster;

/// Reads field after field and never beyond the end.
pub(crate) struct Fields<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of a record; its kind is for errors.
    pub fn of(kind: u8, payload: &'a [u8]) -> Fields<'a> {
        Fields {
            kind,
            rest: payload,
        }
    }

    pub fn unfit(&self, reason: &'static str) -> Error {
        Error::State {
            kind: self.kind,
            reason,
        }
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| self.unfit("too short"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn i64(&mut self) -> Result<i64, Error> {
        self.bytes(8).map(|mut bytes| bytes.get_i64_le())
    }

    pub fn u64(&mut self) -> Result<u64, Error> {
        self.bytes(8).map(|mut bytes| bytes.get_u64_le())
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        self.bytes(4).map(|mut bytes| bytes.get_u32_le())
    }

    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.bytes(1)?[0])
    }

    pub fn bool(&mut self) -> Result<bool, Error> {
        match self.bytes(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.unfit("neither yes nor no")),
        }
    }

    pub fn text(&mut self) -> Result<String, Error> {
        let length = self.u32()? as usize;
        let text = std::str::from_utf8(self.bytes(length)?);
        text.map(str::to_owned)
            .map_err(|_| self.unfit("a text that is not UTF-8"))
    }

    /// A count is not trusted with memory: each text takes its four bytes.
    pub fn texts(&mut self) -> Result<Vec<String>, Error> {
        (0..self.u32()?).map(|_| self.text()).collect()
    }

    /// Bytes with their length in front.
    pub fn long_bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = self.u32()? as usize;
        self.bytes(length)
    }

    pub fn alarm(&mut self) -> Result<Alarm, Error> {
        let kind = self.bytes(4)?.get_i32_le();
        let member_id = self.u64()?;
        Ok(Alarm { kind, member_id })
    }

    pub fn source(&mut self) -> Result<SourceCluster, Error> {
        let cluster_id = self.u64()?;
        let name = self.text()?.into();
        Ok(SourceCluster { cluster_id, name })
    }

    pub fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.unfit("too long"))
        }
    }
}

pub(crate) fn put_alarm(target: &mut BytesMut, alarm: Alarm) {
    target.put_i32_le(alarm.kind);
    target.put_u64_le(alarm.member_id);
}

pub(crate) fn put_source(target: &mut BytesMut, source: &SourceCluster) {
    target.put_u64_le(source.cluster_id);
    put_text(target, &source.name);
}

pub(crate) fn put_text(target: &mut BytesMut, text: &str) {
    put_count(target, text.len());
    target.put_slice(text.as_bytes());
}

pub(crate) fn put_long_bytes(target: &mut BytesMut, bytes: &[u8]) {
    put_count(target, bytes.len());
    target.put_slice(bytes);
}

pub(crate) fn put_texts(target: &mut BytesMut, texts: &[String]) {
    put_count(target, texts.len());
    texts.iter().for_each(|text| put_text(target, text));
}

pub(crate) fn put_count(target: &mut BytesMut, length: usize) {
    let count = u32::try_from(length);
    target.put_u32_le(count.expect("nothing in memory that is counted here is that many"));
}
