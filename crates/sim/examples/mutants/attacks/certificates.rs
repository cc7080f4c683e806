//! Certificates, proposals and blocks that are forged.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use quorate_core::base::crypto::{Signature, Signer as _};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::{Decode as _, Encode as _, put_list};
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{Block, Content};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, Tc, TimeOut};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Committee, Digest, Epoch, ReplicaId, View};
use quorate_sim::keys::{self, Key};
use quorate_sim::network::Fate;
use quorate_sim::{Cluster, Config};

use super::{LIAR, ahead, next_view_of, recover, start, tell_all, work};
use crate::schedules::variants;

type Signatures = Vec<(ReplicaId, Signature)>;

/// A certificate with these signers, whoever they are.
fn certificate(ballot: Ballot, signatures: &Signatures) -> Qc {
    let mut bytes = ballot.to_bytes();
    bytes.push(1);
    put_list(&mut bytes, signatures);
    Qc::from_bytes(bytes.into()).expect("a certificate by its form")
}

/// What these replicas sign as a vote, in this domain.
fn signed(domain: &Domain, ballot: &Ballot, signers: &[usize]) -> Signatures {
    let statement = domain.vote(ballot.view, ballot.phase, &ballot.block);
    let share = |id: &usize| (ReplicaId(*id as u16), Key::of_replica(*id).sign(&statement));
    signers.iter().map(share).collect()
}

/// Names of the right signers, and nothing they signed.
fn junk(signers: &[usize]) -> Signatures {
    signers.iter().map(|id| (ReplicaId(*id as u16), Signature::from([9; 64]))).collect()
}

fn made_up(view: View, phase: u8) -> Ballot {
    Ballot { view, phase, block: Digest([7; 32]) }
}

fn advance(high_qc: Qc) -> Message {
    Message::Advance { high_qc, high_tc: None, decided: None, is_answer: false }
}

/// Signers twice, signers from outside, no signers: each with signatures that hold.
pub fn forged(place: &mut Option<Cluster>) {
    let signers: [&[usize]; 3] = [&[LIAR; 3], &[LIAR, 100, 101], &[]];
    for rules in variants() {
        for signers in signers {
            let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
            work(cluster, 3);
            let (view, phase) = (next_view_of(cluster, 2), rules.facts().phases);
            let ballot = made_up(view, phase);
            let qc = certificate(ballot, &signed(&cluster.config.domain(), &ballot, signers));
            tell_all(cluster, LIAR, &advance(qc));
            recover(cluster);
        }
    }
}

/// Another certificate of view 0 than that of genesis.
pub fn genesis(place: &mut Option<Cluster>) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
        for phase in 1..=rules.facts().phases {
            let qc = certificate(made_up(View(0), phase), &Vec::new());
            tell_all(cluster, LIAR, &advance(qc));
        }
        work(cluster, 3);
        recover(cluster);
    }
}

/// A proposal whose justify nobody signed.
pub fn justify(place: &mut Option<Cluster>) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
        work(cluster, 3);
        let (view, phase) = (next_view_of(cluster, LIAR), rules.facts().phases);
        let qc = certificate(made_up(View(view.0 - 1), phase), &junk(&[0, 1, 2]));
        let block = child_of(cluster, qc, view, LIAR);
        tell_all(cluster, LIAR, &Message::Proposal { block, tc: None });
        recover(cluster);
    }
}

/// The same replicas, on another chain, signed this.
pub fn other_chain(place: &mut Option<Cluster>) {
    other_domain(place, Digest([0x0C; 32]), Epoch(0));
}

/// The same replicas, in another epoch, signed this.
pub fn other_epoch(place: &mut Option<Cluster>) {
    other_domain(place, keys::CHAIN, Epoch(1));
}

fn other_domain(place: &mut Option<Cluster>, chain: Digest, epoch: Epoch) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
        work(cluster, 3);
        let members = cluster.config.domain();
        let members = members.committee();
        let keys: Vec<ReplicaKey> =
            members.replicas().filter_map(|id| members.key(id).cloned()).collect();
        let other = Committee::new(chain, epoch, keys).expect("the same keys");
        let ballot = made_up(next_view_of(cluster, 2), rules.facts().phases);
        let votes = signed(&cluster.config.protocol().domain(other), &ballot, &[0, 1, 2]);
        tell_all(cluster, LIAR, &advance(certificate(ballot, &votes)));
        recover(cluster);
    }
}

