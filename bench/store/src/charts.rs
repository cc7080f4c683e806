//! Pictures of the rows.

use crate::engines::Failure;
use crate::report::{OURS, Results};
use crate::rows::{Figures, Step};
use quorate_plot::{Axis, Bar, Bars, Line, LinePoint, Lines};

/// Samples of a load that make one point: each alone is mostly noise.
const TOGETHER: usize = 5;

type Pictures = Vec<(String, String)>;

/// Each with what its file is called.
pub fn of(results: &Results) -> Result<Pictures, Failure> {
    let mut pictures = Pictures::new();
    for mix in ['A', 'B', 'C', 'F'] {
        let name = |what: &str| format!("{what}-{}", mix.to_ascii_lowercase());
        bars(&mut pictures, results, mix, name("operations"), "operations/s", &|one| {
            Some(one.rate())
        })?;
        bars(&mut pictures, results, mix, name("p99"), "99th percentile (µs)", &|one| one.p99_us)?;
        bars(
            &mut pictures,
            results,
            mix,
            name("processor"),
            "processor time (µs/operation)",
            &|one| Some(one.processor_us()),
        )?;
        bars(
            &mut pictures,
            results,
            mix,
            name("written"),
            "bytes written per byte changed",
            &|one| one.amplification(),
        )?;
    }
    footprint(&mut pictures, results)?;
    memory(&mut pictures, results)?;
    recovery(&mut pictures, results)?;
    loading(&mut pictures, results)?;
    tree(&mut pictures, results)?;
    Ok(pictures)
}

fn items(results: &Results) -> String {
    format!("{} items", quorate_plot::number(results.settings.items as f64))
}

fn bars(
    pictures: &mut Pictures,
    results: &Results,
    mix: char,
    name: String,
    label: &str,
    value: &dyn Fn(&Figures) -> Option<f64>,
) -> Result<(), Failure> {
    let mut bars = Vec::new();
    for cell in results.cells().into_iter().filter(|cell| cell.mix == mix) {
        for (number, engine) in results.engines.iter().enumerate() {
            let Some(figures) = results.of(engine, Step::Cell(cell)) else { continue };
            if let Some(middle) = value(figures) {
                let name = cell.to_string();
                let label = format!("{engine}, {}", name.get(2..).unwrap_or_default());
                let mut turns: Vec<f64> =
                    results.turns(engine, Step::Cell(cell)).into_iter().filter_map(value).collect();
                turns.sort_by(f64::total_cmp);
                let ends = turns.first().copied().zip(turns.last().copied());
                let range = ends.filter(|_| turns.len() > 1);
                bars.push(Bar { label, parts: vec![(number, middle)], range });
            }
        }
    }
    draw(pictures, name, format!("YCSB {mix}, {}", items(results)), label, bars, &[])
}

fn draw(
    pictures: &mut Pictures,
    name: String,
    title: String,
    label: &str,
    bars: Vec<Bar>,
    colours: &[&str],
) -> Result<(), Failure> {
    if bars.is_empty() {
        return Ok(());
    }
    let colours = colours.iter().map(ToString::to_string).collect();
    let svg = Bars { title, label: label.into(), bars, colours }.draw()?;
    pictures.push((name, svg));
    Ok(())
}

fn footprint(pictures: &mut Pictures, results: &Results) -> Result<(), Failure> {
    let mut bars = Vec::new();
    for engine in &results.engines {
        let rows = results.rows.iter().filter(|row| row.engine == *engine);
        let most = rows.map(|row| row.figures.disk_bytes).max().unwrap_or(0) as f64;
        let Some(load) = results.of(engine, Step::Load) else { continue };
        let percent = |bytes: f64| 100.0 * bytes / results.data_bytes();
        for (when, colour, bytes) in
            [("loaded", 0, load.disk_bytes as f64), ("at the most", 1, most)]
        {
            let parts = vec![(colour, percent(bytes))];
            bars.push(Bar { label: format!("{engine}, {when}"), parts, range: None });
        }
    }
    draw(
        pictures,
        "disk".into(),
        format!("Disk, {}", items(results)),
        "of keys and values (%)",
        bars,
        &[],
    )
}

