//! What was asked of whom, and who is not asked for a while.
//!
//! An answer counts only if its question was put to the peer that answers. A peer that leaves
//! questions unanswered is benched: what it would be asked counts as unanswered at once, so that
//! polls do not wait for it. Benching makes samples smaller, and whoever could have honest peers
//! benched would gain by it: at most (1 − α / k) / 2 of the stake is benched at a time.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::protocols::snow::avalanche::VertexId;
use quorate_core::{ReplicaId, Time, planted};

use super::metrics::Foul;
use std::time::Duration;

/// Questions to a peer that are remembered; the oldest give way.
const MAX_ASKED: usize = 8192;
/// Vertices wanted of a peer that are remembered.
const MAX_WANTED: usize = 4096;
/// So many questions overdue bench a peer.
const OVERDUE: usize = 8;
/// How long it is benched at first; twice as long each time, up to the longest.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// What is known of the peers as to questions.
#[derive(Debug)]
pub struct Bench {
    peers: Vec<Peer>,
    stakes: Vec<u64>,
    /// Stake that may be benched.
    most: u64,
    patience: Duration,
}

#[derive(Debug, Default)]
struct Peer {
    asked: BTreeMap<u64, Time>,
    wanted: BTreeSet<VertexId>,
    benched_until: Option<Time>,
    times: u32,
}

impl Bench {
    /// For peers of these stakes, of which so many thousandths may be benched; a question is
    /// overdue after `patience`.
    #[must_use]
    pub fn new(stakes: Vec<u64>, permille: u32, patience: Duration) -> Self {
        let total: u128 = stakes.iter().map(|stake| u128::from(*stake)).sum();
        let most = (total * u128::from(permille) / 1000) as u64;
        Self { peers: stakes.iter().map(|_| Peer::default()).collect(), stakes, most, patience }
    }

    /// A question goes to a peer.
    pub fn asks(&mut self, peer: ReplicaId, poll: u64, now: Time) {
        if let Some(peer) = self.peers.get_mut(peer.index()) {
            peer.asked.insert(poll, now);
            if peer.asked.len() > MAX_ASKED {
                peer.asked.pop_first();
            }
        }
    }

    /// A peer answers.
    ///
    /// # Errors
    /// [`Foul`] if it was not asked.
    pub fn answers(&mut self, peer: ReplicaId, poll: u64) -> Result<(), Foul> {
        let of = self.peers.get_mut(peer.index()).ok_or(Foul::UnaskedAnswer)?;
        let was_asked = of.asked.remove(&poll).is_some();
        if planted!("payments-unasked-answer-counts", true, was_asked) {
            of.times = if of.benched_until.is_none() { 0 } else { of.times };
            return Ok(());
        }
        let another = self.peers.iter().any(|peer| peer.asked.contains_key(&poll));
        Err(if another { Foul::AnotherName } else { Foul::UnaskedAnswer })
    }

    /// A vertex is wanted of a peer.
    pub fn wants(&mut self, peer: ReplicaId, vertex: VertexId) {
        if let Some(peer) = self.peers.get_mut(peer.index()) {
            if peer.wanted.len() >= MAX_WANTED {
                peer.wanted.pop_first();
            }
            peer.wanted.insert(vertex);
        }
    }

    /// A peer brings a vertex; whether it was wanted of it.
    pub fn brings(&mut self, peer: ReplicaId, vertex: &VertexId) -> bool {
        self.peers.get_mut(peer.index()).is_some_and(|peer| peer.wanted.remove(vertex))
    }

    /// Who is benched now, and who may be asked again: each `true` if benched.
    pub fn look(&mut self, now: Time) -> Vec<(ReplicaId, bool)> {
        let mut changes = Vec::new();
        let mut benched = self.stake_benched();
        for (place, peer) in self.peers.iter_mut().enumerate() {
            let id = ReplicaId(place as u16);
            match peer.benched_until {
                Some(until) if until <= now => {
                    peer.benched_until = None;
                    benched -= self.stakes[place];
                    changes.push((id, false));
                }
                Some(_) => {}
                None => {
                    let late = |asked: &&Time| now.since(**asked) > self.patience;
                    let overdue = peer.asked.values().filter(late).take(OVERDUE).count();
                    if overdue < OVERDUE || benched + self.stakes[place] > self.most {
                        continue;
                    }
                    let span = FIRST.saturating_mul(1 << peer.times.min(5)).min(LONGEST);
                    peer.times += 1;
                    peer.asked.clear();
                    peer.benched_until = Some(now.after(span));
                    benched += self.stakes[place];
                    changes.push((id, true));
                }
            }
        }
        changes
    }

    /// Whether a peer is benched.
    #[must_use]
    pub fn is_benched(&self, peer: ReplicaId) -> bool {
        self.peers.get(peer.index()).is_some_and(|peer| peer.benched_until.is_some())
    }

    /// How many are benched.
    #[must_use]
    pub fn benched(&self) -> usize {
        self.peers.iter().filter(|peer| peer.benched_until.is_some()).count()
    }

    fn stake_benched(&self) -> u64 {
        let benched = self.peers.iter().zip(&self.stakes);
        benched.filter(|(peer, _)| peer.benched_until.is_some()).map(|(_, stake)| stake).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    #[test]
    fn an_answer_counts_from_who_was_asked_and_once() {
        let mut bench = Bench::new(vec![1; 4], 100, PATIENCE);
        bench.asks(ReplicaId(1), 7, Time(0));
        assert_eq!(bench.answers(ReplicaId(2), 7), Err(Foul::AnotherName));
        assert_eq!(bench.answers(ReplicaId(1), 8), Err(Foul::UnaskedAnswer));
        assert_eq!(bench.answers(ReplicaId(1), 7), Ok(()));
        assert_eq!(bench.answers(ReplicaId(1), 7), Err(Foul::UnaskedAnswer));
        assert_eq!(bench.answers(ReplicaId(9), 7), Err(Foul::UnaskedAnswer));
        let vertex = VertexId::default();
        bench.wants(ReplicaId(3), vertex);
        assert!(!bench.brings(ReplicaId(2), &vertex));
        assert!(bench.brings(ReplicaId(3), &vertex));
        assert!(!bench.brings(ReplicaId(3), &vertex));
    }

    #[test]
    fn silent_peers_are_benched_up_to_the_bound_and_asked_again_later() {
        let mut bench = Bench::new(vec![1; 20], 100, PATIENCE);
        for peer in 0..5 {
            (0..OVERDUE as u64).for_each(|poll| bench.asks(ReplicaId(peer), poll, Time(0)));
        }
        assert_eq!(bench.look(Time(0).after(PATIENCE)), []);
        let late = Time(1).after(PATIENCE);
        // A tenth of twenty.
        assert_eq!(bench.look(late), [(ReplicaId(0), true), (ReplicaId(1), true)]);
        assert_eq!(bench.look(late), []);
        assert!(bench.is_benched(ReplicaId(0)) && !bench.is_benched(ReplicaId(2)));
        let changes = bench.look(late.after(FIRST));
        assert!(changes.contains(&(ReplicaId(0), false)));
        assert_eq!(bench.benched(), 2);
    }

    #[test]
    fn a_small_network_benches_nobody() {
        let mut bench = Bench::new(vec![1; 5], 100, PATIENCE);
        (0..100).for_each(|poll| bench.asks(ReplicaId(1), poll, Time(0)));
        assert_eq!(bench.look(Time(0).after(3 * PATIENCE)), []);
    }
}
