//! What `quorate-spec` does around TLC: runs are recorded whole and without changing them, files
//! are read with suspicion, runs are made wrong where they say so, and TLC's words are not misread.
//! (TLC itself: `make spec`.)

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::base::membership;
use quorate_core::protocols::hotstuff::rules;
use quorate_model::spec::campaign::{Case, kinds, runs, wrong};
use quorate_model::spec::data;
use quorate_model::spec::file::Run;
use quorate_model::spec::judge::{Expected, Verdict, compare, verdicts};
use quorate_model::spec::mutations;
use quorate_model::spec::run::{PROTOCOLS, plan, record};
use quorate_model::spec::tlc::{Answer, answer};
use quorate_sim::campaign;
use quorate_sim::family::HotStuffs;
use quorate_sim::steps::{Step, Steps};
use quorate_sim::trace::Trace;

const SEEDS: usize = 12;

fn recorded(protocol: &str) -> Vec<Case> {
    runs(protocol, 0, SEEDS).expect("no violation")
}

#[test]
fn a_run_is_the_same_whether_its_steps_are_written_down_or_not() {
    for protocol in PROTOCOLS {
        for seed in [0, 2, 4] {
            let plan = plan(rules::named(protocol).expect("a variant"), seed);
            let hash = |trace| {
                campaign::run::<HotStuffs>(seed, &plan, trace).0.expect("no violation").hash
            };
            assert_eq!(hash(Trace::default()), hash(Trace::of_steps(&Steps::default())));
        }
    }
}

#[test]
fn runs_hold_every_kind_of_step_and_what_leads_to_it() {
    for protocol in PROTOCOLS {
        let cases = recorded(protocol);
        let kinds = kinds(cases.iter().map(|case| &case.run));
        for kind in [
            "start",
            "propose",
            "qc",
            "tc",
            "lock",
            "commit",
            "vote",
            "time-out",
            "sign-vote",
            "sign-time-out",
        ] {
            assert!(
                kinds.get(kind).is_some_and(|count| *count > 20),
                "{protocol}: {kind}: {kinds:?}"
            );
        }
        assert!(cases.iter().any(|case| !case.run.head.faulty.is_empty()));
        assert!(cases.iter().any(|case| case.run.head.replicas == 7));
        assert!(cases.iter().all(|case| told_before_it_is_used(&case.run)));
    }
}

/// Nothing is signed that was not decided, and only what was certified is learnt, in every run: by
/// a count that does not need TLC.
fn told_before_it_is_used(run: &Run) -> bool {
    let quorum = membership::quorum(run.head.replicas);
    let mut voters: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut decided = BTreeSet::new();
    run.steps.iter().all(|step| match step {
        Step::Vote { replica, block } => decided.insert((*replica, block.clone())),
        Step::Start { replica, voted: Some(block), .. } => {
            decided.insert((*replica, block.clone()));
            true
        }
        Step::SignVote { replica, block } => {
            voters.entry(block).or_default().insert(*replica);
            decided.contains(&(*replica, block.clone()))
        }
        Step::Qc { block, .. } => {
            let correct = voters.get(block.as_str()).map_or(0, BTreeSet::len);
            correct + run.head.faulty.len() >= quorum
        }
        _ => true,
    })
}

