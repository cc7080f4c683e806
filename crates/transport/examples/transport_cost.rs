//! Measures the cost of the transport between two replicas on this machine, for messages of each
//! size, over TCP, QUIC and UDP. Run it with `make bench-transport`; `ARGS=quic` measures one
//! transport. Both replicas and the two threads that use them share the machine's cores.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::SecretKey;
use quorate_transport::{
    Arrivals, Counters, Identity, Limits, Member, Mesh, PeerSocket, Peers, TransportName, Versions,
    Wake, inbound,
};

/// Message lengths, up to a quarter of the longest allowed.
const SIZES: [usize; 10] =
    [16, 64, 256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000];
/// The bytes sent of each length, roughly.
const BYTES_A_SIZE: u64 = 2_000_000_000;

type Inbound = Arrivals<(ReplicaId, Bytes)>;

struct Pair {
    peers: [Arc<Peers>; 2],
    inbound: [Inbound; 2],
    counters: [Arc<Counters>; 2],
}

async fn pair(transport: TransportName) -> Result<Pair, Box<dyn std::error::Error>> {
    let sockets = [
        PeerSocket::bind(transport, "127.0.0.1:0").await?,
        PeerSocket::bind(transport, "127.0.0.1:0").await?,
    ];
    let identities = [
        Identity::new(&SecretKey::from_seed(&[1; 32]))?,
        Identity::new(&SecretKey::from_seed(&[2; 32]))?,
    ];
    let mut members = Vec::new();
    for (identity, socket) in identities.iter().zip(&sockets) {
        let address = socket.local_addr()?.to_string();
        members.push(Member { key: identity.key(), former: None, address });
    }
    let (mut peers, mut queues, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (place, (socket, identity)) in sockets.into_iter().zip(identities).enumerate() {
        let (sender, receiver) = inbound(4096, 64 << 20);
        let counters = Arc::new(Counters::default());
        let mesh = Mesh {
            me: ReplicaId(place as u16),
            chain: Digest([0; 32]),
            identity,
            members: members.iter().cloned().map(Some).collect(),
            versions: Versions::PROGRAM,
            limits: Limits::peers(),
            seed: 1,
        };
        let wake: Wake = Arc::new(|| {});
        peers.push(Arc::new(Peers::start(mesh, socket, sender, wake, counters.clone())?));
        queues.push(receiver);
        all.push(counters);
    }
    while !(peers[0].is_connected(ReplicaId(1)) && peers[1].is_connected(ReplicaId(0))) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let failed = "two of each were made";
    Ok(Pair {
        peers: peers.try_into().map_err(|_| failed)?,
        inbound: queues.try_into().map_err(|_| failed)?,
        counters: all.try_into().map_err(|_| failed)?,
    })
}

/// A message goes back and forth between two threads outside the runtime, as between the deciding
/// threads of two replicas.
fn round_trips(peers: &[Arc<Peers>; 2], inbound: &mut [Inbound; 2], count: usize) -> Vec<Duration> {
    let [left, right] = inbound;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..count {
                if let Some((_, message)) = right.blocking_recv() {
                    peers[1].send(ReplicaId(0), message);
                }
            }
        });
        let message = Bytes::from_static(&[1; 200]);
        let mut times: Vec<_> = (0..count)
            .map(|_| {
                let start = Instant::now();
                peers[0].send(ReplicaId(1), message.clone());
                left.blocking_recv();
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        times
    })
}

/// As many messages as the queue takes without dropping, in one direction.
fn throughput(pair: &mut Pair, size: usize, count: u64) -> f64 {
    let message = Bytes::from(vec![7; size]);
    let (peers, counters) = (&pair.peers, &pair.counters);
    let receiver = &mut pair.inbound[1];
    let before = counters[0].frames_out.load(Ordering::Relaxed);
    let ahead = ((32 << 20) / size as u64).max(1);
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for sent in 0..count {
                while sent - (counters[0].frames_out.load(Ordering::Relaxed) - before)
                    >= ahead.min(30_000)
                {
                    std::thread::yield_now();
                }
                peers[0].send(ReplicaId(1), message.clone());
            }
        });
        for _ in 0..count {
            receiver.blocking_recv();
        }
    });
    count as f64 / start.elapsed().as_secs_f64()
}

fn measure(transport: TransportName) -> Result<(), Box<dyn std::error::Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut pair = runtime.block_on(pair(transport))?;
    round_trips(&pair.peers, &mut pair.inbound, 5_000);
    let times = round_trips(&pair.peers, &mut pair.inbound, 20_000);
    let at = |part: f64| times[(times.len() as f64 * part) as usize];
    println!(
        "{transport}: round trip of 200 bytes: p50 {:?}, p90 {:?}, p99 {:?}",
        at(0.5),
        at(0.9),
        at(0.99)
    );
    println!("{:>9}  {:>10}  {:>8}  {:>9}", "BYTES", "MESSAGES/S", "MB/S", "US EACH");
    for size in SIZES {
        let count = (BYTES_A_SIZE / size as u64).clamp(200, 1_000_000);
        let rate = throughput(&mut pair, size, count);
        let megabytes = rate * size as f64 / 1e6;
        println!("{size:>9}  {rate:>10.0}  {megabytes:>8.1}  {:>9.2}", 1e6 / rate);
    }
    let dropped = pair.counters[0].dropped_outbound.load(Ordering::Relaxed);
    println!("dropped: {dropped}");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for transport in TransportName::ALL {
        if wanted.is_empty() || wanted.iter().any(|name| name == transport.name()) {
            measure(*transport)?;
        }
    }
    Ok(())
}
