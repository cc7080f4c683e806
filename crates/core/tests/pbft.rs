//! What a peer may say to a replica of PBFT.

use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_core::ledger::frame::FrameId;
use quorate_core::protocols::pbft::words::Standing;
use quorate_core::protocols::pbft::{Message, Pbft, Settings};
use quorate_core::protocols::protocol::{Input, Ledger, Protocol as _};
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

/// A peer that says to stand at the end of all numbers is answered like any other.
#[test]
fn the_highest_numbers_are_no_trouble() {
    let keys = (0..4_u8).map(|id| ReplicaKey::from([id; 32])).collect();
    let committee = Committee::new(Digest([7; 32]), Epoch(0), keys).unwrap();
    let mut replica = Pbft::new(committee, ReplicaId(0), Settings::default());
    for is_changing in [false, true] {
        let (view, end) = (View(u64::MAX), Height(u64::MAX));
        for view in [View(1), view] {
            let standing = Standing { view, is_changing, stable: end, committed: end };
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
