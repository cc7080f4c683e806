//! Tools, and what they find.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quorate_core::mutant;
use quorate_sim::Cluster;

use crate::pbft::attacks::{COUNT, name};
use crate::{attacks, epochs, pbft, reads, schedules, twins, two_delay};

/// Something that looks for violations, world by world.
#[derive(Clone, Copy)]
pub struct Tool {
    /// What the table calls it.
    pub name: &'static str,
    /// How many worlds in a round.
    pub worlds: u64,
    /// How many different worlds there are, and what each is called; `None`: one for each seed.
    pub all: Option<All>,
    /// Runs the world of a seed; an oracle that is violated panics.
    pub run: fn(u64, &mut Option<Cluster>),
}

/// How many worlds there are, and what each is called.
pub type All = (u64, fn(u64) -> &'static str);

/// The tools, in the order of a round.
pub const TOOLS: [Tool; 9] = [
    Tool { name: "swarm", worlds: 10, all: None, run: schedules::campaign },
    Tool {
        name: "attacks",
        worlds: attacks::COUNT,
        all: Some((attacks::COUNT, attacks::name)),
        run: attacks::run,
    },
    Tool { name: "holders", worlds: 1000, all: None, run: schedules::holders },
    Tool { name: "twins", worlds: 2000, all: None, run: twins::twins },
    Tool { name: "schedules", worlds: 40, all: None, run: schedules::faults },
    Tool { name: "liars", worlds: 40, all: None, run: schedules::liars },
    Tool { name: "lost data", worlds: 20, all: None, run: schedules::lost_data },
    Tool { name: "views", worlds: 100, all: None, run: schedules::views },
    Tool { name: "reads", worlds: 40, all: None, run: reads::swarm },
];

/// The tools for PBFT.
pub const PBFT_TOOLS: [Tool; 4] = [
    Tool { name: "phases", worlds: 40, all: None, run: pbft::phases },
    Tool { name: "attacks", worlds: COUNT, all: Some((COUNT, name)), run: pbft::attacks },
    Tool { name: "twins", worlds: 40, all: None, run: pbft::twins },
    Tool { name: "swarm", worlds: 10, all: None, run: pbft::swarm },
];

/// The tools for worlds in which members change.
pub const EPOCH_TOOLS: [Tool; 5] = [
    Tool { name: "changes", worlds: 10, all: None, run: epochs::changes },
    Tool { name: "liars", worlds: 10, all: None, run: epochs::liars },
    Tool {
        name: "attacks",
        worlds: epochs::COUNT,
        all: Some((epochs::COUNT, epochs::name)),
        run: epochs::attacks,
    },
    Tool { name: "twins", worlds: 40, all: None, run: epochs::twins },
    Tool { name: "edges", worlds: 40, all: None, run: epochs::edges },
];

/// The tools for the protocol of two delays.
pub const TWO_DELAY_TOOLS: [Tool; 3] = [
    Tool { name: "kinds", worlds: 40, all: None, run: two_delay::kinds },
    Tool { name: "twins", worlds: 40, all: None, run: two_delay::twins },
    Tool { name: "swarm", worlds: 10, all: None, run: two_delay::swarm },
];

/// A violation.
#[derive(Clone, Debug)]
pub struct Caught {
    /// By which tool.
    pub tool: &'static str,
    /// In which of its worlds.
    pub world: String,
    /// After how many events of all tools.
    pub events: u64,
    /// The oracle's name.
    pub oracle: String,
    /// What it said.
    pub words: String,
    /// How long the hunt took.
    pub seconds: f64,
}

thread_local! {
    /// What the last panic of this thread said.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics are findings, and are not printed.
pub fn listen() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("?");
        let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
        SAID.set(format!("{words}{}", place.unwrap_or_default()));
    }));
}

/// The oracle's name is what stands before the first colon; everything else is a panic of the code
/// that is tested.
fn oracle_of(words: &str) -> String {
    const NAMES: [&str; 27] = [
        // Of clusters.
        "agreement",
        "validity",
        "exactly once",
        "votes",
        "proposals",
        "state",
        "acknowledged",
        "durability",
        "liveness",
        "memory",
        "certificates",
        "views",
        "leader",
        "filtering",
        "refusal",
        "patience",
        "silence",
        "linearizable",
        "window",
        "calm",
        "no panic",
        "harness",
        // Of Twins.
        "no gap",
        "no vote after a time-out",
        "one chain",
        "one proposal",
        "one vote",
    ];
    let plain = words.strip_prefix("assertion `left == right` failed: ").unwrap_or(words);
    let name = plain.split(':').next().unwrap_or_default();
    NAMES.iter().find(|known| **known == name).unwrap_or(&"no panic").to_string()
}

/// Lets the tools run in rounds, on all cores, until one finds something or `budget` has passed.
pub fn hunt(budget: Duration, first_seed: u64, tools: &[Tool]) -> (Option<Caught>, u64) {
    let begun = Instant::now();
    let events = AtomicU64::new(0);
    let mut round = 0;
    while begun.elapsed() < budget {
        for tool in tools {
            let worlds = round * tool.worlds..(round + 1) * tool.worlds;
            if tool.all.is_some_and(|(all, _)| worlds.start >= all) {
                continue;
            }
            let caught = campaign(tool, worlds, first_seed, &events, begun + budget);
            if let Some((world, words)) = caught {
                let caught = Caught {
                    tool: tool.name,
                    world: match tool.all {
                        Some((_, name)) => name(world).to_owned(),
                        None => format!("seed {}", first_seed + world),
                    },
                    events: events.load(Ordering::Relaxed),
                    oracle: oracle_of(&words),
                    words,
                    seconds: begun.elapsed().as_secs_f64(),
                };
                return (Some(caught), events.into_inner());
            }
            if begun.elapsed() >= budget {
                break;
            }
        }
        round += 1;
    }
    (None, events.into_inner())
}

/// The first world of these in which something is found, and what was said.
fn campaign(
    tool: &Tool,
    worlds: std::ops::Range<u64>,
    first_seed: u64,
    events: &AtomicU64,
    until: Instant,
) -> Option<(u64, String)> {
    let (next, stop) = (AtomicU64::new(worlds.start), AtomicBool::new(false));
    let found: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                    let world = next.fetch_add(1, Ordering::Relaxed);
                    if world >= worlds.end {
                        return;
                    }
                    let mut place = None;
                    let seed = if tool.all.is_some() { world } else { first_seed + world };
                    let result = catch_unwind(AssertUnwindSafe(|| (tool.run)(seed, &mut place)));
                    let steps = place
                        .as_ref()
                        .map_or_else(|| twins::DELIVERED.take(), |cluster| cluster.steps);
                    let traced = place.as_mut().filter(|cluster| cluster.trace.on);
                    let lines = traced.map(|cluster| {
                        format!("{:?}\n{}", cluster.config, cluster.trace.take().join("\n"))
                    });
                    // What was broken once may break again while it goes.
                    let _ = catch_unwind(AssertUnwindSafe(|| drop(place)));
                    events.fetch_add(steps, Ordering::Relaxed);
                    if result.is_err() {
                        let said = SAID.take();
                        if said.starts_with("harness") && mutant::is_on() {
                            // The world that an attack needs did not come about: that is no
                            // finding.
                            continue;
                        }
                        stop.store(true, Ordering::Relaxed);
                        if let Some(lines) = lines {
                            eprintln!("{lines}\n{}: {said}", tool.name);
                        }
                        let mut found =
                            found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        if found.as_ref().is_none_or(|(first, _)| world < *first) {
                            *found = Some((world, said));
                        }
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}
