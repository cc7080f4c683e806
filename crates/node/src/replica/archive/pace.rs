//! How fast peers are served from the disk.
//!
//! A request of a hundred bytes is answered with megabytes. A peer that is behind asks for each
//! block and chunk once, and gets it at once. One that asks for them again waits: what it was sent
//! before is sent at [`AGAIN_BYTES_A_SECOND`], after [`AT_ONCE_BYTES`] for answers that were lost.
//! All clients together, which anybody may be, are sent snapshots at that pace.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quorate_core::protocols::protocol::Types;
use quorate_core::{Height, planted};

use super::{Asker, Task};

/// What a peer is sent again a second, ...
const AGAIN_BYTES_A_SECOND: u64 = 32 << 20;
/// ... beyond what it is sent again at once.
const AT_ONCE_BYTES: u64 = 8 << 20;

/// Questions that wait, one an asker, and what was sent.
pub(super) struct Paced<T: Types> {
    waiting: BTreeMap<Asker, (Instant, Task<T>)>,
    /// By peer; `None`: all clients.
    accounts: BTreeMap<Option<Asker>, Account>,
}

/// Whose account an asker uses: clients share one.
fn payer(asker: Asker) -> Option<Asker> {
    matches!(asker, Asker::Peer(_)).then_some(asker)
}

/// What a peer was sent, or all clients.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Blocks up to this height.
    chain: Height,
    /// Chunks up to this one of a snapshot.
    chunk: (Height, u32),
    /// When all that it was sent again is made up for.
    even: Option<Instant>,
}

fn spent(bytes: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / AGAIN_BYTES_A_SECOND)
}

impl<T: Types> Default for Paced<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), accounts: BTreeMap::new() }
    }
}

impl<T: Types> Paced<T> {
    /// Somebody asks.
    pub(super) fn add(&mut self, task: Task<T>, now: Instant) {
        let Some(to) = task.asker() else { return };
        let account = self.accounts.entry(payer(to)).or_default();
        let again = planted!("blocks-again-unpaced", false, account.had(&task));
        let even = account.even.filter(|_| again);
        let due = even.and_then(|even| even.checked_sub(spent(AT_ONCE_BYTES)));
        self.waiting.insert(to, (due.unwrap_or(now), task));
    }

    /// The next question whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> Option<(Asker, Task<T>)> {
        let (to, (due, _)) = self.waiting.iter().min_by_key(|(_, (due, _))| *due)?;
        let to = *to;
        if *due > now {
            return None;
        }
        self.waiting.remove(&to).map(|(_, task)| (to, task))
    }

    /// How long the next one waits.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.waiting.values().map(|(due, _)| due.saturating_duration_since(now)).min()
    }

    /// `to` was sent so many bytes for `task`, in so many blocks.
    pub(super) fn served(
        &mut self,
        to: Asker,
        task: &Task<T>,
        (bytes, blocks): (usize, usize),
        now: Instant,
    ) {
        let account = self.accounts.entry(payer(to)).or_default();
        if account.had(task) {
            let from = account.even.map_or(now, |even| even.max(now));
            account.even = from.checked_add(spent(bytes as u64));
        }
        match task {
            // The last block of an answer is certified by none in it, and is asked for again.
            Task::Chain { above, through, .. } if blocks > 0 => {
                let new = (blocks as u64).saturating_sub(2).max(1);
                account.chain = account.chain.max(above.plus(new).min(*through));
            }
            Task::Chunk { height, chunk, .. } if bytes > 0 => {
                account.chunk = account.chunk.max((*height, *chunk));
            }
            _ => {}
        }
    }
}

