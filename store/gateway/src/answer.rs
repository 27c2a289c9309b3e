//! Answers of a call as JSON, written while they arrive.
//!
//! ```text
//!   [0, length] field field field …  [0, length] field …
//!                 │     │
//!                 │     └─ the same number again: one more element of the open list
//!                 └─ small: decoded as a message of this one field, and written as JSON
//!                    a large message: opened, and its fields written one by one
//! ```
//!
//! The fields of a message are independent of each other, so each is written as soon as it is
//! complete. That takes two properties of our encoders: the elements of a list come one after
//! another, and no other field comes twice.

use bytes::{Buf, BytesMut};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, SerializeOptions};

/// Bytes before a gRPC message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// A message within a message is decoded as a whole up to this size: decoded it may take
/// twenty times the memory.
const WHOLE_BYTES_MAX: usize = 16 << 10;
/// Longest encoding of a field's key or length.
const VARINT_BYTES_MAX: usize = 10;

/// How the messages of an answer are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One message: `{…}`.
    One,
    /// Any number, each on a line of its own: `{"result":{…}}`.
    Lines,
}

/// Bytes that are no answer of the call.
#[derive(Debug, thiserror::Error)]
#[error("inkstone: an answer of the server is no {message}: {what}")]
pub struct UnreadableAnswer {
    message: String,
    what: String,
}

/// Writes the messages of one answer as JSON.
#[derive(Debug)]
pub struct Transcoder {
    descriptor: MessageDescriptor,
    shape: Shape,
    /// Received bytes that are not written yet.
    pending: BytesMut,
    /// The messages that have begun, each within the one before it.
    open: Vec<Begun>,
}

/// A message of which a part is written.
#[derive(Debug)]
struct Begun {
    descriptor: MessageDescriptor,
    /// Bytes of it that are not written yet.
    missing_bytes: usize,
    /// The number of the list that is open.
    list: Option<u32>,
    is_empty: bool,
}

/// A field at the beginning of the pending bytes.
struct Field {
    number: u32,
    /// Bytes of its key, and of its length if it has one.
    head_bytes: usize,
    /// All its bytes.
    bytes: usize,
}

impl Transcoder {
    pub(crate) fn new(descriptor: MessageDescriptor, shape: Shape) -> Transcoder {
        Transcoder {
            descriptor,
            shape,
            pending: BytesMut::new(),
            open: Vec::new(),
        }
    }

    /// Adds the next bytes of the answer.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Whether a message has begun and is not complete.
    pub fn is_within_message(&self) -> bool {
        !self.open.is_empty() || !self.pending.is_empty()
    }

    /// Appends what can be written now, up to the end of the current message; whether that
    /// message is complete. If it is not, more bytes are needed.
    pub fn write(&mut self, json: &mut Vec<u8>) -> Result<bool, UnreadableAnswer> {
        if self.open.is_empty() {
            let Some(length) = self.prefix()? else {
                return Ok(false);
            };
            self.open.push(Begun::new(self.descriptor.clone(), length));
            json.extend_from_slice(match self.shape {
                Shape::One => b"{",
                Shape::Lines => b"{\"result\":{",
            });
        }
        while let Some(begun) = self.open.last() {
            if begun.missing_bytes == 0 {
                self.end(json);
                continue;
            }
            let limit = begun.missing_bytes;
            let field = Field::first_of(&self.pending, limit);
            let Some(field) = field.map_err(|what| self.unreadable(what))? else {
                return Ok(false);
            };
            if !self.write_field(&field, json)? {
                return Ok(false);
            }
        }
        json.extend_from_slice(match self.shape {
            Shape::One => b"",
            Shape::Lines => b"}\n",
        });
        Ok(true)
    }

    /// Reads the prefix of the next message, if it is there: the length of the message.
    fn prefix(&mut self) -> Result<Option<usize>, UnreadableAnswer> {
        let Some(prefix) = self.pending.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 {
            return Err(self.unreadable("it is compressed"));
        }
        self.pending.advance(PREFIX_BYTES);
        Ok(Some(u32::from_be_bytes(length) as usize))
    }

    /// Ends the innermost message.
    fn end(&mut self, json: &mut Vec<u8>) {
        let begun = self.open.pop().expect("a message has begun");
        if begun.list.is_some() {
            json.push(b']');
        }
        json.push(b'}');
    }

