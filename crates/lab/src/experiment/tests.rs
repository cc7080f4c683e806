use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate_adversary::Schedule;
use quorate_node::config::Place;

use super::*;

const FILE: &str = "study.toml";

fn study(text: &str) -> Study {
    Study::parse(text, Path::new(FILE)).unwrap()
}

fn plan(text: &str) -> Plan {
    Plan::new(&study(text), text, Path::new(FILE)).unwrap()
}

const HEAD: &str = "name = \"a\"\ntitle = \"A\"\n";

/// What is wrong with a study of this head and `text`: the line, the words, the remedy.
fn refused(text: &str) -> (usize, String, String) {
    let text = format!("{HEAD}{text}");
    let error = match Study::parse(&text, Path::new(FILE)) {
        Err(error) => error,
        Ok(study) => Plan::new(&study, &text, Path::new(FILE)).unwrap_err(),
    };
    let finding = &error.findings[0];
    let Place::Line { file, line } = &finding.place else { panic!("{finding} names no line") };
    assert_eq!(file, Path::new(FILE));
    (*line, finding.what.clone(), finding.remedy.clone())
}

#[test]
fn a_list_is_tried_value_by_value_and_axes_multiply() {
    let text = format!(
        "{HEAD}[grid]\nleader = [\"fixed\", \"reputation\"]\nbatch = [1, 10, 100]\npayload = \"1KiB\"\n\
         rate = [\"closed\", 1000]\nset.\"view_timeout.base\" = [\"300ms\", \"1s\"]\n[measure]\nrepeats = 5"
    );
    let plan = plan(&text);
    assert_eq!(plan.settings.len(), 2 * 3 * 2 * 2);
    assert_eq!(plan.varying(), ["leader", "batch", "rate", "view_timeout.base"]);
    assert!(plan.settings.iter().all(|one| one.point.payload.0.0 == 1024));
    for (index, one) in plan.settings.iter().enumerate() {
        assert!(!plan.settings[..index].contains(one));
    }
    let mut runs = plan.runs.clone();
    assert!(!runs.is_sorted(), "the order is the file's");
    runs.sort_unstable();
    let every: Vec<(usize, u32)> =
        (0..24).flat_map(|at| (0..5).map(move |turn| (at, turn))).collect();
    assert_eq!(runs, every);
}

