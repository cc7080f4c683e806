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
        let single =
            tag.ends_with('/') || tag.starts_with(['!', '?']) || matches!(name, "meta" | "wbr");
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
        "7 of 8 runs: other processes took 1,010 – 4,010 cores",
        "<tr><td>protocol</td><td>",
        "<tr><td>pacemaker</td><td>timeout-certificates</td></tr>",
        "<tr><td>replicas</td><td>4</td></tr>",
        "<tr><td>payload</td><td>0B</td></tr>",
        "<tr><td>durability</td><td>sync</td></tr>",
        "<tr><td>signatures</td><td>ed25519</td></tr>",
        "<tr><td>batch</td><td>400</td></tr>",
        "<tr><td>keys</td><td>100,000</td></tr>",
        // 0 is no number of cores or commands, but the word for the usual one.
        "<tr><td>cores</td><td>usual</td></tr>",
        "<tr><td>frame</td><td>usual</td></tr>",
        "4 permutations, 8 of 8 runs (repeats asked for: 2)",
        "More is &lt;more&gt;.",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Permutations 0 and 1 are the fixed leader's; of the second both repeats are there.
    assert!(page.contains("2,005"), "ours beside the paper's");
    assert!(page.contains("2,005 ± 63.5"));
    assert!(page.contains("<td>1,000</td>"), "the rates");
    // 2005 for 12.
    assert!(page.contains("<td class=\"n\">167</td>"));
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
        "5 runs of version , commit abc; 1 run of version , commit other; 1 run of version , commit abc with \
         changes; 1 run of version , no commit known",
        "3 of 8 runs were measured with another program than the first",
        "2 of 8 runs were measured with changes that no commit holds, or without a commit",
        "the machine was not equally fast in all runs: a signature took 20.0 to 31.0 µs",
        "the machine's host took up to 0.5 cores of it for others",
        "This is the quick form of the study (<code>--quick</code>)",
        "The description above is of the full study.",
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
        "<tr><td>network, described</td><td>not set (“one”); preset lan (“two”)</td></tr>",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}

/// A study, and a row for each of its permutations, in order, with figures of its number.
fn made_up(text: &str, figures: fn(usize) -> Figures) -> (Study, Plan, Vec<Row>) {
    let study = Study::parse(text, Path::new("s.toml")).unwrap();
    let plan = Plan::new(&study, text, Path::new("s.toml")).unwrap();
    let (_, usual) = self::plan();
    let like = rows(&usual).swap_remove(1);
    let row = |(index, settings): (usize, &quorate_lab::experiment::Settings)| Row {
        settings: settings.clone(),
        figures: Some(figures(index)),
        ..like.clone()
    };
    let rows = plan.settings.iter().enumerate().map(row).collect();
    (study, plan, rows)
}

fn names_of(pictures: &[plot::Picture]) -> Vec<&str> {
    pictures.iter().map(|picture| picture.name.as_str()).collect()
}

fn svg_of<'a>(pictures: &'a [plot::Picture], name: &str) -> &'a str {
    let found = pictures.iter().find(|picture| picture.name == name);
    &found.unwrap_or_else(|| panic!("no {name} in {:?}", names_of(pictures))).svg
}

/// How often a picture has this text.
fn texts(svg: &str, text: &str) -> usize {
    svg.split("<text").filter(|part| part.contains(&format!("\n{text}\n"))).count()
}

/// The points of the lines of a colour.
fn paths<'a>(svg: &'a str, colour: &str) -> Vec<Vec<&'a str>> {
    let lines = svg.split("<polyline").skip(1).filter(|part| part.contains(colour));
    let points = lines.filter_map(|part| part.split("points=\"").nth(1)?.split('"').next());
    points.map(|points| points.split_whitespace().collect()).collect()
}

const BLUE: &str = "#0072B2";

const VARIANTS: &str = "name = \"v\"\ntitle = \"v\"\n\
    [measure]\nduration = \"4s\"\ninterval = \"1s\"\nrepeats = 1\n\
    [[variant]]\nname = \"one\"\n[[variant]]\nname = \"two\"\ngrid = { batch = 7 }\n";

/// Each variant has one bar and one line here: side by side they can be compared.
#[test]
fn variants_of_one_permutation_are_in_one_picture() {
    let (study, plan, rows) = made_up(VARIANTS, |index| figures(100.0 * (index + 1) as f64));
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    assert_eq!(
        names_of(&pictures),
        [
            "over-time-goodput",
            "cumulative-latency",
            "heat-map-one",
            "heat-map-two",
            "bars-goodput",
            "bars-memory-mib",
            "bars-stage-us"
        ]
    );
    for name in ["over-time-goodput", "bars-goodput"] {
        let svg = svg_of(&pictures, name);
        assert_eq!((texts(svg, "one"), texts(svg, "two")), (1, 1), "{name}");
    }
}

/// Two bars in one picture and a lone one in the other, of which the title alone would tell what it
/// is. Both have the same axis.
#[test]
fn a_lone_bar_has_a_name_and_bars_of_one_chart_the_same_axis() {
    let text = VARIANTS.replace("batch = 7", "batch = [7, 8]");
    let (study, plan, rows) = made_up(&text, |index| figures([100.0, 150.0, 400.0][index]));
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    let lone = svg_of(&pictures, "bars-goodput-one");
    assert_eq!(texts(lone, "one"), 1);
    for name in ["bars-goodput-one", "bars-goodput-two"] {
        assert_eq!(texts(svg_of(&pictures, name), "400"), 1 + usize::from(name.ends_with("two")));
    }
}

