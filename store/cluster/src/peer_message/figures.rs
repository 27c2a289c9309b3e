//! Messages in which members tell each other their figures.

use bytes::Bytes;

use super::{FIGURES_ANSWER, FIGURES_QUESTION, words};
use crate::fields::Fields;

/// A request for a member's figures (memory, disk, flush times, …), or the answer. A member of a
/// release before this message drops it.
#[derive(Clone, Debug)]
pub enum FiguresMessage {
    Question {
        /// The sender's number for the question.
        number: u64,
    },
    /// The answer to `Question`.
    Answer {
        /// The number of the question.
        number: u64,
        /// The figures, as the program that runs the member encodes them.
        figures: Bytes,
    },
}

impl FiguresMessage {
    /// Encodes the message: its kind, and its bytes in several parts.
    pub(super) fn encode(&self) -> (u8, Vec<Bytes>) {
        match self {
            FiguresMessage::Question { number } => (FIGURES_QUESTION, vec![words(&[*number])]),
            FiguresMessage::Answer { number, figures } => {
                (FIGURES_ANSWER, vec![words(&[*number]), figures.clone()])
            }
        }
    }

    /// Decodes a message from the joined parts of [`FiguresMessage::encode`].
    pub(super) fn decode(kind: u8, mut fields: Fields) -> Result<FiguresMessage, String> {
        let number = fields.u64()?;
        Ok(match kind {
            FIGURES_QUESTION => FiguresMessage::Question { number },
            _ => FiguresMessage::Answer {
                number,
                figures: fields.0,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerMessage;

    #[test]
    fn figures_messages_round_trip_and_are_refused_without_their_number() {
        let number = u64::MAX;
        let figures = Bytes::from_static(b"figures");
        for message in [
            FiguresMessage::Question { number },
            FiguresMessage::Answer { number, figures },
        ] {
            let message = PeerMessage::Figures(message);
            let (kind, parts) = message.encode();
            let bytes = Bytes::from(parts.concat());
            let decoded = PeerMessage::decode(kind, bytes.clone()).unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
            for length in 0..8 {
                assert!(PeerMessage::decode(kind, bytes.slice(..length)).is_err());
            }
        }
    }
}
