//! Three drivers, and all that the liar has in hand.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quorate_core::base::crypto::{Form, Scheme, Share, Signature, Signer};
use quorate_core::base::types::{Digest, ReplicaId, Time, View};
use quorate_core::base::wire::{Decode, Encode, put_list};
use quorate_core::protocols::hotstuff::block::SharedBlock;
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, Tc, TimeOut};
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::rules::Rules;
use quorate_core::protocols::hotstuff::{HotStuff, Message, Settings};
use quorate_core::protocols::protocol::Ballot;
use quorate_sim::keys::{Key, Mock, committee};

use super::node::{Blocks, Node};
use super::{LIAR, Move};
use crate::values;

/// Longer than any wait.
const LONG_NANOS: u64 = 1 << 50;

/// A state of the [model](super::Driver).
#[derive(Clone, Debug)]
pub struct State {
    pub(super) view: View,
    pub(super) phase: u8,
    pub(super) turn: u8,
    domain: Arc<Domain>,
    nodes: [Arc<Node>; 3],
    fingerprints: [u64; 3],
    /// All certificates of votes, ascending; the first is genesis'.
    certificates: Vec<Arc<Qc>>,
    /// The time-outs of the view before.
    time_outs: Vec<(TimeOut, Qc)>,
    blocks: Arc<Blocks>,
    /// What a replica commits if it is told of some certificate.
    commits: Vec<(usize, Vec<Digest>)>,
    pub(super) conflict: bool,
    pub(super) forked: bool,
}

impl State {
    pub(super) fn first(rules: &'static dyn Rules) -> Self {
        // Threshold certificates name no signers: whose votes they are makes no other block.
        let settings = Settings {
            election: Election::Fixed(LIAR),
            vote_form: Form::Threshold,
            ..Settings::new(rules)
        };
        let replica = |id| {
            let me = ReplicaId(id);
            Arc::new(Node::new(me, HotStuff::new(committee(4), me, settings.clone())))
        };
        let nodes = [replica(0), replica(1), replica(2)];
        let genesis = values::genesis();
        Self {
            view: View(1),
            phase: 1,
            turn: 0,
            domain: Arc::new(settings.domain(committee(4))),
            fingerprints: [0, 1, 2].map(|at: usize| nodes[at].fingerprint()),
            nodes,
            certificates: vec![Arc::new(Qc::genesis(genesis.id()))],
            time_outs: Vec::new(),
            blocks: Arc::new(Blocks::from([(genesis.id(), genesis)])),
            commits: Vec::new(),
            conflict: false,
            forked: false,
        }
    }

    pub(super) fn has_committed(&self) -> bool {
        !self.commits.is_empty()
    }

    pub(super) fn broke_a_vow(&self) -> bool {
        self.nodes.iter().any(|node| node.broke_a_vow)
    }

    fn now(&self) -> Time {
        Time(self.view.0 * 2 * LONG_NANOS)
    }

    fn qc(&self, number: u8) -> &Qc {
        &self.certificates[usize::from(number)]
    }

    fn numbers(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.certificates.len() as u8
    }

    /// The certificates that put an end to the view before.
    fn entry(&self, rules: &dyn Rules) -> impl Iterator<Item = u8> {
        let (last, phases) = (self.view.0 - 1, rules.facts().phases);
        self.numbers().filter(move |number| self.ended_by(*number, phases) == last)
    }

    fn ended_by(&self, number: u8, phases: u8) -> u64 {
        let (view, phase) = self.qc(number).rank();
        if view.0 == 0 || phase >= phases { view.0 } else { view.0 - 1 }
    }

    fn of_last_phase(&self) -> impl Iterator<Item = u8> {
        let rank = (self.view, self.phase - 1);
        self.numbers().filter(move |number| self.qc(*number).rank() == rank)
    }

    /// The lowest two time-outs of the view before, and the number of the higher one's QC.
    fn lowest(&self) -> Option<(Vec<&(TimeOut, Qc)>, u8)> {
        let mut pair: Vec<&(TimeOut, Qc)> = self.time_outs.iter().collect();
        pair.sort_by_key(|(time_out, qc)| (qc.rank(), time_out.replica));
        pair.truncate(2);
        let high = pair.get(1)?.1.ballot();
        let number = self.certificates.iter().position(|qc| qc.ballot() == high)?;
        Some((pair, number as u8))
    }

    /// Which highest QCs a time-out certificate of the view before may have.
    fn time_out_qcs(&self) -> impl Iterator<Item = u8> + use<> {
        let floor = self.lowest().map_or(u8::MAX, |(_, floor)| floor);
        self.numbers().filter(move |number| *number >= floor)
    }

