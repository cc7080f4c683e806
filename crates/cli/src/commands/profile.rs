//! `quorate profile`

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;
use quorate_lab::experiment::{self, Figures, Name, Point, Rate, Settings, Written};
use quorate_lab::profile::{Durations, Profile};
use quorate_node::config::{ByteSize, Durability};
use quorate_node::replica::profile::{STAGES, WAITS};
use serde_json::json;

use crate::arguments::ChoiceArguments;
use crate::failure::Failure;
use crate::local::{failure, program};
use crate::output::{Format, print, print_json, table};

/// Characters of the longest bar.
const WIDTH: f64 = 60.0;

/// Say where the time of a command goes: run a cluster under load on this machine, and take it
/// apart.
///
/// What a command waits for at the replica that proposes its block and at those that vote for it,
/// and what the replicas' threads do meanwhile. A running replica tells the same of itself at
/// /profile.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many replicas.
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N")]
    pub replicas: usize,
    #[command(flatten)]
    pub choices: ChoiceArguments,
    /// Most commands in a block.
    #[arg(long, default_value_t = 400, value_name = "COMMANDS")]
    pub batch: u32,
    /// Bytes of a command's value; 0: commands without a byte.
    #[arg(long, default_value = "0B", value_name = "SIZE")]
    pub payload: ByteSize,
    /// What a vote waits for.
    #[arg(long, default_value = "sync", value_name = "NAME", value_parser = durability)]
    pub durability: Durability,
    /// Open loop: commands a second, whatever is answered. Default: closed loop.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// Client sessions.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Most frames of one session in flight. Default: 4, of an open loop 32.
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..))]
    pub outstanding: Option<u32>,
    /// How long.
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: u32,
}

fn durability(text: &str) -> Result<Durability, String> {
    Durability::named(text).ok_or_else(|| "expected sync or os".to_owned())
}

impl Arguments {
    fn settings(&self) -> Settings {
        let options = self.choices.options(self.replicas);
        let point = Point {
            fixed_leader: options.fixed_leader.map_or(0, |leader| leader.0),
            replicas: self.replicas,
            batch: self.batch,
            payload: Written(self.payload),
            transport: Name(options.transport),
            durability: Name(self.durability),
            rate: self.rate.map_or(Rate::Closed, |rate| Rate::PerSecond(rate.into())),
            clients: self.clients,
            outstanding: self.outstanding.unwrap_or(0),
            ..Point::of(options.combination)
        };
        let seconds = self.seconds.into();
        Settings { point, network: None, seconds, warm_up: 1.0, settle: 0.0, interval: 0.5 }
    }
}

/// Runs `profile`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let temporary = std::env::temp_dir();
    let folder =
        tempfile::Builder::new().prefix("quorate-profile-").tempdir().map_err(|error| {
            Failure::io(error, &temporary, "set TMPDIR to a folder that can be written")
        })?;
    let settings = arguments.settings();
    let cluster = folder.path().join("cluster");
    let (figures, profile) = match experiment::run_once(&program()?, &cluster, &settings) {
        Ok(measured) => measured,
        Err(error) => {
            // The logs that the message names are what helps.
            let kept = folder.keep();
            return Err(failure(&error, &kept));
        }
    };
    match format {
        Format::Json => {
            print_json(&json!({ "settings": settings, "figures": figures, "profile": profile }))
        }
        Format::Table => print(&for_people(&settings, &figures, &profile)),
    }
}

fn for_people(settings: &Settings, figures: &Figures, profile: &Profile) -> String {
    let point = &settings.point;
    let mut out = format!(
        "{}, {} replicas, batch {}, payload {}, durability {}: {:.0} commands/s, p50 {:.2} ms, p99 {:.2} ms\n",
        point.protocol,
        point.replicas,
        point.batch,
        point.payload.0,
        point.durability,
        figures.goodput,
        figures.p50_ms,
        figures.p99_ms,
    );
    for warning in &figures.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    let whole_us = figures.mean_ms * 1e3;
    let roles = [("the replica that proposes it", &profile.led), ("the others", &profile.followed)];
    for (role, waits) in roles {
        let _ = write!(out, "\nA command at {role}\n{}", lives(waits, whole_us));
    }
    let _ = write!(
        out,
        "\nThe stages of all replicas (items waiting: as a visit found them, what it took included)\n{}",
        stages(profile, figures, settings)
    );
    out
}

