//! New views that do not follow from their view changes: blocks left out, made up or changed, view
//! changes too few, twice, or of other views; for the view whose turn it is and for later ones.
//!
//! Answered by recomputing the choice, by q view changes before anything is looked at
//! (`no_quorum`), and by giving up on the view of a primary that signed what does not follow.

use quorate_core::protocols::pbft::Message;
use quorate_core::protocols::pbft::words::NewView;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, ReplicaId, View};

use super::{Adversary, Context, Peer, Sent, made_up};
use crate::Rng;

const EVERY: Duration = Duration::from_millis(60);

/// A name, and what is done to a new view that followed.
pub type Wrong = (&'static str, fn(&mut NewView));

/// Every way in which a new view is wrong.
pub const WRONGS: [Wrong; 6] = [
    ("begins with nothing", |new_view| new_view.chosen.clear()),
    ("leaves the last block out", |new_view| {
        new_view.chosen.pop();
    }),
    ("makes a block up", |new_view| new_view.chosen.push(made_up(new_view.view.0))),
    ("shows too few view changes", |new_view| new_view.changes.truncate(1)),
    ("shows a view change twice", |new_view| {
        new_view.changes.extend(new_view.changes.last().cloned());
    }),
    ("changes what others said", |new_view| {
        new_view.changes.iter_mut().for_each(|signed| signed.change.prepared.clear());
    }),
];

#[derive(Debug)]
struct WrongNewViews {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(WrongNewViews { rng: Rng::new(seed) })
}

fn signed(cx: &Context<'_>, new_view: NewView) -> Message {
    let signature = cx.sign(&cx.domain.new_view(&new_view));
    Message::NewView { new_view: Box::new(new_view), signature }
}

impl Adversary for WrongNewViews {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        match message {
            PeerMessage::Protocol { message: Message::NewView { mut new_view, .. }, .. } => {
                let (_, wrong) = WRONGS[self.rng.below(WRONGS.len() as u64) as usize];
                wrong(&mut new_view);
                out.push(Sent::of(to, signed(cx, *new_view)));
            }
            message => out.push(Sent::now(to, message)),
        }
    }

    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        // The next view that is its own, with the view changes that there are.
        let size = cx.domain.committee().size() as u64;
        let mut views = (cx.seen.view.0 + 1..=cx.seen.view.0 + size).map(View);
        let Some(view) = views.find(|view| cx.domain.primary(*view) == cx.me) else { return };
        let changes = cx.seen.changes.iter().flatten();
        let changes = changes.filter(|signed| signed.change.view == view).cloned().collect();
        let new_view = NewView { view, changes, chosen: Vec::new() };
        for to in cx.others() {
            out.push(Sent::of(to, signed(cx, new_view.clone())));
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
