//! Reads the one message of a request.
//!
//! Most requests have one small message, which comes in one piece and is decoded where it lies: the
//! library's stream of messages would copy it into a buffer of 8 KiB first.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use prost::Message;
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use tonic::metadata::MetadataValue;

use crate::encoded::PREFIX_BYTES;
use crate::request_body::BodyError;

/// Memory for the whole message is taken when this much of it has come: a prefix alone may announce a
/// message that never comes.
const RESERVED_FROM_BYTES: usize = 16 << 10;

/// Reads and decodes the first message of a request; an error if that has more than `bytes_max`.
/// Anything behind it is not waited for: the client may leave the request open.
pub(crate) async fn read<Q: Message + Default>(
    headers: &HeaderMap,
    mut body: impl Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
    bytes_max: usize,
) -> Result<Q, Status> {
    refuse_compression(headers)?;
    let mut held = BytesMut::new();
    while let Some(piece) = next_piece(&mut body).await? {
        let is_first = held.is_empty();
        if !is_first {
            held.extend_from_slice(&piece);
        }
        let received = if is_first { &piece[..] } else { &held[..] };
        let wanted_bytes = wanted_bytes(received, bytes_max)?;
        if received.len() >= wanted_bytes {
            let whole = if is_first { piece } else { held.freeze() };
            return decode(whole.slice(PREFIX_BYTES..wanted_bytes));
        }
        if is_first {
            held.extend_from_slice(&piece);
        }
        if held.len() >= RESERVED_FROM_BYTES {
            held.reserve(wanted_bytes - held.len());
        }
    }
    Err(Status::internal(match held.is_empty() {
        true => "Missing request message.",
        false => "Unexpected EOF decoding stream.",
    }))
}

/// The next piece with data. A request has no trailers that say anything.
async fn next_piece<B>(body: &mut B) -> Result<Option<Bytes>, Status>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// How many bytes the first message has with its prefix, as far as that is known.
fn wanted_bytes(received: &[u8], bytes_max: usize) -> Result<usize, Status> {
    let Some([flag, length @ ..]) = received.first_chunk::<PREFIX_BYTES>() else {
        return Ok(PREFIX_BYTES);
    };
    match flag {
        0 => {}
        1 => {
            return Err(Status::internal(
                "inkstone: the request's message is compressed, and no header says how",
            ));
        }
        other => {
            return Err(Status::internal(format!(
                "inkstone: the request's message begins with {other}, which must be 0, or 1 if it is \
                 compressed"
            )));
        }
    }
    let bytes = u32::from_be_bytes(*length) as usize;
    if bytes > bytes_max {
        return Err(Status::resource_exhausted(format!(
            "grpc: received message larger than max ({bytes} vs. {bytes_max})"
        )));
    }
    Ok(PREFIX_BYTES + bytes)
}

fn decode<Q: Message + Default>(message: Bytes) -> Result<Q, Status> {
    Q::decode(message).map_err(|error| Status::internal(error.to_string()))
}

fn refuse_compression(headers: &HeaderMap) -> Result<(), Status> {
    let Some(encoding) = headers.get("grpc-encoding") else {
        return Ok(());
    };
    if encoding == "identity" {
        return Ok(());
    }
    let name = encoding.to_str().unwrap_or("an unknown method");
    let mut status = Status::unimplemented(format!(
        "inkstone: the request is compressed with {name}, which is not supported; send it without \
         compression"
    ));
    let identity = MetadataValue::from_static("identity");
    status
        .metadata_mut()
        .insert("grpc-accept-encoding", identity);
    Err(status)
}

#[cfg(test)]
mod tests {
    use etcd_api::etcdserverpb::PutRequest;
    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tonic::Code;

    use super::*;
    use crate::encoded::encode_whole;

    const BYTES_MAX: usize = 100;

    fn put(value_bytes: usize) -> PutRequest {
        PutRequest {
            key: "key".into(),
            value: vec![7; value_bytes].into(),
            lease: 5,
            ..PutRequest::default()
        }
    }

    fn encoded(request: &PutRequest) -> Bytes {
        encode_whole(request).unwrap()
    }

    fn read_pieces(headers: &HeaderMap, pieces: Vec<Bytes>) -> Result<PutRequest, Status> {
        let frames = pieces
            .into_iter()
            .map(|it| Ok::<_, Status>(Frame::data(it)));
        let body = StreamBody::new(stream::iter(frames));
        let read = read(headers, body, BYTES_MAX).now_or_never();
        read.expect("all of the body is there")
    }