    /// The certificate of the lowest two and the liar, whose word makes `high` the highest.
    fn tc(&self, high: u8) -> Option<Tc> {
        let (pair, floor) = self.lowest()?;
        let own = if high == floor { self.qc(0) } else { self.qc(high) };
        let view = View(self.view.0 - 1);
        let statement = self.domain.time_out(view, own.view(), &own.block());
        let signature = Key::of_replica(LIAR.index()).sign(&statement);
        let time_out = TimeOut { view, high_qc_view: own.view(), replica: LIAR, signature };
        let own = (time_out, own.clone());
        let mut all: Vec<&(TimeOut, Qc)> = pair;
        all.push(&own);
        all.sort_by_key(|(time_out, _)| time_out.replica);
        let entries: Vec<_> = all.iter().map(|(t, _)| (t.replica, t.high_qc_view)).collect();
        let signatures: Vec<_> = all.iter().map(|(t, _)| t.signature).collect();
        let qcs: Vec<Qc> = if self.domain.carries_all_qcs() {
            all.iter().map(|(_, qc)| qc.clone()).collect()
        } else {
            vec![self.qc(high).clone()]
        };
        let mut bytes = view.to_bytes();
        put_list(&mut bytes, &entries);
        put_list(&mut bytes, &signatures);
        put_list(&mut bytes, &qcs);
        Tc::from_bytes(bytes.into()).ok()
    }

    /// All that may happen to the replica whose turn it is.
    pub(super) fn moves(&self, rules: &dyn Rules) -> Vec<Move> {
        if self.phase > 1 {
            return self.of_last_phase().map(Move::Certificate).chain([Move::Nothing]).collect();
        }
        let mut moves = self.entries(rules);
        for justify in self.numbers() {
            for variant in 0..2 {
                let with = |tc| Move::Proposal { justify, variant, tc };
                if self.ended_by(justify, rules.facts().phases) + 1 == self.view.0 {
                    moves.push(with(None));
                } else {
                    moves.extend(self.time_out_qcs().map(|tc| with(Some(tc))));
                }
            }
        }
        moves
    }

    /// How a replica may enter the view without a proposal.
    fn entries(&self, rules: &dyn Rules) -> Vec<Move> {
        let mut entries: Vec<Move> = self.entry(rules).map(Move::Enter).collect();
        if !self.time_outs.is_empty() {
            entries.push(Move::EnterByTimeOuts);
        }
        entries
    }

    /// What may happen to the three in this view and phase, as far as it can matter.
    pub(super) fn rounds(&self, rules: &dyn Rules) -> Vec<[Move; 3]> {
        let others = if self.phase > 1 { vec![Move::Nothing] } else { self.entries(rules) };
        let mut rounds = Vec::new();
        let mut pairs = |vote: Move| {
            for idle in 0..3 {
                rounds.extend(others.iter().map(|other| {
                    let mut moves = [vote; 3];
                    moves[idle] = *other;
                    moves
                }));
            }
        };
        if self.phase > 1 {
            self.of_last_phase().for_each(|number| pairs(Move::Certificate(number)));
        } else {
            for justify in self.numbers() {
                let with = |tc| Move::Proposal { justify, variant: 0, tc };
                if self.ended_by(justify, rules.facts().phases) + 1 == self.view.0 {
                    pairs(with(None));
                    continue;
                }
                // The lowest, for rules that want the justify to be no lower, and that with the
                // justify itself, for rules that want exactly it.
                let mut tcs: Vec<u8> = self.time_out_qcs().take(1).collect();
                tcs.extend(self.time_out_qcs().filter(|tc| *tc == justify));
                tcs.dedup();
                tcs.into_iter().for_each(|tc| pairs(with(Some(tc))));
            }
        }
        for first in &others {
            for second in &others {
                rounds.extend(others.iter().map(|third| [*first, *second, *third]));
            }
        }
        rounds
    }

    fn message(&mut self, what: Move) -> Option<Message> {
        let advance = |high_qc, high_tc| Message::Advance {
            high_qc,
            high_tc,
            decided: None,
            is_answer: true,
        };
        Some(match what {
            Move::Nothing => return None,
            Move::Certificate(number) => Message::Certificate(self.qc(number).clone()),
            Move::Enter(number) => advance(self.qc(number).clone(), None),
            Move::EnterByTimeOuts => {
                let (_, floor) = self.lowest()?;
                advance(self.qc(floor).clone(), Some(self.tc(floor)?))
            }
            Move::Proposal { justify, variant, tc } => {
                let block = self.block(justify, variant)?;
                Arc::make_mut(&mut self.blocks).insert(block.id(), Arc::clone(&block));
                let tc = match tc {
                    Some(high) => Some(self.tc(high)?),
                    None => None,
                };
                Message::Proposal { block, tc }
            }
        })
    }

    fn block(&self, justify: u8, variant: u8) -> Option<SharedBlock> {
        let justify = self.qc(justify);
        let parent = self.blocks.get(&justify.block())?;
        Some(values::block(self.view, parent, justify, variant))
    }

