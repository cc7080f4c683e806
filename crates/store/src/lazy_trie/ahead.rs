//! Prefetching: the memory that a batch is going to read is requested in parallel. Otherwise one
//! change after the other would wait for memory.

use super::bucket::Bucket;
use super::entry::{Entry, Kind};
use super::hash::{DIGITS, Hash};
use super::memory::View;
use super::node::Node;

/// The number of paths followed at a time. The requested memory has arrived when a path continues,
/// and is still in the cache when it is used.
pub(super) const TOGETHER: usize = 32;
/// The bytes prefetched of nodes and buckets.
const NODE_BYTES: usize = 128;

/// The bytes prefetched of an item: enough to identify it, ...
pub(super) const ITEM_HEAD_BYTES: usize = 64;
/// ... or enough to read most items.
pub(super) const ITEM_BYTES: usize = 256;

/// Prefetches the paths to the items of these hashes, and the first bytes of each item. `begin` is
/// where a path begins, and the number of digits above. It trusts nothing that it reads.
pub(super) fn look_ahead(
    view: View<'_>,
    begin: impl Fn(&Hash) -> (Entry, usize),
    mut hashes: impl Iterator<Item = Hash>,
    item_bytes: usize,
) {
    let mut ways = [(Entry::EMPTY, 0, Hash([0; 32])); TOGETHER];
    loop {
        let mut begun = 0;
        for (way, hash) in ways.iter_mut().zip(hashes.by_ref()) {
            let (entry, depth) = begin(&hash);
            *way = (entry, depth, hash);
            begun += 1;
        }
        if begun == 0 {
            return;
        }
        // No path is longer in an undamaged store.
        for _ in 0..DIGITS {
            let mut ended = true;
            for way in ways.iter_mut().take(begun).filter(|way| way.0 != Entry::EMPTY) {
                (way.0, way.1) = step(view, *way, item_bytes);
                ended = false;
            }
            if ended {
                break;
            }
        }
    }
}

/// One step down: prefetches the next address.
fn step(
    view: View<'_>,
    (entry, depth, hash): (Entry, usize, Hash),
    item_bytes: usize,
) -> (Entry, usize) {
    const END: (Entry, usize) = (Entry::EMPTY, 0);
    match entry.kind() {
        Kind::Empty | Kind::Item => END,
        Kind::Bucket => {
            let Some(bucket) = Bucket::glance(view, entry.address()) else { return END };
            let alike = bucket.entries().filter(|entry| entry.tag() == hash.tag());
            alike.for_each(|entry| view.ask_for(entry.address(), item_bytes));
            END
        }
        Kind::Node => {
            let lead = Node::lead(view, entry.address(), &hash, depth);
            let Some(lead) = lead.ok().filter(|lead| lead.matching == lead.prefix) else {
                return END;
            };
            let bytes = if lead.child.kind() == Kind::Item { item_bytes } else { NODE_BYTES };
            if lead.child != Entry::EMPTY {
                view.ask_for(lead.child.address(), bytes);
            }
            (lead.child, depth + lead.prefix + 1)
        }
    }
}
