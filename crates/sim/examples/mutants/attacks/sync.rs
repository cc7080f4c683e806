//! Who is behind asks a liar, and nobody else can be heard.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::crypto::Signature;
use quorate_core::base::wire::{Decode as _, Encode as _, put_list};
use quorate_core::ledger::execution::{Header, StateSummary};
use quorate_core::ledger::state_machine::StateMachine as _;
use quorate_core::protocols::hotstuff::block::{Block, Content, FullBlock};
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::protocol::{Ballot, Shown};
use quorate_core::replica::Input;
use quorate_core::replica::message::{Offer, PeerMessage};
use quorate_core::{Digest, Height, ReplicaId};
use quorate_sim::app::Register;
use quorate_sim::network::Fate;
use quorate_sim::{Cluster, Config, Peer};

use super::{LIAR, recover, start, work};
use crate::schedules::variants;

/// Who is behind.
const VICTIM: usize = 0;

/// The victim is away while the others work; then it hears the liar alone, whose messages to it are
/// bent.
fn return_to_a_liar(
    place: &mut Option<Cluster>,
    config: Config,
    bend: impl FnOnce(&Cluster) -> Box<dyn Fn(&Peer) -> Fate>,
) {
    let cluster = start(place, config, Some(LIAR));
    work(cluster, 2);
    cluster.crash(VICTIM);
    work(cluster, 12);
    for other in [1, 2] {
        cluster.network.link(VICTIM, other).cut = true;
        cluster.network.link(other, VICTIM).cut = true;
    }
    let bend = bend(cluster);
    if cluster.config.snapshot_blocks < 100 {
        let head = cluster.core(LIAR).execution().height();
        cluster.turn(LIAR, Input::LogBegins(head));
    }
    cluster.meddler = Some(Box::new(move |from, to, message| match (from, to) {
        (LIAR, VICTIM) => bend(message),
        _ => Fate::Goes,
    }));
    cluster.boot(VICTIM);
    cluster.run_for(1_000_000);
    cluster.request(0, 1, 10);
    cluster.run_for(3_000_000);
    recover(cluster);
}

fn forged(ballot: Ballot) -> Qc {
    let junk: Vec<(ReplicaId, Signature)> =
        (0..3).map(|id| (ReplicaId(id), Signature::from([9; 64]))).collect();
    let mut bytes = ballot.to_bytes();
    bytes.push(1);
    put_list(&mut bytes, &junk);
    Qc::from_bytes(bytes.into()).expect("a certificate by its form")
}

/// A block on top of `parent`, which a certificate that nobody signed vouches for.
fn on_top_of(parent: &Block, justify: Option<Qc>, phase: u8) -> FullBlock {
    let view = parent.view.next();
    let ballot = Ballot { view: parent.view, phase, block: parent.id() };
    let content = Content {
        view,
        height: parent.height.next(),
        justify: justify.unwrap_or_else(|| forged(ballot)),
        frames: Vec::new(),
        ..Content::clone(parent)
    };
    FullBlock { block: Arc::new(Block::new(content)), frames: Vec::new() }
}

/// Behind the blocks that were asked for come others, which a liar made up.
pub fn chain(place: &mut Option<Cluster>) {
    for rules in variants() {
        let phase = rules.facts().phases;
        let config = Config { rules, ..Config::default() };
        return_to_a_liar(place, config, |cluster| {
            let core = super::ahead(cluster);
            let high_qc = core.protocol().high_qc().clone();
            Box::new(move |message| {
                let PeerMessage::Chain(blocks) = message else { return Fate::Goes };
                let Some(last) = blocks.last() else { return Fate::Goes };
                let real = Some(high_qc.clone()).filter(|qc| qc.block() == last.block.id());
                let mut blocks = blocks.clone();
                let one = on_top_of(&last.block, real, phase);
                let two = on_top_of(&one.block, None, phase);
                let three = on_top_of(&two.block, None, phase);
                blocks.extend([one, two, three]);
                Fate::Bent(Box::new(PeerMessage::Chain(blocks)))
            })
        });
    }
}

fn with_snapshots() -> Config {
    Config { snapshot_blocks: 5, retire: true, rules: variants()[0], ..Config::default() }
}

