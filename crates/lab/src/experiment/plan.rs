//! Which runs a study is made of, and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use quorate_core::base::membership::MAX_REPLICAS;
use quorate_netem::NetError;
use quorate_netem::topology::Description;
use quorate_node::config::{ConfigError, Finding};

use super::attack;
use super::axes::{AXES, Grid, Point};
use super::file::place_of_key;
use super::network::{self, Networks};
use super::row::Settings;
use super::study::{Measuring, Study, Variant};
use super::value::{Kill, Rate};
use crate::random::Random;

/// Most runs of a study.
const MAX_RUNS: usize = 100_000;
/// Most spans in which adversaries act in one run.
const MAX_SPANS: usize = 1000;

/// All runs of a study.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What each permutation is measured with, in the order of the file.
    pub settings: Vec<Settings>,
    /// How.
    pub measuring: Measuring,
    /// The runs in their random order: which permutation, and which repeat.
    pub runs: Vec<(usize, u32)>,
}

impl Plan {
    /// Of a study that was read from `text` in `file`.
    ///
    /// # Errors
    /// Every permutation that is impossible, and why.
    pub fn new(study: &Study, text: &str, file: &Path) -> Result<Self, ConfigError> {
        let measuring = study.measure.resolved();
        let mut findings = Vec::new();
        let mut wrong = |what: String, key: &str, remedy: &str| {
            let place = place_of_key(key, text, file);
            let finding = Finding { what, place, remedy: remedy.to_owned() };
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        };
        check_measuring(&measuring, &mut wrong);
        let networks = Networks::new(study, text, file);
        let (points, mut misplaced) = points(study, &networks);
        for point in &points {
            check(point, &measuring, &mut wrong);
        }
        let count = points.len().saturating_mul(measuring.repeats as usize);
        if count > MAX_RUNS {
            let what = format!("the study has {count} runs, more than {MAX_RUNS}");
            wrong(what, "repeats", "try fewer values, or repeat less often");
        }
        networks.check(&mut |finding| misplaced.push(finding));
        let mut settings: Vec<Settings> = Vec::with_capacity(points.len());
        for point in points {
            match networks.of(&point) {
                Ok(network) => settings.push(Settings::new(point, network, &measuring)),
                Err(finding) => misplaced.push(finding),
            }
        }
        for finding in misplaced {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        if !findings.is_empty() {
            return Err(ConfigError { findings });
        }
        let mut runs: Vec<(usize, u32)> = (0..measuring.repeats)
            .flat_map(|repeat| (0..settings.len()).map(move |index| (index, repeat)))
            .collect();
        Random(measuring.seed).shuffle(&mut runs);
        Ok(Self { settings, measuring, runs })
    }
}

impl Plan {
    /// Whether the networks that it asks for can be made on this machine, by making one.
    ///
    /// # Errors
    /// [`NetError`]: no privileges, no TUN device, no `ip`, ...
    pub fn try_network(&self) -> Result<(), NetError> {
        match self.settings.iter().any(|settings| settings.network.is_some()) {
            true => network::up(Some(&Description::of_preset("lan")), 1, 1).map(drop),
            false => Ok(()),
        }
    }

