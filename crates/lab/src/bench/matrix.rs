//! Every combination of choices that works, one after the other: does it commit, does it go on
//! with one replica dead for good, and how fast.
//!
//! Each has a fresh cluster of processes. The load is [`Counting`]: every answer is known
//! beforehand, and in the end, with the replica still dead, all counters are read back.

mod file;
mod only;
mod row;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_node::config::{Combination, Durability, LeaderName};
use quorate_node::testnet;

use super::{BenchError, count_on};
use crate::counting::{Counting, Interval, Size, Verdict};
use crate::local::{Fresh, LocalCluster, LocalError};

pub use file::open_rows;
pub use only::{Only, OnlyError};
pub use row::{Combined, Figures, MatrixRow, MatrixSettings};

/// How many replicas: the fewest that tolerate one.
const REPLICAS: usize = 4;
/// A load that leaves the cores to the replicas.
const SIZE: Size = Size { clients: 4, outstanding: 2 };
/// Load before anything is measured, at least: until then views are as long as the first time-out.
const WARM_UP: Duration = Duration::from_millis(300);
/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How combinations are measured.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The `quorate` program.
    pub program: PathBuf,
    /// Where the clusters' homes go, a folder each. It is removed with its row, unless that failed.
    pub folder: PathBuf,
    /// What a vote waits for.
    pub durability: Durability,
    /// How long all replicas are measured; twice as long it is with one dead.
    pub measured: Duration,
}