    /// Writes a field, or opens it if it is a large message; false if it is not complete.
    fn write_field(&mut self, field: &Field, json: &mut Vec<u8>) -> Result<bool, UnreadableAnswer> {
        let begun = self.open.last_mut().expect("a message has begun");
        let inner = match field.bytes > WHOLE_BYTES_MAX {
            true => begun.message(field.number),
            false => None,
        };
        if let Some((descriptor, inner)) = inner {
            begun.missing_bytes -= field.bytes;
            begun.open(&descriptor, json);
            self.pending.advance(field.head_bytes);
            let length = field.bytes - field.head_bytes;
            self.open.push(Begun::new(inner, length));
            return Ok(true);
        }
        if self.pending.len() < field.bytes {
            return Ok(false);
        }
        begun.missing_bytes -= field.bytes;
        let bytes = self.pending.split_to(field.bytes).freeze();
        let message = DynamicMessage::decode(begun.descriptor.clone(), bytes);
        match message {
            Ok(message) => begun.append(&message, json),
            Err(error) => return Err(self.unreadable(&error.to_string())),
        }
        Ok(true)
    }

    fn unreadable(&self, what: &str) -> UnreadableAnswer {
        UnreadableAnswer {
            message: self.descriptor.full_name().to_owned(),
            what: what.to_owned(),
        }
    }
}

impl Begun {
    fn new(descriptor: MessageDescriptor, length: usize) -> Begun {
        Begun {
            descriptor,
            missing_bytes: length,
            list: None,
            is_empty: true,
        }
    }

    /// The field with this number and its type, if it is a message.
    fn message(&self, number: u32) -> Option<(FieldDescriptor, MessageDescriptor)> {
        let field = self.descriptor.get_field(number)?;
        match field.kind() {
            Kind::Message(message) => Some((field, message)),
            _ => None,
        }
    }

    /// Appends the only field of a message.
    fn append(&mut self, message: &DynamicMessage, json: &mut Vec<u8>) {
        let text = serialized(message);
        // `{"name":value}`, or `{}` for a default value and for an unknown field.
        let text = &text[1..text.len() - 1];
        if let (Some((field, _)), false) = (message.fields().next(), text.is_empty()) {
            let value = &text[field.name().len() + 3..];
            self.name(&field, json);
            json.extend_from_slice(match field.is_list() {
                true => &value[1..value.len() - 1],
                false => value,
            });
        }
    }

    /// Opens a field that is a message.
    fn open(&mut self, field: &FieldDescriptor, json: &mut Vec<u8>) {
        self.name(field, json);
        json.push(b'{');
    }

    /// Writes what precedes a field's value. A list stays open for its next element.
    fn name(&mut self, field: &FieldDescriptor, json: &mut Vec<u8>) {
        let list = field.is_list().then(|| field.number());
        if list.is_some() && list == self.list {
            json.push(b',');
            return;
        }
        if self.list.is_some() {
            json.push(b']');
        }
        if !self.is_empty {
            json.push(b',');
        }
        (self.list, self.is_empty) = (list, false);
        json.push(b'"');
        json.extend_from_slice(field.name().as_bytes());
        json.extend_from_slice(match list {
            Some(_) => b"\":[",
            None => b"\":",
        });
    }
}

fn serialized(message: &DynamicMessage) -> Vec<u8> {
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .skip_default_fields(true)
        .stringify_64_bit_integers(true);
    let mut text = Vec::new();
    let mut writer = serde_json::Serializer::new(&mut text);
    message
        .serialize_with_options(&mut writer, &options)
        .expect("a message without maps of the well-known types is JSON");
    text
}

impl Field {
    /// The first field; `None` if its length is not known yet. `limit` are the bytes of its
    /// message that are left.
    fn first_of(bytes: &[u8], limit: usize) -> Result<Option<Field>, &'static str> {
        let Some((key, key_bytes)) = varint(bytes)? else {
            return Ok(None);
        };
        let rest = &bytes[key_bytes..];
        let (prefix, value) = match key & 7 {
            0 => match varint(rest)? {
                Some((_, length)) => (0, length),
                None => return Ok(None),
            },
            1 => (0, 8),
            2 => match varint(rest)? {
                Some((length, prefix)) => (prefix, usize::try_from(length).unwrap_or(usize::MAX)),
                None => return Ok(None),
            },
            5 => (0, 4),
            _ => return Err("a field of an unknown kind"),
        };
        let field = Field {
            number: u32::try_from(key >> 3).map_err(|_| "a field of an unknown number")?,
            head_bytes: key_bytes + prefix,
            bytes: (key_bytes + prefix).saturating_add(value),
        };
        match field.bytes <= limit {
            true => Ok(Some(field)),
            false => Err("a field is longer than its message"),
        }
    }
}