    /// One move of the replica whose turn it is. Whether it voted.
    pub(super) fn play(&mut self, what: Move) -> bool {
        let at = usize::from(self.turn);
        self.turn += 1;
        let Some(message) = self.message(what) else { return false };
        let (now, blocks) = (self.now(), Arc::clone(&self.blocks));
        let node = Arc::make_mut(&mut self.nodes[at]);
        node.hear(now, message, &blocks);
        self.fingerprints[at] = node.fingerprint();
        node.voted.is_some_and(|((view, phase, _), _)| (view, phase) == (self.view, self.phase))
    }

    /// Ends the phase and the view, if all had their turn.
    pub(super) fn end_turn(&mut self, rules: &dyn Rules) {
        if usize::from(self.turn) < self.nodes.len() {
            return;
        }
        self.turn = 0;
        let certified = self.certify();
        if certified && self.phase < rules.facts().phases {
            self.phase += 1;
        } else {
            self.end_view();
        }
    }

    /// Certifies what two correct replicas voted for. Whether there was such a thing.
    fn certify(&mut self) -> bool {
        let rank = (self.view, self.phase);
        let votes = self.nodes.iter().zip(0..).filter_map(|(node, id)| {
            let ((view, phase, block), signature) = node.voted?;
            ((view, phase) == rank).then_some((block, ReplicaId(id), signature))
        });
        let mut votes: Vec<(Digest, ReplicaId, Signature)> = votes.collect();
        votes.sort_unstable_by_key(|(block, voter, _)| (*block, *voter));
        let Some(pair) = votes.windows(2).find(|pair| pair[0].0 == pair[1].0) else { return false };
        let ballot = Ballot { view: self.view, phase: self.phase, block: pair[0].0 };
        let statement = self.domain.vote(ballot.view, ballot.phase, &ballot.block);
        let share = |signer, signature| Share { signer, statement, signature };
        let mut shares: Vec<Share> =
            pair.iter().map(|(_, id, signature)| share(*id, *signature)).collect();
        shares.push(share(LIAR, Key::of_replica(LIAR.index()).sign(&statement)));
        let Some(qc) = Mock.combine(Form::Threshold, &shares).and_then(|s| threshold(ballot, s))
        else {
            return false;
        };
        self.forked |=
            self.certificates.iter().any(|other| !self.one_chain(&qc.block(), &other.block()));
        self.certificates.push(Arc::new(qc.clone()));
        self.judge(&qc);
        true
    }

    fn extends(&self, id: &Digest, ancestor: &Digest) -> bool {
        std::iter::successors(self.blocks.get(id), |block| self.blocks.get(&block.parent()))
            .any(|block| block.id() == *ancestor)
    }

    fn one_chain(&self, a: &Digest, b: &Digest) -> bool {
        self.extends(a, b) || self.extends(b, a)
    }

    /// Tells each replica of a certificate, in a copy of it, and compares what they commit.
    fn judge(&mut self, qc: &Qc) {
        let message =
            Message::Advance { high_qc: qc.clone(), high_tc: None, decided: None, is_answer: true };
        for at in 0..self.nodes.len() {
            let mut told = Node::clone(&self.nodes[at]);
            told.hear(self.now(), message.clone(), &self.blocks);
            let chain = told.committed;
            if chain.is_empty() {
                continue;
            }
            self.conflict |= self.commits.iter().any(|(other, known)| {
                *other != at && known.iter().zip(&chain).any(|(theirs, ours)| theirs != ours)
            });
            if !self.commits.contains(&(at, chain.clone())) {
                self.commits.push((at, chain));
            }
        }
    }

    /// All give up on the view.
    fn end_view(&mut self) {
        let now = Time(self.now().0 + LONG_NANOS);
        self.time_outs.clear();
        for (node, fingerprint) in self.nodes.iter_mut().zip(&mut self.fingerprints) {
            let node = Arc::make_mut(node);
            node.time_out(now);
            *fingerprint = node.fingerprint();
            let of_view = node.gave_up.clone().filter(|(time_out, _)| time_out.view == self.view);
            self.time_outs.extend(of_view);
        }
        self.view = self.view.next();
        self.phase = 1;
    }
}

/// A certificate whose votes were joined into `signature`.
fn threshold(ballot: Ballot, signature: Signature) -> Option<Qc> {
    const THRESHOLD: u8 = 3;
    let mut bytes = ballot.to_bytes();
    bytes.push(THRESHOLD);
    signature.encode(&mut bytes);
    Qc::from_bytes(bytes.into()).ok()
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.view, self.phase, self.turn, self.fingerprints, self.conflict).hash(hasher);
        self.commits.hash(hasher);
        self.certificates.iter().for_each(|qc| qc.block().hash(hasher));
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let ballots =
            |state: &Self| -> Vec<_> { state.certificates.iter().map(|qc| qc.ballot()).collect() };
        (self.view, self.phase, self.turn, self.fingerprints, self.conflict)
            == (other.view, other.phase, other.turn, other.fingerprints, other.conflict)
            && self.commits == other.commits
            && ballots(self) == ballots(other)
    }
}
