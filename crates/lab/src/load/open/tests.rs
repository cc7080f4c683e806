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
