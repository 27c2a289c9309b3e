//! HTTP/2 and gRPC encoded by hand, because a correct client library cannot send faults.

/// The connection preface of a client.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types of RFC 9113, section 6.
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GO_AWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags; their meaning depends on the type of the frame.
pub mod flag {
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
}

/// The stream id of the connection itself.
pub const CONNECTION: u32 = 0;

/// A frame with the correct length.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = frame_header(payload.len() as u32, kind, flags, stream);
    bytes.extend_from_slice(payload);
    bytes
}

/// The nine bytes of a frame's header, which announce `length` bytes.
pub fn frame_header(length: u32, kind: u8, flags: u8, stream: u32) -> Vec<u8> {
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes
}

/// The preface and empty settings.
pub fn greeting() -> Vec<u8> {
    [PREFACE, &frame(kind::SETTINGS, 0, CONNECTION, &[])].concat()
}

/// One setting of RFC 9113, section 6.5.2.
pub fn setting(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// The headers of a call, as HPACK literals that refer to no table.
pub fn call_headers(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "127.0.0.1"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ];
    let fields = fields.iter();
    fields
        .flat_map(|(name, value)| header(name.as_bytes(), value.as_bytes()))
        .collect()
}

/// One header field, literal and not indexed.
pub fn header(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        put_length(&mut bytes, text.len());
        bytes.extend_from_slice(text);
    }
    bytes
}

/// An integer with a prefix of seven bits: RFC 7541, section 5.1. What exceeds the prefix
/// follows as a varint, as in protobuf.
fn put_length(bytes: &mut Vec<u8>, length: usize) {
    const PREFIX_MAX: usize = 127;
    bytes.push(length.min(PREFIX_MAX) as u8);
    if let Some(rest) = length.checked_sub(PREFIX_MAX) {
        prost::encoding::encode_varint(rest as u64, bytes);
    }
}

/// A message with gRPC's prefix.
pub fn grpc(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// The headers of a call that is left open.
pub fn open_call(stream: u32, path: &str) -> Vec<u8> {
    let headers = call_headers(path);
    frame(kind::HEADERS, flag::END_HEADERS, stream, &headers)
}

/// A whole call: its headers, and its message in frames of at most 16 KiB.
pub fn call(stream: u32, path: &str, message: &[u8]) -> Vec<u8> {
    let mut bytes = open_call(stream, path);
    let body = grpc(message);
    let pieces = body.chunks(16 << 10);
    let last = pieces.len() - 1;
    for (number, piece) in pieces.enumerate() {
        let flags = if number == last { flag::END_STREAM } else { 0 };
        bytes.extend(frame(kind::DATA, flags, stream, piece));
    }
    bytes
}