#[test]
fn the_order_follows_from_the_seed() {
    let with = |seed: u64| {
        plan(&format!("{HEAD}[grid]\nbatch = [1, 2, 3, 4, 5, 6, 7, 8]\n[measure]\nseed = {seed}"))
            .runs
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn a_variant_says_in_what_it_differs_and_quick_what_is_less() {
    let text = format!(
        "{HEAD}[grid]\nbatch = [1, 2]\nreplicas = 7\n[[variant]]\nname = \"x\"\n[[variant]]\nname = \"y\"\n\
         grid.replicas = [4, 10]\n[quick]\ngrid.batch = 1\nmeasure.repeats = 1"
    );
    let full = plan(&text);
    let shown = |plan: &Plan| -> Vec<(String, u32, usize)> {
        let point = |one: &Settings| {
            let point = &one.point;
            (point.variant.clone(), point.batch, point.replicas)
        };
        plan.settings.iter().map(point).collect()
    };
    let named = |name: &str, batch: u32, replicas: usize| (name.to_owned(), batch, replicas);
    assert_eq!(
        shown(&full),
        [
            named("x", 1, 7),
            named("x", 2, 7),
            named("y", 1, 4),
            named("y", 2, 4),
            named("y", 1, 10),
            named("y", 2, 10)
        ]
    );
    assert_eq!(full.varying(), ["variant", "replicas", "batch"]);
    let quick = Plan::new(&study(&text).quick(), &text, Path::new(FILE)).unwrap();
    assert_eq!(shown(&quick), [named("x", 1, 7), named("y", 1, 4), named("y", 1, 10)]);
    assert_eq!((full.runs.len(), quick.runs.len()), (6 * 3, 3));
}

#[test]
fn what_is_wrong_with_a_file_names_the_line_and_the_remedy() {
    let (line, what, remedy) = refused("\n[grid]\nleeder = \"fixed\"");
    assert_eq!((line, what.as_str()), (5, "there is no key `leeder`"));
    assert!(remedy.starts_with("did you mean `leader`?"), "{remedy}");

    let (line, what, _) = refused("[grid]\nbatch = 1\nleader = [\"fixed\", \"me\"]");
    assert_eq!(line, 5);
    assert!(
        what.starts_with("`leader`: there is no \"me\": expected one of round-robin"),
        "{what}"
    );

    let (line, what, _) = refused("[grid]\nadversary = \"quiet-leader@1s..2s\"");
    assert_eq!(line, 4);
    assert!(what.contains("no such adversary"), "{what}");

    for (text, says) in [
        ("[grid]\nbatch = []", "the list is empty"),
        ("[grid]\nbatch = -1", "invalid value"),
        ("[grid]\ntransport = \"dtls\"", "there is no \"dtls\": expected one of tcp, quic, udp"),
        ("[grid]\nrate = 0", "above 0"),
        ("[grid]\npayload = \"1 kB\"", "\"1 kB\": expected a whole number and a unit"),
        ("[grid]\nkill = \"now\"", "leader@5s"),
        ("[measure]\nduration = 5", "invalid type"),
        ("[grid]\nbatch = 1\nbatch = 2", "duplicate"),
        ("[[chart]]\nkind = \"pie\"", "unknown variant"),
        ("[grid", "unclosed table"),
    ] {
        let (_, what, _) = refused(text);
        assert!(what.contains(says), "{text}: {what}");
    }
    let text = "name = \"a b\"\ntitle = \"\"";
    let error = Study::parse(text, Path::new(FILE)).unwrap_err();
    assert!(error.findings[0].what.contains("\"a b\""), "{error}");
}

#[test]
fn impossible_permutations_are_refused_with_their_line() {
    for (text, line, says, remedy) in [
        (
            "[grid]\nreplicas = 3\nliars = 1\nadversary = \"silent-leader\"",
            5,
            "3 replicas tolerate 0 faulty ones, and 1 are asked for",
            "have at least 4 replicas",
        ),
        (
            "[grid]\nreplicas = [4, 7]\nkill = \"leader@1s\"\nadversary = \"silent-leader\"",
            6,
            "4 replicas tolerate 1 faulty ones, and 2 are asked for (1 Byzantine, 1 killed)",
            "have at least 7 replicas",
        ),
        ("[grid]\nreplicas = 0", 4, "a cluster of 0 replicas", "ask for 1 to"),
        ("[grid]\nkill = \"4@1s\"", 4, "`kill` names replica 4 of 4", "ids begin at 0"),
        ("[grid]\nkill = \"leader@1h\"", 4, "nothing is measured any more", "kill earlier"),
        ("[grid]\nleader = \"carousel\"\nsignatures = \"bls12-381-threshold\"", 4, "threshold", ""),
        ("[grid]\nsecond_vote = true", 4, "second_vote", ""),
        ("[grid]\ncores = 100000", 4, "`cores` is 100000, and this machine has", "try fewer"),
        ("[grid]\narrivals = \"poisson\"", 4, "nothing arrives by itself", "set a rate"),
        ("[grid]\nclients = 1\nclient_processes = 2", 5, "do not go into 2 processes", ""),
        ("[measure]\nrepeats = 0", 4, "`repeats` is 0", "at least one"),
        ("[measure]\ninterval = \"1h\"", 4, "`interval`", "at most the duration"),
        ("[grid]\nadversary = \"silent-leader@30s..\"", 4, "acts 0 times", "at least once"),
    ] {
        let (found, what, said) = refused(text);
        assert!(what.contains(says), "{text}: {what}");
        assert!(said.contains(remedy), "{text}: {said}");
        assert_eq!(found, line, "{text}");
    }
}

#[test]
fn a_network_is_named_in_the_grid_or_described_for_all() {
    let text = format!(
        "{HEAD}[grid]\nnetwork = [\"loopback\", \"lan\", \"slow\"]\n\
         [networks.slow]\nrtt_ms = [[0, 20], [20, 0]]\nlink = \"loss=1%\"\n[networks.other]\npreset = \"lan\""
    );
    let compared = plan(&text);
    assert_eq!(compared.varying(), ["network"]);
    let networks: Vec<_> = compared.settings.iter().map(|one| one.network.clone()).collect();
    assert_eq!(networks[0], None);
    assert_eq!(networks[1].as_ref().unwrap().preset.as_deref(), Some("lan"));
    assert_eq!(networks[2].as_ref().unwrap().link.as_deref(), Some("loss=1%"));
    // The same name with another description is another run.
    let other = plan(&text.replace("loss=1%", "loss=2%"));
    assert_eq!(other.settings[1], compared.settings[1]);
    assert_ne!(other.settings[2], compared.settings[2]);

    let named = |network: &str| {
        let plan = plan(&format!("{HEAD}[network]\n{network}"));
        (plan.settings[0].point.network.0.clone(), plan.settings[0].network.is_some())
    };
    assert_eq!(named("preset = \"lan\""), ("lan".to_owned(), true));
    assert_eq!(named("preset = \"lan\"\nclients = \"near\""), ("[network]".to_owned(), true));
    assert_eq!(plan(HEAD).settings[0].network, None);
    // Rows of before there were networks are those of the loopback interface.
    let mut row = serde_json::to_value(&plan(HEAD).settings[0]).unwrap();
    row["point"].as_object_mut().unwrap().remove("network");
    assert_eq!(serde_json::from_value::<Settings>(row).unwrap(), plan(HEAD).settings[0]);
}

#[test]
fn what_is_wrong_with_a_network_names_the_line_and_the_remedy() {
    for (text, line, says, remedy) in [
        ("[network]\npreset = \"lan\"\ndelay = \"5ms\"", 5, "there is no key `delay`", "rtt_ms"),
        ("[network]\npresets = \"lan\"", 4, "there is no key `presets`", "did you mean `preset`?"),
        ("[network]\npreset = \"mars\"", 4, "[network]: there is no preset \"mars\"", "rtt_ms"),
        ("[network]\nlink = \"loss=1%\"", 3, "neither is given", "docs/networks.md"),
        ("[network]\npreset = \"lan\"\nlink = \"los=1%\"", 5, "there is no \"los\" of a link", ""),
        (
            "[grid]\nnetwork = [\"lan\", \"mars\"]",
            4,
            "there is no network \"mars\"",
            "there are loopback, lan, wan-100ms, 4-regions-us, 20-cities; or describe it in [networks.mars]",
        ),
        (
            "[grid]\nnetwork = \"x\"\n[networks.y]\nrtt_ms = [[1]]\n[networks.x]\nlink = \"\"\nrtt_ms = [[0, 1], [1]]",
            9,
            "[networks.x]: row 1 of rtt_ms has 1 columns and there are 2 rows",
            "give a row and a column a place",
        ),
        (
            "[network]\nrtt_ms = [[0, 1], [-1, 0]]",
            4,
            "[network]: rtt_ms[1][0] is -1",
            "docs/networks.md",
        ),
        ("[networks.lan]\npreset = \"lan\"", 3, "there is a network \"lan\" already", "otherwise"),
        ("[networks.\"a b\"]\npreset = \"lan\"", 3, "a network is called \"a b\"", "letters"),
        (
            "[grid]\nnetwork = \"lan\"\n[network]\npreset = \"lan\"",
            4,
            "the grid names a network, and [network] describes that of all runs",
            "[networks.NAME]",
        ),
    ] {
        let (found, what, said) = refused(text);
        assert!(what.contains(says), "{text}: {what}");
        assert!(said.contains(remedy), "{text}: {said}");
        assert_eq!(found, line, "{text}");
    }
}

#[test]
fn every_shipped_study_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let (study, text) = Study::read(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.file_stem().unwrap().to_string_lossy(), study.name);
        assert!(!study.source.is_empty() && !study.about.is_empty(), "{}", study.name);
        // How many cores there are is the machine's affair.
        let possible = |study: &Study| match Plan::new(study, &text, &file) {
            Ok(plan) => Some(plan),
            Err(error) => {
                let cores =
                    |finding: &quorate_node::config::Finding| finding.what.contains("`cores`");
                assert!(error.findings.iter().all(cores), "{error}");
                None
            }
        };
        let full = possible(&study);
        let quick = possible(&study.clone().quick());
        if let (Some(full), Some(quick)) = (full, quick) {
            assert!(quick.runs.len() < full.runs.len(), "{}", study.name);
            // A number of a document stands beside one of ours, so some run must have that one.
            for number in study.source.iter().flat_map(|source| &source.number) {
                let stands_at = |settings: &Settings| {
                    let text = |axis: &String| settings.point.text(axis);
                    number.at.iter().all(|(axis, value)| text(axis) == Some(value.to_string()))
                };
                assert!(full.settings.iter().any(stands_at), "{}: {}", study.name, number.what);
            }
        }
        names.push(study.name);
    }
    assert!(names.len() >= 12, "{names:?}");
}

