//! Clients that write without end, and remember what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use quorate_app::kv::{Condition, Reply, command::encode};
use quorate_core::ReplicaId;
use quorate_core::client::Route;
use quorate_node::client::Client;
use tokio::task::JoinHandle;

use super::{Cluster, connect, wait_until};

/// Clients that write keys of their own, numbered from 0, in frames.
pub struct Writers {
    tasks: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<[AtomicU64]>,
}

/// A command that writes.
pub fn set(key: &str, value: &[u8]) -> Bytes {
    let mut command = Vec::new();
    encode::set(&mut command, key.as_bytes(), value, Condition::Always, false);
    command.into()
}

fn key(writer: usize, number: u64) -> String {
    format!("writer-{writer}-{number}")
}

/// A value of `bytes` bytes that tells its number.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_string().into_bytes();
    value.resize(value.len().max(bytes), b'.');
    value
}

/// What a writer writes.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Commands in a frame.
    pub frame: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How many different keys a client writes, one after the other and again from the first.
    pub keys: u64,
}

async fn write(
    client: Client,
    writer: usize,
    shape: Shape,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<[AtomicU64]>,
) {
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let numbers = next..next + shape.frame;
        let commands = numbers
            .map(|n| set(&key(writer, n % shape.keys), &value(n, shape.value_bytes)))
            .collect();
        let replies = client.submit(commands).await.expect("a patient client is not turned down");
        for reply in replies {
            assert_eq!(Reply::decode(&reply).unwrap(), Reply::Ok);
        }
        next += shape.frame;
        acknowledged[writer].store(next, Ordering::Relaxed);
    }
}

impl Writers {
    /// Starts `count` clients.
    pub fn start(cluster: &Cluster, count: usize, shape: Shape) -> Self {
        Self::start_on(cluster, count, shape, |_| Route::All)
    }

    /// Starts `count` clients that send to one of four replicas each.
    pub fn start_with_one(cluster: &Cluster, count: usize, shape: Shape) -> Self {
        let one = |writer| Route::One { first: ReplicaId((writer % 4) as u16) };
        Self::start_on(cluster, count, shape, one)
    }

    fn start_on(
        cluster: &Cluster,
        count: usize,
        shape: Shape,
        route: impl Fn(usize) -> Route,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged: Arc<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let tasks = (0..count).map(|writer| {
            let (stop, acknowledged) = (stop.clone(), acknowledged.clone());
            let mut config = cluster.client_config();
            config.session.route = route(writer);
            cluster.runtime.spawn(async move {
                let client = connect(config).await;
                write(client, writer, shape, stop, acknowledged).await;
            })
        });
        Self { tasks: tasks.collect(), stop, acknowledged }
    }

    /// Writes acknowledged so far, of all.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Waits until `more` further writes are acknowledged.
    pub fn wait_for(&self, more: u64) {
        let wanted = self.acknowledged() + more;
        wait_until(&format!("{more} more writes are acknowledged"), || {
            assert!(!self.tasks.iter().any(JoinHandle::is_finished), "a client gave up");
            self.acknowledged() >= wanted
        });
    }

    /// Waits until `holds`, for as long as each `some` further writes are acknowledged in time.
    pub fn wait_for_each(&self, some: u64, what: &str, holds: impl Fn() -> bool) {
        const TIMES: u64 = 500;
        for _ in 0..TIMES {
            if holds() {
                return;
            }
            self.wait_for(some);
        }
        panic!("{} writes were acknowledged in vain until {what}", TIMES * some);
    }

    /// Stops, waits for the writes under way, and says how many each client wrote.
    pub fn finish(self, cluster: &Cluster) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        wait_until("the writes under way are acknowledged", || {
            self.tasks.iter().all(JoinHandle::is_finished)
        });
        for task in self.tasks {
            cluster.runtime.block_on(task).expect("the client did not fail");
        }
        self.acknowledged.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// What was acknowledged so far, by client.
    pub fn so_far(&self) -> Vec<u64> {
        self.acknowledged.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Reads, in order with all writes, that everything acknowledged is there.
pub fn assert_written(cluster: &Cluster, shape: Shape, acknowledged: &[u64]) {
    let client = cluster.client();
    for (writer, count) in acknowledged.iter().enumerate() {
        let numbers: Vec<u64> = (count.saturating_sub(shape.keys)..*count).collect();
        for part in numbers.chunks(500) {
            let keys: Vec<String> = part.iter().map(|n| key(writer, n % shape.keys)).collect();
            let mut command = Vec::new();
            encode::m_get(&mut command, keys.iter().map(String::as_bytes));
            let replies = cluster.runtime.block_on(client.submit(vec![command.into()])).unwrap();
            let Reply::Array(items) = Reply::decode(&replies[0]).unwrap() else {
                panic!("not an array: {:?}", replies[0]);
            };
            for (number, item) in part.iter().zip(items.iter()) {
                let Reply::Bulk(found) = item else {
                    panic!("{} was acknowledged and is not there", key(writer, *number));
                };
                let later = found.split(|byte| *byte == b'.').next().unwrap();
                let later: u64 = std::str::from_utf8(later).unwrap().parse().unwrap();
                assert!(later >= *number && later % shape.keys == number % shape.keys);
            }
        }
    }
}
