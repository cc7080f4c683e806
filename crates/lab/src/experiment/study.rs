//! The file that describes a study.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use quorate_netem::topology::Description;
use quorate_node::config::{ConfigError, Finding, HumanDuration};
use serde::Deserialize;

use super::axes::Grid;
use super::chart::Chart;
use super::file::{finding_of, place_of_key, read_text};
use super::value::{Span, Written};

/// Where the keys are explained.
const MANUAL: &str = "docs/experiments.md explains the keys";

/// A study: what is tried, how it is measured, and what is drawn of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Its name, of letters, digits and hyphens: results go to a folder of this name.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// What is asked, and what the answer should be.
    #[serde(default)]
    pub about: String,
    /// What is tried: every permutation.
    #[serde(default)]
    pub grid: Grid,
    /// What is tried, by name: every permutation of each, where a variant's own grid says nothing
    /// of the study's.
    #[serde(default)]
    pub variant: Vec<Variant>,
    /// The emulated network that all runs are in. Without one, and where the grid names none, all
    /// processes are on this machine's loopback interface.
    #[serde(default)]
    pub network: Option<Description>,
    /// Networks that the grid may name beside the presets.
    #[serde(default)]
    pub networks: BTreeMap<String, Description>,
    /// How each run is measured.
    #[serde(default)]
    pub measure: Measure,
    /// What is otherwise with `--quick`.
    #[serde(default)]
    pub quick: Quick,
    /// What is drawn, beside what is drawn of every study.
    #[serde(default)]
    pub chart: Vec<Chart>,
    /// What others measured.
    #[serde(default)]
    pub source: Vec<Source>,
    /// Whether this is its quick form ([`Study::quick`]).
    #[serde(skip)]
    pub is_quick: bool,
}

/// One of several things that are compared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What it is called.
    pub name: String,
    /// In what it differs.
    #[serde(default)]
    pub grid: Grid,
}

/// What is otherwise in a quick run: to see that it works, not to quote.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// What is tried. Axes of variants stay.
    #[serde(default)]
    pub grid: Grid,
    /// How it is measured.
    #[serde(default)]
    pub measure: Measure,
}

/// How each run is measured, as a file says it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// How long figures count.
    pub duration: Option<Span>,
    /// Least time of load before.
    pub warm_up: Option<Span>,
    /// From the start of the processes to the beginning of what is measured, if there is an
    /// adversary: its times are fixed when its process starts.
    pub settle: Option<Span>,
    /// How long each interval of the series is.
    pub interval: Option<Span>,
    /// How often each permutation is run.
    pub repeats: Option<u32>,
    /// What the order of the runs and random arrivals are drawn from.
    pub seed: Option<u64>,
    /// Numbers of replicas (`/status`) that are sampled each interval.
    pub numbers: Option<Vec<String>>,
}

impl Measure {
    fn over(&self, base: &Self) -> Self {
        let (this, base) = (self.clone(), base.clone());
        Self {
            duration: this.duration.or(base.duration),
            warm_up: this.warm_up.or(base.warm_up),
            settle: this.settle.or(base.settle),
            interval: this.interval.or(base.interval),
            repeats: this.repeats.or(base.repeats),
            seed: this.seed.or(base.seed),
            numbers: this.numbers.or(base.numbers),
        }
    }

    /// How it is measured, with the defaults for what is not said.
    #[must_use]
    pub fn resolved(&self) -> Measuring {
        let span = |span: Option<Span>, preset| span.map_or(preset, |Written(HumanDuration(t))| t);
        Measuring {
            duration: span(self.duration, Duration::from_secs(20)),
            warm_up: span(self.warm_up, Duration::from_secs(2)),
            settle: span(self.settle, Duration::from_secs(10)),
            interval: span(self.interval, Duration::from_millis(500)),
            repeats: self.repeats.unwrap_or(3),
            seed: self.seed.unwrap_or(1),
            numbers: self.numbers.clone().unwrap_or_default(),
        }
    }
}

/// How each run is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measuring {
    /// See [`Measure::duration`].
    pub duration: Duration,
    /// See [`Measure::warm_up`].
    pub warm_up: Duration,
    /// See [`Measure::settle`].
    pub settle: Duration,
    /// See [`Measure::interval`].
    pub interval: Duration,
    /// See [`Measure::repeats`].
    pub repeats: u32,
    /// See [`Measure::seed`].
    pub seed: u64,
    /// See [`Measure::numbers`].
    pub numbers: Vec<String>,
}

/// What a document says about the same.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Which document.
    pub document: String,
    /// Which figure or section of it.
    pub figure: String,
    /// What it shows, and how it was measured there.
    pub says: String,
    /// Its numbers, to stand beside ours.
    #[serde(default)]
    pub number: Vec<SourceNumber>,
}

/// A number of a document, and which of ours stands beside it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceNumber {
    /// What it is.
    pub what: String,
    /// The document's, with its unit.
    pub theirs: String,
    /// Which figure of ours: `goodput`, `p50_ms`, …
    pub figure: String,
    /// Of which runs: axes and their values.
    #[serde(default)]
    pub at: BTreeMap<String, super::axes::Plain>,
    /// Whether the least of the runs that fit is ours, not the most.
    #[serde(default)]
    pub least: bool,
}

impl Study {
    /// Reads a study file.
    ///
    /// # Errors
    /// What is wrong with it, with its line and the remedy.
    pub fn read(file: &Path) -> Result<(Self, String), ConfigError> {
        let text = read_text(file, "name a study, such as experiments/batch-sizes.toml")?;
        Ok((Self::parse(&text, file)?, text))
    }

    /// Reads `text`, the content of `file`.
    ///
    /// # Errors
    /// As [`Study::read`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let study: Self =
            toml::from_str(text).map_err(|error| finding_of(&error, text, file, MANUAL))?;
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if study.name.is_empty() || study.name.len() > 64 || !study.name.chars().all(good) {
            return Err(Finding {
                what: format!("`name` is \"{}\"", study.name),
                place: place_of_key("name", text, file),
                remedy:
                    "use 1 to 64 letters, digits and hyphens: results go to a folder of this name"
                        .to_owned(),
            }
            .into());
        }
        Ok(study)
    }

    /// As it is with `--quick`.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.grid = self.quick.grid.over(&self.grid);
        self.measure = self.quick.measure.over(&self.measure);
        self.is_quick = true;
        self
    }
}
