//! `quorate bench attacks`

use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use quorate_lab::attacks::{ALL, AttackRow, Attacks, Flood, Phases, named};
use quorate_node::config::{Finding, Place};

use crate::failure::{Exit, Failure};
use crate::local::{program, runtime};
use crate::output::{Format, print, print_json_line, table};

/// Attack clusters of processes on this machine with every flood of THREAT_MODEL.md, one after the
/// other, each by one client or one replica, and measure what honest clients keep.
///
/// An attack is withstood if goodput while it lasts and after it is at least half of that before
/// (nine tenths while it lasts, where the attacker's key has a rate), the memory of the attacked
/// processes grows by 192 MiB at most, every answer is right, new clients are served, and what an
/// attack of its kind would keep others from (status, pulls, a replica's return) goes on. Otherwise
/// the exit code is 1, and the folder with homes and logs is left. Each row is printed as a line of
/// JSON when it is done, and all as a table in the end.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Two to four seconds a phase instead of ten to twenty: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// Only this flood; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// Runs `bench attacks`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let floods = floods(&arguments.only)?;
    let temporary = std::env::temp_dir();
    let made = tempfile::Builder::new().prefix("quorate-attacks-").tempdir().map_err(|error| {
        Failure::io(error, &temporary, "set TMPDIR to a folder that can be written")
    })?;
    let seconds = if arguments.quick { [1, 2, 4, 2] } else { [3, 10, 20, 10] };
    let [warm_up, before, during, after] = seconds.map(Duration::from_secs);
    let phases = Phases { warm_up, before, during, after };
    let attacks = Attacks { program: program()?, folder: made.path().to_owned(), phases };
    let (_runtime, told) = runtime()?;
    let mut rows: Vec<AttackRow> = Vec::new();
    for flood in &floods {
        let row = attacks.measure(flood);
        // Being told to stop, the processes may have been told as well: the row means nothing.
        if told.load(Ordering::Relaxed) {
            break;
        }
        print_json_line(&serde_json::to_value(&row).unwrap_or_default())?;
        rows.push(row);
    }
    if format == Format::Table {
        print(&for_people(&rows))?;
    }
    let missed: Vec<&AttackRow> = rows.iter().filter(|row| !row.missed.is_empty()).collect();
    let finding = |what, place, remedy: &str| {
        Err(Failure::new(Exit::Failed, Finding { what, place, remedy: remedy.to_owned() }))
    };
    if let Some(first) = missed.first() {
        let kept = made.keep();
        let what = format!(
            "{} of {} attacks were not withstood; the first is {}: {}",
            missed.len(),
            rows.len(),
            first.flood,
            first.missed.join("; ")
        );
        return finding(what, Place::File(kept), "see the logs there; `--only NAME` repeats one");
    }
    if rows.len() < floods.len() {
        let what = format!("stopped after {} of {} attacks", rows.len(), floods.len());
        return finding(what, Place::Default, "run it again");
    }
    Ok(())
}

fn floods(only: &[String]) -> Result<Vec<&'static Flood>, Failure> {
    if only.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let of = |name: &String| named(name).ok_or_else(|| unknown(name));
    only.iter().map(of).collect()
}

/// There is no such flood.
pub fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = ALL.iter().map(|flood| flood.name).collect();
    Failure::new(
        Exit::Usage,
        Finding {
            what: format!("there is no flood \"{name}\""),
            place: Place::Flag("--only".to_owned()),
            remedy: format!("there are {}", names.join(", ")),
        },
    )
}

fn for_people(rows: &[AttackRow]) -> String {
    let head = [
        "FLOOD",
        "DID",
        "BEFORE/S",
        "DURING/S",
        "AFTER/S",
        "KEPT %",
        "ITS CORES",
        "OF REST %",
        "P99 MS",
        "P99 DURING",
        "MIB",
        "MIB DURING",
        "NEW CLIENTS",
        "LONGEST MS",
        "VERDICT",
    ];
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            [
                row.flood.clone(),
                row.did.to_string(),
                format!("{:.0}", row.before.goodput),
                format!("{:.0}", row.during.goodput),
                format!("{:.0}", row.after.goodput),
                format!("{:.0}", 100.0 * row.share()),
                format!("{:.2}", row.attacker_cores),
                format!("{:.0}", 100.0 * row.share_of_rest()),
                format!("{:.1}", row.before.p99_ms),
                format!("{:.1}", row.during.p99_ms),
                format!("{:.0}", row.before.memory_mib),
                format!("{:.0}", row.during.memory_mib.max(row.after.memory_mib)),
                row.newcomers.to_string(),
                format!("{:.0}", row.longest_ms),
                match row.missed.is_empty() {
                    true => "withstood".to_owned(),
                    false => row.missed.join("; "),
                },
            ]
        })
        .collect();
    let mut text = table(head, &cells);
    if let Some(row) = rows.first() {
        text.push_str(&format!(
            "{} replicas, {} cores shared by replicas, honest clients and the attacker.\n\
             ITS CORES: what the attacker's own process took of them; OF REST: what honest clients \
             kept of the others.\n",
            row.replicas, row.cores
        ));
    }
    text
}