/// Each study has a page, or is told of as not run in full yet; and each chart that a page points
/// to is there.
#[test]
fn every_shipped_study_is_answered_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = std::fs::read_to_string(root.join("docs/studies.md")).unwrap();
    let mut pages = 0;
    for entry in std::fs::read_dir(root.join("experiments")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".toml").unwrap();
        let folder = root.join("docs/studies").join(name);
        let Ok(page) = std::fs::read_to_string(folder.join("README.md")) else {
            let row = format!("](../experiments/{file}) |");
            assert!(all.contains(&row), "docs/studies.md has no row for experiments/{file}");
            continue;
        };
        pages += 1;
        assert!(all.contains(&format!("](studies/{name}/README.md) |")), "{name}");
        let links = page.split("](").skip(1).map(|rest| rest.split_once(')').unwrap().0);
        for chart in links.filter(|link| link.ends_with(".svg")) {
            assert!(folder.join(chart).is_file(), "the page of {name} points to {chart}");
        }
    }
    assert!(pages >= 30, "{pages}");
}

#[test]
fn times_of_an_attack_are_those_of_the_run_on_the_clock_of_the_process() {
    let schedule: Schedule = "silent-leader@15s..30s/30s,slow-leader@50s..".parse().unwrap();
    let spans = attack::spans(&schedule, Duration::from_secs(70));
    let shown: Vec<(&str, f64, f64)> =
        spans.iter().map(|span| (span.adversary.as_str(), span.from, span.to)).collect();
    assert_eq!(
        shown,
        [("silent-leader", 15.0, 30.0), ("silent-leader", 45.0, 60.0), ("slow-leader", 50.0, 70.0)]
    );
    let text = attack::of_process(&spans, Duration::from_secs(10));
    assert_eq!(
        text,
        "silent-leader@25000ms..40000ms,silent-leader@55000ms..70000ms,slow-leader@60000ms..80000ms"
    );
    text.parse::<Schedule>().unwrap();
    // A window without an end is open until the period is over.
    let schedule: Schedule = "silent-leader@20s../30s".parse().unwrap();
    let spans = attack::spans(&schedule, Duration::from_secs(60));
    assert_eq!(
        spans.iter().map(|span| (span.from, span.to)).collect::<Vec<_>>(),
        [(20.0, 30.0), (50.0, 60.0)]
    );
}