/// What was overheard when a view was given up, and who heard it.
struct Overheard {
    /// The last time-outs of the correct replicas, all of one view.
    time_outs: Vec<(TimeOut, Qc)>,
    /// Certificates of proposals, as they came.
    qcs: Vec<Qc>,
}

/// All correct replicas give up on one view, and only the liar hears of it.
fn overhear(cluster: &mut Cluster) -> Overheard {
    let (time_outs, qcs) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    let deaf = Rc::new(Cell::new(false));
    let (heard, seen, closed) = (Rc::clone(&time_outs), Rc::clone(&qcs), Rc::clone(&deaf));
    cluster.meddler = Some(Box::new(move |from, to, message| {
        let PeerMessage::Protocol { message, .. } = message else { return Fate::Goes };
        match message {
            Message::Proposal { block, .. } => seen.borrow_mut().push(block.justify.clone()),
            Message::TimeOut { time_out, high_qc, .. } if to == LIAR && from != LIAR => {
                heard.borrow_mut().push((*time_out, high_qc.clone()));
            }
            _ => {}
        }
        if closed.get() { Fate::Lost } else { Fate::Goes }
    }));
    work(cluster, 3);
    // The votes for one more block reach nobody.
    cluster.request(0, 1, 10);
    cluster.run_for(1_500);
    deaf.set(true);
    cluster.run_for(1_000_000);
    let all = time_outs.borrow();
    let view = all.iter().map(|(time_out, _)| time_out.view).max().unwrap_or_default();
    let mut last: Vec<(TimeOut, Qc)> = Vec::new();
    for (time_out, qc) in all.iter().rev().filter(|(time_out, _)| time_out.view == view) {
        if last.iter().all(|(other, _)| other.replica != time_out.replica) {
            last.push((*time_out, qc.clone()));
        }
    }
    last.sort_by_key(|(time_out, _)| time_out.replica);
    let qcs = qcs.borrow().clone();
    Overheard { time_outs: last, qcs }
}

/// A certificate of two time-outs that were overheard and the liar's own, with these QCs.
fn time_out_certificate(domain: &Domain, heard: &[(TimeOut, Qc)], own: &Qc, qcs: &[Qc]) -> Tc {
    let view = heard[0].0.view;
    let statement = domain.time_out(view, own.view(), &own.block());
    let signature = Key::of_replica(LIAR).sign(&statement);
    let liar = ReplicaId(LIAR as u16);
    let mut entries: Vec<(ReplicaId, View)> =
        heard.iter().map(|(time_out, _)| (time_out.replica, time_out.high_qc_view)).collect();
    entries.push((liar, own.view()));
    let mut signatures: Vec<Signature> = heard.iter().map(|(t, _)| t.signature).collect();
    signatures.push(signature);
    let mut bytes = view.to_bytes();
    put_list(&mut bytes, &entries);
    put_list(&mut bytes, &signatures);
    put_list(&mut bytes, qcs);
    Tc::from_bytes(bytes.into()).expect("a certificate by its form")
}

/// A time-out certificate that hides the highest QC of those who signed it.
pub fn old_qc(place: &mut Option<Cluster>) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
        let Overheard { time_outs, qcs } = overhear(cluster);
        let domain = cluster.config.domain();
        let Some(heard) = time_outs.get(..2) else { panic!("harness: nobody gave up") };
        let known = heard.iter().map(|(_, qc)| qc.rank()).max();
        let older = qcs.into_iter().filter(|qc| Some(qc.rank()) < known);
        let Some(old) = older.max_by_key(Qc::rank) else { panic!("harness: no older QC") };
        // Instead of what they know, something lower for the same blocks.
        let lower = |(_, qc): &(TimeOut, Qc)| {
            let view = View(old.view().0 - 1);
            certificate(Ballot { view, ..qc.ballot() }, &junk(&[0, 1, 2]))
        };
        let mut carried: Vec<Qc> = heard.iter().map(lower).collect();
        carried.push(old.clone());
        let carried = if domain.carries_all_qcs() { carried } else { vec![old.clone()] };
        let tc = time_out_certificate(&domain, heard, &old, &carried);
        let message =
            Message::Advance { high_qc: old, high_tc: Some(tc), decided: None, is_answer: false };
        tell_all(cluster, LIAR, &message);
        recover(cluster);
    }
}