/// A number and the length of its encoding; `None` if it is not complete.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, &'static str> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate().take(VARINT_BYTES_MAX) {
        value |= u64::from(byte & 0x7f)
            .checked_shl(7 * place as u32)
            .unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(Some((value, place + 1)));
        }
    }
    match bytes.len() < VARINT_BYTES_MAX {
        true => Ok(None),
        false => Err("a number is too long"),
    }
}

#[cfg(test)]
mod tests {
    use etcd_api::etcdserverpb::response_op::Response as Operation;
    use etcd_api::etcdserverpb::{
        MemberListResponse, RangeResponse, ResponseHeader, ResponseOp, StatusResponse, TxnResponse,
        WatchResponse,
    };
    use etcd_api::mvccpb::{Event, KeyValue};
    use etcd_api::v3electionpb::LeaderResponse;
    use prost::Message;

    use super::*;
    use crate::routes::find;

    fn frames(messages: &[&dyn Framed]) -> Vec<u8> {
        messages
            .iter()
            .flat_map(|message| message.framed())
            .collect()
    }

    trait Framed {
        fn framed(&self) -> Vec<u8>;
    }

    impl<T: Message> Framed for T {
        fn framed(&self) -> Vec<u8> {
            let message = self.encode_to_vec();
            let mut framed = vec![0];
            framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
            framed.extend(message);
            framed
        }
    }

    /// The JSON, from pieces of each of several sizes.
    fn json(path: &str, bytes: &[u8]) -> String {
        let texts = [1, 2, 7, 1000].map(|piece_bytes| {
            let mut transcoder = find(path).unwrap().transcoder();
            let mut text = Vec::new();
            for piece in bytes.chunks(piece_bytes) {
                transcoder.push(piece);
                while transcoder.write(&mut text).unwrap() {}
            }
            assert!(!transcoder.is_within_message());
            String::from_utf8(text).unwrap()
        });
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        texts[0].clone()
    }

    fn header() -> Option<ResponseHeader> {
        Some(ResponseHeader {
            cluster_id: u64::MAX,
            revision: 7,
            ..Default::default()
        })
    }

    fn kv(key: &'static str) -> KeyValue {
        KeyValue {
            key: key.into(),
            mod_revision: 3,
            value: "<&>".into(),
            ..Default::default()
        }
    }

