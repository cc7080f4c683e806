//! What a peer may say to a replica of PBFT.

use std::sync::Arc;

use quorate_core::base::crypto::Signature;
use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_core::ledger::block::Block;
use quorate_core::ledger::frame::FrameId;
use quorate_core::protocols::checkpoint::{Checkpoint, Stable};
use quorate_core::protocols::pbft::words::{
    Content, NewView, Phase, SignedChange, Standing, ViewChange, Vote,
};
use quorate_core::protocols::pbft::{Authentication, Message, Pbft, Settings};
use quorate_core::protocols::protocol::{Input, Ledger, Malformed, Protocol as _};
use quorate_core::{Digest, Epoch, Height, ReplicaId, Time, View};

struct Nothing;

impl Ledger for Nothing {
    fn has_pending(&self) -> bool {
        false
    }

    fn payload(&mut self, _: &mut dyn Iterator<Item = FrameId>) -> Vec<FrameId> {
        Vec::new()
    }

    fn executed(&self) -> Height {
        Height(0)
    }

    fn state_root(&self, _: Height) -> Option<Digest> {
        None
    }
}

fn replica(authentication: Authentication) -> Pbft {
    let keys = (0..4_u8).map(|id| ReplicaKey::from([id; 32])).collect();
    let committee = Committee::new(Digest([7; 32]), Epoch(0), keys).unwrap();
    Pbft::new(committee, ReplicaId(0), Settings { authentication, ..Settings::default() })
}

fn checks(replica: &Pbft, from: u16, message: Message) -> Result<usize, Malformed> {
    replica.claim(ReplicaId(from), message).map(|claim| claim.checks().len())
}

/// A peer that says to stand at the end of all numbers is answered like any other.
#[test]
fn the_highest_numbers_are_no_trouble() {
    let mut replica = replica(Authentication::Signatures);
    for is_changing in [false, true] {
        let (view, end) = (View(u64::MAX), Height(u64::MAX));
        for (view, awaits) in [(View(1), None), (view, None), (view, Some(view))] {
            let standing = Standing { view, is_changing, stable: end, committed: end, awaits };
            let claim = replica.claim(ReplicaId(1), Message::Standing(standing)).unwrap();
            let message = claim.settle(&[]).unwrap();
            let input = Input::Message { from: ReplicaId(1), message };
            let now = Time(1_000_000_000 * (1 + u64::from(is_changing)));
            let effects = replica.step(now, input, &mut Nothing);
            drop(effects);
        }
    }
    assert_eq!(replica.committed().height(), Height(0));
}

fn stable() -> Stable {
    let checkpoint =
        Checkpoint { height: Height(4), block: Digest([4; 32]), root: Digest([5; 32]) };
    let signatures = (0..3).map(|id| (ReplicaId(id), Signature::from([id as u8; 64]))).collect();
    Stable { checkpoint, signatures }
}

fn new_view(view: View, senders: u16) -> Message {
    let change = |from| SignedChange {
        from: ReplicaId(from),
        change: ViewChange {
            view,
            stable: Some(stable()),
            prepared: Vec::new(),
            pre_prepared: Vec::new(),
        },
        signature: Signature::from([from as u8; 64]),
    };
    let changes = (0..senders).map(change).collect();
    let new_view = Box::new(NewView { view, changes, chosen: Vec::new() });
    Message::NewView { new_view, signature: Signature::from([9; 64]) }
}

/// A primary cannot take others to a view that no quorum wants.
#[test]
fn a_new_view_of_fewer_than_a_quorum_is_refused() {
    let replica = replica(Authentication::Macs);
    let view = View(u64::MAX - 1);
    for senders in 0..3 {
        assert_eq!(checks(&replica, 1, new_view(view, senders)), Err(Malformed::NoQuorum));
    }
    assert!(checks(&replica, 1, new_view(view, 3)).is_ok());
}

/// What one replica passes on of another is signed by that one with either authentication: so no
/// message needs authenticators for several receivers. Each kind of message is here.
#[test]
fn what_is_passed_on_is_signed_in_every_mode() {
    let block = Arc::new(Block::new(Content {
        epoch: Epoch(0),
        view: View(2),
        height: Height(5),
        parent: Digest([4; 32]),
        stable: Some(stable()),
        frames: Vec::new(),
    }));
    let vote =
        Vote { phase: Phase::Prepare, view: View(1), height: Height(1), block: Digest([1; 32]) };
    let (view, height) = (View(2), Height(0));
    let change =
        ViewChange { view, stable: Some(stable()), prepared: Vec::new(), pre_prepared: Vec::new() };
    let own = Signature::from([9; 64]);
    for authentication in [Authentication::Signatures, Authentication::Macs] {
        let replica = replica(authentication);
        // The signature of the sender, where the channel is not enough.
        let (direct, signs) = match authentication {
            Authentication::Signatures => (own, 1),
            Authentication::Macs => (Signature::NONE, 0),
        };
        let from = ReplicaId(1);
        let messages = [
            Message::PrePrepare { block: Arc::clone(&block), signature: direct },
            Message::Vote { vote, signature: direct },
            Message::Checkpoint { checkpoint: stable().checkpoint, signature: own },
            Message::ViewChange(Box::new(SignedChange {
                from,
                change: change.clone(),
                signature: own,
            })),
            new_view(view, 3),
            Message::Stable(Box::new(stable())),
            Message::Standing(Standing {
                view,
                is_changing: false,
                stable: height,
                committed: height,
                awaits: None,
            }),
        ];
        for message in messages {
            // Of others, signatures: three under a checkpoint, one under a view change.
            let expected = match &message {
                Message::PrePrepare { .. } => signs + 3,
                Message::Vote { .. } => signs,
                Message::Checkpoint { .. } => 1,
                Message::ViewChange(_) => 1 + 3,
                Message::NewView { .. } => 1 + 3 * (1 + 3),
                Message::Stable(_) => 3,
                Message::Standing(_) => 0,
            };
            assert_eq!(checks(&replica, 1, message.clone()), Ok(expected), "{message:?}");
        }
        // None speaks in the name of another.
        let foreign = SignedChange { from: ReplicaId(2), change: change.clone(), signature: own };
        let foreign = Message::ViewChange(Box::new(foreign));
        assert_eq!(checks(&replica, 1, foreign), Err(Malformed::WrongSender));
    }
    let refused = checks(&replica(Authentication::Macs), 1, Message::Vote { vote, signature: own });
    assert_eq!(refused, Err(Malformed::WrongForm), "signed where nothing is");
}
