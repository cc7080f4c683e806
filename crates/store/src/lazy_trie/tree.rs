//! Lookups in the lazy-trie.

use super::bucket::Bucket;
use super::entry::{Entry, Kind};
use super::error::Error;
use super::hash::{DIGITS, Hash};
use super::item::{self, Item, Name};
use super::memory::View;
use super::node::Node;

/// Finds the item of a name below `entry`, which is `depth` digits down.
///
/// # Errors
/// [`Error::Damaged`].
pub(super) fn find<'a>(
    view: View<'a>,
    (mut entry, mut depth): (Entry, usize),
    name: &Name<'_>,
    hash: &Hash,
) -> Result<Option<Item<'a>>, Error> {
    loop {
        match entry.kind() {
            Kind::Empty => return Ok(None),
            Kind::Item => {
                if entry.tag() != hash.tag() {
                    return Ok(None);
                }
                let item = item::read(view, entry.address())?;
                return Ok(item.is(name, hash).then_some(item));
            }
            Kind::Bucket => {
                for entry in Bucket::read(view, entry.address())?.entries() {
                    if entry.tag() == hash.tag() {
                        let item = item::read(view, entry.address())?;
                        if item.is(name, hash) {
                            return Ok(Some(item));
                        }
                    }
                }
                return Ok(None);
            }
            Kind::Node => {
                let lead = Node::lead(view, entry.address(), hash, depth)?;
                if lead.matching < lead.prefix {
                    return Ok(None);
                }
                check_depth(view, entry, depth + lead.prefix)?;
                (entry, depth) = (lead.child, depth + lead.prefix + 1);
            }
        }
    }
}

/// A path longer than the digits of a hash is damage.
pub(super) fn check_depth(view: View<'_>, entry: Entry, depth: usize) -> Result<(), Error> {
    if depth < DIGITS {
        return Ok(());
    }
    Err(view.memory().damaged(entry.address(), "a path longer than a hash"))
}
