//! What a view begins with, after what was said in the views before; and who may end a view.

use std::sync::Arc;

use quorate_adversary::pbft::{Adversary, Context, Sent, named};
use quorate_core::ledger::block::{Block, BlockId};
use quorate_core::protocols::pbft::words::{Content, Entry, Phase};
use quorate_core::protocols::pbft::{Authentication, Message};
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Height, ReplicaId, View};
use quorate_sim::Peer;
use quorate_sim::family::Pbfts;

use super::super::{Place, recovers};
use super::{
    CLIENTS, Pbft, came_to, committed, cut_off, detail, is_vote, lose, request_all, settings,
    start, vote, work,
};

/// Blocks are prepared by all and committed at one. No vote and no block of view 1 is heard from
/// then on.
fn commit_at(cluster: &mut Pbft, only: usize) {
    let height = committed(cluster, only);
    lose(cluster, move |_, to, message| to != only && is_vote(message, Phase::Commit));
    request_all(cluster);
    let all = height.plus(CLIENTS as u64);
    came_to(cluster, 40_000, "not all is committed at one", |cluster| {
        committed(cluster, only) == all
            && (0..4).all(|slot| detail(cluster, slot, "prepared") >= all.0)
    });
    lose(cluster, |_, _, message| view_of(message) == Some(View(1)));
}

/// What one replica alone knows to be committed is what the next view begins with, whether it takes
/// part in the view change or not.
pub fn committed_at_one(authentication: Authentication, place: &mut Place) {
    for only in 0..4 {
        for away in [only, 0] {
            let cluster = start(place, settings(authentication));
            commit_at(cluster, only);
            cut_off(cluster, away);
            work(cluster, 1);
            recovers(cluster);
        }
    }
}

/// A chain of blocks is prepared at one replica, which is cut off; the next view commits another
/// block in place of the first, and its primary dies. That block is what counts, though the chain
/// is longer and was prepared first.
pub fn prepared_at_one(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    let first = committed(cluster, 3).next();
    lose(cluster, |_, to, message| {
        is_vote(message, Phase::Commit) || to != 3 && is_vote(message, Phase::Prepare)
    });
    request_all(cluster);
    came_to(cluster, 40_000, "the chain is not prepared", |cluster| {
        detail(cluster, 3, "prepared") >= first.0 + 7
    });
    cut_off(cluster, 3);
    lose(cluster, move |_, _, message| match message {
        Message::PrePrepare { block, .. } => block.view == View(2) && block.height > first,
        _ => is_vote(message, Phase::Prepare) && view_of(message) == Some(View(1)),
    });
    came_to(cluster, 2_000_000, "no other block is committed", |cluster| {
        [0, 2].iter().all(|slot| committed(cluster, *slot) == first)
    });
    cut_off(cluster, 1);
    cluster.meddler = None;
    work(cluster, 1);
    recovers(cluster);
}

/// Says in its view changes that it prepared nothing and heard of nothing.
#[derive(Debug)]
struct Denies;

impl Adversary for Denies {
    fn sends(
        &mut self,
        cx: &Context<'_>,
        to: ReplicaId,
        message: Peer<Pbfts>,
        out: &mut Vec<Sent>,
    ) {
        let PeerMessage::Protocol { message: Message::ViewChange(signed), .. } = &message else {
            return out.push(Sent::now(to, message));
        };
        let mut change = signed.change.clone();
        change.prepared.clear();
        change.pre_prepared.clear();
        out.push(Sent::of(to, cx.change(change)));
    }
}

/// A block is prepared at r3 and at a liar alone, both say so, and r3 is cut off. The liar denies
/// it, so the next view orders other blocks: r3 must not have committed.
pub fn prepared_at_a_liar(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    cluster.make_liar(2, Box::new(Denies));
    let all = committed(cluster, 3).plus(CLIENTS as u64);
    lose(cluster, |_, to, message| {
        to < 2 && is_vote(message, Phase::Prepare) || to < 3 && is_vote(message, Phase::Commit)
    });
    request_all(cluster);
    came_to(cluster, 40_000, "not all is prepared at two", |cluster| {
        (2..4).all(|slot| detail(cluster, slot, "prepared") >= all.0)
    });
    cluster.run_for(2_000);
    lose(cluster, |_, _, message| view_of(message) == Some(View(1)));
    cut_off(cluster, 3);
    work(cluster, 1);
    recovers(cluster);
}

/// In which view a block or a vote is said.
fn view_of(message: &Message) -> Option<View> {
    match message {
        Message::PrePrepare { block, .. } => Some(block.view),
        Message::Vote { vote, .. } => Some(vote.view),
        _ => None,
    }
}

/// Blocks are committed at one replica; in the next view the first of them alone is prepared again,
/// and the primary dies. The others still count.
pub fn prepared_again_in_part(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    let first = committed(cluster, 3).next();
    commit_at(cluster, 3);
    cut_off(cluster, 0);
    lose(cluster, move |_, _, message| {
        is_vote(message, Phase::Commit)
            || vote(message, Phase::Prepare).is_some_and(|vote| vote.height > first)
    });
    came_to(cluster, 2_000_000, "the first block is not prepared again", |cluster| {
        (1..3).all(|slot| {
            cluster.core(slot).protocol().view() == View(2)
                && detail(cluster, slot, "view_change") == 0
                && detail(cluster, slot, "prepared") == first.0
        })
    });
    // Its votes are not heard again.
    cut_off(cluster, 1);
    lose(cluster, |_, _, message| {
        view_of(message).is_some_and(|view| view <= View(2))
            || matches!(message, Message::NewView { new_view, .. } if new_view.view == View(2))
    });
    work(cluster, 1);
    recovers(cluster);
}

