use super::*;

fn seconds(arrivals: Arrivals, count: usize) -> Vec<f64> {
    let start = Instant::now();
    let mut schedule = Schedule::new(arrivals, start);
    (0..count).map(|_| (schedule.advance() - start).as_secs_f64()).collect()
}

#[test]
fn even_arrivals_do_not_drift() {
    let times = seconds(Arrivals::Even { rate: 3e5 }, 300_001);
    assert!((times[300_000] - 1.0).abs() < 1e-6);
    assert!((times[150_000] - 0.5).abs() < 1e-6);
}

#[test]
fn poisson_arrivals_have_exponential_gaps_and_follow_from_the_seed() {
    let arrivals = Arrivals::Poisson { rate: 1000.0, seed: 7 };
    let times = seconds(arrivals, 100_000);
    assert_eq!(times, seconds(arrivals, 100_000));
    assert_ne!(times, seconds(Arrivals::Poisson { rate: 1000.0, seed: 8 }, 100_000));
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // Mean and deviation are both the interval; 100,000 draws of this seed come within 2 %.
    assert!((mean * 1000.0 - 1.0).abs() < 0.02, "mean {mean}");
    assert!((variance.sqrt() * 1000.0 - 1.0).abs() < 0.02, "deviation {}", variance.sqrt());
}

#[test]
fn what_is_due_is_what_has_come_by_now_and_no_more_than_fits() {
    let start = Instant::now();
    let ms = |count: u64| start + Duration::from_millis(count);
    let mut schedule = Schedule::new(Arrivals::Even { rate: 1000.0 }, start);
    assert_eq!(schedule.due(start, 9), [ms(0)]);
    assert!(schedule.due(start, 9).is_empty());
    assert_eq!(schedule.due(ms(3) + Duration::from_micros(500), 9), [ms(1), ms(2), ms(3)]);
    // After a pause of the thread, the intended times stay what they were.
    assert_eq!(schedule.due(ms(10), 4), [ms(4), ms(5), ms(6), ms(7)]);
    assert_eq!(schedule.due(ms(10), 4), [ms(8), ms(9), ms(10)]);
    assert_eq!(schedule.next, ms(11));
}

#[test]
fn a_generator_that_submits_one_in_a_hundred_late_says_so() {
    let now = Instant::now() + Duration::from_secs(1);
    let (in_time, late) = (now - LATE, now - LATE - Duration::from_nanos(1));
    let pace = |good: usize, bad: usize| {
        let mut pace = Pace::default();
        pace.note(&vec![in_time; good], now);
        pace.note(&vec![late; bad], now);
        assert_eq!((pace.submitted, pace.late), ((good + bad) as u64, bad as u64));
        pace.warning()
    };
    assert_eq!(pace(0, 0), None);
    assert_eq!(pace(99, 1), None);
    let warning = pace(98, 2).unwrap();
    assert!(warning.contains("2.0 % of the commands"), "{warning}");
}
