//! The command line, and the table.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use quorate_core::mutant::{self, ALL, EPOCHS, Mutant};
use quorate_core::protocols::{pbft, two_delay};

use crate::hunt::{Caught, EPOCH_TOOLS, PBFT_TOOLS, TOOLS, TWO_DELAY_TOOLS, Tool, hunt, listen};
use crate::schedules;

/// What was asked for.
struct Options {
    seconds: u64,
    only: Option<Vec<String>>,
    tools: Option<Vec<String>>,
    first_seed: u64,
    markdown: bool,
}

impl Options {
    fn parse() -> Result<Self, String> {
        let mut options =
            Self { seconds: 120, only: None, tools: None, first_seed: 0, markdown: false };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word}: a value is missing"));
            let list = |value: String| Some(value.split(',').map(str::to_owned).collect());
            match word.as_str() {
                "--seconds" => options.seconds = number(&value()?)?,
                "--seeds" => options.first_seed = number(&value()?)?,
                "--only" => options.only = list(value()?),
                "--tools" => options.tools = list(value()?),
                "-o" => options.markdown = value()? == "markdown",
                _ => return Err(format!("{word}: not known; see the head of main.rs")),
            }
        }
        Ok(options)
    }

    /// The tools for a variant's mutants.
    fn tools(&self, variant: Option<&str>) -> Vec<Tool> {
        let all: &[Tool] = match variant {
            Some(pbft::NAME) => &PBFT_TOOLS,
            Some(EPOCHS) => &EPOCH_TOOLS,
            Some(two_delay::NAME) => &TWO_DELAY_TOOLS,
            _ => &TOOLS,
        };
        let asked = |tool: &Tool| {
            self.tools.as_ref().is_none_or(|names| names.iter().any(|name| name == tool.name))
        };
        all.iter().copied().filter(asked).collect()
    }

    fn mutants(&self) -> Vec<&'static Mutant> {
        let asked = |mutant: &&Mutant| {
            self.only.as_ref().is_none_or(|names| names.iter().any(|name| name == mutant.name))
        };
        ALL.iter().filter(asked).collect()
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word}: not a number"))
}

