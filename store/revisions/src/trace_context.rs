//! The place of a command in a distributed trace.

/// A span of another process, as W3C's Trace Context names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace: one request of a client, wherever it goes.
    pub trace: [u8; 16],
    /// The span that the command belongs to.
    pub span: [u8; 8],
    /// Bit 0: the trace is recorded.
    pub flags: u8,
}

const BYTES: usize = 25;

impl TraceContext {
    /// Trace, span and flags, in this order.
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.trace[..], &self.span, &[self.flags]].concat()
    }

    /// Reads what [`TraceContext::encode`] wrote; `None` if it is of another length.
    pub(crate) fn decode(bytes: &[u8]) -> Option<TraceContext> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let (trace, rest) = bytes.split_first_chunk()?;
        let (span, rest) = rest.split_first_chunk()?;
        Some(TraceContext {
            trace: *trace,
            span: *span,
            flags: rest[0],
        })
    }
}