#[test]
fn liars_stand_evenly() {
    let point = |replicas, liars, adversary: &str| Point {
        replicas,
        liars,
        adversary: Written(adversary.parse().unwrap()),
        ..Point::default()
    };
    assert_eq!(point(13, 0, "silent-leader").liars(), [0, 3, 6, 9]);
    assert_eq!(point(13, 2, "silent-leader").liars(), [0, 6]);
    assert_eq!(point(13, 2, "none").liars(), [] as [usize; 0]);
}

#[test]
fn confidence_ranges_are_students() {
    assert_eq!(Estimate::of(&[]), None);
    let one = Estimate::of(&[5.0]).unwrap();
    assert_eq!((one.mean, one.half_width, one.low(), one.high()), (5.0, None, 5.0, 5.0));
    // Mean 3, deviation √2.5, t of four degrees of freedom 2.776: 2.776 · √(2.5 / 5).
    let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    assert!((five.mean - 3.0).abs() < 1e-12);
    assert!((five.half_width.unwrap() - 2.776 * 0.5f64.sqrt()).abs() < 1e-9);
    assert_eq!(Estimate::of(&[0.0, 10.0]).unwrap().low(), 0.0);
}

fn laboratory(folder: &Path, retry: bool) -> Laboratory {
    // A program that prints and fails, in place of replicas.
    Laboratory { program: "/bin/ls".into(), folder: folder.to_owned(), retry }
}

