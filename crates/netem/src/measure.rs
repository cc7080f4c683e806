//! Measurements of links: requested against observed behaviour, with the kernel's own UDP and TCP
//! between two nodes.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::NetError;
use crate::link::Link;
use crate::namespace::Namespace;
use crate::network::Network;

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The number of UDP packets.
    pub packets: u64,
    /// The packets sent in a second.
    pub packets_per_second: u64,
    /// The bytes of each, without headers; at least 16.
    pub payload_bytes: usize,
    /// The time for which TCP sends at full speed; zero for none.
    pub bulk: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        Self { packets: 2_000, packets_per_second: 1_000, payload_bytes: 64, bulk: Duration::ZERO }
    }
}

/// The observed behaviour of a link.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// The requested link.
    pub asked: Link,
    /// UDP packets that were sent.
    pub sent: u64,
    /// Those of them that arrived, each counted once.
    pub arrived: u64,
    /// Further arrivals of these.
    pub again: u64,
    /// Packets that arrived after one that was sent later.
    pub overtaken: u64,
    /// The packets sent in a second.
    pub packets_per_second: f64,
    /// The median one-way delay, from the sending call to the return of the receiving call.
    pub delay_p50: Duration,
    /// The delay that 1 % did not exceed.
    pub delay_p1: Duration,
    /// The delay that 99 % did not exceed.
    pub delay_p99: Duration,
    /// The mean delay.
    pub delay_mean: Duration,
    /// The bits a second that one TCP connection received in the second half of the time, without
    /// headers.
    pub bulk_bits: Option<f64>,
}

impl Observed {
    /// The share of packets that did not arrive.
    #[must_use]
    pub fn loss(&self) -> f64 {
        1.0 - self.arrived as f64 / self.sent.max(1) as f64
    }
}

/// Sends from one node to another and observes the arrivals. Sender and receiver are threads of
/// this process, so both read the same clock. Their scheduling is part of the observation.
///
/// # Errors
/// There is no such node, or the system refuses an operation.
pub fn measure(
    network: &Network,
    from: usize,
    to: usize,
    probe: &Probe,
) -> Result<Observed, NetError> {
    let no_link = || NetError::Refused(format!("there is no link from node {from} to node {to}"));
    let links = network.links();
    let asked = links.link(from, to).filter(|_| from != to).ok_or_else(no_link)?;
    let node = |node: usize| network.namespaces().get(node).ok_or_else(no_link);
    measure_between(node(from)?, node(to)?, asked, probe)
}

/// The same between two existing namespaces. `asked` is the requested link between them.
///
/// # Errors
/// The system refuses an operation.
pub fn measure_between(
    from: &Namespace,
    to: &Namespace,
    asked: &Link,
    probe: &Probe,
) -> Result<Observed, NetError> {
    let (delays, again, overtaken, packets_per_second) = probe_udp(from, to, probe, asked)?;
    let mut sorted = delays;
    sorted.sort_unstable();
    let share = |share: f64| {
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    let sum: Duration = sorted.iter().sum();
    let bulk_bits = if probe.bulk.is_zero() { None } else { Some(bulk_tcp(from, to, probe.bulk)?) };
    Ok(Observed {
        sent: probe.packets,
        arrived: sorted.len() as u64,
        again,
        overtaken,
        packets_per_second,
        delay_p50: share(0.5),
        delay_p1: share(0.01),
        delay_p99: share(0.99),
        delay_mean: sum.checked_div(sorted.len() as u32).unwrap_or_default(),
        bulk_bits,
        asked: asked.clone(),
    })
}

/// A socket buffer that is large enough while the receiver is not scheduled.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// The time after the last packet for which late ones are awaited.
const STRAGGLERS: Duration = Duration::from_millis(500);

/// The time limit for opening a TCP connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

type Arrivals = (Vec<Duration>, u64, u64, f64);

fn probe_udp(
    from: &Namespace,
    to: &Namespace,
    probe: &Probe,
    link: &Link,
) -> Result<Arrivals, NetError> {
    let failed = NetError::system("probing with UDP");
    let began = Instant::now();
    let (receiver, address) = bind_udp(to)?;
    let (sender, _) = bind_udp(from)?;
    let sent_all = AtomicBool::new(false);
    let patience = link.delay + link.jitter * 4 + STRAGGLERS;
    let result = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&receiver, began, probe, &sent_all, patience));
        let sent = send(&sender, address, began, probe);
        sent_all.store(true, Ordering::Release);
        let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        received.and_then(|(delays, again, overtaken)| Ok((delays, again, overtaken, sent?)))
    });
    result.map_err(failed)
}

fn bind_udp(namespace: &Namespace) -> Result<(UdpSocket, SocketAddr), NetError> {
    let bound = namespace.within(|| {
        let socket = UdpSocket::bind((namespace.address(), 0))?;
        // Beyond the system's limit, if root allows it; otherwise up to the limit.
        let size = rustix::net::sockopt::set_socket_recv_buffer_size_force;
        let _ = size(&socket, RECEIVE_BUFFER_BYTES);
        let address = socket.local_addr()?;
        Ok((socket, address))
    })?;
    bound.map_err(NetError::system(format!("making a UDP socket at node {}", namespace.node())))
}