/// Hunts every mutant. Fails if one is not caught, or something is caught where none is.
pub fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("mutants: {error}");
            return ExitCode::from(2);
        }
    };
    listen();
    let budget = Duration::from_secs(options.seconds);
    let Some(events) = without_mutants(&options) else { return ExitCode::FAILURE };
    let mut rows = Vec::new();
    for mutant in options.mutants() {
        mutant::choose(Some(mutant.name));
        schedules::only(mutant.variant);
        let (caught, events) = hunt(budget, options.first_seed, &options.tools(mutant.variant));
        match &caught {
            Some(Caught { tool, world, oracle, words, seconds, .. }) => eprintln!(
                "{:30} {oracle:13} {tool:10} {world:30} {events:10} {seconds:7.2}  {}",
                mutant.name,
                words.lines().next().unwrap_or_default()
            ),
            None => eprintln!("{:30} NOT CAUGHT after {events} events", mutant.name),
        }
        rows.push((mutant, caught));
    }
    mutant::choose(None);
    if options.markdown {
        print!("{}", markdown(&rows, &options, events));
    }
    eprintln!("{}", summary(&rows));
    match rows.iter().all(|(_, caught)| caught.is_some()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// With no mutant on nothing may be found: with all variants, and with each of those that a mutant
/// is hunted in. Returns how many events there were.
fn without_mutants(options: &Options) -> Option<u64> {
    mutant::choose(None);
    let mut variants: Vec<Option<&str>> =
        options.mutants().iter().map(|mutant| mutant.variant).collect();
    variants.sort_unstable();
    variants.dedup();
    let mut all = 0;
    for variant in variants {
        schedules::only(variant);
        let budget = Duration::from_secs(options.seconds);
        let (false_alarm, events) = hunt(budget, options.first_seed, &options.tools(variant));
        let name = variant.unwrap_or("all variants");
        eprintln!("no mutant, {name}: {events} events in {} s", options.seconds);
        if let Some(Caught { tool, world, words, .. }) = false_alarm {
            eprintln!("FALSE ALARM by {tool}, {world}: {words}");
            return None;
        }
        all += events;
    }
    Some(all)
}

/// How many were caught, and how soon.
fn summary(rows: &[(&Mutant, Option<Caught>)]) -> String {
    let mut seconds: Vec<f64> = rows
        .iter()
        .map(|(_, caught)| caught.as_ref().map_or(f64::INFINITY, |c| c.seconds))
        .collect();
    seconds.sort_by(f64::total_cmp);
    let caught = rows.iter().filter(|(_, caught)| caught.is_some()).count();
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or(0.0);
    let longest = seconds.last().copied().unwrap_or(0.0);
    format!(
        "{caught} of {} mutants caught; median {median:.2} s, longest {longest:.1} s",
        rows.len()
    )
}

/// The table for `docs/mutants.md`.
fn markdown(rows: &[(&Mutant, Option<Caught>)], options: &Options, calm_events: u64) -> String {
    let mut text = String::from(HEAD);
    let _ = writeln!(text, "{}.", summary(rows));
    let _ = writeln!(
        text,
        "With no mutant on, the same tools found nothing in {0} s of all variants and {0} s of each that \
         has bugs of its own: {calm_events} events.\n",
        options.seconds
    );
    text.push_str(
        "| mutant | what is wrong | from | caught by | tool | world | events | seconds |\n",
    );
    text.push_str("|---|---|---|---|---|---|--:|--:|\n");
    for (mutant, caught) in rows {
        let _ = write!(text, "| `{}` | {} | {} |", mutant.name, mutant.what, mutant.source);
        let _ = match caught {
            Some(c) => writeln!(
                text,
                " {} | {} | {} | {} | {:.2} |",
                c.oracle, c.tool, c.world, c.events, c.seconds
            ),
            None => writeln!(text, " **not caught** | | | | |"),
        };
    }
    text
}

const HEAD: &str = "\
# Known bugs, and what finds them

Written by `make mutants`. A row is a bug of the literature or of public code, put into the real core
behind `--cfg quorate_mutants` (`crates/core/src/mutant.rs`). The `quorate` program refuses to be
built with it. Bugs of rules, quorums and the drive loop stand in decorators around them
(`crates/sim/src/planted`). A bug is on at every replica. The tools look for it in rounds, on all
cores, until an oracle fails. A bug in the rules of one variant is looked for in that variant.
`events` and `seconds` count all tools up to then. \"no panic\": the core itself stopped, which is a
finding as well.

Bugs that one test sees are in `ci/mutants.txt`, and `make mutants-outside` runs those tests. Those of
the Snow family are such: [mutants-snow.md](mutants-snow.md).

All bugs caught is no measure of what the tools find unaided: we wrote `attacks`, `holders` and
`views`, and sharpened the oracles, with these bugs at hand. PBFT's bugs are looked for by `phases`,
`attacks` of its own, `twins` and `swarm`; bugs of epochs and of two delays by the tools for them
alone.

[Sources](protocols/README.md#sources) have their names from there. \"Class of bug\" names no single
public bug.

| tool | what it does |
|---|---|
| swarm | the worlds of `quorate sim` |
| twins | scenarios of Twins over seven views, by number (`quorate twins`); PBFT: over five views, by phase |
| schedules | loss, partitions, delays, crashes at any write; up to f replicas stay dead |
| liars | the same, and up to f replicas run twice with one key and bend or forge what they send |
| lost data | the same, and up to f replicas lose their disks |
| attacks | small directed worlds: forged certificates, floods, poisoned sync, old testimonies … |
| attacks | PBFT: made-up sets, wrong new views, lost checkpoints, two chains, restarts, cuts … |
| holders | one replica after another is cut off with a certificate that nobody else has |
| views | who is cut off changes with each view and each certificate, with and without twins |
| phases | PBFT: who hears which phase of whom changes, replicas come and go, one may lie |
| changes, liars | epochs: the worlds of `quorate sim --trouble changes` and `lying-changes` |
| attacks | epochs: newcomers that are not there, removed members that sign, a heavy one that is away |
| twins | epochs: a twin of one of the first members, while the ends of epochs reach some alone |
| edges | epochs: a replica is cut off with a certificate of a change that nobody else has |
| kinds | two delays: who hears which kind of message of whom changes, f run twice and build on old blocks, replicas come and go |
| twins | two delays: f of four or seven run twice, over eight views, by kind of message |

";
