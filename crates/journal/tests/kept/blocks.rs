//! Tests of the block index: what an answer to a peer may hold, and what a cut of the log leaves.

use std::sync::Arc;

use quorate_core::Height;
use quorate_core::base::wire::Encode as _;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::FullBlock;
use quorate_core::replica::Record;
use quorate_core::replica::drive::Journal as _;
use quorate_journal::Journal;
use quorate_store::disk::MemoryDisk;
use quorate_store::wal::{self, Durability, Log};

use crate::chain::{Chain, owner};

const BLOCKS: u64 = 60;
/// Room for a few blocks.
const SEGMENT_BYTES: u64 = 40 << 10;

/// A journal that holds the chain, committed up to `committed`.
fn journal(chain: &Chain, committed: u64) -> Journal {
    let options = wal::Options {
        segment_bytes: SEGMENT_BYTES,
        slot_bytes: 4096,
        preparation: wal::Preparation::Inline,
        ..wal::Options::new(owner().identity())
    };
    let (log, _) = Log::open(Arc::new(MemoryDisk::new()), options).expect("a log");
    let mut journal = Journal::new(log, Durability::Sync);
    for height in 1..=BLOCKS {
        journal
            .write(vec![Record::<Types>::Block(chain.block(height).clone())])
            .expect("in memory");
        if height <= committed {
            journal.index().committed(&[Arc::clone(&chain.block(height).block)]);
        }
    }
    journal
}

/// An answer holds at least two blocks, all that fits, and otherwise nothing beyond its budget.
#[test]
fn an_answer_to_a_peer_keeps_to_its_budget() {
    const COMMITTED: u64 = 50;
    let chain = Chain::new(BLOCKS);
    let journal = journal(&chain, COMMITTED);
    let tail: Vec<FullBlock> =
        (COMMITTED + 1..=BLOCKS).map(|height| chain.block(height).clone()).collect();
    let encoded: Vec<usize> =
        (1..=BLOCKS).map(|height| chain.block(height).to_bytes().len()).collect();
    for above in 0..COMMITTED {
        for budget in [0, 1, 1000, 3000, 10_000, 30_000, u32::MAX] {
            let answer = journal.index().chain(Height(above), Height(COMMITTED), budget, &tail);
            let lengths: Vec<usize> = answer.iter().map(|block| block.len()).collect();
            let expected = &encoded[above as usize..above as usize + answer.len()];
            assert_eq!(lengths, expected, "above {above}, {budget} bytes");
            let bytes: usize = lengths.iter().sum();
            let is_small = bytes <= budget as usize || answer.len() == 2;
            assert!(is_small, "above {above}: {bytes} bytes of {budget}");
            let next = encoded.get(above as usize + answer.len());
            let is_full = next.is_none_or(|next| bytes + next > budget as usize);
            assert!(is_full, "above {above}: {bytes} of {budget} bytes, and {next:?} would fit");
        }
    }
}

/// Recovery from the state at a height executes all blocks above it. They must be in the log, and
/// so must the part that is kept for peers.
#[test]
fn a_cut_of_the_log_leaves_all_that_recovery_needs() {
    let chain = Chain::new(BLOCKS);
    let mut shortest = u64::MAX;
    for height in 0..BLOCKS {
        for window in [0, SEGMENT_BYTES, 1 << 30] {
            let mut journal = journal(&chain, BLOCKS);
            let (begin, end) = (journal.log().first_position().0, journal.log().end().0);
            journal.retire(window, Height(height)).expect("in memory");
            let first = journal.log().first_position();
            let index = journal.index();
            for above in height + 1..=BLOCKS {
                let read = index.read(Height(above));
                let whole = chain.block(above).to_bytes();
                assert_eq!(read.as_deref(), Some(&whole[..]), "{above} above {height}");
            }
            assert!(first.0 <= end.saturating_sub(window).max(begin), "{window} bytes are kept");
            assert!(index.first() <= Height(height + 1));
            shortest = shortest.min(end - first.0);
        }
    }
    assert!(shortest <= 2 * SEGMENT_BYTES, "{shortest} bytes are left: nothing was cut");
}
