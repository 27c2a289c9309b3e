//! Limit on a client's pings, as grpc-go's servers have it.
//!
//! ```text
//!   client ──bytes──► frames ──► pings ──► sooner than allowed: a strike ──► the third: GOAWAY
//!   client ◄──bytes── frames ──► headers or data: the strikes are forgotten
//! ```
//!
//! The HTTP/2 library answers pings itself and does not report them. So the socket's wrapper looks at the
//! headers of the frames that pass, nine bytes each, and never at what they carry.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Instant};

use crate::connections::Activity;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const ACKNOWLEDGED: u8 = 1;
/// HTTP/2's code for a peer that makes too much work.
const ENHANCE_YOUR_CALM: u32 = 11;
/// The word by which gRPC's clients learn to ping less.
const TOO_MANY_PINGS: &[u8] = b"too_many_pings";
/// Strikes that a client may have.
const STRIKES_MAX: u8 = 2;
/// Shortest time between pings while no call is open.
const IDLE_INTERVAL_MIN: Duration = Duration::from_secs(2 * 60 * 60);

/// The pings of one connection.
pub(crate) struct Pings {
    clock: Arc<dyn Clock>,
    activity: Arc<Activity>,
    /// Shortest time between pings while a call is open.
    interval_min: Duration,
    protocol: Protocol,
    inward: Frames,
    outward: Frames,
    /// The newest stream of the client.
    stream: u32,
    pinged_at: Option<Instant>,
    strikes: u8,
    /// Whether headers or data were sent since the last ping.
    answered: bool,
}

/// The protocol of a connection.
enum Protocol {
    /// These first bytes are those of HTTP/2.
    Begins(usize),
    Http2,
    /// HTTP/1, which has no pings.
    Other,
}

impl Pings {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        activity: Arc<Activity>,
        interval_min: Duration,
    ) -> Pings {
        Pings {
            clock,
            activity,
            interval_min,
            protocol: Protocol::Begins(0),
            inward: Frames::default(),
            outward: Frames::default(),
            stream: 0,
            pinged_at: None,
            strikes: 0,
            answered: false,
        }
    }

    /// Looks at received bytes; true if the client has pinged too often.
    pub(crate) fn received(&mut self, bytes: &[u8]) -> bool {
        let mut pings = 0;
        let rest = self.after_preface(bytes);
        let (inward, stream) = (&mut self.inward, &mut self.stream);
        inward.pass(rest, |frame| match frame.kind {
            HEADERS => *stream = frame.stream.max(*stream),
            PING if frame.flags & ACKNOWLEDGED == 0 => pings += 1,
            _ => {}
        });
        (0..pings).any(|_| self.pinged())
    }

    /// Returns the bytes after those with which HTTP/2 begins; none in another protocol.
    fn after_preface<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Protocol::Begins(seen) = self.protocol else {
            return match self.protocol {
                Protocol::Http2 => bytes,
                _ => &[],
            };
        };
        let (first, rest) = bytes.split_at(bytes.len().min(PREFACE.len() - seen));
        let seen_now = seen + first.len();
        self.protocol = match PREFACE[seen..].starts_with(first) {
            false => Protocol::Other,
            true if seen_now == PREFACE.len() => Protocol::Http2,
            true => Protocol::Begins(seen_now),
        };
        match self.protocol {
            Protocol::Http2 => rest,
            _ => &[],
        }
    }

    /// Counts a ping; true if the client has pinged too often.
    fn pinged(&mut self) -> bool {
        let now = self.clock.now();
        let before = self.pinged_at.replace(now);
        if std::mem::take(&mut self.answered) {
            self.strikes = 0;
            return false;
        }
        let interval_min = match self.activity.has_calls() {
            true => self.interval_min,
            false => IDLE_INTERVAL_MIN,
        };
        let is_early = before.is_some_and(|before| now.saturating_since(before) < interval_min);
        self.strikes += u8::from(is_early);
        self.strikes > STRIKES_MAX
    }

    /// Looks at the first `sent` bytes of `parts`, which were sent.
    pub(crate) fn sent(&mut self, parts: &[IoSlice<'_>], mut sent: usize) {
        if !matches!(self.protocol, Protocol::Http2) {
            return;
        }
        for part in parts {
            let bytes = &part[..part.len().min(sent)];
            sent -= bytes.len();
            let answered = &mut self.answered;
            self.outward.pass(bytes, |frame| {
                *answered |= matches!(frame.kind, DATA | HEADERS);
            });
        }
    }

    /// The frame that ends the connection; `None` while another one is half sent, to a client
    /// that does not read.
    pub(crate) fn go_away(&self) -> Option<Vec<u8>> {
        if !self.outward.is_between_frames() {
            return None;
        }
        let payload_bytes = 8 + TOO_MANY_PINGS.len() as u32;
        let mut frame = payload_bytes.to_be_bytes()[1..].to_vec();
        frame.extend([GO_AWAY, 0, 0, 0, 0, 0]);
        frame.extend(self.stream.to_be_bytes());
        frame.extend(ENHANCE_YOUR_CALM.to_be_bytes());
        frame.extend(TOO_MANY_PINGS);
        Some(frame)
    }
}

/// Header of a frame.
struct FrameHead {
    kind: u8,
    flags: u8,
    stream: u32,
}

