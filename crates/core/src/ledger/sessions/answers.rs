//! The replies of one session that are kept for retries.

use std::collections::VecDeque;

use bytes::Bytes;

use super::limits::{ANSWER_OVERHEAD_BYTES, Limits};
use crate::base::types::{Digest, Sequence};
use crate::ledger::outcome::MAX_REPLY_BYTES;

/// Replies to commands that executed together, each behind its length (u32).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) first: Sequence,
    pub(super) count: u32,
    pub(super) replies: Bytes,
    /// The hash of this answer and of the link of the answer before it.
    link: Digest,
}

/// The newest answers of a session: without gaps, ending where the session stands.
///
/// Their digest costs one hash an answer, not one a list: each answer is linked to the one before.
/// The last link and the length of the list determine every answer kept, and the `anchor`, which
/// is the link of the last answer forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    list: VecDeque<Answer>,
    anchor: Digest,
    commands: u64,
    bytes: usize,
}

/// A run of replies: the number of the first, how many, and the replies.
pub(super) type Run = (Sequence, u32, Bytes);

impl Answers {
    pub(super) fn starting_at(anchor: Digest) -> Self {
        Self { anchor, ..Self::default() }
    }

    pub(super) fn anchor(&self) -> Digest {
        self.anchor
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Answer> {
        self.list.iter()
    }

    /// The link that stands for the whole list.
    pub(super) fn head(&self) -> Digest {
        self.list.back().map_or(self.anchor, |answer| answer.link)
    }

    /// Adds the newest answer and forgets the oldest ones beyond the limits.
    pub(super) fn push(&mut self, first: Sequence, count: u32, replies: Bytes, limits: &Limits) {
        let link = link(&self.head(), first, count, &replies);
        self.commands += u64::from(count);
        self.bytes += cost(&replies);
        self.list.push_back(Answer { first, count, replies, link });
        while self.exceeds(limits) {
            let Some(oldest) = self.list.pop_front() else { return };
            self.anchor = oldest.link;
            self.commands -= u64::from(oldest.count);
            self.bytes -= cost(&oldest.replies);
        }
    }

    fn exceeds(&self, limits: &Limits) -> bool {
        self.commands > u64::from(limits.answer_commands)
            || self.bytes > limits.answer_bytes as usize
    }

    /// What is known of the replies to the numbers from `from` up to (without) `to`: all of them,
    /// or the last ones if the first are forgotten or all are too many for one outcome.
    pub(super) fn known(&self, from: Sequence, to: Sequence) -> Option<Run> {
        let behind = self.list.partition_point(|answer| answer.first < to);
        let mut parts: Vec<Run> = Vec::new();
        let mut bytes = 0;
        for answer in self.list.range(..behind).rev() {
            let Some(part) = answer.part(from, to) else { break };
            bytes += part.2.len();
            if bytes > MAX_REPLY_BYTES {
                break;
            }
            parts.push(part);
        }
        parts.reverse();
        concat(&parts)
    }
}

impl Answer {
    /// The replies to those of its numbers that lie between `from` and (without) `to`.
    fn part(&self, from: Sequence, to: Sequence) -> Option<Run> {
        let end = self.first.plus(u64::from(self.count));
        let (first, last) = (from.max(self.first), to.min(end));
        if first >= last {
            return None;
        }
        let start = skip(&self.replies, 0, first.0 - self.first.0)?;
        let stop = if last == end {
            self.replies.len()
        } else {
            skip(&self.replies, start, last.0 - first.0)?
        };
        Some((first, (last.0 - first.0) as u32, self.replies.slice(start..stop)))
    }
}

/// Runs of which each begins where the one before ends, as one. A single run is not copied.
pub(super) fn concat(runs: &[Run]) -> Option<Run> {
    let (first, rest) = runs.split_first()?;
    if rest.is_empty() {
        return Some(first.clone());
    }
    let count = runs.iter().map(|run| run.1).sum();
    let replies: Vec<&[u8]> = runs.iter().map(|run| &run.2[..]).collect();
    Some((first.0, count, replies.concat().into()))
}

/// Where in `replies`, from `at` on, the reply after the next `count` begins.
pub(super) fn skip(replies: &[u8], mut at: usize, count: u64) -> Option<usize> {
    for _ in 0..count {
        let length = replies.get(at..)?.first_chunk::<4>()?;
        at = at.checked_add(4)?.checked_add(u32::from_le_bytes(*length) as usize)?;
    }
    (at <= replies.len()).then_some(at)
}

fn cost(replies: &Bytes) -> usize {
    replies.len() + ANSWER_OVERHEAD_BYTES
}

fn link(before: &Digest, first: Sequence, count: u32, replies: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"quorate answer\0");
    hasher.update(&before.0);
    hasher.update(&first.0.to_le_bytes());
    hasher.update(&count.to_le_bytes());
    hasher.update(replies);
    Digest(*hasher.finalize().as_bytes())
}