    fn read_bytes(bytes: impl Into<Bytes>) -> Result<PutRequest, Status> {
        read_pieces(&HeaderMap::new(), vec![bytes.into()])
    }

    #[test]
    fn a_message_in_one_piece_is_decoded_without_a_copy() {
        let whole = encoded(&put(50));
        let read = read_bytes(whole.clone()).unwrap();
        assert_eq!(read, put(50));
        assert!(whole.as_ptr_range().contains(&read.value.as_ptr()));
    }

    #[test]
    fn a_message_in_pieces_of_any_size_is_put_together() {
        let whole = encoded(&put(60));
        for piece_bytes in 1..=whole.len() {
            let pieces = whole.chunks(piece_bytes).map(Bytes::copy_from_slice);
            let read = read_pieces(&HeaderMap::new(), pieces.collect());
            assert_eq!(read.unwrap(), put(60), "pieces of {piece_bytes} bytes");
        }
    }

    #[test]
    fn a_large_message_is_put_together() {
        let whole = encoded(&put(200_000));
        for piece_bytes in [PREFIX_BYTES, 10_000, RESERVED_FROM_BYTES, 100_000] {
            let pieces = whole.chunks(piece_bytes).map(Bytes::copy_from_slice);
            let frames = pieces.map(|it| Ok::<_, Status>(Frame::data(it)));
            let body = StreamBody::new(stream::iter(frames));
            let read = read::<PutRequest>(&HeaderMap::new(), body, 1 << 20).now_or_never();
            assert_eq!(read.unwrap().unwrap(), put(200_000), "{piece_bytes}");
        }
    }

    #[test]
    fn a_message_is_there_before_its_request_ends() {
        let frames = stream::iter([Ok::<_, Status>(Frame::data(encoded(&put(3))))]);
        let body = StreamBody::new(frames.chain(stream::pending()));
        let read = read::<PutRequest>(&HeaderMap::new(), body, BYTES_MAX).now_or_never();
        assert_eq!(read.unwrap().unwrap(), put(3));
    }

    #[test]
    fn empty_pieces_are_ignored() {
        let pieces = vec![Bytes::new(), encoded(&put(1)), Bytes::new()];
        let read = read_pieces(&HeaderMap::new(), pieces);
        assert_eq!(read.unwrap(), put(1));
    }

    #[test]
    fn anything_behind_the_first_message_is_ignored() {
        for rest in [&b"\x07"[..], &encoded(&put(2))] {
            let mut bytes = encoded(&put(1)).to_vec();
            bytes.extend(rest);
            assert_eq!(read_bytes(bytes).unwrap(), put(1));
            let pieces = vec![encoded(&put(1)), Bytes::copy_from_slice(rest)];
            assert_eq!(read_pieces(&HeaderMap::new(), pieces).unwrap(), put(1));
        }
    }

    #[test]
    fn a_request_that_ends_too_early_is_refused() {
        let whole = encoded(&put(1));
        let missing = read_pieces(&HeaderMap::new(), Vec::new()).unwrap_err();
        assert_eq!(missing.message(), "Missing request message.");
        for end in 1..whole.len() {
            let cut = read_bytes(whole.slice(..end)).unwrap_err();
            assert_eq!(cut.code(), Code::Internal);
            assert_eq!(
                cut.message(),
                "Unexpected EOF decoding stream.",
                "{end} bytes"
            );
        }
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_it_has_come() {
        let at_limit = put(BYTES_MAX - 9);
        assert_eq!(at_limit.encoded_len(), BYTES_MAX);
        assert_eq!(read_bytes(encoded(&at_limit)).unwrap(), at_limit);
        let refused = read_bytes(encoded(&put(BYTES_MAX - 8)).slice(..5)).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        let text = "grpc: received message larger than max (101 vs. 100)";
        assert_eq!(refused.message(), text);
    }

    #[test]
    fn a_compressed_message_is_refused() {
        for flag in [1, 2, 255] {
            let mut bytes = encoded(&put(1)).to_vec();
            bytes[0] = flag;
            assert_eq!(read_bytes(bytes).unwrap_err().code(), Code::Internal);
        }
        for (name, code) in [("identity", None), ("gzip", Some(Code::Unimplemented))] {
            let headers =
                HeaderMap::from_iter([("grpc-encoding".parse().unwrap(), name.parse().unwrap())]);
            let read = read_pieces(&headers, vec![encoded(&put(1))]);
            assert_eq!(read.err().map(|status| status.code()), code, "{name}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        let refused = read_bytes(&b"\0\0\0\0\x01\xff"[..]).unwrap_err();
        assert_eq!(refused.code(), Code::Internal);
    }
}
