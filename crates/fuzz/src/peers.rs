//! A Byzantine replica in a cluster on virtual time. It sends what the input wants; the others
//! agree, answer their client, and hold no more for it than a few messages.

use bytes::Bytes;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::protocols::hotstuff::{Message, Types};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Height, View};
use quorate_sim::adversary::Liar;
use quorate_sim::{Cluster, Config, Peer, status_of};

use crate::input::Input;

const LIAR: usize = 3;

/// Runs an input.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut cluster = Cluster::new(Config::default());
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(20_000_000), "before the first lie");
    cluster.crash(LIAR);
    cluster.slots[LIAR].faulty = true;
    for _ in 0..60 {
        if input.is_empty() {
            break;
        }
        let to = usize::from(input.byte() % 3);
        if let Some(message) = message(&mut input, &cluster, to) {
            for _ in 0..1 + input.byte() % 3 {
                cluster.inject(LIAR, to, &message);
            }
        }
        if input.byte() & 1 == 1 {
            cluster.run_for(500 * u64::from(input.byte()));
        }
    }
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(120_000_000), "nothing is answered any more");
    for core in cluster.correct() {
        assert!(core.held_blocks() < 64, "{} blocks", core.held_blocks());
        assert!(core.held_verifications() < 2048, "{} checks", core.held_verifications());
    }
}

fn message(input: &mut Input<'_>, cluster: &Cluster, to: usize) -> Option<Peer> {
    let liar = Liar { id: LIAR, domain: Config::default().domain(), to };
    let core = cluster.core(to);
    let high_qc = core.protocol().high_qc().clone();
    let ahead = u64::from(input.byte());
    let view = View(status_of(core).view.0 + ahead.saturating_sub(3));
    let block = if ahead & 1 == 1 { high_qc.block() } else { Digest([ahead as u8; 32]) };
    let made: PeerMessage<Types> = match input.byte() % 8 {
        0 => PeerMessage::of(Message::Vote(liar.vote(view, 1, block))),
        1 => {
            let time_out = liar.time_out(view, &high_qc);
            PeerMessage::of(Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None })
        }
        // What a decoder takes of arbitrary bytes.
        2 => {
            let bytes = input.bytes(80);
            return PeerMessage::from_bytes(Bytes::from(bytes)).ok();
        }
        kind => return requests(kind, input, ahead),
    };
    // Bent on the way, if that can still be read.
    let mut bytes = made.to_bytes();
    for _ in 0..input.byte() % 3 {
        let at = input.below(bytes.len() as u64) as usize;
        bytes[at] ^= input.byte();
    }
    PeerMessage::from_bytes(Bytes::from(bytes)).ok()
}

/// Messages without signatures: questions, and answers that nobody asked for.
fn requests(kind: u8, input: &mut Input<'_>, number: u64) -> Option<Peer> {
    let (height, chunk) = (Height(number), u32::from(input.byte()));
    Some(match kind {
        3 => PeerMessage::FetchChain {
            tip: Digest([number as u8; 32]),
            above: height,
            budget_bytes: input.number() as u32,
        },
        4 => PeerMessage::FetchChunk { height, chunk },
        5 => PeerMessage::Chunk {
            height,
            chunk,
            last: chunk & 1 == 1,
            bytes: input.bytes(30).into(),
        },
        6 => PeerMessage::NeedFrames(vec![Digest([number as u8; 32]); chunk as usize % 8]),
        _ if chunk & 1 == 1 => PeerMessage::AskTestimony { nonce: Digest([number as u8; 32]) },
        _ => PeerMessage::Show(height),
    })
}
