//! Where something was measured: without it a figure means nothing.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use quorate_core::Digest;
use quorate_core::base::crypto::{Signer as _, Statement};
use quorate_crypto::SecretKey;
use serde::{Deserialize, Serialize};

/// The program and the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The version of this program.
    pub version: String,
    /// The commit of the folder it ran in; `+` behind it: with changes. Empty if there is none.
    pub commit: String,
    /// The first half of the BLAKE3 hash of the measured program, in hexadecimal: it tells programs
    /// apart whatever the folder's commit is. Empty if the program could not be read, and in older
    /// results.
    #[serde(default)]
    pub program: String,
    /// The processor, as the system names it.
    pub processor: String,
    /// Cores.
    pub cores: usize,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// The system's kernel.
    pub kernel: String,
}

impl Context {
    /// Of this machine, now, and of what is measured: `program`.
    #[must_use]
    pub fn of(program: &Path) -> Self {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key));
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
                .unwrap_or_default()
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let memory_kib = memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit(),
            program: hash_of(program).unwrap_or_default(),
            processor: value(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory_kib.unwrap_or_default() >> 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

impl Context {
    /// Whether both measured the same program. Where it is not known, a commit without changes
    /// tells.
    #[must_use]
    pub fn has_program_of(&self, other: &Self) -> bool {
        if self.program.is_empty() || other.program.is_empty() {
            return self.commit == other.commit && self.is_of_a_commit();
        }
        self.program == other.program
    }

    /// Whether it ran in a folder that was exactly at a commit.
    #[must_use]
    pub fn is_of_a_commit(&self) -> bool {
        !self.commit.is_empty() && !self.commit.ends_with('+')
    }

    /// The program and the commit, for people.
    #[must_use]
    pub fn program_in_words(&self) -> String {
        let commit = match self.commit.as_str() {
            "" => "no commit known".to_owned(),
            commit => match commit.strip_suffix('+') {
                Some(commit) => format!("commit {commit} with changes"),
                None => format!("commit {commit}"),
            },
        };
        match self.program.as_str() {
            "" => format!("version {}, {commit}", self.version),
            program => format!("version {}, {commit}, program {program}", self.version),
        }
    }
}

fn hash_of(program: &Path) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    let mut file = std::fs::File::open(program).ok()?;
    let mut part = vec![0; 1 << 16];
    loop {
        match file.read(&mut part).ok()? {
            0 => break,
            length => hasher.update(part.get(..length)?),
        };
    }
    let mut text = hasher.finalize().to_hex().to_string();
    text.truncate(32);
    Some(text)
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return String::new() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let plus = if changed.is_some_and(|changed| !changed.is_empty()) { "+" } else { "" };
    format!("{commit}{plus}")
}

/// The machine's load averages over 1, 5 and 15 minutes, where the system tells.
#[must_use]
pub fn load_average() -> Option<[f64; 3]> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let mut numbers = text.split(' ').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Processor time of everything on this machine since it started, where the system tells.
#[must_use]
pub fn machine_time() -> Option<Duration> {
    busy_of(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Processor time that this machine wanted since it started, and its host gave to others, where the
/// system tells.
#[must_use]
pub fn stolen_time() -> Option<Duration> {
    stolen_of(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The machine's speed now: how long a core takes for a signature (Ed25519) while all cores make
/// some, in microseconds.
#[must_use]
pub fn signature_us() -> f64 {
    const LONG: Duration = Duration::from_millis(100);
    let signs = || {
        let (key, chain) = (SecretKey::from_seed(&[7; 32]), Digest([7; 32]));
        let (began, mut made) = (Instant::now(), 0u32);
        while began.elapsed() < LONG {
            let frame = Digest::of("speed", &made.to_le_bytes());
            std::hint::black_box(key.sign(&Statement::frame(&chain, &frame)));
            made += 1;
        }
        began.elapsed().as_secs_f64() * 1e6 / f64::from(made.max(1))
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(signs)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// Of the text of `/proc/stat`.
fn stolen_of(text: &str) -> Option<Duration> {
    let ticks = text.lines().next()?.split_whitespace().nth(8)?;
    Some(Duration::from_millis(ticks.parse::<u64>().ok()? * 10))
}

/// Of the text of `/proc/stat`.
fn busy_of(text: &str) -> Option<Duration> {
    let ticks: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).map(|n| n.parse().unwrap_or(0)).collect();
    // user nice system idle iowait irq softirq steal: all but idle and waiting, and what the host
    // took.
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|index| ticks.get(*index)).sum();
    // The kernel's interface counts in hundredths of a second on every architecture we run on.
    Some(Duration::from_millis(busy * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_all_but_idle_waiting_and_stolen() {
        // user nice system idle iowait irq softirq steal guest guest_nice
        let text =
            "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 5 5 5 5 5 5 5 5 5 5\n";
        assert_eq!(busy_of(text), Some(Duration::from_millis(7_600_321 * 10)));
        assert_eq!(stolen_of(text), Some(Duration::from_secs(800_000)));
        assert_eq!((busy_of(""), stolen_of("")), (None, None));
    }

    #[test]
    fn a_signature_takes_some_time() {
        assert!((0.1..1e5).contains(&signature_us()));
    }
}
