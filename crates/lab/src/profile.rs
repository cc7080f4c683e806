//! Where the time of a command goes, as replicas tell it at `/profile`: what their threads do, and
//! what a frame waits for at the replica that proposes its block and at those that vote for it.

use std::collections::BTreeMap;

use quorate_node::replica::profile::{STAGES, WAITS};
use serde::Serialize;
use serde_json::Value;

use crate::local::LocalCluster;

/// Durations by classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Durations {
    sum_ns: u64,
    /// By a class's upper bound in nanoseconds: how many.
    classes_ns: BTreeMap<u64, u64>,
}

impl Durations {
    fn read(value: &Value) -> Self {
        let pairs = value["classes_ns"].as_array().into_iter().flatten();
        let pairs = pairs.filter_map(|pair| Some((pair[0].as_u64()?, pair[1].as_u64()?)));
        Self { sum_ns: value["sum_ns"].as_u64().unwrap_or(0), classes_ns: pairs.collect() }
    }

    fn add(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        for (bound, count) in &other.classes_ns {
            *self.classes_ns.entry(*bound).or_default() += count;
        }
    }

    fn remove(&mut self, before: &Self) {
        self.sum_ns = self.sum_ns.saturating_sub(before.sum_ns);
        for (bound, count) in &before.classes_ns {
            if let Some(now) = self.classes_ns.get_mut(bound) {
                *now = now.saturating_sub(*count);
            }
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes_ns.values().sum()
    }

    /// All of them together, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Their mean, in microseconds; 0 if there are none.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        self.sum_ns as f64 / 1e3 / self.count().max(1) as f64
    }

    /// That which a share of `quantile` does not exceed, in microseconds, at most an eighth too
    /// long.
    #[must_use]
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        let rank = (self.count() as f64 * quantile).ceil() as u64;
        let mut seen = 0;
        let class = self.classes_ns.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        class.map_or(0.0, |(bound, _)| *bound as f64 / 1e3)
    }
}

/// What a stage did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// Its visits.
    #[serde(flatten)]
    pub visits: Durations,
    /// Items that it dealt with.
    pub items: u64,
    /// The lengths of the queue that its visits found, added up.
    pub waiting: u64,
    /// The longest of them, since the replicas' start.
    pub longest: u64,
    /// Threads that may be in it at once, of a replica.
    pub threads: u64,
}

impl Stage {
    fn read(value: &Value) -> Self {
        let number = |name: &str| value[name].as_u64().unwrap_or(0);
        Self {
            visits: Durations::read(value),
            items: number("items"),
            waiting: number("waiting"),
            longest: number("longest"),
            threads: number("threads"),
        }
    }

    fn add(&mut self, other: &Self) {
        self.visits.add(&other.visits);
        self.items += other.items;
        self.waiting += other.waiting;
        self.longest = self.longest.max(other.longest);
        self.threads = self.threads.max(other.threads);
    }

    fn remove(&mut self, before: &Self) {
        self.visits.remove(&before.visits);
        self.items = self.items.saturating_sub(before.items);
        self.waiting = self.waiting.saturating_sub(before.waiting);
    }

    /// The mean length of the queue that a visit found, what it took included; 0 if there was none.
    #[must_use]
    pub fn mean_waiting(&self) -> f64 {
        self.waiting as f64 / self.visits.count().max(1) as f64
    }
}

/// What some replicas told, put together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// By [`STAGES`]: each visit of a thread.
    pub stages: BTreeMap<&'static str, Stage>,
    /// By [`WAITS`]: frames that were followed at the replica that proposed their block.
    pub led: BTreeMap<&'static str, Durations>,
    /// The same at the others.
    pub followed: BTreeMap<&'static str, Durations>,
}

/// What each replica told, by its id.
#[derive(Clone, Debug, Default)]
pub struct Profiles(BTreeMap<usize, Profile>);

impl Profiles {
    /// What all replicas that are up, and answer, have counted since their start.
    #[must_use]
    pub fn of(cluster: &LocalCluster) -> Self {
        let told = cluster.up().filter_map(|id| Some((id, cluster.ask(id, "/profile")?)));
        Self(told.map(|(id, told)| (id, Profile::read(&told))).collect())
    }

    /// What came on top since `before`, of the replicas that told both times: of any other it is
    /// not known.
    #[must_use]
    pub fn since(&self, before: &Self) -> Profile {
        let mut all = Profile::default();
        for (id, now) in &self.0 {
            if let Some(then) = before.0.get(id) {
                all.add(&now.clone().since(then));
            }
        }
        all
    }
}

impl Profile {
    fn read(told: &Value) -> Self {
        let mut profile = Self::default();
        for name in STAGES {
            profile.stages.insert(name, Stage::read(&told["stages"][name]));
        }
        for (to, told) in
            [(&mut profile.led, &told["led"]), (&mut profile.followed, &told["followed"])]
        {
            to.extend(WAITS.map(|name| (name, Durations::read(&told[name]))));
        }
        profile
    }

    fn add(&mut self, other: &Self) {
        for (name, stage) in &other.stages {
            self.stages.entry(name).or_default().add(stage);
        }
        for (to, other) in [(&mut self.led, &other.led), (&mut self.followed, &other.followed)] {
            for (name, durations) in other {
                to.entry(name).or_default().add(durations);
            }
        }
    }

    /// What came on top since `before`.
    fn since(mut self, before: &Self) -> Self {
        for (name, stage) in &mut self.stages {
            if let Some(then) = before.stages.get(name) {
                stage.remove(then);
            }
        }
        for (now, then) in [(&mut self.led, &before.led), (&mut self.followed, &before.followed)] {
            for (name, durations) in now {
                if let Some(then) = then.get(name) {
                    durations.remove(then);
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn durations(value: &Value) -> Durations {
        Durations::read(value)
    }

    #[test]
    fn what_was_before_is_taken_away_and_replicas_are_put_together() {
        let stage = |sum_ns: u64, classes: Value, items: u64, longest: u64| {
            Stage::read(&json!({
                "sum_ns": sum_ns, "classes_ns": classes,
                "items": items, "waiting": 2 * items, "longest": longest, "threads": 3,
            }))
        };
        let told = stage(9_000, json!([[1_024, 1], [8_192, 1]]), 10, 4);
        let profile =
            |stage| Profile { stages: BTreeMap::from([("persist", stage)]), ..Profile::default() };
        let then = profile(stage(1_000, json!([[1_024, 1]]), 5, 9));
        let now = Profiles([0, 1, 2].map(|id| (id, profile(told.clone()))).into());
        // Replica 2 did not answer at first: what it did before is not told apart.
        let then = Profiles([(0, then), (1, profile(Stage::default()))].into());
        let since = now.since(&then);
        let persist = &since.stages["persist"];
        let visits = &persist.visits;
        assert_eq!((visits.count(), visits.seconds()), (3, 17e-6));
        assert_eq!((visits.quantile_us(0.3), visits.quantile_us(0.5)), (1.024, 8.192));
        assert_eq!((persist.items, persist.waiting, persist.mean_waiting()), (15, 30, 10.0));
        assert_eq!((persist.longest, persist.threads), (4, 3));
    }

    #[test]
    fn nothing_has_no_mean() {
        let none = durations(&json!({}));
        assert_eq!((none.count(), none.mean_us(), none.quantile_us(0.5)), (0, 0.0, 0.0));
    }
}