fn memory(pictures: &mut Pictures, results: &Results) -> Result<(), Failure> {
    let mut bars = Vec::new();
    for engine in &results.engines {
        let rows = || results.rows.iter().filter(|row| row.engine == *engine);
        let most = |bytes: &dyn Fn(&Figures) -> u64| {
            rows().map(|row| bytes(&row.figures)).max().unwrap_or(0) as f64 / f64::from(1 << 20)
        };
        let own = most(&|figures| figures.memory.own_bytes);
        let mapped = most(&|figures| figures.memory.mapped_bytes);
        bars.push(Bar { label: (*engine).into(), parts: vec![(0, own), (1, mapped)], range: None });
    }
    let title = format!("Memory at the most, {}", items(results));
    draw(pictures, "memory".into(), title, "MiB", bars, &["its own", "mapped files"])
}

fn recovery(pictures: &mut Pictures, results: &Results) -> Result<(), Failure> {
    let bars = results.engines.iter().enumerate().filter_map(|(number, engine)| {
        let seconds = results.of(engine, Step::Recovery)?.passed.seconds;
        Some(Bar { label: (*engine).into(), parts: vec![(number, seconds)], range: None })
    });
    let title = format!("From kill -9 to the first read, {}", items(results));
    draw(pictures, "recovery".into(), title, "s", bars.collect(), &[])
}

/// Samples of the load that counted.
fn samples<'a>(results: &'a Results, engine: &'a str) -> Vec<&'a Figures> {
    let rows: Vec<_> = results.rows.iter().filter(|row| row.engine == engine).collect();
    let begun = rows.iter().rposition(|row| row.step == Step::Begin).unwrap_or(0);
    let samples = rows.into_iter().skip(begun).filter(|row| row.step == Step::Sample);
    samples.map(|row| &row.figures).collect()
}

fn loading(pictures: &mut Pictures, results: &Results) -> Result<(), Failure> {
    let rates = results.engines.iter().map(|engine| {
        let samples = samples(results, engine);
        let points = samples.chunks(TOGETHER).filter_map(|some| {
            let operations: u64 = some.iter().map(|one| one.operations).sum();
            let seconds: f64 = some.iter().map(|one| one.passed.seconds).sum();
            Some(point(some.last()?.items, operations as f64 / seconds.max(f64::MIN_POSITIVE)))
        });
        Line { label: (*engine).into(), points: points.collect() }
    });
    let title = format!("Loading {}, commits of 1,000", items(results));
    lines(pictures, results, "loading", title, "items/s", rates.collect())
}

fn tree(pictures: &mut Pictures, results: &Results) -> Result<(), Failure> {
    let of = |part: &dyn Fn([u64; 2]) -> u64, label: &str| {
        let points = samples(results, OURS).into_iter().filter_map(|one| {
            let data = one.items as f64 * results.data_bytes() / results.settings.items as f64;
            Some(point(one.items, 100.0 * part(one.tree_bytes?) as f64 / data))
        });
        Line { label: label.into(), points: points.collect() }
    };
    let parts = vec![
        of(&|[nodes, buckets]| nodes + buckets, "tree"),
        of(&|[nodes, _]| nodes, "nodes"),
        of(&|[_, buckets]| buckets, "buckets"),
    ];
    lines(
        pictures,
        results,
        "tree",
        "The tree while loading".into(),
        "of keys and values (%)",
        parts,
    )
}

fn point(items: u64, y: f64) -> LinePoint {
    LinePoint { x: items as f64, y, x_range: None, y_range: None }
}

fn lines(
    pictures: &mut Pictures,
    results: &Results,
    name: &str,
    title: String,
    label: &str,
    lines: Vec<Line>,
) -> Result<(), Failure> {
    let lines: Vec<Line> = lines.into_iter().filter(|line| line.points.len() > 1).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let high = lines.iter().flat_map(|line| &line.points).map(|at| at.y).fold(0.0, f64::max);
    let picture = Lines {
        title,
        x: Axis::until("items loaded", results.settings.items as f64, 5),
        y: Axis::from_zero(label, high, 6),
        lines,
        shaded: Vec::new(),
        shade: String::new(),
        marked: Vec::new(),
        mark: String::new(),
        dotted: false,
    };
    pictures.push((name.into(), picture.draw()?));
    Ok(())
}
