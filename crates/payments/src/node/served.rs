//! How much peers are sent because they want it.
//!
//! A vertex that was accepted long ago is made again from the ledger: a heavy one is three million
//! bytes for a request of forty. So a peer is sent so many bytes in a quarter of a second, and what
//! it wants beyond is left out.

use std::collections::HashMap;
use std::time::Duration;

use quorate_core::{ReplicaId, Time, planted};

use super::frames::FETCHED_BYTES;

/// In this time a peer is sent so many bytes, but for its last vertex.
const SPAN: Duration = Duration::from_millis(250);
/// What a vertex counts for at least: looking it up takes time, too.
const LEAST: usize = 2048;

/// The bytes that each peer was sent lately, and since when.
#[derive(Debug, Default)]
pub(super) struct Served(HashMap<ReplicaId, (Time, usize)>);

impl Served {
    /// Whether a peer may be sent something more.
    pub(super) fn may(&mut self, peer: ReplicaId, now: Time) -> bool {
        let (since, bytes) = self.0.entry(peer).or_insert((now, 0));
        if now.since(*since) >= SPAN {
            (*since, *bytes) = (now, 0);
        }
        planted!("payments-served-without-end", true, *bytes < FETCHED_BYTES)
    }

    /// A vertex of so many bytes was sent.
    pub(super) fn note(&mut self, peer: ReplicaId, bytes: usize) {
        if let Some((_, sum)) = self.0.get_mut(&peer) {
            *sum += bytes.max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_sent_so_much_in_a_while_and_the_others_are_served() {
        let (mut served, mut now) = (Served::default(), Time(7));
        let serve = |served: &mut Served, peer, bytes, now| {
            let wanted = 0..100_000;
            wanted
                .filter(|_| {
                    let may = served.may(ReplicaId(peer), now);
                    if may {
                        served.note(ReplicaId(peer), bytes);
                    }
                    may
                })
                .count()
        };
        assert_eq!(serve(&mut served, 1, 3 << 20, now), 2);
        assert_eq!(serve(&mut served, 2, 100, now), FETCHED_BYTES / LEAST);
        now = now.after(SPAN / 2);
        assert_eq!(serve(&mut served, 1, 1, now), 0);
        now = now.after(SPAN / 2);
        assert_eq!(serve(&mut served, 1, FETCHED_BYTES, now), 1);
    }
}
