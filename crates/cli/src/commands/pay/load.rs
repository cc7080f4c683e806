//! Many payments at once: chains of outputs, each spent as soon as the payment before is accepted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use quorate_core::base::crypto::ClientSigner;
use quorate_core::base::wire::Encode as _;
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::SecretKey;
use quorate_payments::ask::{Answer, Question};
use quorate_payments::client::{AskError, Client};
use quorate_payments::network::Network;
use quorate_payments::transaction::Body;
use quorate_payments::{Address, Output, OutputId, Transaction, TransactionId};

/// An output that is to be spent, and again what is left of it.
#[derive(Clone)]
pub struct Chain {
    /// Whose it is.
    pub key: Arc<SecretKey>,
    /// The output.
    pub output: OutputId,
    /// How much it is.
    pub amount: u64,
}

impl Chain {
    /// Pays one unit to somebody, and the rest back.
    fn pay(&self, chain: &Digest, to: Address) -> Option<Transaction> {
        let owner = self.key.public_key();
        let rest = self.amount.checked_sub(1).filter(|rest| *rest > 0)?;
        let back = Output { to: Address::of(&owner), amount: rest };
        let outputs = vec![back, Output { to, amount: 1 }];
        let body = Body::new(&[(self.output, owner)], outputs).ok()?;
        body.sign(chain, &[&*self.key as &dyn ClientSigner]).ok()
    }
}

/// What came of it so far.
pub struct Tally {
    /// Payments that were accepted.
    pub accepted: AtomicU64,
    /// Payments that were refused or rejected.
    pub refused: AtomicU64,
    latencies: Mutex<Histogram<u64>>,
    /// The sum of the accepted ids, as ledgers sum them.
    sum: Mutex<[u64; 4]>,
}

impl Tally {
    pub fn new() -> Arc<Self> {
        // Microseconds, up to ten minutes.
        let latencies = Histogram::new_with_bounds(1, 600_000_000, 3);
        let latencies = match latencies {
            Ok(latencies) => Mutex::new(latencies),
            Err(error) => unreachable!("the bounds are in order: {error}"),
        };
        Arc::new(Self {
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            latencies,
            sum: Mutex::default(),
        })
    }

    fn took(&self, id: &TransactionId, span: Duration) {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        for (part, number) in sum.iter_mut().zip(id.0.0.as_chunks::<8>().0) {
            *part = part.wrapping_add(u64::from_le_bytes(*number));
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros);
    }

    /// How many payments wallets were told are accepted, and the sum of their ids as `/status` has
    /// it.
    pub fn told(&self) -> (u64, String) {
        let sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        (self.accepted.load(Ordering::Relaxed), sum.map(|part| format!("{part:016x}")).concat())
    }

    /// Forgets all latencies so far.
    pub fn begin_anew(&self) {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).reset();
    }

    /// A quantile of how long a payment took, in milliseconds.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Pays along `chains` through one node, from `now` until `end`, and then waits for what is under
/// way, `patience` at most. The payments that were not decided by then.
pub async fn pay(
    network: Arc<Network>,
    node: ReplicaId,
    mut chains: Vec<Chain>,
    recipients: Arc<Vec<Address>>,
    end: Instant,
    patience: Duration,
    tally: Arc<Tally>,
) -> Result<usize, AskError> {
    let chain = network.chain();
    let mut client = Client::connect(&network, node).await?;
    let mut under_way: HashMap<u64, (usize, Transaction, Instant)> = HashMap::new();
    let mut ready: Vec<usize> = (0..chains.len()).collect();
    let mut sent = 0usize;
    let give_up = end + patience;
    loop {
        if Instant::now() < end {
            for place in std::mem::take(&mut ready) {
                let to = recipients[(sent + place) % recipients.len()];
                sent += 1;
                let Some(payment) = chains[place].pay(&chain, to) else { continue };
                let bytes = Bytes::from(payment.to_bytes());
                let number = client.send(&Question::Submit(bytes)).await?;
                under_way.insert(number, (place, payment, Instant::now()));
            }
        }
        if under_way.is_empty() {
            return Ok(0);
        }
        let left = give_up.saturating_duration_since(Instant::now());
        let Ok(received) = tokio::time::timeout(left, client.receive()).await else {
            return Ok(under_way.len());
        };
        let (number, answer) = received?;
        match answer {
            Answer::Accepted(id) => {
                let Some((place, payment, began)) = under_way.remove(&number) else { continue };
                tally.took(&id, began.elapsed());
                chains[place].output = OutputId { transaction: id, index: 0 };
                chains[place].amount = payment.outputs()[0].amount;
                ready.push(place);
            }
            Answer::Refused(name, _) if name == "busy" => {
                if let Some((place, ..)) = under_way.remove(&number) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    ready.push(place);
                }
            }
            Answer::Refused(..) | Answer::Rejected(..) => {
                under_way.remove(&number);
                tally.refused.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}
