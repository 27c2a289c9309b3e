//! Encodes answers for HTTP/2: a small one as one piece, a large one as pieces most of which are the
//! buffers that were read.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use etcd_api::etcdserverpb::RangeResponse;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use tonic::Status;

/// Parts of an answer up to this size are copied together into one piece.
const COPIED_BYTES_MAX: usize = 4 << 10;
/// Approximate size of a piece that consists of copies.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes before a gRPC message: whether it is compressed, and its length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// Encodes a message with its gRPC prefix, in one allocation.
pub(crate) fn encode_whole(message: &impl Message) -> Result<Bytes, Status> {
    let bytes = message.encoded_len();
    let mut encoded = BytesMut::with_capacity(PREFIX_BYTES + bytes);
    put_prefix(&mut encoded, bytes)?;
    message.encode_raw(&mut encoded);
    Ok(encoded.freeze())
}

/// Encodes a message with its gRPC prefix as one piece.
pub(crate) fn encode(message: &impl Message) -> Result<VecDeque<Bytes>, Status> {
    Ok(VecDeque::from([encode_whole(message)?]))
}

/// Encodes a range with its gRPC prefix; large values are not copied.
pub(crate) fn encode_range(response: RangeResponse) -> Result<VecDeque<Bytes>, Status> {
    let mut copied = BytesMut::with_capacity(PIECE_BYTES);
    put_prefix(&mut copied, response.encoded_len())?;
    Ok(encode_fields(copied, response))
}

/// Encodes a range as one message of a `RangeStream`.
pub(crate) fn encode_chunk(response: RangeResponse) -> Result<VecDeque<Bytes>, Status> {
    const RANGE_RESPONSE: u32 = 1;
    let bytes = response.encoded_len();
    let mut head = BytesMut::new();
    encode_key(RANGE_RESPONSE, WireType::LengthDelimited, &mut head);
    encode_varint(bytes as u64, &mut head);
    let mut copied = BytesMut::with_capacity(PIECE_BYTES);
    put_prefix(&mut copied, head.len() + bytes)?;
    copied.put_slice(&head);
    Ok(encode_fields(copied, response))
}

/// Appends the fields of a range to `copied`.
fn encode_fields(mut copied: BytesMut, mut response: RangeResponse) -> VecDeque<Bytes> {
    const KVS: u32 = 2;
    let bytes = copied.len() + response.encoded_len();
    let mut pieces = VecDeque::new();
    // Fields may come in any order: the small ones together.
    let kvs = std::mem::take(&mut response.kvs);
    response.encode_raw(&mut copied);
    for kv in kvs {
        encode_key(KVS, WireType::LengthDelimited, &mut copied);
        encode_varint(kv.0.len() as u64, &mut copied);
        if kv.0.len() <= COPIED_BYTES_MAX {
            copied.put_slice(&kv.0);
        } else {
            pieces.push_back(copied.split().freeze());
            pieces.push_back(kv.0);
        }
        if copied.len() >= PIECE_BYTES {
            pieces.push_back(copied.split().freeze());
        }
    }
    if !copied.is_empty() {
        pieces.push_back(copied.freeze());
    }
    let encoded: usize = pieces.iter().map(Bytes::len).sum();
    assert_eq!(encoded, bytes, "the prefix says how long the message is");
    pieces
}

fn put_prefix(encoded: &mut BytesMut, bytes: usize) -> Result<(), Status> {
    let length = u32::try_from(bytes).map_err(|_| {
        Status::resource_exhausted(format!(
            "inkstone: an answer of {bytes} bytes is larger than gRPC can send (4 GiB); ask with a \
             limit, or for a stream"
        ))
    })?;
    encoded.put_u8(0);
    encoded.put_u32(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use etcd_api::etcdserverpb::{RangeStreamResponse, ResponseHeader};
    use etcd_api::mvccpb::KeyValue;

    use super::*;

    fn response() -> RangeResponse {
        let sizes = [0, 10, COPIED_BYTES_MAX, 100_000, 3, 70_000, 5];
        let kv = |size: usize| {
            let key_value = KeyValue {
                key: "key".into(),
                value: vec![7; size].into(),
                mod_revision: 9,
                ..KeyValue::default()
            };
            key_value.into()
        };
        let header = ResponseHeader {
            revision: 12,
            ..ResponseHeader::default()
        };
        RangeResponse {
            header: Some(header),
            kvs: sizes.into_iter().map(kv).collect(),
            more: true,
            count: 99,
        }
    }

    fn decoded<T: Message + Default>(pieces: &VecDeque<Bytes>) -> T {
        let stream: Vec<u8> = pieces.iter().flatten().copied().collect();
        let (prefix, message) = stream.split_at(PREFIX_BYTES);
        assert_eq!(prefix[0], 0, "not compressed");
        assert_eq!(prefix[1..], (message.len() as u32).to_be_bytes());
        T::decode(message).unwrap()
    }

    #[test]
    fn a_range_in_pieces_is_the_message() {
        let pieces = encode_range(response()).unwrap();
        assert_eq!(decoded::<RangeResponse>(&pieces), response());
        let chunk: RangeStreamResponse = decoded(&encode_chunk(response()).unwrap());
        assert_eq!(chunk.range_response, Some(response()));
        let large = response().kvs[3].0.clone();
        assert!(pieces.iter().any(|piece| *piece == large));
        let empty = RangeResponse::default();
        let pieces = encode_range(empty.clone()).unwrap();
        assert_eq!(decoded::<RangeResponse>(&pieces), empty);
    }

    #[test]
    fn a_message_in_one_allocation_is_the_message() {
        let pieces = encode(&response()).unwrap();
        assert_eq!(decoded::<RangeResponse>(&pieces), response());
    }
}