    #[test]
    fn lists_and_numbers_are_written_and_default_values_are_not() {
        let range = RangeResponse {
            header: header(),
            kvs: vec![kv("a").into(), kv("b").into()],
            more: false,
            count: 2,
        };
        let pair = |key| format!(r#"{{"key":"{key}","mod_revision":"3","value":"PCY+"}}"#);
        let header = r#""header":{"cluster_id":"18446744073709551615","revision":"7"}"#;
        let expected = format!(
            r#"{{{header},"kvs":[{},{}],"count":"2"}}"#,
            pair("YQ=="),
            pair("Yg==")
        );
        assert_eq!(json("/v3/kv/range", &frames(&[&range])), expected);
        assert_eq!(
            json("/v3/kv/range", &frames(&[&RangeResponse::default()])),
            "{}"
        );
    }

    #[test]
    fn a_list_may_come_last() {
        let fields = RangeResponse {
            count: 2,
            ..Default::default()
        }
        .encode_to_vec();
        let list = RangeResponse {
            kvs: vec![kv("a").into(), kv("b").into()],
            ..Default::default()
        };
        let message = [fields, list.encode_to_vec()].concat();
        let mut framed = vec![0, 0, 0, 0, message.len() as u8];
        framed.extend(message);
        let text = json("/v3/kv/range", &framed);
        assert!(
            text.starts_with(r#"{"count":"2","kvs":[{"key":"YQ==""#),
            "{text}"
        );
        assert!(text.ends_with("}]}"), "{text}");
    }

    #[test]
    fn a_stream_has_a_line_for_each_message() {
        let created = WatchResponse {
            created: true,
            ..Default::default()
        };
        let deleted = Event {
            r#type: 1,
            kv: Some(kv("a").into()),
            prev_kv: None,
        };
        let put = Event {
            r#type: 0,
            kv: Some(kv("a").into()),
            prev_kv: None,
        };
        let events = WatchResponse {
            events: vec![put, deleted],
            ..Default::default()
        };
        let text = json(
            "/v3/watch",
            &frames(&[&created, &events, &WatchResponse::default()]),
        );
        let pair = r#""kv":{"key":"YQ==","mod_revision":"3","value":"PCY+"}"#;
        assert_eq!(
            text,
            format!(
                "{{\"result\":{{\"created\":true}}}}\n\
                 {{\"result\":{{\"events\":[{{{pair}}},{{\"type\":\"DELETE\",{pair}}}]}}}}\n\
                 {{\"result\":{{}}}}\n"
            )
        );
    }

    #[test]
    fn messages_that_are_set_but_empty_are_written() {
        let operation = |response| ResponseOp {
            response: Some(response),
        };
        let txn = TxnResponse {
            header: Some(ResponseHeader::default()),
            succeeded: true,
            responses: vec![
                operation(Operation::ResponsePut(Default::default())),
                operation(Operation::ResponseRange(Default::default())),
            ],
        };
        assert_eq!(
            json("/v3/kv/txn", &frames(&[&txn])),
            r#"{"header":{},"succeeded":true,"responses":[{"response_put":{}},{"response_range":{}}]}"#
        );
        assert_eq!(
            json(
                "/v3/cluster/member/list",
                &frames(&[&MemberListResponse::default()])
            ),
            "{}"
        );
    }

    #[test]
    fn names_are_those_of_the_proto_files() {
        let status = StatusResponse {
            version: "3.7.3".into(),
            db_size: 5,
            raft_index: 6,
            errors: vec!["a".into(), "b".into()],
            ..Default::default()
        };
        let text = json("/v3/maintenance/status", &frames(&[&status]));
        assert_eq!(
            text,
            r#"{"version":"3.7.3","dbSize":"5","raftIndex":"6","errors":["a","b"]}"#
        );
        let leader = LeaderResponse {
            header: None,
            kv: Some(kv("a").into()),
        };
        let text = json("/v3/election/observe", &frames(&[&leader]));
        assert!(text.starts_with("{\"result\":{\"kv\":{"), "{text}");
    }

    #[test]
    fn large_messages_are_written_while_they_arrive() {
        let large = KeyValue {
            value: vec![0; WHOLE_BYTES_MAX].into(),
            ..kv("large")
        };
        let range = |kvs: &[&KeyValue]| RangeResponse {
            header: header(),
            kvs: kvs.iter().map(|kv| (*kv).clone().into()).collect(),
            more: true,
            count: 9,
        };
        let small = kv("small");
        let ranges = [
            range(&[&large, &small, &large, &large]),
            range(&[&small, &large, &small]),
        ];
        let responses = ranges.map(|range| ResponseOp {
            response: Some(Operation::ResponseRange(range)),
        });
        let txn = TxnResponse {
            header: None,
            succeeded: false,
            responses: responses.into(),
        };
        let text = json("/v3/kv/txn", &frames(&[&txn]));
        // The same message, decoded and written as a whole.
        let descriptor = find("/v3/kv/txn").unwrap().transcoder().descriptor;
        let whole = DynamicMessage::decode(descriptor, &txn.encode_to_vec()[..]).unwrap();
        assert_eq!(text, String::from_utf8(serialized(&whole)).unwrap());
        let mut transcoder = find("/v3/kv/txn").unwrap().transcoder();
        let bytes = frames(&[&txn]);
        transcoder.push(&bytes[..WHOLE_BYTES_MAX + 200]);
        let mut text = Vec::new();
        assert!(!transcoder.write(&mut text).unwrap());
        assert!(text.len() > WHOLE_BYTES_MAX, "the first pair is complete");
    }

    #[test]
    fn bytes_that_are_no_answer_are_an_error() {
        for bytes in [
            &[1, 0, 0, 0, 0][..],
            // A field longer than its message.
            &[0, 0, 0, 0, 2, 0x0a, 9],
            &[0, 0, 0, 0, 2, 0x0f, 0],
            // A header that is no message.
            &[0, 0, 0, 0, 3, 0x0a, 1, 0xff],
            &[
                0, 0, 0, 0, 12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            ],
        ] {
            let mut transcoder = find("/v3/kv/range").unwrap().transcoder();
            transcoder.push(bytes);
            let error = transcoder.write(&mut Vec::new()).unwrap_err().to_string();
            assert!(error.contains("etcdserverpb.RangeResponse"), "{error}");
        }
    }
}
