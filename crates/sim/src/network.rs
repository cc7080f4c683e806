//! The links between replicas: delay, loss, duplicates, cuts, each way by itself.

use super::Peer;
use super::rng::Rng;

/// What becomes of a message: from, to, message.
pub type Meddler = Box<dyn Fn(usize, usize, &Peer) -> Fate>;

/// What becomes of a message.
#[derive(Clone, Debug)]
pub enum Fate {
    /// It goes its way.
    Goes,
    Lost,
    /// It arrives so many microseconds later than it would.
    Late(u64),
    /// This one goes instead.
    Bent(Box<Peer>),
}

/// One direction of a link. Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub delay: (u64, u64),
    pub loss_percent: u64,
    pub duplicate_percent: u64,
    pub cut: bool,
}

impl Link {
    /// A link that always takes the same time.
    pub fn steady(delay: u64) -> Self {
        Self { delay: (delay, delay), loss_percent: 0, duplicate_percent: 0, cut: false }
    }
}

#[derive(Clone, Debug)]
pub struct Network {
    links: Vec<Vec<Link>>,
}

impl Network {
    pub fn new(slots: usize, link: Link) -> Self {
        Self { links: vec![vec![link; slots]; slots] }
    }

    /// When the copies of a message arrive, counted from now.
    pub fn copies(&self, rng: &mut Rng, from: usize, to: usize) -> Vec<u64> {
        let link = self.links[from][to];
        if link.cut || rng.percent(link.loss_percent) {
            return Vec::new();
        }
        let count = 1 + usize::from(rng.percent(link.duplicate_percent));
        (0..count).map(|_| rng.between(link.delay)).collect()
    }

    pub fn link(&mut self, from: usize, to: usize) -> &mut Link {
        &mut self.links[from][to]
    }

    pub fn set_all(&mut self, change: impl Fn(&mut Link)) {
        self.links.iter_mut().flatten().for_each(change);
    }

    /// Cuts all links between slots of different groups; heals the others.
    pub fn partition(&mut self, group_of: impl Fn(usize) -> usize) {
        for (from, links) in self.links.iter_mut().enumerate() {
            for (to, link) in links.iter_mut().enumerate() {
                link.cut = group_of(from) != group_of(to);
            }
        }
    }

    pub fn heal(&mut self) {
        self.set_all(|link| link.cut = false);
    }
}
