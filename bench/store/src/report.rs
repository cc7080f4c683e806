//! Tables and a file for other programs, from the rows.

use crate::charts;
use crate::engines::{Durable, Failure};
use crate::rows::{Cell, Figures, Row, Settings, Step, write as write_file};
use crate::workload::{KEY_BYTES, VALUE_BYTES};
use std::fmt::Write as _;
use std::path::Path;

pub const OURS: &str = "quorate";

/// The rows, looked up.
pub struct Results<'a> {
    pub settings: &'a Settings,
    pub engines: Vec<&'a str>,
    pub rows: &'a [Row],
}

/// Writes tables, a CSV file and pictures, and prints the tables.
pub fn write(
    settings: &Settings,
    engines: &[String],
    rows: &[Row],
    out: &Path,
) -> Result<(), Failure> {
    let engines = engines.iter().map(String::as_str);
    let engines = engines.filter(|engine| rows.iter().any(|row| row.engine == *engine)).collect();
    let results = Results { settings, engines, rows };
    let tables = results.tables();
    println!("{tables}");
    write_file(out.join("tables.md"), &tables)?;
    write_file(out.join("results.csv"), &results.csv())?;
    for (name, svg) in charts::of(&results)? {
        write_file(out.join(format!("{name}.svg")), &svg)?;
    }
    Ok(())
}