/// What a command waits for, and what its client waits for besides.
fn lives(waits: &BTreeMap<&'static str, Durations>, whole_us: f64) -> String {
    let of = |name: &str| waits.get(name).cloned().unwrap_or_default();
    if WAITS.iter().all(|name| of(name).count() == 0) {
        return "no frame was followed here from its arrival to its answer\n".to_owned();
    }
    let here: f64 = WAITS.iter().map(|name| of(name).mean_us()).sum();
    let whole = whole_us.max(here);
    let bar = |us: f64| bar(us / whole.max(f64::MIN_POSITIVE));
    let mut rows: Vec<[String; 6]> = WAITS
        .iter()
        .map(|name| {
            let waited = of(name);
            [
                (*name).to_owned(),
                ms(waited.mean_us()),
                ms(waited.quantile_us(0.5)),
                ms(waited.quantile_us(0.99)),
                percent(waited.mean_us() / whole),
                bar(waited.mean_us()),
            ]
        })
        .collect();
    let besides = (whole - here).max(0.0);
    let none = String::new;
    rows.push([
        "client, network, quorum".to_owned(),
        ms(besides),
        none(),
        none(),
        percent(besides / whole),
        bar(besides),
    ]);
    table(["WAITS FOR", "MEAN MS", "P50 MS", "P99 MS", "SHARE", ""], &rows)
}

fn stages(profile: &Profile, figures: &Figures, settings: &Settings) -> String {
    let of = |name: &str| profile.stages.get(name).cloned().unwrap_or_default();
    let whole: f64 = STAGES.iter().map(|name| of(name).visits.seconds()).sum();
    // Each replica does the work of every command.
    let commands = figures.goodput * settings.seconds * settings.point.replicas as f64;
    let rows: Vec<[String; 11]> = STAGES
        .iter()
        .map(|name| {
            let stage = of(name);
            let visits = &stage.visits;
            let share = visits.seconds() / whole.max(f64::MIN_POSITIVE);
            let threads = (stage.threads.max(1) * settings.point.replicas as u64) as f64;
            let busy = visits.seconds() / settings.seconds / threads;
            [
                (*name).to_owned(),
                stage.threads.to_string(),
                percent(busy),
                format!("{:.3}", visits.seconds() * 1e6 / commands.max(1.0)),
                format!("{:.2}", stage.items as f64 / commands.max(1.0)),
                format!("{:.1}", stage.mean_waiting()),
                stage.longest.to_string(),
                format!("{:.1}", visits.quantile_us(0.5)),
                format!("{:.1}", visits.quantile_us(0.99)),
                percent(share),
                bar(share),
            ]
        })
        .collect();
    let head = [
        "STAGE",
        "THREADS",
        "BUSY",
        "US/COMMAND",
        "ITEMS/COMMAND",
        "WAITING",
        "LONGEST",
        "P50 US",
        "P99 US",
        "SHARE",
        "",
    ];
    table(head, &rows)
}

fn ms(us: f64) -> String {
    format!("{:.3}", us / 1e3)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn bar(share: f64) -> String {
    "█".repeat((share.clamp(0.0, 1.0) * WIDTH).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.5).chars().count(), 30);
        assert_eq!(bar(7.0).chars().count(), 60);
        assert_eq!(bar(-1.0), "");
    }

    #[test]
    fn where_nothing_was_followed_it_says_so() {
        assert!(lives(&BTreeMap::new(), 1.0).contains("no frame was followed"));
    }
}