#[test]
fn a_run_that_failed_is_kept_with_its_logs_and_nothing_is_run_twice() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&format!("{HEAD}[grid]\nbatch = [1, 2]\n[measure]\nrepeats = 2"));
    let go = AtomicBool::new(false);
    let mut told = Vec::new();
    let outcome = laboratory(folder.path(), false)
        .run(&plan, &go, |progress, row| told.push((progress.done, row.is_some())))
        .unwrap();
    assert!(outcome.complete);
    assert_eq!(told, [(0, false), (1, true), (2, true), (3, true), (4, true)]);
    assert_eq!(outcome.rows.len(), 4);
    for row in &outcome.rows {
        let failure = row.failure.as_ref().unwrap();
        assert!(failure.starts_with("replica-0 exited with code "), "{failure}");
        let log = row.kept.as_ref().unwrap().join("replica-0/replica.log");
        assert!(std::fs::metadata(log).unwrap().len() > 0);
        assert!(row.context.cores > 0 && row.figures.is_none());
    }
    let csv = std::fs::read_to_string(folder.path().join("runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
    assert!(csv.starts_with("variant,protocol,"), "{csv}");

    let mut told = Vec::new();
    let again = laboratory(folder.path(), false).run(&plan, &go, |progress, row| {
        told.push((progress.done, row.is_some()));
    });
    assert_eq!((told, again.unwrap().rows), (vec![(4, false)], outcome.rows.clone()));

    let mut fresh = 0;
    let again =
        laboratory(folder.path(), true).run(&plan, &go, |progress, _| fresh = progress.fresh);
    let again = again.unwrap().rows;
    assert_eq!((fresh, again.len()), (4, 4));
    assert!(again.iter().zip(&outcome.rows).all(|(new, old)| new.kept != old.kept));
}

#[test]
fn a_study_that_is_stopped_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&format!("{HEAD}[grid]\nbatch = [1, 2, 3]\n[measure]\nrepeats = 1"));
    let stop = AtomicBool::new(false);
    let stopped = laboratory(folder.path(), false)
        .run(&plan, &stop, |progress, _| stop.store(progress.done == 2, Ordering::Relaxed))
        .unwrap();
    assert_eq!((stopped.complete, stopped.rows.len()), (false, 2));
    // What was being written when it died is not there.
    let runs = folder.path().join(RUNS);
    let whole = std::fs::read_to_string(&runs).unwrap();
    let last = whole.lines().last().unwrap();
    std::fs::write(&runs, format!("{whole}{}", &last[..last.len() / 2])).unwrap();
    let mut fresh = 0;
    stop.store(false, Ordering::Relaxed);
    let outcome = laboratory(folder.path(), false)
        .run(&plan, &stop, |progress, _| fresh = progress.fresh)
        .unwrap();
    assert_eq!((outcome.complete, outcome.rows.len(), fresh), (true, 3, 1));
    assert_eq!(read(folder.path(), &plan).unwrap(), outcome.rows);
    let homes = std::fs::read_dir(folder.path().join("homes"));
    assert!(homes.map_or(true, |mut entries| entries.next().is_none()));
}

