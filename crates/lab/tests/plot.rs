//! Pictures and the page, of results that are made up.

use std::collections::BTreeMap;
use std::path::Path;

use quorate_lab::experiment::{
    Context, Estimate, Figures, KeepError, Plan, Row, Samples, Study, Under, keep, read, runs_csv,
};
use quorate_lab::load::{Distribution, Interval, LoadReport};
use quorate_lab::plot;

const STUDY: &str = r#"
name = "made-up"
title = "A <study> & its \"title\""
about = "One.\n\nTwo."
[grid]
leader = ["fixed", "reputation"]
rate = [1000, 2000]
replicas = 4
adversary = "silent-leader@1s..2s"
[measure]
duration = "4s"
interval = "1s"
repeats = 2
[[chart]]
kind = "over-time"
y = "timeouts_total"
by = ["leader"]
panels = ["rate"]
[[chart]]
kind = "over-time"
y = "p99_ms"
logarithmic = true
[[chart]]
kind = "curve"
x = "rate"
y = "goodput"
[[source]]
document = "a paper"
figure = "figure 1"
says = "More is <more>."
[[source.number]]
what = "most"
theirs = "12"
figure = "goodput"
at = { leader = "fixed" }
"#;

fn plan() -> (Study, Plan) {
    let study = Study::parse(STUDY, Path::new("study.toml")).unwrap();
    let plan = Plan::new(&study, STUDY, Path::new("study.toml")).unwrap();
    (study, plan)
}

fn figures(goodput: f64) -> Figures {
    let interval = |at: u32| Interval {
        at: f64::from(at),
        seconds: 1.0,
        commands: (goodput * f64::from(at + 1)) as u64,
        p50_ms: 1.5,
        p90_ms: 2.0,
        p99_ms: 3.0 * f64::from(at),
        max_ms: 9.0,
    };
    let at: Vec<f64> = (0..5).map(f64::from).collect();
    let timeouts: Vec<f64> = at.iter().map(|at| at * 10.0).collect();
    Figures {
        throughput: goodput * 1.1,
        goodput,
        p50_ms: 1.5,
        under: vec![Under { adversary: "silent-leader".into(), from: 1.0, to: 2.0 }],
        stage_us: BTreeMap::from([("step".to_owned(), 0.5), ("execute".to_owned(), 1.5)]),
        memory_mib: 20.0,
        series: (0..4).map(interval).collect(),
        samples: Samples { at, values: BTreeMap::from([("timeouts_total".to_owned(), timeouts)]) },
        latencies: vec![(1000, 5), (2000, 15)],
        latencies_over_time: vec![
            vec![(1000, 2)],
            vec![(1000, 3), (2000, 5)],
            vec![],
            vec![(2000, 10)],
        ],
        warnings: vec![format!("other processes took {goodput} cores")],
        ..Figures::default()
    }
}

fn rows(plan: &Plan) -> Vec<Row> {
    let row = |(index, settings): (usize, &quorate_lab::experiment::Settings), repeat: u32| Row {
        settings: settings.clone(),
        repeat,
        seed: 1,
        began: 0,
        context: Context { commit: "abc".into(), cores: 2, ..Context::default() },
        load_before: Some([0.5, 0.1, 0.1]),
        foreign_cores: Some(0.25),
        stolen_cores: Some(0.125),
        signature_us: Some(20.0),
        figures: Some(figures(1000.0 * (index + 1) as f64 + 10.0 * f64::from(repeat))),
        failure: None,
        kept: None,
    };
    let mut rows: Vec<Row> =
        plan.settings.iter().enumerate().flat_map(|one| [row(one, 0), row(one, 1)]).collect();
    rows[0].figures = None;
    rows[0].failure = Some("<it> broke".to_owned());
    rows
}

/// Each tag is closed, by one that fits.
fn well_formed(markup: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in markup.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("no end: <{part}"));
        let name = tag.split([' ', '\n', '/']).find(|name| !name.is_empty()).unwrap_or_default();
        let single = tag.ends_with('/') || tag.starts_with(['!', '?']) || name == "meta";
        match (tag.starts_with('/'), single) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
    }
    assert_eq!(open, [] as [&str; 0]);
}