#[test]
fn files_are_read_as_they_were_written() {
    for protocol in PROTOCOLS {
        for case in recorded(protocol) {
            assert_eq!(Run::from_text(&case.run.to_text()), Ok(case.run));
        }
    }
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_line() {
    let run = record("hotstuff-chained", 0).expect("no violation").expect("covered");
    let text = run.to_text();
    let wrong = |what: &str, by: &str| {
        let text = text.replacen(what, by, 1);
        Run::from_text(&text).expect_err("wrong").to_string()
    };
    assert!(wrong("\"version\":1", "\"version\":2").starts_with("line 1: not quorate-steps"));
    assert!(wrong("\"replicas\":4", "\"replicas\":400").starts_with("line 1: impossible"));
    assert!(wrong("\"seed\"", "\"sead\"").starts_with("line 1: unknown field `sead`"));
    let line = |step: &str| 1 + text.lines().position(|line| line.contains(step)).expect("there");
    let proposal = line("\"propose\"");
    assert!(
        wrong("\"propose\",\"replica\":1", "\"propose\",\"replica\":9")
            .starts_with(&format!("line {proposal}: there is no replica 9"))
    );
    assert!(
        wrong("\"parent\":\"b0\"", "\"parent\":\"b9\"")
            .starts_with(&format!("line {proposal}: nobody has made a block b9"))
    );
    assert!(
        wrong("\"view\":1,\"parent\"", "\"view\":0,\"parent\"")
            .starts_with(&format!("line {proposal}: b1 is made twice, or not above"))
    );
    assert!(
        wrong("\"propose\",\"replica\"", "\"propose\",\"liar\":1,\"replica\"")
            .starts_with(&format!("line {proposal}: unknown field `liar`"))
    );
    assert!(
        wrong("\"step\":\"vote\"", "\"step\":\"veto\"")
            .starts_with(&format!("line {}: unknown variant `veto`", line("\"vote\"")))
    );
    assert!(Run::from_text("").expect_err("empty").to_string().starts_with("line 1: "));
}

#[test]
fn each_way_to_be_wrong_is_tried_and_ends_at_its_step() {
    for protocol in PROTOCOLS {
        let cases = recorded(protocol);
        let all = wrong(&cases).expect("every way fits some run");
        let names: BTreeSet<&str> = all.iter().filter_map(|case| case.mutation).collect();
        assert_eq!(names.len(), mutations::ALL.len());
        for case in all {
            let Expected::RejectedAt(step) = case.expected else {
                panic!("{} is wrong", case.name)
            };
            assert_eq!(case.run.steps.len(), step, "{}", case.name);
            let original =
                cases.iter().find(|other| case.name.starts_with(&format!("{}-wrong", other.name)));
            let original = &original.expect("made of one").run;
            let starts_alike = original.steps.starts_with(&case.run.steps);
            assert!(!starts_alike, "{}: {:?} changes nothing", case.name, case.mutation);
            // What is wrong is for the specification to say: the file itself is in order.
            assert_eq!(Run::from_text(&case.run.to_text()), Ok(case.run));
        }
    }
}

fn said(text: &str) -> Answer {
    Answer { text: text.into(), violated: None, states: 0, depth: 0 }
}

#[test]
fn whoever_accepts_everything_is_found_out() {
    let lax = said(
        "<<\"ACCEPTED\", \"a\", 12, 3>>\n<< \"ACCEPTED\",\n   \"a-wrong-0\",\n   7,\n   2 >>\n",
    );
    let verdicts = verdicts(&lax);
    assert_eq!(verdicts["a"], Verdict::Accepted { steps: 12, blocks: 3 });
    assert_eq!(compare(Expected::Accepted, verdicts.get("a")), Ok(()));
    assert!(compare(Expected::RejectedAt(7), verdicts.get("a-wrong-0")).is_err());
    assert!(compare(Expected::Accepted, verdicts.get("b")).is_err(), "silence is no verdict");
    assert!(compare(Expected::RejectedAt(7), verdicts.get("b")).is_err());
}

#[test]
fn a_step_must_be_rejected_where_it_is_wrong() {
    let strict =
        said("noise\n<< \"REJECTED\",\n   \"a-wrong-0\",\n   7,\n   \"it has voted, or so\" >>\n");
    let verdicts = verdicts(&strict);
    let verdict = verdicts.get("a-wrong-0");
    let why = "it has voted, or so".to_owned();
    assert_eq!(verdict, Some(&Verdict::Rejected { step: 7, why }));
    assert_eq!(compare(Expected::RejectedAt(7), verdict), Ok(()));
    assert!(compare(Expected::RejectedAt(8), verdict).is_err());
    assert!(compare(Expected::Accepted, verdict).is_err());
}

#[test]
fn errors_of_tlc_are_not_taken_for_an_answer() {
    let began = "Finished computing initial states: 1 distinct state generated at noon.\n";
    let ended = "1,024 states generated, 21 distinct states found, 0 states left on queue.\n\
        The depth of the complete state graph search is 9.\nFinished in 1s at (noon)\n";
    let good = answer(format!("{began}{ended}")).expect("an answer");
    assert_eq!((good.violated, good.states, good.depth), (None, 21, 9));
    let broken = "Error: Invariant Agreement is violated.\nError: The behavior up to this point is:\n\
        State 1: <Initial predicate>\nState 2: <Sparingly line 1>\n";
    let broken = answer(format!("{began}{broken}{ended}")).expect("an answer");
    assert_eq!((broken.violated.as_deref(), broken.depth), (Some("Agreement"), 2));
    assert!(answer(began.into()).is_err(), "it was ended");
    assert!(answer(format!("{began}Error: Evaluating failed.\n{ended}")).is_err());
    assert!(
        answer("Error: Parsing or semantic analysis failed.\nFinished in 0s\n".into()).is_err()
    );
}

#[test]
fn replicas_and_blocks_of_several_runs_are_told_apart() {
    let cases = recorded("hotstuff-chained");
    let liars: Vec<&Case> =
        cases.iter().filter(|case| case.run.head.faulty == [3]).take(1).collect();
    let one = &liars.first().expect("a run with a liar").run;
    let module = data::module(&[("one".into(), one), ("two".into(), one)]);
    let blocks = one.steps.iter().filter(|step| matches!(step, Step::Propose { .. })).count();
    let table = module.split("Traces").next().expect("a table");
    assert_eq!(table.matches("<<").count(), 2 * blocks + 1);
    assert!(module.contains(&format!("<<\"propose\", 1, {}>>", blocks + 1)), "numbered on");
    let configuration = data::configuration(&data::Group::of(one));
    assert!(configuration.contains("Replicas = {0, 1, 2, 3}\n  Faulty = {3}\n"));
}
