//! What came out of an attack.

use serde::{Deserialize, Serialize};

/// Least share of the throughput before that honest clients keep.
pub const LEAST_SHARE: f64 = 0.5;
/// The same, where the attacker's key has a rate.
pub const LEAST_SHARE_BESIDE_A_RATE: f64 = 0.9;
/// Most memory, in MiB, that an attacked process takes more than before.
pub const MOST_GROWTH_MIB: f64 = 192.0;

/// What honest clients saw for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// How long, in seconds.
    pub seconds: f64,
    /// Right answers a second.
    pub goodput: f64,
    /// Median latency of a frame, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Most memory of an attacked process, in MiB: of a replica that is not the attacker, or of the
    /// gateway.
    pub memory_mib: f64,
}

/// One attack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AttackRow {
    /// `attack`.
    pub name: String,
    /// Which flood.
    pub flood: String,
    /// What it does.
    pub does: String,
    /// Replicas.
    pub replicas: usize,
    /// Cores of the machine that replicas, clients and the attacker share.
    pub cores: usize,
    /// Cores that the attacker took while the flood lasted: the process of a client's flood; of a
    /// replica, what it took more than before.
    #[serde(default)]
    pub attacker_cores: f64,
    /// Before it.
    pub before: Phase,
    /// While it lasted.
    pub during: Phase,
    /// After it.
    pub after: Phase,
    /// Connections, messages or requests of the flood, as it counts; of a replica, deeds.
    pub did: u64,
    /// New clients that opened a session meanwhile and had a command executed.
    pub newcomers: u64,
    /// What else was tried meanwhile and went well: status, pulls, a replica's return.
    pub trials: u64,
    /// The longest that a new client or a trial took, in milliseconds.
    pub longest_ms: f64,
    /// What was missed; empty: the attack was withstood.
    pub missed: Vec<String>,
}

impl AttackRow {
    /// Goodput while it lasted, as a share of that before.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.before.goodput > 0.0 { self.during.goodput / self.before.goodput } else { 0.0 }
    }

    /// The same share, of what the attacker's process left of the machine. An attacker has a
    /// machine of its own; here it shares the cores of those that it attacks.
    #[must_use]
    pub fn share_of_rest(&self) -> f64 {
        let rest = 1.0 - self.attacker_cores / self.cores.max(1) as f64;
        self.share() / rest.max(f64::MIN_POSITIVE)
    }

    /// Memory that was taken more than before.
    #[must_use]
    pub fn growth_mib(&self) -> f64 {
        self.during.memory_mib.max(self.after.memory_mib) - self.before.memory_mib
    }

    /// Judges throughput and memory. While the flood lasts, `least_share` of the throughput is to
    /// be kept.
    pub(super) fn judge(&mut self, least_share: f64) {
        let after = self.after.goodput / self.before.goodput.max(f64::MIN_POSITIVE);
        let phases = [("during", self.share(), least_share), ("after", after, LEAST_SHARE)];
        for (phase, share, least) in phases {
            if share.is_nan() || share < least {
                self.missed.push(format!("{:.0} % of the goodput {phase} it", 100.0 * share));
            }
        }
        if self.growth_mib() > MOST_GROWTH_MIB {
            self.missed.push(format!("{:.0} MiB more memory", self.growth_mib()));
        }
        if self.did == 0 {
            self.missed.push("the flood did nothing".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(goodput: [f64; 3], memory_mib: [f64; 3], did: u64) -> Vec<String> {
        let phase = |at: usize| Phase {
            goodput: goodput[at],
            memory_mib: memory_mib[at],
            ..Phase::default()
        };
        let (before, during, after) = (phase(0), phase(1), phase(2));
        let mut row = AttackRow { before, during, after, did, ..AttackRow::default() };
        row.judge(LEAST_SHARE);
        row.missed
    }

    #[test]
    fn what_the_attacker_takes_of_the_machine_is_told_apart() {
        let phase = |goodput| Phase { goodput, ..Phase::default() };
        let mut row = AttackRow { cores: 2, attacker_cores: 1.0, ..AttackRow::default() };
        (row.before, row.during) = (phase(100.0), phase(25.0));
        assert_eq!((row.share(), row.share_of_rest()), (0.25, 0.5));
    }

    #[test]
    fn a_rate_bounds_what_is_lost_while_the_flood_lasts() {
        let phase = |goodput| Phase { goodput, ..Phase::default() };
        let (before, during, after) = (phase(100.0), phase(89.0), phase(60.0));
        let mut row = AttackRow { before, during, after, did: 1, ..AttackRow::default() };
        row.judge(LEAST_SHARE_BESIDE_A_RATE);
        assert_eq!(row.missed, ["89 % of the goodput during it"]);
    }

    #[test]
    fn half_of_the_goodput_and_flat_memory_are_withstood_and_less_is_not() {
        assert_eq!(row([100.0, 50.0, 50.0], [10.0, 202.0, 202.0], 1), [""; 0]);
        assert_eq!(row([100.0, 49.0, 90.0], [10.0; 3], 1), ["49 % of the goodput during it"]);
        assert_eq!(row([100.0, 90.0, 10.0], [10.0; 3], 1), ["10 % of the goodput after it"]);
        assert_eq!(row([100.0; 3], [10.0, 203.0, 10.0], 1), ["193 MiB more memory"]);
        assert_eq!(row([100.0; 3], [10.0, 10.0, 210.0], 1), ["200 MiB more memory"]);
        assert_eq!(row([100.0; 3], [10.0; 3], 0), ["the flood did nothing"]);
        assert_eq!(row([0.0; 3], [10.0; 3], 1).len(), 2);
    }
}