/// Sends at an even rate. Returns the packets sent in a second.
fn send(socket: &UdpSocket, to: SocketAddr, began: Instant, probe: &Probe) -> std::io::Result<f64> {
    let mut packet = vec![0; probe.payload_bytes.max(16)];
    let first = Instant::now();
    for number in 0..probe.packets {
        let due_ns =
            u128::from(number) * 1_000_000_000 / u128::from(probe.packets_per_second.max(1));
        let due = Duration::from_nanos(due_ns as u64);
        if let Some(early) = due.checked_sub(first.elapsed()).filter(|early| !early.is_zero()) {
            std::thread::sleep(early);
        }
        let (stamp, rest) = packet.split_at_mut(8);
        rest[..8].copy_from_slice(&number.to_le_bytes());
        stamp.copy_from_slice(&(began.elapsed().as_nanos() as u64).to_le_bytes());
        // A packet that its own kernel drops is lost, like any other.
        let _ = socket.send_to(&packet, to);
    }
    Ok(probe.packets as f64 / first.elapsed().as_secs_f64())
}

fn receive(
    socket: &UdpSocket,
    began: Instant,
    probe: &Probe,
    sent_all: &AtomicBool,
    patience: Duration,
) -> std::io::Result<(Vec<Duration>, u64, u64)> {
    socket.set_read_timeout(Some(patience))?;
    let mut seen = vec![false; usize::try_from(probe.packets).unwrap_or(0)];
    let mut delays = Vec::with_capacity(seen.len());
    let (mut again, mut overtaken, mut newest) = (0, 0, 0);
    let mut packet = vec![0; probe.payload_bytes.max(16)];
    while delays.len() < seen.len() || probe.packets == 0 {
        let waits_for_last = sent_all.load(Ordering::Acquire);
        match socket.recv(&mut packet) {
            Err(_) if waits_for_last => break,
            Err(_) => continue,
            Ok(_) => {}
        }
        let arrived = began.elapsed();
        let word = |at: usize| packet.get(at..at + 8).and_then(|eight| eight.try_into().ok());
        let (Some(stamp), Some(number)) = (word(0), word(8)) else { continue };
        let number = u64::from_le_bytes(number);
        let sent = Duration::from_nanos(u64::from_le_bytes(stamp));
        match seen.get_mut(number as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => {
                again += 1;
                continue;
            }
        }
        overtaken += u64::from(number < newest);
        newest = newest.max(number);
        delays.push(arrived.saturating_sub(sent));
    }
    Ok((delays, again, overtaken))
}

/// Bits a second of one TCP connection in the second half of `time`.
fn bulk_tcp(source: &Namespace, sink: &Namespace, time: Duration) -> Result<f64, NetError> {
    let failed = || NetError::system("sending in bulk with TCP");
    let listener = sink.within(|| TcpListener::bind((sink.address(), 0)))?.map_err(failed())?;
    let address = listener.local_addr().map_err(failed())?;
    let mut stream =
        source.within(|| TcpStream::connect_timeout(&address, CONNECT_WITHIN))?.map_err(failed())?;
    let (mut accepted, _) = listener.accept().map_err(failed())?;
    // With time-outs, neither side waits without end on any link.
    stream.set_write_timeout(Some(time)).map_err(failed())?;
    accepted.set_read_timeout(Some(time)).map_err(failed())?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let block = vec![0; 64 << 10];
            let began = Instant::now();
            while began.elapsed() < time && stream.write_all(&block).is_ok() {}
        });
        let mut block = vec![0; 256 << 10];
        let (mut bytes, began) = (0_u64, Instant::now());
        while began.elapsed() < time {
            match accepted.read(&mut block) {
                Ok(0) | Err(_) => break,
                Ok(read) if began.elapsed() > time / 2 => bytes += read as u64,
                Ok(_) => {}
            }
        }
        // Closed before the wait for the sender, which may be blocked by a full window.
        drop(accepted);
        Ok(bytes as f64 * 8.0 / (time / 2).as_secs_f64())
    })
}

/// A line of a Markdown table: see [`TABLE_HEAD`].
impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let asked = match self.asked.to_string() {
            none if none.is_empty() => "nothing".to_owned(),
            asked => asked,
        };
        write!(
            f,
            "| {asked} | {:.0} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} % | {} |",
            self.packets_per_second,
            ms(self.delay_mean),
            ms(self.delay_p1),
            ms(self.delay_p50),
            ms(self.delay_p99),
            self.loss() * 100.0,
            self.bulk_bits.map_or("".to_owned(), |bits| format!("{:.1} Mbit/s", bits / 1e6)),
        )
    }
}

/// The head of a table of [`Observed`] lines.
pub const TABLE_HEAD: &str = "\
| asked for, one way | packets/s | delay mean, ms | p1 | p50 | p99 | lost | TCP |
|---|---|---|---|---|---|---|---|";
