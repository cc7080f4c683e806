//! `quorate twins`

mod files;
mod generate;
mod progress;
mod replay;
mod run;
mod signing;

use clap::{Args, Subcommand};
use quorate_node::config::{Finding, Place};
use quorate_sim::twins::space::Kind;
use quorate_sim::twins::{Numbers, Shape, Space};

use crate::failure::{Exit, Failure};
use crate::output::Format;

/// Twins testing: copies of a replica that share its key, under scripts of who hears whom.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count the scenarios of a kind, and write them (or a sample) to files.
    Generate(generate::Arguments),
    /// Run scenarios, by number or from files, against real protocols; or one of them, told in
    /// full.
    Run(Box<run::Arguments>),
}

/// Runs `twins`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Generate(arguments) => generate::run(arguments, format),
        Command::Run(arguments) => run::run(arguments, format),
    }
}

/// What kind of scenarios, and which of them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Scenarios")]
pub struct KindArguments {
    /// How many replicas; n tolerates (n - 1) / 3 faulty ones.
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N")]
    replicas: usize,
    /// How many of them run twice, with one key. They lead as the others do, both copies at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    twins: usize,
    /// Into how many groups the copies are split at most.
    #[arg(long, default_value_t = 2, value_name = "N")]
    partitions: usize,
    /// How many views are scripted.
    #[arg(long, default_value_t = 3, value_name = "N")]
    views: usize,
    /// The groups may change within a view: for proposals, votes, and all else.
    #[arg(long)]
    by_phase: bool,
    /// In each view one copy may be unheard by one other of its group.
    #[arg(long)]
    one_way: bool,
    /// All scenarios. The default, unless a sample is asked for.
    #[arg(long, conflicts_with = "sample")]
    exhaustive: bool,
    /// So many scenarios, none twice, each as likely as any other.
    #[arg(long, value_name = "N")]
    sample: Option<u128>,
    /// Which sample: the same seed gives the same one.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

impl KindArguments {
    fn space(&self) -> Result<Space, Failure> {
        let refused = |words: String, flag: &str| {
            let (what, remedy) = words.rsplit_once(": ").unwrap_or((&words, "use other counts"));
            let place = Place::Flag(flag.to_owned());
            let finding = Finding { what: what.to_owned(), place, remedy: remedy.to_owned() };
            Failure::new(Exit::Usage, finding)
        };
        let shape = Shape::new(self.replicas, self.twins)
            .map_err(|error| refused(error.to_string(), "--replicas, --twins"))?;
        let (by_phase, one_way) = (self.by_phase, self.one_way);
        let (partitions, views) = (self.partitions, self.views);
        let kind = Kind { shape, partitions, views, by_phase, one_way };
        Space::new(kind).map_err(|error| refused(error.to_string(), "--partitions, --views"))
    }

    fn numbers(&self, space: &Space) -> Numbers {
        match self.sample {
            Some(sample) => Numbers::sample(space.count(), sample, self.seed),
            None => Numbers::all(space.count()),
        }
    }

    /// What distinguishes this selection of scenarios from all others.
    fn identity(&self) -> String {
        let Self { replicas, twins, partitions, views, by_phase, one_way, sample, seed, .. } = self;
        let sample = sample.map_or_else(
            || "exhaustive".to_owned(),
            |sample| format!("sample of {sample}, seed {seed}"),
        );
        format!(
            "{replicas} replicas, {twins} twins, {partitions} partitions, {views} views, by phase: \
             {by_phase}, one way: {one_way}, {sample}"
        )
    }
}

/// A large number, in groups of three digits.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How the count of a space comes about.
fn counted(space: &Space) -> String {
    let kind = space.kind();
    let names = space.unpruned().map_or_else(|| "more than 2^128".to_owned(), grouped);
    format!(
        "{} partitions of {} copies into at most {} groups; {} choices a view; {}^{} = {} scenarios, {} \
         of them different under {} permutations of the replicas",
        space.partitions(),
        kind.shape.slots(),
        kind.partitions,
        space.letters(),
        space.letters(),
        kind.views,
        names,
        grouped(space.count()),
        space.permutations(),
    )
}