/// On a common axis, a tenth of the other would lie on the axis.
#[test]
fn a_picture_of_much_less_keeps_its_own_axis() {
    let text = VARIANTS.replace("batch = 7", "batch = [7, 8]");
    let (study, plan, rows) = made_up(&text, |index| figures([10.0, 1000.0, 900.0][index]));
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    // Goodput rises from 10 to 40, and from 1,000 to 4,000.
    let (less, more) =
        (svg_of(&pictures, "over-time-goodput-one"), svg_of(&pictures, "over-time-goodput-two"));
    assert_eq!((texts(less, "40"), texts(less, "4,000")), (1, 0));
    assert_eq!((texts(more, "40"), texts(more, "4,000")), (0, 1));
}

#[test]
fn stages_are_in_the_order_of_a_command_and_no_two_have_one_colour() {
    let (study, plan, rows) = made_up(VARIANTS, |_| {
        let stages = quorate_node::replica::profile::STAGES;
        let stage_us = stages.iter().map(|stage| ((*stage).to_owned(), 1.0)).collect();
        Figures { stage_us, ..figures(100.0) }
    });
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    let svg = svg_of(&pictures, "bars-stage-us");
    let places: Vec<usize> = quorate_node::replica::profile::STAGES
        .iter()
        .map(|stage| svg.find(&format!("\n{stage}\n")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    // The boxes of the legend come first.
    let colours: Vec<&str> = svg
        .split("<rect")
        .skip(2)
        .take(10)
        .map(|part| part.split("fill=\"").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    let different: std::collections::BTreeSet<&str> = colours.iter().copied().collect();
    assert_eq!(different.len(), 10, "{colours:?}");
    assert!(svg.contains("all threads, waiting included"));
}

#[test]
fn a_curve_of_latencies_begins_at_nothing() {
    let (study, plan, rows) =
        made_up(VARIANTS, |_| Figures { latencies: vec![(1000, 5)], ..figures(100.0) });
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    let lines = paths(svg_of(&pictures, "cumulative-latency"), BLUE);
    // The mark in the legend, and the curve of the one class: from 0 to all.
    assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    assert_ne!(lines[1][0], lines[1][1]);
}

#[test]
fn numbers_in_a_legend_are_in_order() {
    let text = "name = \"v\"\ntitle = \"v\"\n[measure]\nrepeats = 1\n\
        [grid]\nrate = [1000, 2000]\n\
        [[variant]]\nname = \"all\"\ngrid = { replicas = [1, 4, 10] }\n\
        [[variant]]\nname = \"few\"\ngrid = { replicas = [2, 7] }\n\
        [[chart]]\nkind = \"curve\"\nx = \"rate\"\nby = [\"replicas\"]\n";
    let (study, plan, rows) = made_up(text, |_| figures(100.0));
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    let svg = svg_of(&pictures, "curve");
    let places: Vec<usize> = [1, 2, 4, 7, 10]
        .iter()
        .map(|count| svg.find(&format!("\nreplicas {count}\n")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}

/// The last interval has 27 ms in which 100 commands came: 3,704 a second, for nobody. In the
/// second nothing was answered, so there is no latency to draw a line through.
#[test]
fn what_is_no_whole_interval_or_has_no_answer_is_not_drawn() {
    let (study, plan, rows) =
        made_up(&format!("{VARIANTS}[[chart]]\nkind = \"over-time\"\ny = \"p99_ms\"\n"), |_| {
            let interval = |at: u32| Interval {
                at: f64::from(at),
                seconds: if at == 5 { 0.027 } else { 0.7 },
                commands: if at == 1 { 0 } else { 100 },
                p99_ms: 3.0,
                max_ms: if at == 1 { 0.0 } else { 9.0 },
                ..Interval::default()
            };
            Figures { series: [0, 1, 2, 3, 5].map(interval).to_vec(), ..figures(100.0) }
        });
    let pictures = plot::pictures(&study, &plan, &rows).unwrap();
    let lengths = |name: &str| -> Vec<usize> {
        paths(svg_of(&pictures, name), BLUE).iter().map(Vec::len).collect()
    };
    // Each after the mark in the legend. The first interval stands alone, as a point.
    assert_eq!(lengths("over-time-goodput"), [2, 4]);
    assert_eq!(lengths("over-time-p99-ms"), [2, 1, 2]);
}

#[test]
fn what_these_runs_do_not_have_is_said_and_an_empty_column_left_out() {
    let source = "[[source]]\ndocument = \"d\"\nfigure = \"f\"\nsays = \"`x` is *more*.\"\n\
        [[source.number]]\nwhat = \"w\"\ntheirs = \"12\"\nfigure = \"goodput\"\nat = { batch = 9 }\n";
    let (study, plan, rows) = made_up(&format!("{VARIANTS}{source}"), |_| figures(100.0));
    let page = plot::page(&study, &plan, &rows, &[]);
    assert!(page.contains("<code>x</code> is <em>more</em>."));
    assert!(page.contains("<td class=\"n\">not in these runs</td></tr>"), "{page}");
    assert!(!page.contains("here : there"));
    let page = plot::page(&study, &plan, &rows[..1], &[]);
    assert!(page.contains("2 permutations, 1 of 2 runs") && page.contains("1 run of version"));
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
