//! How long a view is waited for: each kind of timing against its words.

use proptest::prelude::*;
use quorate_core::pacemaker::{ENOUGH, LONGEST, Timing, Waits};
use quorate_core::{Duration, View};

const WAITS: Waits = Waits {
    base: Duration::from_millis(250),
    multiplier_percent: 150,
    floor: Duration::from_millis(5),
    max: Duration::from_secs(10),
};

/// What an adaptive timing remembers.
const WINDOW: usize = 100;

fn timing(name: &str, waits: Waits) -> Timing {
    Timing::named(name, waits).expect("a kind of timing")
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The wait where it does not depend on views.
fn wait(timing: &Timing) -> Duration {
    timing.wait(View(7), View(4), 3)
}

#[test]
fn every_name_names_its_kind() {
    for name in Timing::names() {
        let timing = timing(name, WAITS);
        assert_eq!((timing.name(), timing.base()), (name, WAITS.base));
    }
    assert_eq!(Timing::named("Fixed", WAITS), None);
    assert_eq!(Timing::default(), timing("exponential", Waits::default()));
}

#[test]
fn a_fixed_wait_never_changes() {
    let mut timing = timing("fixed", WAITS);
    for view in [0, 1, 500, u64::MAX] {
        timing.timed_out();
        timing.succeeded(Duration::from_secs(60));
        assert_eq!(timing.wait(View(view), View(0), 3), WAITS.base);
    }
}

#[test]
fn an_exponential_wait_grows_with_the_distance_to_the_last_commit_up_to_its_bound() {
    let timing = timing("exponential", WAITS);
    let wait = |view, committed| timing.wait(View(view), View(committed), 3);
    assert_eq!(wait(4, 1), WAITS.base);
    assert_eq!(wait(1, 9), WAITS.base);
    assert_eq!(wait(5, 1), WAITS.base * 3 / 2);
    assert_eq!(wait(6, 1), WAITS.base * 9 / 4);
    assert_eq!(wait(u64::MAX, 1), WAITS.max);
    assert_eq!(wait(u64::MAX, u64::MAX), WAITS.base);
}

#[test]
fn an_exponential_wait_does_not_depend_on_how_views_went() {
    let mut timing = timing("exponential", WAITS);
    let before = timing.clone();
    timing.timed_out();
    timing.succeeded(millis(1));
    assert_eq!(timing, before);
}

#[test]
fn an_adaptive_wait_is_the_base_until_enough_views_were_measured() {
    let mut timing = timing("adaptive", WAITS);
    for _ in 0..ENOUGH {
        assert_eq!(wait(&timing), WAITS.base);
        timing.succeeded(millis(40));
    }
    assert_eq!(wait(&timing), millis(40), "equal durations have no deviation");
}

#[test]
fn an_adaptive_wait_is_the_mean_and_1_96_standard_deviations() {
    let mut timing = timing("adaptive", WAITS);
    for _ in 0..50 {
        timing.succeeded(millis(30));
        timing.succeeded(millis(50));
    }
    // The mean is 40 ms, the standard deviation 10 ms.
    assert_eq!(wait(&timing), Duration::from_micros(59_600));
    timing.timed_out();
    assert_eq!(wait(&timing), Duration::from_micros(89_400));
    timing.timed_out();
    assert_eq!(wait(&timing), Duration::from_micros(134_100));
}

#[test]
fn only_the_last_hundred_views_count() {
    let mut timing = timing("adaptive", WAITS);
    for _ in 0..1_000 {
        timing.succeeded(millis(900));
    }
    for _ in 0..WINDOW - 1 {
        timing.succeeded(millis(20));
    }
    assert!(wait(&timing) > millis(20), "the oldest still counts");
    timing.succeeded(millis(20));
    assert_eq!(wait(&timing), millis(20));
}

#[test]
fn a_success_ends_a_row_of_time_outs_as_far_as_its_wait_was_not_needed() {
    let mut timing = timing("adaptive", WAITS);
    for _ in 0..WINDOW {
        timing.succeeded(millis(20));
    }
    for _ in 0..6 {
        timing.timed_out();
    }
    assert_eq!(wait(&timing), Duration::from_nanos(227_812_500));
    // 20 → 30 → 45 → 67.5: three time-outs cover it.
    let mut slow = timing.clone();
    slow.succeeded(millis(60));
    assert!(wait(&slow) >= Duration::from_micros(67_500) && wait(&slow) < millis(101));
    timing.succeeded(millis(20));
    assert_eq!(wait(&timing), millis(20));
}

/// Lets `views` views take `duration` each, as far as the wait allows: how many did not.
fn run(timing: &mut Timing, views: usize, duration: Duration) -> usize {
    let mut given_up = 0;
    for _ in 0..views {
        if duration <= wait(timing) {
            timing.succeeded(duration);
        } else {
            timing.timed_out();
            given_up += 1;
        }
    }
    given_up
}

#[test]
fn an_adaptive_wait_follows_the_network_when_it_turns_slow_and_back() {
    let mut timing = timing("adaptive", WAITS);
    assert_eq!(run(&mut timing, 200, millis(20)), 0);
    // 20 · 1.5^6 is the first wait above 200 ms; then no view is lost any more.
    assert_eq!(run(&mut timing, 6, millis(200)), 6);
    assert_eq!(run(&mut timing, 300, millis(200)), 0);
    assert_eq!(wait(&timing), millis(200));
    assert_eq!(run(&mut timing, WINDOW, millis(20)), 0);
    assert_eq!(wait(&timing), millis(20));
}

#[test]
fn the_measured_time_catches_up_within_21_views() {
    let mut timing = timing("adaptive", WAITS);
    run(&mut timing, 200, millis(20));
    run(&mut timing, 6 + 20, millis(200));
    let before = wait(&timing);
    assert!(before > millis(200) * 14 / 10, "the row goes on: {before:?}");
    run(&mut timing, 2, millis(200));
    let after = wait(&timing);
    assert!(after >= millis(200) && after < millis(210), "the row is over: {after:?}");
}

#[test]
fn a_dead_leader_does_not_lengthen_the_others_views() {
    let mut timing = timing("adaptive", WAITS);
    for view in 0..1_000u32 {
        if view % 4 == 3 {
            timing.timed_out();
        } else {
            timing.succeeded(millis(18 + u64::from(view % 3)));
        }
    }
    timing.succeeded(millis(19));
    assert!(wait(&timing) < millis(21));
}

/// The wait after 10,000 views, of which every `period`-th takes as long as it may.
fn wait_with_a_dawdler_every(period: u64) -> Duration {
    let mut timing = timing("adaptive", WAITS);
    run(&mut timing, 200, millis(20));
    for view in 0..10_000 {
        let took = if view % period == 0 { wait(&timing) } else { millis(18 + view % 5) };
        timing.succeeded(took);
        assert!(wait(&timing) <= WAITS.max);
    }
    wait(&timing)
}

#[test]
fn leaders_that_use_up_their_waits_drive_them_to_the_cap_only_if_they_are_a_fifth() {
    assert_eq!(wait_with_a_dawdler_every(4), WAITS.max);
    assert!(wait_with_a_dawdler_every(5) < millis(40));
    assert!(wait_with_a_dawdler_every(10) < millis(25));
}

/// Anything a configuration could say.
fn waits() -> impl Strategy<Value = Waits> {
    let duration = || {
        prop_oneof![
            4 => (0u64..20_000_000_000).prop_map(Duration::from_nanos),
            1 => any::<u64>().prop_map(Duration::from_nanos),
            1 => prop_oneof![Just(Duration::ZERO), Just(Duration::MAX), Just(LONGEST)],
        ]
    };
    let percent = prop_oneof![4 => 100u32..400, 1 => any::<u32>()];
    (duration(), percent, duration(), duration()).prop_map(
        |(base, multiplier_percent, floor, max)| Waits { base, multiplier_percent, floor, max },
    )
}

/// How a view went: how long it took, or that it was given up.
fn views() -> impl Strategy<Value = Vec<Option<Duration>>> {
    let view = prop_oneof![
        6 => (0u64..2_000_000_000).prop_map(|nanos| Some(Duration::from_nanos(nanos))),
        1 => any::<u64>().prop_map(|nanos| Some(Duration::from_nanos(nanos))),
        2 => Just(None),
    ];
    prop::collection::vec(view, 0..260)
}

fn tell(timing: &mut Timing, view: &Option<Duration>) {
    match view {
        Some(duration) => timing.succeeded(*duration),
        None => timing.timed_out(),
    }
}

/// Mean and 1.96 standard deviations in floating point, in two passes, in nanoseconds.
fn model(durations: &[Duration]) -> f64 {
    let last = &durations[durations.len().saturating_sub(WINDOW)..];
    let nanos: Vec<f64> = last.iter().map(|duration| duration.as_nanos() as f64).collect();
    let count = nanos.len() as f64;
    let mean = nanos.iter().sum::<f64>() / count;
    let variance = nanos.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    mean + 1.96 * variance.sqrt()
}

proptest! {
    // The same cases every time.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(512)
    })]

    #[test]
    fn no_wait_is_zero_or_longer_than_configured(
        waits in waits(),
        views in views(),
        view: u64,
        committed: u64,
        depth in prop_oneof![0u64..40, any::<u64>()],
    ) {
        let shortest = Duration::from_millis(1);
        for name in Timing::names() {
            let mut timing = timing(name, waits);
            let longest = if name == "fixed" { waits.base } else { waits.max };
            let longest = longest.clamp(shortest, LONGEST);
            for how in &views {
                tell(&mut timing, how);
                let wait = timing.wait(View(view), View(committed), depth);
                prop_assert!(wait >= shortest && wait <= longest, "{} waits {:?}", name, wait);
            }
        }
    }

    #[test]
    fn an_exponential_wait_is_what_its_formula_says(
        base in 1u64..5_000,
        multiplier_percent in 100u32..300,
        max in 1u64..20_000,
        view in 0u64..120,
        committed in 0u64..60,
        depth in 0u64..20,
    ) {
        let waits = Waits { base: millis(base), multiplier_percent, max: millis(max), ..WAITS };
        let wait = timing("exponential", waits).wait(View(view), View(committed), depth);
        let steps = view.saturating_sub(committed).saturating_sub(depth).min(64);
        let exact = base as f64 * 1e6 * (f64::from(multiplier_percent) / 100.0).powi(steps as i32);
        let exact = exact.min(max as f64 * 1e6);
        // Each step loses less than a nanosecond, of at least a million.
        let error = (wait.as_nanos() as f64 - exact).abs() / exact;
        prop_assert!(error < 64e-6, "{:?} instead of {} ns", wait, exact);
    }

    #[test]
    fn an_exponential_wait_never_falls_with_the_view_nor_rises_with_a_commit(
        waits in waits(),
        view in 0u64..200,
        committed in 0u64..200,
        depth in 0u64..20,
    ) {
        let timing = timing("exponential", waits);
        let wait = timing.wait(View(view), View(committed), depth);
        prop_assert!(timing.wait(View(view + 1), View(committed), depth) >= wait);
        prop_assert!(timing.wait(View(view), View(committed + 1), depth) <= wait);
        prop_assert!(timing.wait(View(view), View(committed), depth + 1) <= wait);
    }

    #[test]
    fn an_adaptive_wait_agrees_with_floating_point(
        views in prop::collection::vec(1_000_000u64..5_000_000_000, ENOUGH..260),
    ) {
        let durations: Vec<Duration> = views.into_iter().map(Duration::from_nanos).collect();
        let mut timing = timing("adaptive", Waits { max: LONGEST, ..WAITS });
        for (i, duration) in durations.iter().enumerate() {
            timing.succeeded(*duration);
            if i + 1 >= ENOUGH {
                let exact = model(&durations[..=i]).max(5e6);
                let wait = wait(&timing).as_nanos() as f64;
                prop_assert!((wait - exact).abs() <= 2.0 + exact * 1e-9, "{} for {}", wait, exact);
            }
        }
    }

    #[test]
    fn an_adaptive_wait_never_falls_with_a_time_out(waits in waits(), views in views()) {
        let mut timing = timing("adaptive", waits);
        for how in &views {
            let before = wait(&timing);
            tell(&mut timing, how);
            if how.is_none() {
                prop_assert!(wait(&timing) >= before);
            }
        }
    }

    #[test]
    fn an_adaptive_wait_reaches_what_views_take_if_the_cap_does(
        floor in 1u64..50,
        took in 1u64..5_000,
        views in views(),
    ) {
        let waits = Waits { floor: millis(floor), max: millis(5_000), ..WAITS };
        let mut timing = timing("adaptive", waits);
        for how in &views {
            tell(&mut timing, how);
        }
        let given_up = run(&mut timing, 400, millis(took));
        // From 5 ms to 5 s in steps of a half: 1.5^18 > 1000; once more when the row ends.
        prop_assert!(given_up <= 36, "{} views given up", given_up);
        prop_assert_eq!(run(&mut timing, 100, millis(took)), 0);
    }
}