#[test]
fn pictures_are_whole_and_show_what_was_asked_for() {
    let (study, plan) = plan();
    let pictures = plot::pictures(&study, &plan, &rows(&plan)).unwrap();
    let names: Vec<&str> = pictures.iter().map(|picture| picture.name.as_str()).collect();
    for name in [
        "over-time-timeouts-total-rate-1000",
        "over-time-timeouts-total-rate-2000",
        "over-time-p99-ms",
        "curve-goodput",
        "over-time-goodput",
        "cumulative-latency",
        "heat-map-fixed--rate-1000",
        "bars-goodput",
        "bars-memory-mib",
        "bars-stage-us",
    ] {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    for (index, picture) in pictures.iter().enumerate() {
        well_formed(&picture.svg);
        assert!(!names[..index].contains(&picture.name.as_str()), "{} twice", picture.name);
        assert!(!picture.svg.contains("NaN") && !picture.svg.contains("inf"), "{}", picture.name);
        assert!(picture.svg.contains("<text"), "{}", picture.name);
    }
    let of = |name: &str| &pictures.iter().find(|picture| picture.name == name).unwrap().svg;
    assert!(of("over-time-goodput").contains("under attack"));
    assert!(of("over-time-goodput").contains("goodput (commands/s)"));
    assert!(of("bars-stage-us").contains("execute"));
}

#[test]
fn the_page_needs_nothing_else() {
    let (study, plan) = plan();
    let rows = rows(&plan);
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    let page = plot::page(&study, &plan, &rows, &pictures);
    well_formed(&page);
    for never in ["src=", "href=", "@import", "url(", "<script"] {
        assert!(!page.contains(never), "{never}");
    }
    let links: Vec<_> = page.match_indices("http").collect();
    let namespaces = page.match_indices("http://www.w3.org/2000/svg").count();
    assert_eq!(links.len(), namespaces);
    for words in [
        "A &lt;study&gt; &amp; its &quot;title&quot;",
        "&lt;it&gt; broke",
        "95 % confidence",
        "8 runs of version , commit abc",
        "0.25 cores",
        "7 of 8 runs: other processes took 1010 – 4010 cores",
        "<tr><td>protocol</td><td>",
        "<tr><td>pacemaker</td><td>timeout-certificates</td></tr>",
        "<tr><td>replicas</td><td>4</td></tr>",
        "<tr><td>payload</td><td>0B</td></tr>",
        "<tr><td>durability</td><td>sync</td></tr>",
        "<tr><td>signatures</td><td>ed25519</td></tr>",
        "<tr><td>cores</td><td>0</td></tr>",
        "4 permutations, 8 of 8 runs (repeats asked for: 2)",
        "More is &lt;more&gt;.",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Permutations 0 and 1 are the fixed leader's; of the second both repeats are there.
    assert!(page.contains("2,005"), "ours beside the paper's");
    assert!(page.contains("2005 ± 64"));
    // 2005 for 12.
    assert!(page.contains("<td class=\"n\">167.08</td>"));
    // What varies is in the table of figures.
    assert!(!page.contains("<tr><td>leader</td>") && page.contains("<th>leader</th>"));
    assert!(!page.contains("--quick") && !page.contains("another program"));
}

#[test]
fn the_page_tells_what_makes_a_study_doubtful_as_a_whole() {
    let (study, plan) = plan();
    let mut rows = rows(&plan);
    rows[1].context.commit = "other".to_owned();
    rows[2].context.commit = "abc+".to_owned();
    rows[3].context.commit = String::new();
    (rows[4].signature_us, rows[5].stolen_cores) = (Some(31.0), Some(0.5));
    let page = plot::page(&study.quick(), &plan, &rows, &[]);
    for words in [
        "5 runs of version , commit abc; 1 runs of version , commit other; 1 runs of version , commit abc with \
         changes; 1 runs of version , no commit known",
        "3 of 8 runs were measured with another program than the first",
        "2 of 8 runs were measured with changes that no commit holds, or without a commit",
        "the machine was not equally fast in all runs: a signature took 20 to 31 µs",
        "the machine's host took up to 0.50 cores of it for others",
        "This is the quick form of the study (<code>--quick</code>)",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}

#[test]
fn what_tells_variants_apart_is_on_the_page() {
    let text = "name = \"v\"\ntitle = \"v\"\n[grid]\nrate = [1, 2]\n\
        [[variant]]\nname = \"one\"\ngrid = { batch = 7, set.\"log.level\" = \"warn\" }\n\
        [[variant]]\nname = \"two\"\ngrid = { network = \"lan\" }\n";
    let file = Path::new("study.toml");
    let study = Study::parse(text, file).unwrap();
    let plan = Plan::new(&study, text, file).unwrap();
    let page = plot::page(&study, &plan, &[], &[]);
    for words in [
        "<tr><td>batch</td><td>7 (“one”); 400 (“two”)</td></tr>",
        "<tr><td>log.level</td><td>warn (“one”); not set (“two”)</td></tr>",
        "<tr><td>network</td><td>loopback (“one”); lan (“two”)</td></tr>",
        "<tr><td>network, described</td><td>not set (“one”); {&quot;preset&quot;:&quot;lan&quot;",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}

#[test]
fn what_is_kept_of_a_study_draws_every_picture_again() {
    let (study, plan) = plan();
    let mut rows = rows(&plan);
    rows.iter_mut().for_each(|row| row.context.program = "p".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("kept");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(to.join("old.svg"), "old").unwrap();
    std::fs::write(to.join("other.csv"), "other").unwrap();
    keep(&study, STUDY, &plan, &rows, &to).unwrap();
    let (again, text) = Study::read(&to.join("study.toml")).unwrap();
    assert_eq!((&again, text.as_str()), (&study, STUDY));
    let kept = read(&to, &plan).unwrap();
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    assert_eq!(plot::pictures(&study, &plan, &kept).unwrap(), pictures);
    for picture in &pictures {
        let svg = std::fs::read_to_string(to.join(format!("{}.svg", picture.name))).unwrap();
        assert_eq!(svg, picture.svg);
    }
    assert_eq!(std::fs::read_to_string(to.join("runs.csv")).unwrap(), runs_csv(&rows));
    assert!(!to.join("old.svg").exists() && to.join("other.csv").exists());
    // Heat maps show the first repeat that went well; of the others the intervals' latencies are
    // not kept.
    let over_time = |row: &Row| row.figures.as_ref().map(|one| one.latencies_over_time.len());
    let lengths: Vec<Option<usize>> = kept.iter().map(over_time).collect();
    assert_eq!(
        lengths,
        [None, Some(4), Some(4), Some(0), Some(4), Some(0), Some(4), Some(0)],
        "the first run of the first permutation failed"
    );
    // Kept again, there is one row a run still.
    keep(&study, STUDY, &plan, &rows, &to).unwrap();
    assert_eq!(read(&to, &plan).unwrap(), kept);

    let quick = study.clone().quick();
    assert!(matches!(keep(&quick, STUDY, &plan, &rows, &to), Err(KeepError::Quick)));
    assert!(matches!(keep(&study, STUDY, &plan, &[], &to), Err(KeepError::Empty)));
    rows[5].context.program = "q".to_owned();
    assert!(matches!(keep(&study, STUDY, &plan, &rows, &to), Err(KeepError::Mixed(..))));
    assert_eq!(read(&to, &plan).unwrap(), kept);
}

#[test]
fn before_under_and_after_an_attack_are_told_apart() {
    let figures = figures(100.0);
    assert_eq!(figures.number("goodput_before"), Some(100.0));
    assert_eq!(figures.number("goodput_under"), Some(200.0));
    assert_eq!(figures.number("goodput_after"), Some(350.0));
    assert_eq!(figures.number("stage_us.execute"), Some(1.5));
    assert_eq!((figures.number("goodput_now"), figures.number("nothing")), (None, None));
    let calm = Figures { under: Vec::new(), ..figures };
    assert_eq!(calm.number("goodput_before"), None);
    assert_eq!(Estimate::of(&[1.0, 3.0]).unwrap().mean, 2.0);
}

#[test]
fn what_several_processes_counted_is_one_report() {
    let report = |counts: &[(u64, u64)], warning: &str| {
        let counts = quorate_lab::load::Counts(counts.to_vec());
        let commands = counts.0.iter().map(|(_, count)| count).sum();
        LoadReport {
            clients: 2,
            rate: Some(10.0),
            seconds: 1.0,
            submitted: commands,
            commands,
            goodput: commands as f64,
            generator_us: Some(2.0),
            series: vec![Interval { at: 0.0, seconds: 1.0, commands, ..Interval::default() }],
            warnings: vec![warning.to_owned()],
            distribution: Distribution { whole: counts.clone(), intervals: vec![counts] },
            ..LoadReport::default()
        }
    };
    let (a, b) = (report(&[(1000, 98)], "same"), report(&[(50_000, 2)], "same"));
    let both = LoadReport::together(&[a, b]).unwrap();
    assert_eq!((both.clients, both.rate, both.commands), (4, Some(20.0), 100));
    assert_eq!((both.goodput, both.generator_us), (100.0, Some(2.0)));
    assert!((both.p50_ms - 1.0).abs() < 0.01 && (both.max_ms - 50.0).abs() < 0.1, "{both:?}");
    assert!((both.p99_ms - 50.0).abs() < 0.1, "{both:?}");
    assert_eq!((both.series.len(), both.series[0].commands), (1, 100));
    assert!((both.series[0].max_ms - 50.0).abs() < 0.1);
    assert_eq!(both.warnings, ["same"]);
    assert_eq!(LoadReport::together(&[]), None);
}
