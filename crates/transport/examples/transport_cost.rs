//! Measures the cost of the transport between two replicas on this machine, for messages of each
//! size, over TCP, QUIC and UDP. Run it with `make bench-transport`; `ARGS=quic` measures one
//! transport, `ARGS="--out FOLDER"` also writes a table and charts. Both replicas and the two
//! threads that use them share the machine's cores.

#[path = "../../crypto/examples/bench_crypto/machine.rs"]
mod machine;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::SecretKey;
use quorate_plot::{Axis, Line, LinePoint, Lines};
use quorate_transport::{
    Arrivals, Counters, Identity, Limits, Member, Mesh, PeerSocket, Peers, TransportName, Versions,
    Wake, inbound,
};

/// Message lengths, up to a quarter of the longest allowed.
const SIZES: [usize; 10] =
    [16, 64, 256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000];
/// The bytes sent of each length, roughly.
const BYTES_A_SIZE: u64 = 2_000_000_000;

/// Round trips of each length, until they took this long.
const ROUND_TRIPS: Duration = Duration::from_secs(2);
const MOST_ROUND_TRIPS: usize = 20_000;
/// Of the times of a length, these shares lie below.
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// What was measured of one length.
struct Row {
    transport: TransportName,
    bytes: usize,
    /// Messages a second, in one direction.
    rate: f64,
    /// Microseconds there and back, by [`QUANTILES`].
    round_trip_us: [f64; 5],
}

impl Row {
    fn megabytes(&self) -> f64 {
        self.rate * self.bytes as f64 / 1e6
    }
}

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

/// A message of this length goes back and forth between two threads outside the runtime, as between
/// the deciding threads of two replicas. The times, ascending.
fn round_trips(peers: &[Arc<Peers>; 2], inbound: &mut [Inbound; 2], size: usize) -> Vec<Duration> {
    let [left, right] = inbound;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // An empty message ends it.
            while let Some((_, message)) = right.blocking_recv().filter(|(_, it)| it.len() > 1) {
                peers[1].send(ReplicaId(0), message);
            }
        });
        let message = Bytes::from(vec![1; size]);
        let begun = Instant::now();
        let mut times = Vec::new();
        while times.len() < MOST_ROUND_TRIPS && (times.len() < 20 || begun.elapsed() < ROUND_TRIPS)
        {
            let start = Instant::now();
            peers[0].send(ReplicaId(1), message.clone());
            left.blocking_recv();
            times.push(start.elapsed());
        }
        peers[0].send(ReplicaId(1), Bytes::from_static(&[0]));
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

fn measure(transport: TransportName) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut pair = runtime.block_on(pair(transport))?;
    round_trips(&pair.peers, &mut pair.inbound, 200);
    println!("{transport}");
    println!(
        "{:>9}  {:>10}  {:>8}  {:>9}  {:>29}",
        "BYTES", "MESSAGES/S", "MB/S", "US EACH", "ROUND TRIP US: P5, P50, P95"
    );
    let mut rows = Vec::new();
    for bytes in SIZES {
        let count = (BYTES_A_SIZE / bytes as u64).clamp(200, 1_000_000);
        let rate = throughput(&mut pair, bytes, count);
        let times = round_trips(&pair.peers, &mut pair.inbound, bytes);
        let at = |part: f64| times[(times.len() as f64 * part) as usize].as_secs_f64() * 1e6;
        let row = Row { transport, bytes, rate, round_trip_us: QUANTILES.map(at) };
        let [low, _, median, _, high] = row.round_trip_us;
        println!(
            "{bytes:>9}  {rate:>10.0}  {:>8.1}  {:>9.2}  {low:>9.0} {median:>9.0} {high:>9.0}",
            row.megabytes(),
            1e6 / rate
        );
        rows.push(row);
    }
    let dropped = pair.counters[0].dropped_outbound.load(Ordering::Relaxed);
    println!("dropped: {dropped}");
    Ok(rows)
}

fn csv(rows: &[Row]) -> String {
    let mut text = format!(
        "transport,bytes,messages_per_second,megabytes_per_second,round_trip_us_p5,\
         round_trip_us_p25,round_trip_us_p50,round_trip_us_p75,round_trip_us_p95,{}\n",
        machine::COLUMNS
    );
    let cells = machine::cells();
    for row in rows {
        let _ =
            write!(text, "{},{},{:.0},{:.1}", row.transport, row.bytes, row.rate, row.megabytes());
        for us in row.round_trip_us {
            let _ = write!(text, ",{us:.1}");
        }
        let _ = writeln!(text, ",{cells}");
    }
    text
}

/// A line a transport of what `value` says of each row, with its range.
fn chart(
    rows: &[Row],
    title: &str,
    y: (&str, f64, f64),
    value: impl Fn(&Row) -> (f64, Option<(f64, f64)>),
) -> Result<String, Box<dyn std::error::Error>> {
    let line = |transport: &TransportName| {
        let of_it = rows.iter().filter(|row| row.transport == *transport);
        let point = |row: &Row| {
            let (y, y_range) = value(row);
            LinePoint { x: row.bytes as f64, y, x_range: None, y_range }
        };
        Line { label: transport.to_string(), points: of_it.map(point).collect() }
    };
    let lines = TransportName::ALL.iter().map(line).filter(|line| !line.points.is_empty());
    Ok(Lines {
        title: title.to_owned(),
        x: Axis::logarithmic("bytes of a message", SIZES[0] as f64, SIZES[9] as f64),
        y: Axis::logarithmic(y.0, y.1, y.2),
        lines: lines.collect(),
        shaded: Vec::new(),
        shade: String::new(),
        marked: Vec::new(),
        mark: String::new(),
        dotted: true,
    }
    .draw()?)
}

fn keep(folder: &Path, rows: &[Row]) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("runs.csv"), csv(rows))?;
    let lowest = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).fold(f64::INFINITY, f64::min);
    let highest = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    let bounds = |of: &dyn Fn(&Row) -> f64| (lowest(of), highest(of));
    let (low, high) = bounds(&|row| row.rate);
    let title = "Messages a second by their size, between two replicas of one machine";
    let rate = chart(rows, title, ("messages/s", low, high), |row| (row.rate, None))?;
    fs::write(folder.join("rate.svg"), rate)?;
    let (low, high) = (lowest(&|row| row.round_trip_us[0]), highest(&|row| row.round_trip_us[4]));
    let title = "There and back by the size: the median, and nine tenths of the times";
    let times = chart(rows, title, ("microseconds", low, high), |row| {
        let [low, _, median, _, high] = row.round_trip_us;
        (median, Some((low, high)))
    })?;
    fs::write(folder.join("round-trip.svg"), times)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut wanted, mut out) = (Vec::new(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" => out = arguments.next().map(PathBuf::from),
            name => match TransportName::ALL.iter().find(|known| known.name() == name) {
                Some(transport) => wanted.push(*transport),
                None => {
                    return Err("usage: transport_cost [--out FOLDER] [tcp] [quic] [udp]".into());
                }
            },
        }
    }
    let mut rows = Vec::new();
    for transport in TransportName::ALL {
        if wanted.is_empty() || wanted.contains(transport) {
            rows.extend(measure(*transport)?);
        }
    }
    match out {
        Some(folder) => keep(&folder, &rows),
        None => Ok(()),
    }
}
