//! How late bodies that travel [ahead](super::ahead) usually are.
//!
//! A full uplink holds bodies back, and what was told of them comes before them. A replica that
//! asks for a body too early gets it twice, and the second copy makes the link fuller. So a replica
//! measures how long after f + 1 others have told of a body it comes, and waits for twice as long.
//! The first copy that is passed on counts, also where the body was executed before. Where it is
//! not known when others told, the body is taken to be in time.
//!
//! # What a liar can do
//! - It tells of bodies early. That changes nothing until an honest replica tells of them, too.
//! - It passes its own bodies on late. That changes its own lag alone, and the median counts. Where
//!   liars are the only ones that pass bodies on, the wait has its greatest length.
//! - It passes on early what others pass on. Then the others' copies do not count.
//! - It withholds bodies from some. These wait for twice the median, and ask others that told.

use std::collections::{BTreeMap, VecDeque};

use super::message::ShortId;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, ReplicaId, Time};

/// A lag counts for so long after the last body of its peer.
const REMEMBERED: Duration = Duration::from_secs(10);

/// A new lag counts an eighth, as in TCP's estimate of the round trip (RFC 6298, section 2).
const WEIGHT: u32 = 8;

/// So many executed bodies are remembered, the latest ones.
const MOST_EXECUTED: usize = 8192;

/// The lag of each peer's bodies.
#[derive(Debug)]
pub(super) struct Lags {
    of_each: PerPeer<Option<Lag>>,
    /// The bodies that were executed, and when more than lie had told of those that nobody had
    /// passed on by then.
    executed: BTreeMap<ShortId, Option<Time>>,
    /// The same bodies, in the order of their execution.
    in_order: VecDeque<ShortId>,
}

#[derive(Clone, Copy, Debug)]
struct Lag {
    usual: Duration,
    noted: Time,
}

impl Lags {
    /// Nothing is known of `peers` replicas.
    pub fn new(peers: usize) -> Self {
        let (executed, in_order) = (BTreeMap::new(), VecDeque::new());
        Self { of_each: PerPeer::new(peers), executed, in_order }
    }

    /// Has lags for so many replicas.
    pub fn grow(&mut self, peers: usize) {
        self.of_each.grow(peers);
    }

    /// A body was executed. If nobody has passed it on yet, `since` is when more than lie had told
    /// of it.
    pub fn executed(&mut self, id: ShortId, since: Option<Time>) {
        self.executed.insert(id, since);
        self.in_order.push_back(id);
        if self.in_order.len() > MOST_EXECUTED
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.executed.remove(&oldest);
        }
    }

    /// A body is passed on. If it was executed: since when more than lie had told of it. That is
    /// said once.
    pub fn take_executed(&mut self, id: &ShortId) -> Option<Option<Time>> {
        self.executed.get_mut(id).map(Option::take)
    }

    /// A peer passed a body on, so long after it was known to be on its way.
    pub fn note(&mut self, now: Time, from: ReplicaId, lag: Duration) {
        let Some(place) = self.of_each.get_mut(from) else { return };
        let former = place.filter(|former| now <= former.noted.after(REMEMBERED));
        let usual = former.map_or(lag, |former| (former.usual * (WEIGHT - 1) + lag) / WEIGHT);
        *place = Some(Lag { usual, noted: now });
    }

    /// The median of the peers that passed bodies on of late, the lower one of two.
    pub fn usual(&self, now: Time) -> Option<Duration> {
        let of_late = |lag: &&Lag| now <= lag.noted.after(REMEMBERED);
        let mut lags: Vec<Duration> =
            self.of_each.iter().flatten().filter(of_late).map(|lag| lag.usual).collect();
        let middle = lags.len().checked_sub(1)? / 2;
        Some(*lags.select_nth_unstable(middle).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn one_liar_of_three_changes_nothing() {
        let (mut lags, now) = (Lags::new(4), Time(0));
        assert_eq!(lags.usual(now), None);
        for (from, lag) in [(1, 10), (2, 12), (3, 5_000)] {
            lags.note(now, ReplicaId(from), millis(lag));
        }
        assert_eq!(lags.usual(now), Some(millis(12)));
        // Those of the two, where one of them passes nothing on any more.
        let later = now.after(REMEMBERED + millis(1));
        lags.note(later, ReplicaId(2), millis(20));
        lags.note(later, ReplicaId(3), millis(5_000));
        assert_eq!(lags.usual(later), Some(millis(20)), "afresh, and the lower one");
    }

    #[test]
    fn a_lag_follows_its_link() {
        let mut lags = Lags::new(4);
        let noted = |lags: &mut Lags, lag| {
            (0..40).for_each(|at| lags.note(Time(at), ReplicaId(1), millis(lag)));
            lags.usual(Time(40)).expect("one was noted").as_millis()
        };
        assert_eq!([0, 200, 3].map(|lag| noted(&mut lags, lag)), [0, 199, 3]);
    }
}