#[test]
fn a_study_is_not_gone_on_with_by_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    std::fs::copy("/bin/ls", &program).unwrap();
    let laboratory =
        Laboratory { program: program.clone(), folder: folder.path().join("out"), retry: false };
    let plan = plan(&format!("{HEAD}[grid]\nbatch = [1, 2]\n[measure]\nrepeats = 1"));
    let stop = AtomicBool::new(false);
    let first = laboratory
        .run(&plan, &stop, |progress, _| stop.store(progress.done == 1, Ordering::Relaxed))
        .unwrap();
    assert_eq!(first.rows.len(), 1);
    stop.store(false, Ordering::Relaxed);
    let whole = std::fs::read(&program).unwrap();
    std::fs::write(&program, [whole.as_slice(), b"changed"].concat()).unwrap();
    let error = laboratory.run(&plan, &stop, |_, _| {}).unwrap_err();
    assert!(matches!(error, LaboratoryError::OtherProgram { count: 1, .. }), "{error}");
    assert!(error.to_string().contains(&first.rows[0].context.program), "{error}");
    assert!(error.remedy().contains("--out"));
    assert_eq!(read(&laboratory.folder, &plan).unwrap(), first.rows);
    // The program it was begun with goes on with it; then there is nothing left to mix.
    std::fs::write(&program, whole).unwrap();
    let done = laboratory.run(&plan, &stop, |_, _| {}).unwrap();
    assert!(done.complete);
    std::fs::write(&program, b"another").unwrap();
    assert_eq!(laboratory.run(&plan, &stop, |_, _| {}).unwrap().rows, done.rows);
}

#[test]
fn programs_are_told_apart_by_their_hash_and_without_one_by_a_commit_without_changes() {
    let of = |commit: &str, program: &str| Context {
        commit: commit.to_owned(),
        program: program.to_owned(),
        ..Context::default()
    };
    for (one, other, same) in [
        (("a", "1"), ("a", "1"), true),
        (("a", "1"), ("b", "1"), true),
        (("a", "1"), ("a", "2"), false),
        (("a+", "1"), ("a+", "2"), false),
        (("a", ""), ("a", "1"), true),
        (("a", ""), ("a", ""), true),
        (("a", ""), ("b", ""), false),
        (("a+", ""), ("a+", ""), false),
        (("", ""), ("", ""), false),
    ] {
        let found = of(one.0, one.1).has_program_of(&of(other.0, other.1));
        assert_eq!(found, same, "{one:?} {other:?}");
    }
    assert_eq!(of("", "").program_in_words(), "version , no commit known");
    assert_eq!(of("a+", "1").program_in_words(), "version , commit a with changes, program 1");
}

#[test]
fn a_line_that_is_no_result_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(HEAD);
    let path = folder.path().join(RUNS);
    for wrong in ["not JSON", "{}", "{\"settings\":{}}"] {
        let text = format!("\n{wrong}\n");
        std::fs::write(&path, &text).unwrap();
        let error = read(folder.path(), &plan).unwrap_err();
        assert!(matches!(error, ResultsError::NoRow { line: 2, .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
