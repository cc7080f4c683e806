//! Counters that several clients raise and read while replicas are killed and stopped.
//!
//! Half of the questions are ordered, and half are answered by a read index.
//!
//! A counter is linearizable if no two increments got one value, no answer is below a value that
//! was acknowledged before the question was asked, and in the end it stands at the number of
//! increments. Nothing is ambiguous: a session executes each command exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use quorate_app::kv::{Reply, command::encode};
use quorate_node::client::Client;
use rustix::process::Signal;

use crate::cluster::{Cluster, connect, wait_until};

const SEED: u64 = 20_260_726;
const KEYS: [&str; 3] = ["counter-a", "counter-b", "counter-c"];
const CLIENTS: u64 = 4;
const FAULTS: u64 = 6;

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    operations: AtomicU64,
    /// Questions that were answered without being ordered.
    by_index: AtomicU64,
    /// By key: the highest value that was acknowledged.
    acknowledged: [AtomicI64; KEYS.len()],
}

async fn number(client: &Client, command: Vec<u8>) -> i64 {
    value(&client.submit(vec![command.into()]).await.unwrap()[0])
}

fn value(reply: &[u8]) -> i64 {
    match Reply::decode(reply).unwrap() {
        Reply::Integer(value) => value,
        Reply::Bulk(text) => std::str::from_utf8(text).unwrap().parse().unwrap(),
        Reply::Nil => 0,
        other => panic!("{other:?}"),
    }
}

/// Works until told to stop; returns the values its increments got, by key.
async fn work(client: Client, shared: Arc<Shared>, mut chance: Chance) -> [Vec<i64>; KEYS.len()] {
    let mut got: [Vec<i64>; KEYS.len()] = Default::default();
    while !shared.stop.load(Ordering::SeqCst) {
        let key = chance.below(KEYS.len() as u64) as usize;
        let floor = shared.acknowledged[key].load(Ordering::SeqCst);
        let mut command = Vec::new();
        let value = if chance.below(2) == 0 {
            encode::incr_by(&mut command, KEYS[key].as_bytes(), 1);
            let value = number(&client, command).await;
            assert!(value > floor, "seed {SEED}: {} became {value} behind {floor}", KEYS[key]);
            got[key].push(value);
            value
        } else {
            encode::get(&mut command, KEYS[key].as_bytes());
            let by_index = match chance.below(2) {
                0 => client.read(vec![command.clone().into()]).await.ok(),
                _ => None,
            };
            let value = match by_index {
                Some(replies) => {
                    shared.by_index.fetch_add(1, Ordering::SeqCst);
                    value(&replies[0])
                }
                None => number(&client, command).await,
            };
            assert!(value >= floor, "seed {SEED}: {} was {value} behind {floor}", KEYS[key]);
            value
        };
        shared.acknowledged[key].fetch_max(value, Ordering::SeqCst);
        shared.operations.fetch_add(1, Ordering::SeqCst);
    }
    got
}

#[test]
fn counters_are_linearizable_while_replicas_come_and_go() {
    let mut cluster = Cluster::start(&[], &["view_timeout.base=200ms"]);
    let shared = Arc::new(Shared::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (config, shared) = (cluster.client_config(), shared.clone());
            cluster.runtime.spawn(async move {
                work(connect(config).await, shared, Chance(SEED ^ client)).await
            })
        })
        .collect();
    let go_on = |operations: u64| {
        let wanted = shared.operations.load(Ordering::SeqCst) + operations;
        wait_until("more operations are acknowledged", || {
            assert!(!clients.iter().any(|client| client.is_finished()), "a client failed");
            shared.operations.load(Ordering::SeqCst) >= wanted
        });
    };
    let mut chance = Chance(SEED);
    for _ in 0..FAULTS {
        let victim = chance.below(4) as usize;
        match chance.below(3) {
            0 => {
                cluster.kill(victim);
                go_on(chance.below(40));
                cluster.start_replica(victim, &[]);
            }
            1 => {
                cluster.signal(victim, Signal::STOP);
                go_on(chance.below(40));
                cluster.signal(victim, Signal::CONT);
            }
            _ => {
                let other = (victim + 1) % 4;
                cluster.kill(victim);
                cluster.kill(other);
                cluster.start_replica(other, &[]);
                cluster.start_replica(victim, &[]);
            }
        }
        go_on(chance.below(60));
    }
    shared.stop.store(true, Ordering::SeqCst);
    assert!(shared.by_index.load(Ordering::SeqCst) > 0, "reads by an index are answered");
    let mut got: [Vec<i64>; KEYS.len()] = Default::default();
    for client in clients {
        let values = cluster.runtime.block_on(client).unwrap();
        got.iter_mut().zip(values).for_each(|(all, values)| all.extend(values));
    }
    for values in &mut got {
        values.sort_unstable();
        let all: Vec<i64> = (1..=values.len() as i64).collect();
        assert_eq!(*values, all, "seed {SEED}: every increment once");
    }
    let reader = cluster.client();
    for (key, values) in KEYS.iter().zip(&got) {
        let mut command = Vec::new();
        encode::get(&mut command, key.as_bytes());
        let last = cluster.runtime.block_on(number(&reader, command));
        assert_eq!(last, values.len() as i64, "seed {SEED}: {key}");
    }
    cluster.wait_until_equal(&[0, 1, 2, 3]);
    cluster.assert_agreement(&[0, 1, 2, 3]);
}
