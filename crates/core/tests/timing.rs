//! How long a view is waited for: each kind of timing against its words.

use proptest::prelude::*;
use quorate_core::Duration;
use quorate_core::protocols::hotstuff::pacemaker::{LONGEST, Timing, Waits};

const WAITS: Waits = Waits {
    base: Duration::from_millis(250),
    multiplier_percent: 150,
    floor: Duration::from_millis(5),
    max: Duration::from_secs(10),
};

fn timing(name: &str, waits: Waits) -> Timing {
    Timing::named(name, waits).expect("a kind of timing")
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
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
    let timing = timing("fixed", WAITS);
    for steps in [0, 1, 500, u64::MAX] {
        assert_eq!(timing.wait(steps, Some(millis(1))), WAITS.base);
    }
}

#[test]
fn an_exponential_wait_grows_with_each_step_up_to_its_bound() {
    let timing = timing("exponential", WAITS);
    assert_eq!(timing.wait(0, None), WAITS.base);
    assert_eq!(timing.wait(1, None), WAITS.base * 3 / 2);
    assert_eq!(timing.wait(2, Some(millis(1))), WAITS.base * 9 / 4);
    assert_eq!(timing.wait(u64::MAX, None), WAITS.max);
}

#[test]
fn an_adaptive_wait_is_four_views_from_the_floor_to_the_base() {
    let timing = timing("adaptive", WAITS);
    assert_eq!(timing.wait(0, None), WAITS.base);
    assert_eq!(timing.wait(0, Some(millis(20))), millis(80));
    assert_eq!(timing.wait(1, Some(millis(20))), millis(120));
    assert_eq!(timing.wait(0, Some(millis(1))), WAITS.floor);
    assert_eq!(timing.wait(0, Some(millis(63))), WAITS.base);
    assert_eq!(timing.wait(0, Some(Duration::MAX)), WAITS.base);
    assert_eq!(timing.wait(u64::MAX, Some(millis(20))), WAITS.max);
}

#[test]
fn a_time_out_is_sent_again_no_later_than_after_the_longest_wait() {
    assert_eq!(timing("exponential", WAITS).longest(), WAITS.max);
    assert_eq!(timing("adaptive", WAITS).longest(), WAITS.max);
    assert_eq!(timing("fixed", WAITS).longest(), WAITS.base * 64);
    assert_eq!(timing("exponential", Waits { max: millis(1), ..WAITS }).longest(), WAITS.base);
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

proptest! {
    // The same cases every time.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(512)
    })]

    #[test]
    fn no_wait_is_zero_or_longer_than_configured(
        waits in waits(),
        typical in prop::option::of(any::<u64>()),
        steps in prop_oneof![0u64..40, any::<u64>()],
    ) {
        let shortest = Duration::from_millis(1);
        for name in Timing::names() {
            let timing = timing(name, waits);
            let longest = if name == "fixed" { waits.base } else { waits.max };
            let longest = longest.clamp(shortest, LONGEST);
            let wait = timing.wait(steps, typical.map(Duration::from_nanos));
            prop_assert!(wait >= shortest && wait <= longest, "{} waits {:?}", name, wait);
        }
    }

    #[test]
    fn an_exponential_wait_is_what_its_formula_says(
        base in 1u64..5_000,
        multiplier_percent in 100u32..300,
        max in 1u64..20_000,
        steps in 0u64..120,
    ) {
        let waits = Waits { base: millis(base), multiplier_percent, max: millis(max), ..WAITS };
        let wait = timing("exponential", waits).wait(steps, None);
        let steps = steps.min(64);
        let exact = base as f64 * 1e6 * (f64::from(multiplier_percent) / 100.0).powi(steps as i32);
        let exact = exact.min(max as f64 * 1e6);
        // Each step loses less than a nanosecond, of at least a million.
        let error = (wait.as_nanos() as f64 - exact).abs() / exact;
        prop_assert!(error < 64e-6, "{:?} instead of {} ns", wait, exact);
    }

    #[test]
    fn no_wait_falls_with_the_steps_or_with_what_views_take(
        waits in waits(),
        steps in 0u64..200,
        typical in any::<u64>().prop_map(Duration::from_nanos),
    ) {
        for name in Timing::names() {
            let timing = timing(name, waits);
            let wait = timing.wait(steps, Some(typical));
            prop_assert!(timing.wait(steps + 1, Some(typical)) >= wait);
            prop_assert!(timing.wait(steps, Some(typical.saturating_mul(2))) >= wait);
            prop_assert!(timing.wait(steps, None) >= wait, "the base is the longest first wait");
        }
    }
}