/// Says of each height that it prepared, in the latest view, a block that there is not.
#[derive(Debug)]
struct Invents;

impl Adversary for Invents {
    fn sends(
        &mut self,
        cx: &Context<'_>,
        to: ReplicaId,
        message: Peer<Pbfts>,
        out: &mut Vec<Sent>,
    ) {
        let PeerMessage::Protocol { message: Message::ViewChange(signed), .. } = &message else {
            return out.push(Sent::now(to, message));
        };
        let mut change = signed.change.clone();
        let view = View(change.view.0 - 1);
        for entry in &mut change.prepared {
            let Entry { height, block: known, .. } = *entry;
            let (block, parent) = (Digest::of("block", &known.0), Digest::of("parent", &known.0));
            *entry = Entry { height, view, block, parent };
        }
        out.push(Sent::of(to, cx.change(change)));
    }
}

/// A liar says that it prepared other blocks last than those that one replica committed. All give
/// up on the view, and are heard.
pub fn made_up(authentication: Authentication, place: &mut Place) {
    for only in 0..3 {
        let cluster = start(place, settings(authentication));
        cluster.make_liar(3, Box::new(Invents));
        commit_at(cluster, only);
        work(cluster, 1);
        recovers(cluster);
    }
}

/// The primary of view 2, which begins it with nothing and orders another block at once than the
/// first that was committed.
#[derive(Debug)]
struct Usurper {
    /// The block that all have.
    base: (Height, BlockId),
    /// It changes what others said, so that the view may begin with nothing.
    forges: bool,
}

impl Adversary for Usurper {
    fn sends(
        &mut self,
        cx: &Context<'_>,
        to: ReplicaId,
        message: Peer<Pbfts>,
        out: &mut Vec<Sent>,
    ) {
        let PeerMessage::Protocol { message: Message::NewView { new_view, .. }, .. } = &message
        else {
            return out.push(Sent::now(to, message));
        };
        let mut new_view = new_view.clone();
        new_view.chosen.clear();
        if self.forges {
            new_view.changes.iter_mut().for_each(|signed| signed.change.prepared.clear());
        }
        let signature = cx.sign(&cx.domain.new_view(&new_view));
        let (view, (height, parent)) = (new_view.view, self.base);
        out.push(Sent::of(to, Message::NewView { new_view, signature }));
        let (epoch, height) = (cx.domain.committee().epoch(), height.next());
        let (stable, frames) = (None, Vec::new());
        let block = Block::new(Content { epoch, view, height, parent, stable, frames });
        out.push(Sent::of(to, cx.pre_prepare(&Arc::new(block))));
    }
}

fn usurped(authentication: Authentication, place: &mut Place, forges: bool) {
    for only in [0, 2, 3] {
        let cluster = start(place, settings(authentication));
        let head = cluster.core(1).protocol().committed();
        let base = (head.height(), head.id());
        commit_at(cluster, only);
        cluster.make_liar(1, Box::new(Usurper { base, forges }));
        cut_off(cluster, 0);
        work(cluster, 1);
        recovers(cluster);
    }
}

/// A primary begins its view with less than follows from the view changes that it shows.
pub fn too_little(authentication: Authentication, place: &mut Place) {
    usurped(authentication, place, false);
}

/// A primary changes what others prepared, so that its view may begin with nothing.
pub fn forged_changes(authentication: Authentication, place: &mut Place) {
    usurped(authentication, place, true);
}

/// A primary of a later view shows new views of too few, time and again.
pub fn ended_by_one(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    let make = named("wrong-new-views").expect("it is one of all");
    cluster.make_liar(2, make(1));
    for _ in 0..5 {
        work(cluster, 2);
        cluster.run_for(50_000);
        let view = cluster.highest_view();
        assert_eq!(view, View(1), "calm: one replica ended the view of a primary that works");
    }
    recovers(cluster);
}

/// A replica does not hear that a view begins, and hears what is ordered in it. Without it there
/// is no quorum in the view, so nothing is committed.
pub fn unheard(authentication: Authentication, place: &mut Place) {
    let cluster = start(place, settings(authentication));
    cut_off(cluster, 0);
    lose(cluster, |_, to, message| to == 3 && matches!(message, Message::NewView { .. }));
    request_all(cluster);
    let in_view = |cluster: &Pbft, slot: usize| {
        cluster.core(slot).protocol().view() == View(2) && detail(cluster, slot, "view_change") == 0
    };
    came_to(cluster, 2_000_000, "the view does not begin", |cluster| {
        (1..3).all(|slot| in_view(cluster, slot))
    });
    let height = cluster.oracles.height();
    cluster.run_for(10_000);
    let is_calm = cluster.oracles.height() == height;
    assert!(is_calm, "votes: a replica votes in a view that did not begin for it");
    cluster.meddler = None;
    recovers(cluster);
}