impl Results<'_> {
    /// Of several turns, the one whose operations/s are in the middle (of two, the slower).
    pub fn of(&self, engine: &str, step: Step) -> Option<&Figures> {
        let turns = self.turns(engine, step);
        turns.get(turns.len().saturating_sub(1) / 2).copied()
    }

    /// All turns, the slowest first.
    pub fn turns(&self, engine: &str, step: Step) -> Vec<&Figures> {
        let rows = self.rows.iter().filter(|row| row.engine == engine && row.step == step);
        let mut turns: Vec<&Figures> = rows.map(|row| &row.figures).collect();
        turns.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        turns
    }

    /// The workloads there are rows of, by name.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for row in self.rows {
            if let Step::Cell(cell) = row.step
                && !cells.contains(&cell)
            {
                cells.push(cell);
            }
        }
        cells.sort_by_key(|cell| (cell.mix, cell.spread as usize, cell.threads));
        cells
    }

    pub fn data_bytes(&self) -> f64 {
        self.settings.items as f64 * (KEY_BYTES + VALUE_BYTES) as f64
    }

    /// Of one engine, as far as it was measured, in order.
    fn figures<'b>(&'b self, engine: &'b str) -> impl Iterator<Item = &'b Figures> {
        self.rows
            .iter()
            .filter(move |row| row.engine == engine && row.step != Step::Begin)
            .map(|row| &row.figures)
    }

    fn tables(&self) -> String {
        let settings = self.settings;
        let durable = match settings.durable {
            Durable::Os => "the operating system has",
            Durable::Sync => "the disk has",
        };
        let mut text = format!(
            "{} items of {KEY_BYTES} + {VALUE_BYTES} bytes; a commit is {} that {durable}; {} s each, after half as long of reads{}\n\n",
            settings.items,
            if settings.batch == 1 {
                "a change".into()
            } else {
                format!("{} changes", settings.batch)
            },
            settings.seconds,
            if settings.turns > 1 {
                format!("; the middle of {} turns", settings.turns)
            } else {
                String::new()
            }
        );
        let by_cell =
            |text: &mut String, title: &str, value: &dyn Fn(&Figures) -> Option<String>| {
                self.by_cell(text, title, value);
            };
        by_cell(&mut text, "operations/s (processor µs an operation)", &|figures| {
            Some(format!("{:.0} ({:.2})", figures.rate(), figures.processor_us()))
        });
        self.missing(&mut text);
        if settings.turns > 1 {
            self.ranges(&mut text);
        }
        by_cell(&mut text, "99th percentile, µs", &|figures| {
            Some(format!("{:.1}", figures.p99_us?))
        });
        by_cell(&mut text, "bytes written per byte changed", &|figures| {
            Some(format!("{:.1}", figures.amplification()?))
        });
        by_cell(&mut text, "a cache line to another processor and back, ns", &|figures| {
            Some(format!("{:.0}", figures.round_trip_ns?))
        });
        self.footprints(&mut text);
        self.targets(&mut text);
        let most =
            self.rows.iter().map(|row| row.figures.passed.others_percent).fold(0.0, f64::max);
        let _ =
            writeln!(text, "Other processes had at most {most:.0} % of the processors in a step.");
        let cells = || self.rows.iter().filter(|row| matches!(row.step, Step::Cell(_)));
        let cold = cells().filter(|row| row.figures.warm == Some(false)).count();
        if cold > 0 {
            let _ = writeln!(
                text,
                "Before {cold} of {} workloads files were not read into the page cache first: those of all engines together would not fit.",
                cells().count()
            );
        }
        text
    }

    /// What was not measured as often as was asked for.
    fn missing(&self, text: &mut String) {
        for cell in self.cells() {
            for engine in &self.engines {
                let turns = self.turns(engine, Step::Cell(cell)).len();
                if (1..self.settings.turns).contains(&turns) {
                    let _ = writeln!(
                        text,
                        "{engine}, {cell}: {turns} of {} turns\n",
                        self.settings.turns
                    );
                }
            }
        }
    }

    /// From the slowest turn to the fastest.
    fn ranges(&self, text: &mut String) {
        let mut head = vec!["operations/s, slowest and fastest turn".to_owned()];
        head.extend(self.engines.iter().map(ToString::to_string));
        let of = |engine: &str, cell| {
            let turns = self.turns(engine, Step::Cell(cell));
            let (slowest, fastest) = turns.first().zip(turns.last()).filter(|_| turns.len() > 1)?;
            Some(format!("{:.0} – {:.0}", slowest.rate(), fastest.rate()))
        };
        let line = |cell: Cell| {
            let ranges = self.engines.iter().map(|engine| of(engine, cell).unwrap_or_default());
            std::iter::once(cell.to_string()).chain(ranges).collect()
        };
        let body: Vec<Vec<String>> = self.cells().into_iter().map(line).collect();
        if !body.is_empty() {
            table(text, &head, &body);
        }
    }

    fn by_cell(&self, text: &mut String, title: &str, value: &dyn Fn(&Figures) -> Option<String>) {
        let mut head = vec![title.to_owned()];
        head.extend(self.engines.iter().map(ToString::to_string));
        let body = self.cells().into_iter().map(|cell| {
            let mut line = vec![cell.to_string()];
            line.extend(self.engines.iter().map(|engine| {
                self.of(engine, Step::Cell(cell)).and_then(value).unwrap_or_default()
            }));
            line
        });
        let body: Vec<Vec<String>> =
            body.filter(|line| line[1..].iter().any(|cell| !cell.is_empty())).collect();
        if !body.is_empty() {
            table(text, &head, &body);
        }
    }

    fn footprints(&self, text: &mut String) {
        let head = [
            "",
            "load, items/s (µs)",
            "then settling, s",
            "written per byte",
            "disk, % of data",
            "at the most",
            "memory of its own, MiB",
            "mapped, MiB",
            "peak, MiB",
            "tree, % of data (nodes + buckets)",
            "settled, at the most",
            "with slots that wait",
            "recovery, s",
            "commits lost",
        ]
        .map(str::to_owned);
        let mut body = Vec::new();
        for engine in &self.engines {
            let Some(load) = self.of(engine, Step::Load) else { continue };
            let most = |value: &dyn Fn(&Figures) -> f64| {
                self.figures(engine).map(value).fold(0.0, f64::max)
            };
            let percent = |bytes: f64| 100.0 * bytes / self.data_bytes();
            let mib = |bytes: f64| format!("{:.0}", bytes / f64::from(1 << 20));
            let recovery = self.of(engine, Step::Recovery);
            let tree = load.tree_bytes.map(|bytes| bytes.map(|bytes| percent(bytes as f64)));
            let tree = tree.map(|[nodes, buckets]| {
                format!("{:.1} ({nodes:.1} + {buckets:.1})", nodes + buckets)
            });
            let tree_most = |settled| {
                let percent = self.tree_percent(engine, settled);
                percent.map_or_else(String::new, |percent| format!("{percent:.1}"))
            };
            body.push(vec![
                (*engine).to_owned(),
                format!("{:.0} ({:.2})", load.rate(), load.processor_us()),
                format!("{:.1}", load.settle_seconds),
                format!("{:.1}", load.amplification().unwrap_or(0.0)),
                format!("{:.0}", percent(load.disk_bytes as f64)),
                format!("{:.0}", percent(most(&|figures| figures.disk_bytes as f64))),
                mib(most(&|figures| figures.memory.own_bytes as f64)),
                mib(most(&|figures| figures.memory.mapped_bytes as f64)),
                mib(most(&|figures| figures.memory.peak_bytes as f64)),
                tree.unwrap_or_default(),
                tree_most(true),
                tree_most(false),
                recovery
                    .map_or_else(String::new, |figures| format!("{:.3}", figures.passed.seconds)),
                recovery.map_or_else(String::new, |figures| {
                    format!("{} of {}", figures.lost.unwrap_or(0), figures.operations)
                }),
            ]);
        }
        if !body.is_empty() {
            table(text, &head, &body);
        }
    }

    /// The most that the tree was of the data: when all was written out, or at any time, with the
    /// slots that wait for a checkpoint.
    fn tree_percent(&self, engine: &str, settled: bool) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| row.engine == engine);
        let rows = rows.filter(|row| !settled || matches!(row.step, Step::Load | Step::Cell(_)));
        rows.filter_map(|row| row.figures.tree_percent()).reduce(f64::max)
    }

    /// This store beside the others.
    fn targets(&self, text: &mut String) {
        let every: Vec<&str> = self.engines.iter().copied().filter(|one| *one != OURS).collect();
        let lmdb = ["lmdb", "lmdb-writemap"];
        let either = ["lmdb", "lmdb-writemap", "rocksdb"];
        if self.of(OURS, Step::Load).is_none() {
            return;
        }
        let head = [
            "this store",
            "A, of the best of RocksDB and LMDB",
            "reads, of LMDB",
            "of the best of all",
        ];
        let mut body = Vec::new();
        for cell in self.cells() {
            let of = |peers: &[&str], wanted: bool| {
                if wanted { self.ratio(cell, peers).unwrap_or_default() } else { String::new() }
            };
            body.push(vec![
                cell.to_string(),
                of(&either, cell.mix == 'A'),
                of(&lmdb, cell.mix == 'C'),
                of(&every, true),
            ]);
        }
        if !every.is_empty() {
            let _ = writeln!(
                text,
                "Ratios of operations/s (of processor time an operation, the other way round):\n"
            );
            table(text, &head.map(str::to_owned), &body);
        }
        self.verdicts(text, &either, &lmdb);
    }

    fn verdicts(&self, text: &mut String, either: &[&str], lmdb: &[&str]) {
        let least = |mix: char, peers: &[&str]| {
            let cells = self.cells().into_iter().filter(|cell| cell.mix == mix);
            cells.filter_map(|cell| Some(self.ratios(cell, peers)?.0)).reduce(f64::min)
        };
        let recovery = self.of(OURS, Step::Recovery).map(|figures| figures.passed.seconds);
        let mut body = Vec::new();
        let mut verdict =
            |target: &str, here: Option<f64>, unit: &str, holds: &dyn Fn(f64) -> bool| {
                if let Some(here) = here {
                    let word = if holds(here) { "holds" } else { "falls short" };
                    body.push(vec![target.to_owned(), format!("{here:.2}{unit}"), word.to_owned()]);
                }
            };
        let twice = |ratio: f64| ratio >= 2.0;
        verdict(
            "A at least 2 times the best of RocksDB and LMDB",
            least('A', &["lmdb", "rocksdb"]),
            "",
            &twice,
        );
        verdict("the same, LMDB with WRITE_MAP too", least('A', either), "", &twice);
        verdict("reads at least LMDB's", least('C', lmdb), "", &|ratio| ratio >= 1.0);
        verdict("recovery under 1 s", recovery, " s", &|seconds| seconds < 1.0);
        verdict("tree at most 12 % of the data", self.tree_percent(OURS, true), " %", &|percent| {
            percent <= 12.0
        });
        table(text, &["target", "here, at the worst", ""].map(str::to_owned), &body);
    }

    fn ratio(&self, cell: Cell, peers: &[&str]) -> Option<String> {
        let (rate, processor) = self.ratios(cell, peers)?;
        Some(format!("{rate:.2} ({processor:.2})"))
    }

    /// This store's operations/s of the best peer's, and the least processor time of a peer, of
    /// this store's.
    fn ratios(&self, cell: Cell, peers: &[&str]) -> Option<(f64, f64)> {
        let ours = self.of(OURS, Step::Cell(cell))?;
        let theirs = || peers.iter().filter_map(|peer| self.of(peer, Step::Cell(cell)));
        let rate = theirs().map(Figures::rate).reduce(f64::max)?;
        let processor = theirs().map(Figures::processor_us).reduce(f64::min)?;
        Some((ours.rate() / rate, processor / ours.processor_us()))
    }

    fn csv(&self) -> String {
        let mut text = "engine,step,workload,spread,threads,items,operations,changes,seconds,operations_per_second,p50_us,p99_us,\
                        processor_us,written_bytes,written_per_changed,settle_seconds,disk_bytes,own_bytes,mapped_bytes,peak_bytes,\
                        node_bytes,bucket_bytes,recovery_lost,others_percent,round_trip_ns,turn,warm\n"
            .to_owned();
        for (number, row) in self.rows.iter().enumerate() {
            if row.step == Step::Begin {
                continue;
            }
            let same = |other: &&Row| (&other.engine, other.step) == (&row.engine, row.step);
            let turn = match row.step {
                Step::Cell(_) => self.rows[..number].iter().filter(same).count().to_string(),
                _ => String::new(),
            };
            let one = &row.figures;
            let step = match row.step {
                Step::Cell(_) => "workload".to_owned(),
                Step::Sample => "loading".to_owned(),
                other => other.to_string(),
            };
            let (mix, spread, threads) = match row.step {
                Step::Cell(cell) => (
                    cell.mix.to_string(),
                    format!("{:?}", cell.spread).to_lowercase(),
                    cell.threads.to_string(),
                ),
                _ => <(String, String, String)>::default(),
            };
            let number =
                |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
            let tree =
                |at: usize| one.tree_bytes.map_or_else(String::new, |bytes| bytes[at].to_string());
            let fields = [
                row.engine.clone(),
                step,
                mix,
                spread,
                threads,
                one.items.to_string(),
                one.operations.to_string(),
                one.changes.to_string(),
                format!("{:.3}", one.passed.seconds),
                format!("{:.0}", one.rate()),
                number(one.p50_us),
                number(one.p99_us),
                format!("{:.3}", one.processor_us()),
                one.passed.written_bytes.to_string(),
                number(one.amplification()),
                format!("{:.3}", one.settle_seconds),
                one.disk_bytes.to_string(),
                one.memory.own_bytes.to_string(),
                one.memory.mapped_bytes.to_string(),
                one.memory.peak_bytes.to_string(),
                tree(0),
                tree(1),
                one.lost.map_or_else(String::new, |lost| lost.to_string()),
                format!("{:.1}", one.passed.others_percent),
                number(one.round_trip_ns),
                turn,
                one.warm.map_or_else(String::new, |warm| warm.to_string()),
            ];
            text.push_str(&fields.join(","));
            text.push('\n');
        }
        text
    }
}

impl Figures {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.passed.seconds.max(f64::MIN_POSITIVE)
    }

    pub fn processor_us(&self) -> f64 {
        self.passed.processor_seconds * 1e6 / self.operations.max(1) as f64
    }

    /// Bytes written per byte of keys and values changed.
    pub fn amplification(&self) -> Option<f64> {
        let changed = self.changes as f64 * (KEY_BYTES + VALUE_BYTES) as f64;
        (self.changes > 0).then(|| self.passed.written_bytes as f64 / changed)
    }

    /// This store's tree, of the data there was.
    pub fn tree_percent(&self) -> Option<f64> {
        let data = self.items.max(1) as f64 * (KEY_BYTES + VALUE_BYTES) as f64;
        self.tree_bytes.map(|bytes| 100.0 * bytes.iter().sum::<u64>() as f64 / data)
    }
}

fn table(text: &mut String, head: &[String], body: &[Vec<String>]) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    text.push_str(&line(head));
    text.push_str(&format!("|{}\n", "---|".repeat(head.len())));
    body.iter().for_each(|cells| text.push_str(&line(cells)));
    text.push('\n');
}
