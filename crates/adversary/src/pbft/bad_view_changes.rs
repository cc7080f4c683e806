//! View changes that are none: unordered, contradictory, beyond the water marks, in another's name,
//! without the proof of their checkpoint, badly signed; and view changes to views far ahead.
//!
//! A malformed view change has stopped whole systems (SmartBFT, Themis).
//!
//! Answered by one check before any signature, each flaw by its name, and by f + 1 who must want a
//! later view before anybody follows.

use quorate_core::base::crypto::Signature;
use quorate_core::protocols::checkpoint::{Checkpoint, Stable};
use quorate_core::protocols::pbft::Message;
use quorate_core::protocols::pbft::words::{Entry, MAX_WINDOW, SignedChange, ViewChange};
use quorate_core::protocols::protocol::Malformed;
use quorate_core::replica::Refused;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, Height, ReplicaId, View};

use super::{Adversary, Context, Peer, Sent, made_up};
use crate::Rng;

const EVERY: Duration = Duration::from_millis(40);

/// A way in which a view change is wrong, and by what name it is refused; `None`: it is well
/// formed.
#[derive(Clone, Copy)]
pub struct Flaw {
    /// In words.
    pub name: &'static str,
    /// The refusal.
    pub refused: Option<Refused>,
    make: fn(&Context<'_>, ViewChange) -> Message,
}

impl Flaw {
    /// A view change with this flaw, made of a good one.
    #[must_use]
    pub fn make(&self, cx: &Context<'_>, change: ViewChange) -> Message {
        (self.make)(cx, change)
    }
}

impl std::fmt::Debug for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn flaw(
    name: &'static str,
    refused: Option<Refused>,
    make: fn(&Context<'_>, ViewChange) -> Message,
) -> Flaw {
    Flaw { name, refused, make }
}

const CONTRADICTION: Option<Refused> = Some(Refused::Malformed(Malformed::Contradiction));

/// Every flaw.
pub const FLAWS: [Flaw; 10] = [
    flaw("prepared twice at one height", CONTRADICTION, |cx, mut change| {
        let entry = entry(&change, 1);
        change.prepared = vec![entry, Entry { block: made_up(7), ..entry }];
        cx.change(change)
    }),
    flaw("prepared out of order", CONTRADICTION, |cx, mut change| {
        change.prepared = vec![entry(&change, 2), entry(&change, 1)];
        cx.change(change)
    }),
    flaw("pre-prepared out of order", CONTRADICTION, |cx, mut change| {
        change.pre_prepared = vec![entry(&change, 2), entry(&change, 1)];
        cx.change(change)
    }),
    flaw("beyond the high water mark", CONTRADICTION, |cx, mut change| {
        change.prepared = vec![entry(&change, MAX_WINDOW + 1)];
        cx.change(change)
    }),
    flaw("prepared in the view it wants", CONTRADICTION, |cx, mut change| {
        change.prepared = vec![Entry { view: change.view, ..entry(&change, 1) }];
        cx.change(change)
    }),
    flaw(
        "in another's name",
        Some(Refused::Malformed(Malformed::WrongSender)),
        |cx, change| match (cx.others().next(), cx.change(change)) {
            (Some(from), Message::ViewChange(signed)) => {
                Message::ViewChange(Box::new(SignedChange { from, ..*signed }))
            }
            (_, message) => message,
        },
    ),
    flaw(
        "a checkpoint without proof",
        Some(Refused::Malformed(Malformed::NoQuorum)),
        |cx, change| cx.change(ViewChange { stable: Some(unproved(cx, 1)), ..change }),
    ),
    flaw(
        "a checkpoint signed by one for all",
        Some(Refused::Malformed(Malformed::UnorderedSigners)),
        |cx, change| {
            let all = cx.domain.committee().size();
            cx.change(ViewChange { stable: Some(unproved(cx, all)), ..change })
        },
    ),
    flaw("badly signed", Some(Refused::BadSignature), |cx, change| {
        let signature = cx.sign(&cx.domain.testimony(change.view, &made_up(1)));
        Message::ViewChange(Box::new(SignedChange { from: cx.me, change, signature }))
    }),
    flaw("to a view far ahead", None, |cx, change| {
        cx.change(ViewChange { view: View(change.view.0 + (1 << 40)), ..change })
    }),
];

/// An entry so many blocks above the stable checkpoint.
fn entry(change: &ViewChange, above: u64) -> Entry {
    let low = change.stable.as_ref().map_or(0, |stable| stable.checkpoint.height.0);
    let view = View(change.view.0.saturating_sub(1));
    Entry { height: Height(low + above), view, block: made_up(above), parent: made_up(0) }
}

/// A stable checkpoint with its own signature alone, so many times.
fn unproved(cx: &Context<'_>, times: usize) -> Stable {
    let checkpoint = Checkpoint { height: Height(1 << 20), block: made_up(2), root: made_up(3) };
    let own: Signature = cx.sign(&cx.domain.checkpoint(&checkpoint));
    Stable { checkpoint, signatures: vec![(cx.me, own); times] }
}

#[derive(Debug)]
struct BadViewChanges {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(BadViewChanges { rng: Rng::new(seed) })
}

impl BadViewChanges {
    fn bad(&mut self, cx: &Context<'_>, change: ViewChange) -> Message {
        let at = self.rng.below(FLAWS.len() as u64) as usize;
        FLAWS[at].make(cx, change)
    }
}

impl Adversary for BadViewChanges {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        match message {
            PeerMessage::Protocol { message: Message::ViewChange(signed), .. } => {
                out.push(Sent::of(to, self.bad(cx, signed.change)));
            }
            message => out.push(Sent::now(to, message)),
        }
    }

    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let view = cx.seen.view.next();
        let change = ViewChange { view, stable: None, prepared: vec![], pre_prepared: vec![] };
        for to in cx.others() {
            out.push(Sent::of(to, self.bad(cx, change.clone())));
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
