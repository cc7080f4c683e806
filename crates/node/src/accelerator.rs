//! An emulated accelerator for cryptography, in a laboratory: a device beside the processor that
//! signs and verifies, with a chosen rate and latency.
//!
//! It answers what slower or faster cryptography does to a protocol ("Streamlined PBFT for fast
//! networks", sections V.A – V.C, measures RSA-2048 with and without one). The seam is the one of
//! all cryptography, [`Scheme`] and [`Signer`]; a real device would stand at the same place.
//!
//! The device works on one thing at a time, so that its rate is the inverse of what an operation
//! costs. A caller waits until the device is through with its work and the latency is over. The
//! waiting thread leaves the processor to others. A wait shorter than a sleep can be is owed and
//! slept off later: rates are right, and a single wait may be late by what the system's timers
//! are, some 60 microseconds.
//!
//! Results are real. The processor computes them while the device is waited for, so no emulated
//! device is faster than the processor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_core::base::crypto::{
    Check, Form, Scheme, Share, ShareKeys, Signature, Signer, Statement,
};

/// The shortest wait that is worth a sleep.
const SHORTEST_SLEEP: Duration = Duration::from_micros(60);

/// What operations cost. Zero: the processor does them, and nobody waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The device's time for one signature.
    pub sign: Duration,
    /// The device's time to verify one.
    pub verify: Duration,
    /// The way to the device and back, for each request. Others use the device meanwhile.
    pub latency: Duration,
}

impl Costs {
    /// Whether there is a device at all.
    #[must_use]
    pub fn is_device(&self) -> bool {
        *self != Self::default()
    }
}

/// One device, shared by all threads of a replica.
pub struct Device {
    costs: Costs,
    /// When it is through with all that it was given.
    free_at: Mutex<Instant>,
}

impl Device {
    /// A device without work.
    #[must_use]
    pub fn new(costs: Costs) -> Arc<Self> {
        Arc::new(Self { costs, free_at: Mutex::new(Instant::now()) })
    }

    /// The scheme whose signatures this device verifies.
    #[must_use]
    pub fn verifying(self: &Arc<Self>, scheme: Arc<dyn Scheme>) -> Arc<dyn Scheme> {
        Arc::new(Verifying { device: Arc::clone(self), scheme })
    }

    /// The key that this device signs with.
    #[must_use]
    pub fn signing(self: &Arc<Self>, signer: Arc<dyn Signer>) -> Arc<dyn Signer> {
        Arc::new(Signing { device: Arc::clone(self), signer })
    }

    /// Gives it work at `now`. Returns when the result is back.
    fn take(&self, now: Instant, work: Duration) -> Instant {
        let mut free_at: MutexGuard<'_, _> =
            self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(now) + work;
        *free_at + self.costs.latency
    }

    /// Waits for `count` operations of this cost, which `compute` does for real.
    fn run<T>(&self, cost: Duration, count: usize, compute: impl FnOnce() -> T) -> T {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if cost.is_zero() || count == 0 {
            return compute();
        }
        let back_at = self.take(Instant::now(), cost.saturating_mul(count));
        let result = compute();
        let left = back_at.saturating_duration_since(Instant::now());
        if left >= SHORTEST_SLEEP {
            std::thread::sleep(left);
        }
        result
    }
}

struct Verifying {
    device: Arc<Device>,
    scheme: Arc<dyn Scheme>,
}

impl Scheme for Verifying {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        self.device.run(self.device.costs.verify, checks.len(), || self.scheme.verify(checks))
    }

    fn combine(&self, form: Form, shares: &[Share]) -> Option<Signature> {
        self.scheme.combine(form, shares)
    }

    fn combine_by(&self, keys: &ShareKeys, form: Form, shares: &[Share]) -> Option<Signature> {
        self.scheme.combine_by(keys, form, shares)
    }
}

struct Signing {
    device: Arc<Device>,
    signer: Arc<dyn Signer>,
}

impl Signer for Signing {
    fn sign(&self, statement: &Statement) -> Signature {
        self.device.run(self.device.costs.sign, 1, || self.signer.sign(statement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        sign: Duration::from_micros(300),
        verify: Duration::from_micros(10),
        latency: Duration::from_micros(50),
    };

    #[test]
    fn work_queues_at_the_device_and_latency_does_not() {
        let device = Device::new(COSTS);
        let now = Instant::now() + Duration::from_secs(1);
        let micros = |at: Instant| at.saturating_duration_since(now).as_micros();
        assert_eq!(micros(device.take(now, COSTS.sign)), 350);
        // The second waits for the first, and travels while the first does.
        assert_eq!(micros(device.take(now, COSTS.verify * 4)), 390);
        // An idle device owes nothing.
        let later = now + Duration::from_millis(5);
        assert_eq!(device.take(later, COSTS.sign) - later, Duration::from_micros(350));
    }

    #[test]
    fn what_is_verified_and_signed_is_real() {
        struct Odd;
        impl Scheme for Odd {
            fn verify(&self, checks: &[Check]) -> Vec<bool> {
                (0..checks.len()).map(|place| place % 2 == 1).collect()
            }
            fn combine(&self, _: Form, _: &[Share]) -> Option<Signature> {
                Some(Signature::from([3; 64]))
            }
        }
        impl Signer for Odd {
            fn sign(&self, _: &Statement) -> Signature {
                Signature::from([7; 64])
            }
        }
        let device = Device::new(COSTS);
        let statement = Statement::frame(&Default::default(), &Default::default());
        let signature = Signature::NONE;
        let check = Check::Replica(Share { signer: Default::default(), statement, signature });
        let scheme = device.verifying(Arc::new(Odd));
        let begun = Instant::now();
        assert_eq!(scheme.verify(&vec![check; 3]), [false, true, false]);
        assert_eq!(scheme.combine(Form::Aggregate, &[]), Some(Signature::from([3; 64])));
        assert_eq!(device.signing(Arc::new(Odd)).sign(&statement), Signature::from([7; 64]));
        // Three verifications, a signature, and the way twice.
        assert!(begun.elapsed() >= Duration::from_micros(430), "{:?}", begun.elapsed());
    }
}
