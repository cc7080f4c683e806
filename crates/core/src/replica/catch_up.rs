//! Getting what this replica lacks: blocks that others have, or a snapshot where even those are
//! gone.
//!
//! Requests go to one peer at a time, with a deadline; a peer that does not answer, or answers with
//! nothing new, is followed by the one that was asked longest ago, and late answers are still
//! taken. Who was asked in vain is asked last for the next block, too: else, with many replicas
//! that lack a block or do not answer, a short view could end before the turn of one that has it,
//! and so could each view after it. Who must have the block may change while it is being asked for.
//! What arrives is used only where a certificate vouches for it: a block because its child's
//! justify certifies it (or because it is the very block asked for), a snapshot because a certified
//! block carries its root. Each of its chunks is [taken over](Restoring) when it comes, and a chunk
//! that is not of that state is the last one of this peer's.

use std::cmp::Ordering;

use bytes::Bytes;

use super::message::{Offer, PeerMessage};
use crate::base::membership::Committee;
use crate::base::types::{Duration, Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::ledger::execution::{Restoring, SnapshotError};
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{Missing, Types};

/// How long the first peer has to send blocks. A view lasts not much longer, and a replica that
/// lacks a block does not vote. Each peer that does not answer doubles it for the next ...
const PATIENCE: Duration = Duration::from_millis(200);
/// ... up to this, for a slow link is no dead peer.
const MAX_PATIENCE: Duration = Duration::from_millis(3200);
/// How long a peer has to send a chunk of a snapshot ...
const CHUNK_PATIENCE: Duration = Duration::from_millis(1000);
/// ... before it is asked once more, and has twice as long; so many times: what was taken over so
/// far is lost with the peer.
const CHUNK_REPEATS: u32 = 2;
/// After so many chunks that came when they were asked for once, one repeat more is allowed: who is
/// slow all the time is left.
const CHUNKS_IN_TIME: u32 = 16;
/// How long a peer has for a whole snapshot whose chunks cannot be checked one by one: its chunks
/// could be endless, each in time. Each such snapshot that takes longer doubles it for the next.
const WHOLE_PATIENCE: Duration = Duration::from_secs(60);
/// What a chunk counts for at least, in bytes: keeping it costs memory besides its bytes.
const MIN_CHUNK_BYTES: u64 = 64;
/// How many bytes of blocks are asked for at once.
pub const BUDGET_BYTES: u32 = 4 << 20;
/// What is wanted, and from whom.
#[derive(Debug)]
pub struct CatchUp<T: Types, S> {
    want: Option<Want>,
    /// The committed height at which something is waited for that is on its way, and since when.
    waiting: Option<(Height, Time)>,
    /// Until when it is waited for, if it still is.
    waits_until: Option<Time>,
    /// Those who were asked in vain and gave nothing new since, the last one last.
    in_vain: Vec<ReplicaId>,
    /// Those whose snapshot came to nothing.
    let_down: Vec<ReplicaId>,
    transfer: Option<Transfer<T, S>>,
    /// How long the next whole snapshot may take that is checked at its end alone.
    whole: Duration,
    /// A snapshot of more bytes is not taken over.
    max_snapshot_bytes: u64,
}

#[derive(Clone, Debug)]
struct Want {
    /// The block wanted by now.
    tip: BlockId,
    /// The block that was asked for, if one was.
    asked: Option<BlockId>,
    /// Those who must have the tip.
    holders: Vec<ReplicaId>,
    /// The holder whose turn it is.
    turn: Option<ReplicaId>,
    /// All that were asked, the last one last.
    tried: Vec<ReplicaId>,
    /// How many peers in a row had nothing new.
    fruitless: usize,
    /// The height of the last block that came on the way to the tip. It may be far above the
    /// committed one: a chain without three consecutive views commits nothing.
    reached: Height,
    patience: Duration,
    /// Until when the peer whose turn it is may answer; `None` if it was not asked yet.
    deadline: Option<Time>,
}

#[derive(Debug)]
struct Transfer<T: Types, S> {
    peer: ReplicaId,
    offer: Box<Offer<T>>,
    /// What was taken of it, ...
    restoring: Box<Restoring<S>>,
    /// ... so many chunks, ...
    chunks: u32,
    /// ... of so many bytes.
    bytes: u64,
    deadline: Time,
    /// Until when the last one is to come, if they are checked together.
    ends: Option<Time>,
    /// How often a chunk was asked for again, less what was made good since.
    repeats: u32,
    /// So many chunks came in time since.
    in_time: u32,
    /// The next chunk was asked for again.
    repeated: bool,
}

/// What a chunk led to.
#[derive(Debug)]
pub enum Chunked<T: Types, S> {
    /// Not asked for.
    Unasked,
    /// It was taken before: its sender was asked twice.
    Again,
    /// Another one is needed.
    More,
    /// The snapshot was given up: it is larger than the cluster's limit, or not of the state that
    /// was offered, or cannot be taken.
    Unfit(SnapshotError),
    /// That was the last of what was offered.
    Complete(Box<Offer<T>>, Box<Restoring<S>>),
}

/// The first of the holders that was not asked in vain, or the one that was so longest ago.
fn first_of(holders: &[ReplicaId], in_vain: &[ReplicaId]) -> Option<ReplicaId> {
    let place = |holder: &&ReplicaId| in_vain.iter().position(|peer| peer == *holder);
    holders.iter().min_by_key(place).copied()
}

impl Want {
    /// It is the turn of the holder that was asked longest ago, or was in vain longest ago.
    fn next_peer(&mut self, in_vain: &[ReplicaId]) {
        let asked = |holder: &&ReplicaId| {
            let place = |peers: &[ReplicaId]| peers.iter().position(|peer| peer == *holder);
            (place(&self.tried), place(in_vain))
        };
        let next = self.holders.iter().min_by_key(asked).copied();
        self.turn = mutant!("fetch-one-peer", self.turn.or(next), next);
    }

    /// The peer whose turn it is, which is asked now.
    fn ask(&mut self) -> Option<ReplicaId> {
        let peer = self.turn?;
        self.tried.retain(|tried| *tried != peer);
        self.tried.push(peer);
        Some(peer)
    }
}

impl<T: Types, S: StateMachine> CatchUp<T, S> {
    /// Nothing is wanted yet.
    #[must_use]
    pub fn new(max_snapshot_bytes: u64) -> Self {
        Self {
            want: None,
            waiting: None,
            waits_until: None,
            in_vain: Vec::new(),
            let_down: Vec::new(),
            whole: WHOLE_PATIENCE,
            transfer: None,
            max_snapshot_bytes,
        }
    }

    /// Says which block is wanted by now, if any is. A later one replaces an earlier one; what was
    /// asked for until then is still taken. Those who must have it are asked for it; where they are
    /// not known, all replicas are.
    pub fn want(&mut self, missing: Option<&Missing>, me: ReplicaId, committee: &Committee) {
        let Some(missing) = missing else {
            self.let_down.clear();
            return (self.want, self.transfer) = (None, None);
        };
        let mut holders = missing.holders.clone();
        if holders.is_empty() {
            holders.extend(committee.replicas());
        }
        holders.retain(|holder| *holder != me);
        match &mut self.want {
            Some(want) => {
                let is_other = std::mem::replace(&mut want.tip, missing.block) != missing.block;
                want.holders = holders;
                if want.deadline.is_some() {
                    return;
                }
                if is_other {
                    want.turn = first_of(&want.holders, &self.in_vain);
                } else if want.turn.is_none_or(|peer| !want.holders.contains(&peer)) {
                    want.next_peer(&self.in_vain);
                }
            }
            None => {
                self.want = Some(Want {
                    tip: missing.block,
                    asked: None,
                    turn: first_of(&holders, &self.in_vain),
                    holders,
                    tried: Vec::new(),
                    fruitless: 0,
                    reached: Height(0),
                    patience: PATIENCE,
                    deadline: None,
                });
            }
        }
    }

    /// Whether what is missing is waited for and not asked for, because it is on its way and takes
    /// `longest` at most. So long it is waited for at one committed height, whatever comes
    /// meanwhile: nobody keeps this replica from asking.
    pub fn waits(
        &mut self,
        now: Time,
        committed: Height,
        is_missing: bool,
        longest: Option<Duration>,
    ) -> bool {
        if !is_missing || self.waiting.is_some_and(|(height, _)| height != committed) {
            self.waiting = None;
        }
        let asks = |want: &Want| want.deadline.is_some() || want.reached > Height(0);
        let is_asked = self.transfer.is_some() || self.want.as_ref().is_some_and(asks);
        self.waits_until = longest.filter(|_| !is_asked).and_then(|longest| {
            let (_, since) = *self.waiting.get_or_insert((committed, now));
            Some(since.after(longest)).filter(|until| now < *until)
        });
        self.waits_until.is_some()
    }

    /// A peer gave something new.
    pub fn gave(&mut self, peer: ReplicaId) {
        self.in_vain.retain(|other| *other != peer);
    }

    /// A peer was asked in vain.
    fn was_in_vain(&mut self, peer: ReplicaId) {
        self.in_vain.retain(|other| *other != peer);
        self.in_vain.push(peer);
    }

    /// A channel to `peer` opens: if it may have what is wanted, and others were waited for in
    /// vain, it is asked at once.
    pub fn connected(&mut self, peer: ReplicaId) {
        let Some(want) = self.want.as_mut().filter(|want| want.patience > PATIENCE) else { return };
        if want.holders.contains(&peer) {
            (want.turn, want.patience, want.deadline) = (Some(peer), PATIENCE, None);
        }
    }

    /// Whether this block is wanted, or was when the answer that is awaited was asked for: a
    /// certificate vouches for it.
    #[must_use]
    pub fn is_wanted(&self, block: &BlockId) -> bool {
        self.want.as_ref().is_some_and(|want| want.tip == *block || want.asked == Some(*block))
    }

    /// Whether an answer of `peer` may be used: it is one of those who are asked, or were.
    #[must_use]
    pub fn awaits(&self, peer: ReplicaId) -> bool {
        let is_one = |want: &Want| want.holders.contains(&peer) || want.tried.contains(&peer);
        self.want.as_ref().is_some_and(|want| want.deadline.is_some() && is_one(want))
    }

    /// Whether an offer of `peer` may be taken up. Not while another is being; and of who offered
    /// one that came to nothing, only when it is its turn: else a liar that offers again and again
    /// could be quicker than all others each time, and keep this replica from ever having a state.
    #[must_use]
    pub fn takes_offers(&self, peer: ReplicaId) -> bool {
        let is_its_turn = self.want.as_ref().is_some_and(|want| want.turn == Some(peer));
        let may = is_its_turn || !self.let_down.contains(&peer);
        self.transfer.is_none() && self.awaits(peer) && may
    }

    /// Whether a snapshot is being taken over from `peer`.
    #[must_use]
    pub fn takes_from(&self, peer: ReplicaId) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.peer == peer)
    }

    /// The transfer from a peer comes to nothing.
    fn give_up_transfer(&mut self, peer: ReplicaId) {
        self.transfer = None;
        if !self.let_down.contains(&peer) {
            self.let_down.push(peer);
        }
    }

    /// An answer came that led up to a height: the same peer is asked for more. Or it had nothing
    /// new: then the next is, from the committed head on. If none has anything new, all are left
    /// alone until the last one's time is up.
    pub fn answered(&mut self, peer: ReplicaId, reached: Option<Height>) {
        let Some(want) = &mut self.want else { return };
        // What others send late may be of another chain than that of the tip.
        let counts = want.turn == Some(peer) || want.holders.contains(&peer);
        if let Some(height) = reached.filter(|height| counts && *height > want.reached) {
            (want.reached, want.fruitless, want.deadline) = (height, 0, None);
            return;
        }
        if want.turn != Some(peer) {
            return;
        }
        (want.reached, want.fruitless) = (Height(0), want.fruitless + 1);
        if want.fruitless < want.holders.len() {
            want.next_peer(&self.in_vain);
            want.deadline = None;
        }
        self.was_in_vain(peer);
    }

    /// More is known now by which an answer can be believed: the peer whose turn it is, is asked
    /// again.
    pub fn ask_again(&mut self) {
        if let Some(want) = &mut self.want {
            (want.fruitless, want.deadline) = (0, None);
        }
    }

    /// What to send now, if anything is due; `root` is the committed height.
    pub fn due(&mut self, now: Time, root: Height) -> Option<(ReplicaId, PeerMessage<T>)> {
        if let Some(transfer) = &mut self.transfer {
            if now < transfer.deadline {
                return None;
            }
            let peer = transfer.peer;
            if transfer.repeats < CHUNK_REPEATS {
                transfer.repeats += 1;
                (transfer.in_time, transfer.repeated) = (0, true);
                transfer.deadline = now.after(CHUNK_PATIENCE * (1 << transfer.repeats));
                let (height, chunk) = (transfer.offer.block.height(), transfer.chunks);
                return Some((peer, PeerMessage::FetchChunk { height, chunk }));
            }
            self.give_up_transfer(peer);
            self.answered(peer, None);
        }
        let want = self.want.as_mut()?;
        match want.deadline {
            Some(deadline) if now < deadline => return None,
            Some(_) => {
                let before = want.turn;
                want.next_peer(&self.in_vain);
                // What was reached may be on another fork than the tip.
                want.reached = Height(0);
                want.patience = (want.patience * 2).min(MAX_PATIENCE);
                if let Some(before) = before {
                    self.was_in_vain(before);
                }
            }
            None => {}
        }
        let want = self.want.as_mut()?;
        want.deadline = Some(now.after(want.patience));
        want.asked = Some(want.tip);
        let to = want.ask()?;
        let (above, budget_bytes) = (root.max(want.reached), BUDGET_BYTES);
        Some((to, PeerMessage::FetchChain { tip: want.tip, above, budget_bytes }))
    }

    /// When [`due`](Self::due) is to be asked again.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match (&self.transfer, &self.want) {
            (Some(transfer), _) => Some(transfer.deadline),
            (None, Some(want)) => Some(want.deadline.unwrap_or_default()),
            (None, None) => self.waits_until,
        }
    }

    /// Takes up an offer that was verified; its state goes to `restoring`.
    pub fn accept(
        &mut self,
        now: Time,
        peer: ReplicaId,
        offer: Box<Offer<T>>,
        mut restoring: Restoring<S>,
    ) -> PeerMessage<T> {
        let height = offer.block.height();
        let ends = (!restoring.checks_chunks()).then(|| now.after(self.whole));
        self.transfer = Some(Transfer {
            peer,
            offer,
            restoring: Box::new(restoring),
            chunks: 0,
            bytes: 0,
            deadline: now.after(CHUNK_PATIENCE),
            ends,
            repeats: 0,
            in_time: 0,
            repeated: false,
        });
        PeerMessage::FetchChunk { height, chunk: 0 }
    }

    /// The snapshot being transferred, and the chunk wanted next.
    #[must_use]
    pub fn next_chunk(&self) -> Option<(ReplicaId, Height, u32)> {
        let transfer = self.transfer.as_ref()?;
        Some((transfer.peer, transfer.offer.block.height(), transfer.chunks))
    }

    /// Takes in a chunk.
    pub fn chunk(
        &mut self,
        now: Time,
        peer: ReplicaId,
        (height, chunk, last): (Height, u32, bool),
        bytes: Bytes,
    ) -> Chunked<T, S> {
        let Some(transfer) = &mut self.transfer else { return Chunked::Unasked };
        let is_asked = (peer, height) == (transfer.peer, transfer.offer.block.height());
        if !planted!("chunks-of-anybody", true, is_asked) {
            return Chunked::Unasked;
        }
        match chunk.cmp(&transfer.chunks) {
            Ordering::Less if chunk + 1 == transfer.chunks => return Chunked::Again,
            Ordering::Less => return Chunked::Unasked,
            Ordering::Equal => {}
            Ordering::Greater => return Chunked::Unasked,
        }
        transfer.bytes += (bytes.len() as u64).max(MIN_CHUNK_BYTES);
        let limit_bytes = self.max_snapshot_bytes;
        let taken = if transfer.bytes > limit_bytes {
            Err(SnapshotError::TooLarge { limit_bytes })
        } else if transfer.ends.is_some_and(|ends| now >= ends) {
            let seconds = self.whole.as_secs();
            self.whole = self.whole.saturating_mul(2);
            Err(SnapshotError::TooSlow { seconds })
        } else {
            transfer.restoring.take(bytes)
        };
        if let Err(error) = taken {
            self.give_up_transfer(peer);
            return Chunked::Unfit(error);
        }
        transfer.chunks += 1;
        transfer.deadline = now.after(CHUNK_PATIENCE);
        transfer.in_time += u32::from(!std::mem::take(&mut transfer.repeated));
        if transfer.in_time == CHUNKS_IN_TIME {
            (transfer.in_time, transfer.repeats) = (0, transfer.repeats.saturating_sub(1));
        }
        if !last {
            return Chunked::More;
        }
        self.let_down.retain(|other| *other != peer);
        self.whole = WHOLE_PATIENCE;
        match self.transfer.take() {
            Some(done) => Chunked::Complete(done.offer, done.restoring),
            None => Chunked::Unasked,
        }
    }
}
