//! A replica that tells clients what is not so: other replies, another count, rejections of what was
//! executed, another session, no room.
//!
//! All liars tell the same lie about the same frame, so that a client that counts to f believes it.
//! PBFT's reads outvoted by a liar and replicas that are behind are of this kind (protocols.md
//! section 4, Reads).
//!
//! Answered by clients: an outcome is believed when f + 1 replicas say the same; a refusal is one
//! replica's own word.

use bytes::Bytes;
use quorate_core::SessionId;
use quorate_core::client::message::{Outcome, Refusal, Rejection, Response};

use crate::{Adversary, Context};

#[derive(Debug)]
struct LyingReplies;

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(LyingReplies)
}

/// The lie about an outcome: a function of the outcome, so that all liars tell the same.
fn lie(outcome: Outcome) -> Response {
    match outcome {
        Outcome::Opened { incarnation, session } => Response::Outcome(Outcome::Opened {
            incarnation,
            session: SessionId(session.0.wrapping_add(1)),
        }),
        Outcome::Executed { session, first, count, replies } => match first.0 % 4 {
            0 => {
                let mut bytes = replies.to_vec();
                if let Some(last) = bytes.last_mut() {
                    *last ^= 1;
                }
                let replies = Bytes::from(bytes);
                Response::Outcome(Outcome::Executed { session, first, count, replies })
            }
            1 => {
                let count = count.saturating_add(1);
                Response::Outcome(Outcome::Executed { session, first, count, replies })
            }
            2 => {
                let reason = Rejection::UnknownSession;
                Response::Outcome(Outcome::Rejected { session, first, reason })
            }
            _ => Response::Refused { session, first, reason: Refusal::Busy },
        },
        Outcome::Rejected { session, first, .. } => Response::Outcome(Outcome::Executed {
            session,
            first,
            count: 1,
            replies: Bytes::from_static(&[0; 4]),
        }),
    }
}

impl Adversary for LyingReplies {
    fn responds(&mut self, _: &Context<'_>, response: Response, out: &mut Vec<Response>) {
        out.push(match response {
            Response::Outcome(outcome) => lie(outcome),
            response => response,
        });
    }
}