/// Finds the frames in a stream of bytes.
#[derive(Debug, Default)]
struct Frames {
    /// The part of a header that has come.
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// Bytes of the frame that are still to come.
    left_bytes: usize,
}

impl Frames {
    /// Calls `found` for each frame that has its whole header with these bytes.
    fn pass(&mut self, mut bytes: &[u8], mut found: impl FnMut(FrameHead)) {
        loop {
            let skipped = bytes.len().min(self.left_bytes);
            self.left_bytes -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let taken = bytes.len().min(HEADER_BYTES - self.header_bytes);
            let end = self.header_bytes + taken;
            self.header[self.header_bytes..end].copy_from_slice(&bytes[..taken]);
            self.header_bytes = end;
            bytes = &bytes[taken..];
            if end < HEADER_BYTES {
                return;
            }
            self.header_bytes = 0;
            let [a, b, c, kind, flags, stream @ ..] = self.header;
            self.left_bytes = u32::from_be_bytes([0, a, b, c]) as usize;
            let stream = u32::from_be_bytes(stream) & !(1 << 31);
            found(FrameHead {
                kind,
                flags,
                stream,
            });
        }
    }

    fn is_between_frames(&self) -> bool {
        self.header_bytes == 0 && self.left_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    fn ping() -> Vec<u8> {
        frame(PING, 0, 0, &[7; 8])
    }

    /// An HTTP/2 connection with `calls` open calls.
    fn connection(calls: usize) -> (SimulatedClock, Pings) {
        let clock = SimulatedClock::stepped();
        let activity = Arc::new(Activity::default());
        (0..calls).for_each(|_| activity.begin_call());
        let interval_min = Duration::from_secs(5);
        let mut pings = Pings::new(Arc::new(clock.clone()), activity, interval_min);
        assert!(!pings.received(PREFACE));
        (clock, pings)
    }

    fn send(pings: &mut Pings, bytes: &[u8]) {
        pings.sent(&[IoSlice::new(bytes)], bytes.len());
    }

    #[test]
    fn the_third_early_ping_after_the_first_is_one_too_many() {
        let (clock, mut pings) = connection(1);
        for is_too_many in [false, false, false, true] {
            assert_eq!(pings.received(&ping()), is_too_many);
            clock.advance(Duration::from_secs(4));
        }
    }

    #[test]
    fn pings_within_the_limit_and_acknowledgements_are_no_strikes() {
        let (clock, mut pings) = connection(1);
        for _ in 0..20 {
            assert!(!pings.received(&ping()));
            assert!(!pings.received(&frame(PING, ACKNOWLEDGED, 0, &[0; 8])));
            clock.advance(Duration::from_secs(5));
        }
    }

    #[test]
    fn a_client_without_calls_may_ping_every_two_hours() {
        let (clock, mut pings) = connection(0);
        for _ in 0..5 {
            assert!(!pings.received(&ping()));
            clock.advance(IDLE_INTERVAL_MIN);
        }
        for is_too_many in [false, false, false, true] {
            assert_eq!(pings.received(&ping()), is_too_many);
            clock.advance(Duration::from_secs(60));
        }
    }

    #[test]
    fn headers_and_data_forgive_and_other_frames_do_not() {
        for (kind, forgives) in [(DATA, true), (HEADERS, true), (PING, false), (4, false)] {
            let (_, mut pings) = connection(1);
            let mut too_many = false;
            for _ in 0..10 {
                too_many |= pings.received(&ping());
                send(&mut pings, &frame(kind, 1, 1, b"payload"));
            }
            assert_eq!(too_many, !forgives, "kind {kind}");
        }
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let mut bytes = PREFACE.to_vec();
        bytes.extend(frame(HEADERS, 4, 5, &[PING; 40]));
        bytes.extend(frame(DATA, 1, 5, &ping()));
        (0..4).for_each(|_| bytes.extend(ping()));
        for cut in 1..bytes.len() {
            let (_, whole) = connection(1);
            let mut pings = Pings::new(whole.clock, whole.activity, whole.interval_min);
            let pieces = bytes.chunks(cut);
            let too_many: Vec<bool> = pieces.map(|piece| pings.received(piece)).collect();
            assert_eq!(too_many.iter().filter(|it| **it).count(), 1, "{cut}");
            assert_eq!(pings.stream, 5);
        }
    }

    #[test]
    fn http_1_has_no_pings() {
        let (_, whole) = connection(1);
        let mut pings = Pings::new(whole.clock, whole.activity, whole.interval_min);
        assert!(!pings.received(b"PRI"));
        assert!(!pings.received(b"VATE / HTTP/1.1\r\n\r\n"));
        for _ in 0..9 {
            assert!(!pings.received(&ping()));
        }
    }

    #[test]
    fn the_last_frame_names_the_newest_stream_and_waits_for_a_half_sent_one() {
        let (_, mut pings) = connection(1);
        pings.received(&frame(HEADERS, 4, 9, b"h"));
        let expected = frame(7, 0, 0, b"\0\0\0\x09\0\0\0\x0btoo_many_pings");
        assert_eq!(pings.go_away(), Some(expected));
        let data = frame(DATA, 0, 9, b"data");
        pings.sent(&[IoSlice::new(&data[..9]), IoSlice::new(&data[9..])], 11);
        assert_eq!(pings.go_away(), None);
        send(&mut pings, &data[11..]);
        assert!(pings.go_away().is_some());
    }
}
