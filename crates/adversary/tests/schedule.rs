//! Schedules: what they say, and what is wrong with those that say nothing.

use quorate_adversary::{Foreign, Schedule, Window, all_names, named, names, pbft};
use quorate_core::{Duration, Time};

fn parse(text: &str) -> Vec<(&'static str, Window)> {
    text.parse::<Schedule>().unwrap_or_else(|error| panic!("{text}: {error}")).parts().collect()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn names_windows_and_periods() {
    let always = Window::ALWAYS;
    assert_eq!(parse("replayer"), [("replayer", always)]);
    let (from, to) = (seconds(10), Some(seconds(25)));
    assert_eq!(
        parse("silent-leader@10s..25s, slow-leader"),
        [("silent-leader", Window { from, to, period: None }), ("slow-leader", always)]
    );
    let [(_, window)] = parse("small-scope@1500ms..")[..] else { panic!("one part") };
    assert_eq!(window, Window { from: Duration::from_millis(1500), ..always });
    let [(_, window)] = parse("small-scope@..2m/3m")[..] else { panic!("one part") };
    assert_eq!(window, Window { to: Some(seconds(120)), period: Some(seconds(180)), ..always });
}

#[test]
fn windows_open_and_close_and_come_again() {
    let at = |millis: u64| Time(millis * 1_000_000);
    let [(_, once)] = parse("slow-leader@10s..25s")[..] else { panic!("one part") };
    for (millis, open) in
        [(0, false), (9_999, false), (10_000, true), (24_999, true), (25_000, false)]
    {
        assert_eq!(once.is_open(at(millis)), open, "{millis}");
    }
    let [(_, again)] = parse("slow-leader@0s..15s/30s")[..] else { panic!("one part") };
    for (millis, open) in
        [(0, true), (14_999, true), (15_000, false), (29_999, false), (30_000, true)]
    {
        assert_eq!(again.is_open(at(millis)), open, "{millis}");
        assert_eq!(again.is_open(at(millis + 3_600_000)), open, "an hour later, {millis}");
    }
}

#[test]
fn what_is_printed_reads_back() {
    let text = "silent-leader@10s..25s,slow-leader@0s..15s/30s,replayer@5s..,double-voter";
    let schedule: Schedule = text.parse().expect("a schedule");
    let again: Schedule = schedule.to_string().parse().expect("what it prints");
    assert_eq!(schedule, again);
    assert_ne!(schedule, "double-voter".parse().expect("a schedule"));
}

#[test]
fn errors_name_the_place_and_what_is_known() {
    let said = |text: &str| text.parse::<Schedule>().expect_err(text).to_string();
    let unknown = said("slow-leader,silent-leder@1s..2s");
    let start = "there is no such adversary, at character 13 (\"silent-leder\"); known are ";
    assert!(unknown.starts_with(start), "{unknown}");
    assert!(all_names().iter().all(|name| unknown.contains(name)), "{unknown}");
    for (text, start) in [
        ("", "there is no such adversary, at character 1 (\"\")"),
        ("replayer,", "there is no such adversary, at character 10 (\"\")"),
        ("replayer@5s", "this is no span of time, at character 10 (\"5s\"): expected FROM..TO"),
        ("replayer@5..7s", "this is no time, at character 10 (\"5\"): expected a whole number"),
        ("replayer@5s..7h", "this is no time, at character 14 (\"7h\")"),
        ("replayer@-1s..7s", "this is no time, at character 10 (\"-1s\")"),
        ("replayer@1s..99999999999999999999s", "this is no time, at character 14"),
        ("replayer@7s..5s", "the end is not after the beginning, at character 14 (\"5s\")"),
        ("replayer@5s..5s", "the end is not after the beginning, at character 14 (\"5s\")"),
        ("replayer@1s..20s/10s", "the period is too short, at character 18 (\"10s\")"),
        ("replayer@0s../0s", "the period is too short, at character 15 (\"0s\")"),
    ] {
        assert!(said(text).starts_with(start), "{text}: {}", said(text));
    }
}

#[test]
fn every_adversary_has_one_name() {
    for (at, (name, _)) in names().enumerate() {
        assert!(named(name).is_some());
        assert!(names().take(at).all(|(other, _)| other != name), "{name} twice");
        assert_eq!(parse(name), [(*name, Window::ALWAYS)]);
    }
    assert!(named("nobody").is_none());
}

/// A schedule may name any, and is built for the protocol whose adversaries it names.
#[test]
fn an_adversary_of_another_protocol_is_foreign() {
    let names = all_names();
    for (at, name) in names.iter().enumerate() {
        assert!(!names[..at].contains(name), "{name} twice");
        let schedule: Schedule = name.parse().expect("a known name");
        let (hotstuff, pbft) = (schedule.build(1), schedule.build_for_pbft(1));
        assert_eq!(hotstuff.is_ok(), named(name).is_some(), "{name}");
        assert_eq!(pbft.is_ok(), pbft::named(name).is_some(), "{name}");
        assert!(hotstuff.is_ok() || pbft.is_ok(), "{name} is of no protocol");
    }
    let mixed: Schedule = "double-voter,lying-sets,replayer".parse().expect("known names");
    assert_eq!(mixed.build(1).err(), Some(Foreign("lying-sets")));
    assert_eq!(mixed.build_for_pbft(1).err(), Some(Foreign("replayer")));
}
