//! A replica that tells clients what is not so: other replies, another count, rejections of what
//! was executed, another session, no room.
//!
//! All liars tell the same lie about the same frame, so that a client that counts to f believes it.
//! PBFT's reads outvoted by a liar and replicas that are behind are of this kind.
//!
//! Asked for proofs of its state it lies in turn about all that they are made of, and calls the
//! first certified block it was asked for the newest one for ever. Of what blocks changed it leaves
//! out, alters and makes up in turn, says that it is gone, and that nothing changed.
//!
//! Answered by clients: an outcome is believed when f + 1 replicas say the same; a refusal is one
//! replica's own word; of a proof nothing is believed that does not follow from a certificate.

use bytes::Bytes;
use quorate_core::SessionId;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Outcome, Refusal, Rejection, Response};
use quorate_core::client::proven::Answer;
use quorate_core::protocols::hotstuff::Types;

use crate::{Adversary, Context};

/// Lies about proofs there are.
const LIES: u64 = 6;
/// Lies about what blocks changed.
const LIES_ABOUT_CHANGES: u64 = 9;

#[derive(Debug, Default)]
struct LyingReplies {
    /// Proofs lied about.
    proofs: u64,
    /// Names and lists of changes lied about.
    changes: u64,
    first_answer: Option<Bytes>,
    first_newest: Option<Bytes>,
}

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(LyingReplies::default())
}

impl LyingReplies {
    /// Another answer with a proof: not what is there, that nothing is there, a certificate of
    /// another block, a state said to be newer, an old answer, a proof that leads elsewhere.
    fn lie_about_proof(&mut self, told: Bytes) -> Bytes {
        let first = self.first_answer.get_or_insert_with(|| told.clone()).clone();
        let Ok(mut answer) = Answer::<Types>::from_bytes(told.clone()) else { return told };
        let lie = self.proofs % LIES;
        self.proofs += 1;
        match lie {
            0 => answer.content = with_other_value(&answer.content),
            1 => answer.content = without_value(&answer.content),
            2 => answer.shown.evidence = answer.shown.block.justify.clone(),
            3 => answer.state.height = answer.state.height.next(),
            4 => return first,
            _ => answer.content = changed(&answer.content, answer.content.len().wrapping_sub(1)),
        }
        answer.to_bytes().into()
    }

    /// Other names of what blocks changed: without the first list, with the head behind it or
    /// without; with another digest; one list twice; all gone; one of another length; one of long
    /// ago; all executed; none.
    fn lie_about_changes(&mut self, told: &Bytes) -> Bytes {
        let lie = self.changes % LIES_ABOUT_CHANGES;
        self.changes += 1;
        let Some(links) = told.get(LINKS..) else { return told.clone() };
        let (before, through) = (&told[1..41], &told[41..49]);
        let said = |before: &[u8], through: &[u8], links: &[u8]| {
            let count = (links.len() / LINK) as u32;
            [&[1], before, through, &count.to_le_bytes(), links].concat().into()
        };
        match (lie, links.split_at_checked(LINK)) {
            // So the watcher takes an old head for a new one, and goes back.
            (6, _) => said(before, &[0; 8], &[&1u64.to_le_bytes()[..], &[1; 4 + 32]].concat()),
            (7, None) => said(before, &[u8::MAX; 8], &[]),
            (_, None) => told.clone(),
            (0, Some((_, rest))) => said(before, through, rest),
            (1, Some((first, rest))) => said(&[&first[..8], &told[9..41]].concat(), through, rest),
            (2, _) => changed(told, told.len() - 1),
            (3, Some((first, _))) => said(before, through, &[first, links].concat()),
            (4, _) => [&[0][..], &u64::MAX.to_le_bytes()].concat().into(),
            // Of another length.
            (5, _) => changed(told, LINKS + 8),
            _ => said(before, through, &[]),
        }
    }
}

/// Where the names of lists begin, and how long one is.
const LINKS: usize = 1 + 40 + 8 + 4;
const LINK: usize = 8 + 4 + 32;

/// Where the key-value application says whether there is a value, and where the value begins.
const HAS_VALUE: usize = 32 + 40;
const VALUE: usize = HAS_VALUE + 1 + 4;

fn changed(bytes: &Bytes, at: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1;
    }
    bytes.into()
}

/// A value that is there with another first byte; where none is there, a kind of value that there
/// is not.
fn with_other_value(content: &Bytes) -> Bytes {
    let there = content.get(HAS_VALUE) == Some(&1);
    changed(content, if there { VALUE + 1 } else { HAS_VALUE })
}

/// That nothing is there, with the proof of what is.
fn without_value(content: &Bytes) -> Bytes {
    let length = content.get(HAS_VALUE + 1..VALUE).and_then(|length| length.try_into().ok());
    let end = VALUE + length.map_or(0, u32::from_le_bytes) as usize;
    match (content.get(..HAS_VALUE), content.get(HAS_VALUE), content.get(end..)) {
        (Some(root), Some(1), Some(proof)) => [root, &[0], proof].concat().into(),
        _ => changed(content, 0),
    }
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
            Response::Proven { id, answer } => {
                Response::Proven { id, answer: self.lie_about_proof(answer) }
            }
            Response::Changes { id, links } => {
                Response::Changes { id, links: self.lie_about_changes(&links) }
            }
            Response::Lists { id, page } => {
                let last = page.len().wrapping_sub(1);
                Response::Lists { id, page: changed(&page, last) }
            }
            Response::Newest { id, newest } => {
                let newest = self.first_newest.get_or_insert(newest).clone();
                Response::Newest { id, newest }
            }
            response => response,
        });
    }
}