    /// The axes, and keys of `node.toml`, of which there is more than one value. What only tells
    /// variants apart is not among them: the variant's name says it.
    #[must_use]
    pub fn varying(&self) -> Vec<String> {
        let keys = self.settings.iter().flat_map(|settings| settings.point.set.keys().cloned());
        let keys: BTreeSet<String> = keys.collect();
        let names = AXES.iter().map(|axis| (*axis).to_owned()).chain(keys);
        let varies = |name: &String| {
            let mut values: BTreeMap<&str, BTreeSet<Option<String>>> = BTreeMap::new();
            for Settings { point, .. } in &self.settings {
                let variant = if name == "variant" { "" } else { point.variant.as_str() };
                values.entry(variant).or_default().insert(point.text(name));
            }
            values.values().any(|values| values.len() > 1)
        };
        names.filter(varies).collect()
    }
}

/// All permutations, and those whose networks are named and described.
fn points(study: &Study, networks: &Networks<'_>) -> (Vec<Point>, Vec<Finding>) {
    let nothing = Variant { name: String::new(), grid: Grid::default() };
    let variants = match study.variant.is_empty() {
        true => std::slice::from_ref(&nothing),
        false => &study.variant,
    };
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for variant in variants {
        let grid = variant.grid.over(&study.grid);
        for mut point in grid.points() {
            point.variant.clone_from(&variant.name);
            wrong.extend(networks.settle(&mut point, grid.network.is_some()).err());
            all.push(point);
        }
    }
    (all, wrong)
}

fn check_measuring(measuring: &Measuring, wrong: &mut impl FnMut(String, &str, &str)) {
    let Measuring { duration, interval, repeats, .. } = measuring;
    if *repeats == 0 {
        wrong(
            "`repeats` is 0".to_owned(),
            "repeats",
            "ask for at least one; five give a useful range",
        );
    }
    if *interval < Duration::from_millis(10) || interval > duration {
        let what = format!("`interval` is {interval:?}, and `duration` {duration:?}");
        wrong(what, "interval", "make it at least 10ms and at most the duration");
    }
    let intervals = duration.as_nanos() / interval.as_nanos().max(1);
    if intervals > 100_000 {
        let what = format!("a run of {duration:?} has {intervals} intervals");
        wrong(what, "interval", "make it longer: at most 100000 of them are kept");
    }
}

fn check(point: &Point, measuring: &Measuring, wrong: &mut impl FnMut(String, &str, &str)) {
    let n = point.replicas;
    if !(1..=MAX_REPLICAS).contains(&n) {
        let what = format!("a cluster of {n} replicas cannot be made");
        return wrong(what, "replicas", &format!("ask for 1 to {MAX_REPLICAS} replicas"));
    }
    for rule in point.combination().refused() {
        wrong(rule.reason.to_owned(), rule.key, rule.remedy);
    }
    check_faults(point, measuring, wrong);
    if usize::from(point.fixed_leader) >= n {
        let what = format!("`fixed_leader` is {}, but there are {n} replicas", point.fixed_leader);
        wrong(what, "fixed_leader", "name one of the replicas; their ids begin at 0");
    }
    if point.client_processes == 0 || point.clients < point.client_processes {
        let what = format!(
            "{} clients do not go into {} processes",
            point.clients, point.client_processes
        );
        wrong(what, "client_processes", "have at least one client a process");
    }
    if point.batch == 0 {
        wrong("`batch` is 0".to_owned(), "batch", "a block must hold a command: at least 1");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if point.cores > cores {
        let what = format!("`cores` is {}, and this machine has {cores}", point.cores);
        wrong(what, "cores", "try fewer, or run it elsewhere");
    }
    if point.arrivals != super::value::ArrivalName::Even && point.rate == Rate::Closed {
        let what =
            "`arrivals` is set, but `rate` is \"closed\": nothing arrives by itself".to_owned();
        wrong(what, "arrivals", "set a rate, or leave out arrivals");
    }
}

fn check_faults(point: &Point, measuring: &Measuring, wrong: &mut impl FnMut(String, &str, &str)) {
    let (n, f) = (point.replicas, point.tolerated());
    let liars = point.liars().len();
    let killed = usize::from(point.kill.0 != Kill::None);
    let attacked = point.adversary.0.0.is_some();
    if attacked && liars == 0 {
        let what = format!("{n} replicas tolerate 0 Byzantine ones, and `adversary` makes one");
        wrong(what, "adversary", "have at least 4 replicas");
    }
    if liars + killed > f && (liars + killed) > 0 && !(attacked && liars == 0) {
        let what = format!(
            "{n} replicas tolerate {f} faulty ones, and {} are asked for ({liars} Byzantine, {killed} killed)",
            liars + killed
        );
        let key = match (liars, point.liars) {
            (0, _) => "kill",
            (_, 0) => "adversary",
            _ => "liars",
        };
        wrong(what, key, &format!("have at least {} replicas", 3 * (liars + killed) + 1));
    }
    if let Kill::Replica(id, _) = point.kill.0
        && usize::from(id) >= n
    {
        let what = format!("`kill` names replica {id} of {n}");
        wrong(what, "kill", "ids begin at 0");
    }
    if let Kill::Replica(_, at) | Kill::Leader(at) = point.kill.0
        && at.0 >= measuring.duration
    {
        let what = format!("`kill` is at {at}, when nothing is measured any more");
        wrong(what, "kill", "make `duration` longer, or kill earlier");
    }
    if let Some(schedule) = &point.adversary.0.0 {
        let spans = attack::spans(schedule, measuring.duration);
        if spans.is_empty() || spans.len() > MAX_SPANS {
            let what =
                format!("\"{schedule}\" acts {} times in {:?}", spans.len(), measuring.duration);
            wrong(what, "adversary", "let it act at least once, and at most a thousand times");
        }
    }
}
