//! Lengths that lie: a message that announces more than it brings takes no memory for it.

use bytes::Bytes;
use quorate_core::base::wire::Decode;
use quorate_core::client::message::{Request, Response};
use quorate_core::ledger::frame::Frame;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::{Block, FullBlock};
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::replica::message::{Offer, PeerMessage};
use quorate_fuzz::allocation;

fn read<T: Decode>(bytes: &[u8]) {
    // As long as a message is short, a page for it is more than enough.
    let (allocated, _) = allocation::of(|| T::from_bytes(Bytes::copy_from_slice(bytes)).is_ok());
    assert!(allocated <= 4096 + 64 * bytes.len() as u64, "{allocated} bytes for {bytes:?}");
}

/// Every kind of message, whose numbers are all large, from any place on.
#[test]
fn lengths_that_lie_allocate_nothing() {
    let claims = [1, 1000, 65_535, 1 << 20, 1 << 24, i32::MAX as u32, u32::MAX];
    for kind in 0..=20_u8 {
        for claim in claims {
            for zeros in 0..200 {
                let mut bytes = vec![kind];
                bytes.resize(1 + zeros, 0);
                bytes.extend([claim.to_le_bytes(); 8].concat());
                read::<PeerMessage<Types>>(&bytes);
                read::<Request>(&bytes);
                read::<Response>(&bytes);
                for read in [
                    read::<Block>,
                    read::<Frame>,
                    read::<FullBlock>,
                    read::<Offer<Types>>,
                    read::<Qc>,
                    read::<Safety>,
                ] {
                    read(&bytes[1..]);
                }
            }
        }
    }
}