impl Account {
    /// Whether it was sent before what it asks for. Clients count as if they were.
    fn had<T: Types>(&self, task: &Task<T>) -> bool {
        match task {
            Task::Chain { above, .. } => *above < self.chain,
            Task::Chunk { height, chunk, .. } => (*height, *chunk) <= self.chunk,
            Task::Backup(_) => true,
            Task::Snapshot(..) | Task::Offer(_) | Task::End => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ReplicaId;
    use quorate_core::protocols::hotstuff::Types;
    use quorate_transport::ConnectionId;

    use super::super::Backup;
    use super::*;

    const LIAR: ReplicaId = ReplicaId(1);
    const BEHIND: ReplicaId = ReplicaId(2);
    const ANSWER_BYTES: usize = 4 << 20;

    fn chain(to: ReplicaId, above: u64) -> Task<Types> {
        let (above, through) = (Height(above), Height(1 << 20));
        Task::Chain { to, above, through, budget_bytes: u32::MAX, tail: Vec::new() }
    }

    fn chunk(to: ReplicaId, height: u64, chunk: u32) -> Task<Types> {
        Task::Chunk { to, height: Height(height), chunk }
    }

    /// Serves whatever `next` asks for as soon as it may be, for a second. How many answers.
    fn answers(paced: &mut Paced<Types>, mut next: impl FnMut(u64) -> Task<Types>) -> u64 {
        let begin = Instant::now();
        let (mut now, mut served) = (begin, 0);
        loop {
            paced.add(next(served), now);
            now += paced.wait(now).unwrap();
            // Reading takes time as well.
            now += Duration::from_millis(1);
            if now > begin + Duration::from_secs(1) {
                return served;
            }
            let (to, task) = paced.due(now).unwrap();
            paced.served(to, &task, (ANSWER_BYTES, 10), now);
            served += 1;
        }
    }

    #[test]
    fn what_is_asked_for_once_is_served_at_once() {
        let mut paced = Paced::default();
        assert_eq!(answers(&mut paced, |served| chain(BEHIND, 8 * served)), 1000);
        assert_eq!(answers(&mut paced, |served| chunk(BEHIND, 1, served as u32)), 1000);
        assert_eq!(answers(&mut paced, |served| chunk(BEHIND, 2 + served, 0)), 1000);
    }

    #[test]
    fn what_is_asked_for_again_is_served_at_its_pace_and_keeps_nobody_waiting() {
        for task in [chain(LIAR, 0), chunk(LIAR, 1, 0)] {
            let mut paced = Paced::default();
            // A second's worth, what may go at once, the first time, and the one that is made up
            // for later.
            let most = (AGAIN_BYTES_A_SECOND + AT_ONCE_BYTES) / ANSWER_BYTES as u64 + 2;
            let again = || match &task {
                Task::Chain { .. } => chain(LIAR, 0),
                _ => chunk(LIAR, 1, 0),
            };
            let served = answers(&mut paced, |_| again());
            assert!((most - 2..=most).contains(&served), "{served}");
            let now = Instant::now();
            paced.add(again(), now);
            paced.add(chain(BEHIND, 0), now);
            assert!(matches!(paced.due(now), Some((Asker::Peer(BEHIND), _))));
            assert!(paced.due(now).is_none());
        }
    }

    /// Anybody may be as many clients as there is room for.
    #[test]
    fn clients_share_one_pace_whatever_they_ask_for() {
        let mut paced = Paced::<Types>::default();
        let most = (AGAIN_BYTES_A_SECOND + AT_ONCE_BYTES) / ANSWER_BYTES as u64 + 2;
        let served = answers(&mut paced, |served| {
            let (connection, chunk) = (ConnectionId(served), Some((Height(1), served as u32)));
            Task::Backup(Backup { connection, id: served, chunk })
        });
        assert!((most - 2..=most).contains(&served), "{served}");
        let now = Instant::now();
        paced.add(chain(BEHIND, 0), now);
        assert!(matches!(paced.due(now), Some((Asker::Peer(BEHIND), _))));
    }

    /// The last block of an answer is certified by none in it.
    #[test]
    fn a_peer_that_catches_up_by_two_blocks_an_answer_is_not_held_up() {
        let mut paced = Paced::default();
        let now = Instant::now();
        for above in 0..100 {
            paced.add(chain(BEHIND, above), now);
            let (to, task) = paced.due(now).unwrap();
            paced.served(to, &task, (2 * ANSWER_BYTES, 2), now);
        }
    }
}
