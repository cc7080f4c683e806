use super::*;

const DRAWS: u64 = 200_000;

/// How often each of `count` keys is chosen.
fn drawn(popularity: Popularity, count: u64) -> Vec<u64> {
    let keys = Keys::new(popularity, count);
    let mut random = Random(11);
    let mut times = vec![0; count as usize];
    for _ in 0..DRAWS {
        times[keys.choose(count, &mut random) as usize] += 1;
    }
    times
}

#[test]
fn uniform_is_even() {
    let times = drawn(Popularity::Uniform, 100);
    // 2,000 each, with a deviation of 45.
    assert!(times.iter().all(|times| (1700..2300).contains(times)), "{times:?}");
}

#[test]
fn zipf_gives_each_rank_its_share() {
    let mut times = drawn(Popularity::Latest, 1000);
    times.reverse();
    let zeta: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-EXPONENT)).sum();
    for rank in [1u32, 2] {
        let share = f64::from(rank).powf(-EXPONENT) / zeta;
        let found = times[rank as usize - 1] as f64 / DRAWS as f64;
        assert!((found / share - 1.0).abs() < 0.05, "rank {rank}: {found} for {share}");
    }
    // The method is exact for two ranks and close for the rest: halves, quarters.
    for ranks in [10usize, 100, 500] {
        let share: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-EXPONENT)).sum::<f64>() / zeta;
        let found = times[..ranks].iter().sum::<u64>() as f64 / DRAWS as f64;
        assert!((found / share - 1.0).abs() < 0.1, "{ranks} ranks: {found} for {share}");
    }
}

#[test]
fn popular_keys_are_spread() {
    let times = drawn(Popularity::Zipfian, 1000);
    let mut sorted = times.clone();
    sorted.sort_unstable();
    sorted.reverse();
    assert!(sorted[0] > 20 * sorted[500]);
    let first: u64 = times[..100].iter().sum();
    assert!(first < DRAWS / 2, "the first hundred keys are chosen {first} times");
}

#[test]
fn the_latest_follow_what_is_written() {
    let keys = Keys::new(Popularity::Latest, 100);
    let mut random = Random(3);
    let chosen: Vec<u64> = (0..1000).map(|_| keys.choose(500, &mut random)).collect();
    assert!(chosen.iter().all(|key| (400..500).contains(key)));
    assert!(chosen.contains(&499));
    assert_eq!(Keys::new(Popularity::Zipfian, 1).choose(1, &mut random), 0);
    assert_eq!(Keys::new(Popularity::Latest, 0).choose(1, &mut random), 0);
}
