//! An honest load through a gateway: counters that each connection has for itself, so that every
//! reply is known beforehand.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections.
const CONNECTIONS: usize = 4;
/// Counters of a connection: all are incremented in one write.
const COUNTERS: usize = 50;
/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    wrong: AtomicU64,
    broken: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
}

/// The load, while it runs.
pub(super) struct GatewayLoad {
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl GatewayLoad {
    /// Begins.
    pub(super) fn begin(address: &str) -> io::Result<Self> {
        let (counts, stop) = (Arc::<Counts>::default(), Arc::<AtomicBool>::default());
        let mut threads = Vec::new();
        for number in 0..CONNECTIONS {
            let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
            let stream = TcpStream::connect(address)?;
            let body = move || {
                if increment(&stream, number, &counts, &stop).is_err() {
                    counts.broken.fetch_add(1, Ordering::Relaxed);
                }
            };
            let name = format!("gateway-{number}");
            threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        }
        Ok(Self { counts, stop, threads })
    }

    /// Increments answered and the latencies of their writes, since this was asked last.
    pub(super) fn interval(&self) -> (u64, Vec<Duration>) {
        let answered = self.counts.answered.swap(0, Ordering::Relaxed);
        let latencies = &self.counts.latencies;
        (answered, std::mem::take(&mut *latencies.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Stops. What went wrong, if anything did.
    pub(super) fn end(self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if thread.join().is_err() {
                return Err("a connection's thread panicked".to_owned());
            }
        }
        let wrong = self.counts.wrong.load(Ordering::Relaxed);
        let broken = self.counts.broken.load(Ordering::Relaxed);
        match (wrong, broken) {
            (0, 0) => Ok(()),
            _ => Err(format!("{wrong} wrong replies, {broken} connections broke")),
        }
    }
}

fn increment(
    stream: &TcpStream,
    number: usize,
    counts: &Counts,
    stop: &AtomicBool,
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut commands = Vec::new();
    for counter in 0..COUNTERS {
        let key = format!("gateway-{number}-{counter}");
        commands.extend(format!("*2\r\n$4\r\nINCR\r\n${}\r\n{key}\r\n", key.len()).into_bytes());
    }
    let (mut writer, mut reader) = (stream, BufReader::new(stream));
    let mut line = String::new();
    for expected in 1u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        writer.write_all(&commands)?;
        for _ in 0..COUNTERS {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line.trim_end() != format!(":{expected}") {
                counts.wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
        counts.answered.fetch_add(COUNTERS as u64, Ordering::Relaxed);
        let latencies = &counts.latencies;
        latencies.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
    }
    Ok(())
}