/// An aggregated QC whose highest is the liar's invention.
pub fn made_up_qc(place: &mut Option<Cluster>) {
    for rules in variants() {
        if !rules.facts().carries_all_qcs {
            continue;
        }
        let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
        let Overheard { time_outs, .. } = overhear(cluster);
        let domain = cluster.config.domain();
        let Some(heard) = time_outs.get(..2) else { panic!("harness: nobody gave up") };
        let own = certificate(made_up(heard[0].0.view, 1), &junk(&[0, 1, 2]));
        let mut carried: Vec<Qc> = heard.iter().map(|(_, qc)| qc.clone()).collect();
        carried.push(own.clone());
        let tc = time_out_certificate(&domain, heard, &own, &carried);
        let high_qc = heard[0].1.clone();
        tell_all(
            cluster,
            LIAR,
            &Message::Advance { high_qc, high_tc: Some(tc), decided: None, is_answer: false },
        );
        recover(cluster);
    }
}

/// An empty block on top of what `justify` certifies, with the state root that belongs there.
fn child_of(cluster: &Cluster, justify: Qc, view: View, proposer: usize) -> Arc<Block> {
    let core = ahead(cluster);
    let tree = core.protocol().tree();
    let parent: BlockId = justify.block();
    let height = tree.find(&parent).map_or(tree.root().height, |parent| parent.height).next();
    let committed = tree.committed_by(&parent);
    let root = committed.and_then(|height| core.execution().root_at(height)).unwrap_or_default();
    let (epoch, proposer) = (Epoch(0), ReplicaId(proposer as u16));
    let (state_root, frames) = (root, Vec::new());
    Arc::new(Block::new(Content { epoch, view, height, proposer, justify, state_root, frames }))
}

/// Brings all to the highest certificate, and says in which view that puts them.
fn gather(cluster: &mut Cluster) -> (Qc, View) {
    let high_qc = ahead(cluster).protocol().high_qc().clone();
    tell_all(cluster, LIAR, &advance(high_qc.clone()));
    let view = high_qc.view().next();
    (high_qc, view)
}

/// A good block, by somebody whose turn it is not; who leads is not heard.
pub fn out_of_turn(place: &mut Option<Cluster>) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
        let mut commands = 3;
        // Until it is the turn of one of the first three.
        while commands < 8 {
            work(cluster, commands);
            let (high_qc, view) = gather(cluster);
            let leader = (view.0 % 4) as usize;
            if leader == LIAR || high_qc.phase() < rules.facts().phases {
                commands += 1;
                continue;
            }
            for to in 0..4 {
                cluster.network.link(leader, to).cut = true;
            }
            let block = child_of(cluster, high_qc, view, LIAR);
            tell_all(cluster, LIAR, &Message::Proposal { block, tc: None });
            cluster.run_for(20_000);
            break;
        }
        recover(cluster);
    }
}

/// A liar that leads proposes what is right in all but one thing.
fn bent_proposals(place: &mut Option<Cluster>, bend: fn(&mut Content)) {
    for rules in variants() {
        let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
        cluster.meddler = Some(Box::new(move |from, _, message| {
            let PeerMessage::Protocol { epoch, message, frames } = message else {
                return Fate::Goes;
            };
            let Message::Proposal { block, tc } = message else { return Fate::Goes };
            if from != LIAR {
                return Fate::Goes;
            }
            let mut content: Content = Content::clone(block);
            bend(&mut content);
            let (block, tc) = (Arc::new(Block::new(content)), tc.clone());
            let (epoch, message) = (*epoch, Message::Proposal { block, tc });
            let frames = frames.clone();
            Fate::Bent(Box::new(PeerMessage::Protocol { epoch, message, frames }))
        }));
        work(cluster, 8);
        recover(cluster);
    }
}

/// Its blocks are higher than they are.
pub fn wrong_height(place: &mut Option<Cluster>) {
    bent_proposals(place, |content| content.height = content.height.next());
}

/// Its blocks carry a state root that nobody computed.
pub fn wrong_root(place: &mut Option<Cluster>) {
    bent_proposals(place, |content| content.state_root = Digest([1; 32]));
}
