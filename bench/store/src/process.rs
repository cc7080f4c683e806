//! What the operating system says of this process and of the machine.

use crate::engines::Failure;
use rustix::fs::{SeekFrom, seek};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Ticks of `/proc/stat` in a second: the same on all of Linux's platforms.
const TICKS: f64 = 100.0;

/// A moment, to take differences from.
pub struct Moment {
    at: Instant,
    processor_seconds: f64,
    written_bytes: i64,
    machine: Machine,
}

/// What lies between a moment and now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    pub seconds: f64,
    /// Of all threads of this process.
    pub processor_seconds: f64,
    /// Handed to the block layer, or dirtied in the page cache for it, less what was removed before
    /// it got there.
    pub written_bytes: u64,
    /// Of the processors' time, what others had.
    pub others_percent: f64,
}

impl Moment {
    pub fn now() -> Moment {
        Moment {
            at: Instant::now(),
            processor_seconds: processor_seconds(),
            written_bytes: written_bytes(),
            machine: Machine::now(),
        }
    }

    pub fn passed(&self) -> Passed {
        let now = Moment::now();
        let processor_seconds = now.processor_seconds - self.processor_seconds;
        let busy = now.machine.busy - self.machine.busy;
        let all = now.machine.all - self.machine.all;
        let others = (busy - processor_seconds).max(0.0);
        Passed {
            seconds: (now.at - self.at).as_secs_f64(),
            processor_seconds,
            written_bytes: u64::try_from(now.written_bytes - self.written_bytes).unwrap_or(0),
            others_percent: if all > 0.0 { 100.0 * others / all } else { 0.0 },
        }
    }
}

/// Seconds of all processors since the machine started.
struct Machine {
    busy: f64,
    all: f64,
}

impl Machine {
    fn now() -> Machine {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let ticks: Vec<f64> =
            line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let all: f64 = ticks.iter().sum();
        let idle: f64 = ticks.iter().skip(3).take(2).sum();
        Machine { busy: (all - idle) / TICKS, all: all / TICKS }
    }
}

fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn written_bytes() -> i64 {
    let number = |name| i64::try_from(field("/proc/self/io", name)).unwrap_or(0);
    number("write_bytes:") - number("cancelled_write_bytes:")
}

/// Memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Of its own: heaps, caches, shadows.
    pub own_bytes: u64,
    /// Of files it has mapped, as far as they are in memory.
    pub mapped_bytes: u64,
    /// The most of both together so far.
    pub peak_bytes: u64,
}

impl Memory {
    pub fn now() -> Memory {
        let bytes = |name| field("/proc/self/status", name) << 10;
        Memory {
            own_bytes: bytes("RssAnon:"),
            mapped_bytes: bytes("RssFile:") + bytes("RssShmem:"),
            peak_bytes: bytes("VmHWM:"),
        }
    }
}

/// A number behind a name in a file of /proc.
fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// What the files of a folder take, holes not counted.
pub fn disk_bytes(folder: &Path) -> Result<u64, Failure> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Engines remove files meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes +=
            if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

/// The memory of the machine, in bytes.
pub fn machine_bytes() -> u64 {
    field("/proc/meminfo", "MemTotal:") << 10
}

/// Reads the files of a folder, so that they are in the page cache: what lay idle while others were
/// measured may have left it.
pub fn bring_to_memory(folder: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            bring_to_memory(&path)?;
        } else if path.is_file() {
            let file = fs::File::open(&path)?;
            // Maps are files with more holes than data.
            let mut end = 0;
            while let Ok(from) = seek(&file, SeekFrom::Data(end)) {
                end = seek(&file, SeekFrom::Hole(from))?;
                seek(&file, SeekFrom::Start(from))?;
                io::copy(&mut (&file).take(end - from), &mut io::sink())?;
            }
        }
    }
    Ok(())
}

/// What may still be written to a folder's file system.
pub fn free_bytes(folder: &Path) -> Result<u64, Failure> {
    let space = rustix::fs::statvfs(folder)?;
    Ok(space.f_bavail * space.f_frsize)
}

/// Round trips are timed so many together, ...
const TRIPS: u32 = 500;
/// ... so often.
const TIMES: u32 = 41;

/// How long a cache line takes from one processor to another and back, if there are two: the
/// median, as now and then one of them is taken away.
pub fn round_trip_ns() -> Option<f64> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let line = AtomicU32::new(0);
    let wait_for = |value: u32| {
        while line.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..TRIPS * TIMES {
                wait_for(2 * trip + 1);
                line.store(2 * trip + 2, Ordering::Release);
            }
        });
        for time in 0..TIMES {
            let begun = Instant::now();
            for trip in time * TRIPS..(time + 1) * TRIPS {
                line.store(2 * trip + 1, Ordering::Release);
                wait_for(2 * trip + 2);
            }
            times.push(begun.elapsed().as_nanos() as f64 / f64::from(TRIPS));
        }
    });
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