impl Matrix {
    /// What all rows are measured with.
    #[must_use]
    pub fn settings(&self) -> MatrixSettings {
        MatrixSettings {
            replicas: REPLICAS,
            durability: self.durability.name().to_owned(),
            in_flight: SIZE.commands(),
            seconds: self.measured.as_secs_f64(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
        }
    }

    /// Measures one combination. What went wrong is in the row.
    #[must_use]
    pub fn measure(&self, combination: Combination) -> MatrixRow {
        let mut row = MatrixRow::new(combination, self.settings());
        let folder = self.folder.join(folder_name(&combination));
        let measured = self.fill(&mut row, &folder);
        if let Err(error) = measured {
            // The row may be shown elsewhere, where nobody has this folder.
            row.failure = Some(error.to_string().replace(&format!("{}/", folder.display()), ""));
            row.kept = Some(folder);
            return row;
        }
        if let Err(source) = std::fs::remove_dir_all(&folder) {
            row.failure = Some(format!("its homes cannot be removed: {source}"));
            row.kept = Some(folder);
        }
        row
    }

    fn fill(&self, row: &mut MatrixRow, folder: &Path) -> Result<(), BenchError> {
        let combination = row.combination.0;
        let options = testnet::Options {
            chain: "matrix".to_owned(),
            combination,
            laboratory: combination.needs_laboratory(),
            durability: self.durability,
            ..testnet::Options::default()
        };
        let cluster = Fresh {
            program: &self.program,
            folder,
            replicas: REPLICAS,
            options,
            arguments: Vec::new(),
            own_arguments: BTreeMap::new(),
            network: None,
        };
        let began = Instant::now();
        cluster.run(|cluster, _| {
            let measured = self.measure_on(cluster, began, row);
            if measured.is_err() {
                keep_statuses(cluster);
            }
            measured
        })
    }

    fn measure_on(
        &self,
        cluster: &mut LocalCluster,
        began: Instant,
        row: &mut MatrixRow,
    ) -> Result<(), BenchError> {
        let (runtime, counting) = count_on(cluster, SIZE, PATIENCE)?;
        await_answers(&counting)?;
        row.start_ms = Some(ms(began.elapsed()));
        std::thread::sleep(WARM_UP);

        let _ = counting.interval();
        std::thread::sleep(self.measured);
        let all = note(&mut row.all, counting.interval());
        if all.goodput == 0.0 {
            return Err(BenchError::Stuck("nothing was committed with all replicas".to_owned()));
        }
        kill_for_good(cluster, row);
        let _ = counting.interval();
        self.measure_one_dead(&counting, &runtime, row)?;
        judge(&runtime.block_on(counting.end(PATIENCE))?)
    }

    /// From the kill on: a command that was submitted after it must be answered, and the time is
    /// not over before.
    fn measure_one_dead(
        &self,
        counting: &Counting,
        runtime: &tokio::runtime::Runtime,
        row: &mut MatrixRow,
    ) -> Result<(), BenchError> {
        let began = Instant::now();
        let first = runtime.block_on(async {
            let probe = counting.probe();
            tokio::time::timeout(PATIENCE, probe).await
        });
        if let Ok(answered) = first {
            row.recovery_ms = Some(ms(answered?));
        }
        std::thread::sleep((2 * self.measured).saturating_sub(began.elapsed()));
        note(&mut row.one_dead, counting.interval());
        match row.recovery_ms {
            Some(_) => Ok(()),
            None => Err(BenchError::Stuck(format!(
                "nothing that was submitted after the kill was committed in {PATIENCE:?}"
            ))),
        }
    }
}

/// Waits until every replica has answered every session.
fn await_answers(counting: &Counting) -> Result<(), BenchError> {
    let began = Instant::now();
    loop {
        let silent = counting.silent();
        if silent.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let what = format!("replicas {silent:?} have not answered");
            return Err(LocalError::Late { what, patience: PATIENCE }.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills the leader, or the last replica if nobody is known to lead or the leader is fixed.
fn kill_for_good(cluster: &mut LocalCluster, row: &mut MatrixRow) {
    let fixed = row.combination.0.leader == LeaderName::Fixed;
    let leader = cluster.leader();
    let chosen = leader.filter(|_| !fixed).unwrap_or(REPLICAS - 1);
    row.killed_led = Some(leader == Some(chosen));
    row.killed = Some(chosen);
    if fixed {
        row.note = Some(format!(
            "the leader is fixed and nobody takes its place: replica {chosen} was killed, not it"
        ));
    }
    cluster.kill(chosen);
}

/// Leaves beside each replica's log what it says about itself, now and a second later: whether its
/// views go on is the first thing to know.
fn keep_statuses(cluster: &LocalCluster) {
    for pause in [Duration::ZERO, Duration::from_secs(1)] {
        std::thread::sleep(pause);
        for id in cluster.up() {
            let Some((home, status)) = cluster.home(id).zip(cluster.status(id)) else { continue };
            let file = home.root().join("status.jsonl");
            // What failed is told in any case.
            if let Ok(mut file) = File::options().create(true).append(true).open(file) {
                let _ = writeln!(file, "{status}");
            }
        }
    }
}

fn judge(verdict: &Verdict) -> Result<(), BenchError> {
    if verdict.is_sound() && verdict.failed == 0 && verdict.ambiguous == 0 {
        return Ok(());
    }
    Err(BenchError::Wrong(format!(
        "of {} increments {} were lost, {} done twice, {} answered wrongly, {} failed, {} unknown",
        verdict.acknowledged,
        verdict.lost,
        verdict.duplicated,
        verdict.wrong,
        verdict.failed,
        verdict.ambiguous
    )))
}

fn note(place: &mut Option<Figures>, interval: Interval) -> Figures {
    *place.insert(Figures {
        seconds: interval.seconds,
        goodput: interval.acknowledged as f64 / interval.seconds.max(f64::MIN_POSITIVE),
        p50_ms: interval.p50_ms,
        p99_ms: interval.p99_ms,
        gap_ms: interval.gap_ms,
    })
}

/// The choices, one after the other: `hotstuff-fast-linear-fixed-ed25519`.
fn folder_name(combination: &Combination) -> String {
    // Where parts can be chosen, authentication is no choice.
    let Combination { protocol, votes, second_vote, pacemaker, leader, signatures, .. } =
        combination;
    let second = if *second_vote { "second-" } else { "" };
    format!("{protocol}-{votes}-{second}{pacemaker}-{leader}-{}", signatures.as_str())
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