/// The last command in a chunk is another one.
fn tampered(chunk: &Bytes) -> Bytes {
    let mut bytes = chunk.to_vec();
    let at = bytes.windows(3).rposition(|window| window == b"c0:");
    if let Some(digit) = at.and_then(|at| bytes.get_mut(at + 4)) {
        *digit = b'!';
    }
    bytes.into()
}

/// The commands in a snapshot are not those that were executed.
pub fn snapshot(place: &mut Option<Cluster>) {
    return_to_a_liar(place, with_snapshots(), |_| {
        Box::new(|message| match message {
            PeerMessage::Chunk { height, chunk, last, bytes } => {
                let (height, chunk, last) = (*height, *chunk, *last);
                let bytes = tampered(bytes);
                Fate::Bent(Box::new(PeerMessage::Chunk { height, chunk, last, bytes }))
            }
            _ => Fate::Goes,
        })
    });
}

/// The header and the root that a tampered snapshot has.
fn header_of(chunks: &[Bytes]) -> Option<(Bytes, Digest)> {
    let (first, rest) = chunks.split_first()?;
    let header = Header::from_bytes(first.clone()).ok()?;
    let mut register = Register::default();
    let mut own = rest.iter().skip(header.session_chunks as usize).map(tampered);
    register.restore(&mut own).ok()?;
    let summary = StateSummary { application: register.root(), ..header.summary };
    Some((Header { summary, ..header }.to_bytes(), summary.root()))
}

/// The same, and the block that carries its root is made up as well.
pub fn offer(place: &mut Option<Cluster>) {
    return_to_a_liar(place, with_snapshots(), |cluster| {
        let height = cluster.core(LIAR).execution().height().0;
        let disk = &cluster.slots[LIAR].disk;
        let by_height: Vec<_> = (1..=height)
            .filter_map(|height| Some((Height(height), disk.snapshot(Height(height))?)))
            .filter_map(|(height, chunks)| Some((height, header_of(&chunks)?)))
            .collect();
        assert!(!by_height.is_empty(), "harness: the liar has no snapshot");
        Box::new(move |message| match message {
            PeerMessage::Chunk { height, chunk, last, bytes } => {
                let (height, chunk, last) = (*height, *chunk, *last);
                let own = by_height.iter().find(|(own, _)| chunk == 0 && *own == height);
                let bytes = own.map_or_else(|| tampered(bytes), |(_, (header, _))| header.clone());
                Fate::Bent(Box::new(PeerMessage::Chunk { height, chunk, last, bytes }))
            }
            PeerMessage::Behind(offer) => {
                let at = by_height.iter().find(|(height, _)| *height == offer.block.height);
                let Some((_, (_, state_root))) = at else { return Fate::Goes };
                let state_root = *state_root;
                let content = Content { state_root, ..Content::clone(&offer.shown.block) };
                let attesting = Arc::new(Block::new(content));
                let ballot = Ballot { block: attesting.id(), ..offer.shown.evidence.ballot() };
                let shown = Shown { block: attesting, evidence: forged(ballot) };
                let offer = Offer { shown, ..(**offer).clone() };
                Fate::Bent(Box::new(PeerMessage::Behind(Box::new(offer))))
            }
            _ => Fate::Goes,
        })
    });
}

/// While a snapshot is on its way, the blocks that it covers arrive from somebody else.
pub fn overtaken(place: &mut Option<Cluster>) {
    let config = Config { retire: false, ..with_snapshots() };
    let cluster = start(place, config, None);
    work(cluster, 2);
    cluster.crash(VICTIM);
    work(cluster, 12);
    // r2 has no blocks any more where it has a snapshot; the others answer, but slowly.
    let head = cluster.core(2).execution().height();
    cluster.turn(2, Input::LogBegins(head));
    cluster.run_for(10_000);
    for other in [1, 3] {
        cluster.network.link(other, VICTIM).delay = (300_000, 300_000);
    }
    cluster.meddler = Some(Box::new(move |from, to, message| match message {
        PeerMessage::Chunk { last: true, .. } if to == VICTIM => Fate::Late(500_000),
        PeerMessage::Chain(blocks) if to == VICTIM && from != 2 => {
            let most = blocks.len().saturating_sub(1);
            let blocks = blocks.iter().take(most).cloned().collect();
            Fate::Bent(Box::new(PeerMessage::Chain(blocks)))
        }
        _ => Fate::Goes,
    }));
    cluster.boot(VICTIM);
    cluster.run_for(3_000_000);
    recover(cluster);
}
