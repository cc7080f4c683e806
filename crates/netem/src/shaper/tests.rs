use std::time::Duration;

use super::{Flights, Shaper, Verdict};
use crate::link::Link;
use crate::pool::Pool;

const MS: u64 = 1_000_000;

fn shaper(link: &str) -> Shaper {
    Shaper::new(Link::parse(link).expect("a link"), 7, 0, 1)
}

fn arrival(shaper: &mut Shaper, now_ns: u64, bytes: usize) -> Option<u64> {
    arrival_over(shaper, now_ns, bytes, &mut 0)
}

fn arrival_over(
    shaper: &mut Shaper,
    now_ns: u64,
    bytes: usize,
    uplink_free_at_ns: &mut u64,
) -> Option<u64> {
    match shaper.offer(now_ns, bytes, uplink_free_at_ns) {
        Verdict::Dropped => None,
        Verdict::Arrives { at_ns, .. } => Some(at_ns),
    }
}

#[test]
fn a_wire_without_length_takes_no_time() {
    assert_eq!(arrival(&mut shaper(""), 5, 1500), Some(5));
}

#[test]
fn delay_is_added_to_each() {
    let mut shaper = shaper("delay=50ms");
    assert_eq!(arrival(&mut shaper, 0, 1500), Some(50 * MS));
    assert_eq!(arrival(&mut shaper, 3, 1500), Some(50 * MS + 3));
}

#[test]
fn packets_leave_one_after_the_other_at_the_rate() {
    // 1,000 bytes at 8 Mbit/s take a millisecond.
    let mut shaper = shaper("delay=10ms bandwidth=8Mbit queue=1MiB");
    let arrivals: Vec<_> = (0..4).filter_map(|_| arrival(&mut shaper, 0, 1000)).collect();
    assert_eq!(arrivals, [11 * MS, 12 * MS, 13 * MS, 14 * MS]);
    // A pause gives no credit for later packets.
    assert_eq!(arrival(&mut shaper, 500 * MS, 1000), Some(511 * MS));
}

#[test]
fn the_last_to_come_is_dropped_when_the_queue_is_full() {
    let mut shaper = shaper("bandwidth=8Mbit queue=3000B");
    let accepted = (0..10).filter_map(|_| arrival(&mut shaper, 0, 1000)).count();
    assert_eq!(accepted, 3);
    assert_eq!(shaper.counters.overflowed, 7);
    // When one packet has left, there is room for one.
    assert!(arrival(&mut shaper, MS, 1000).is_some());
    assert!(arrival(&mut shaper, MS, 1000).is_none());
}

#[test]
fn links_that_share_an_uplink_wait_for_each_other() {
    let mut to =
        ["bandwidth=8Mbit shared=true", "delay=5ms bandwidth=8Mbit shared=true"].map(shaper);
    let mut beside = shaper("bandwidth=8Mbit");
    let mut uplink = 0;
    let [first, second] = &mut to;
    assert_eq!(arrival_over(first, 0, 1000, &mut uplink), Some(MS));
    assert_eq!(arrival_over(second, 0, 1000, &mut uplink), Some(2 * MS + 5 * MS));
    assert_eq!(arrival_over(first, 0, 1000, &mut uplink), Some(3 * MS));
    // A link that does not share it has a bandwidth of its own.
    assert_eq!(arrival_over(&mut beside, 0, 1000, &mut uplink), Some(MS));
    // What waits is counted over all that share.
    let mut narrow = shaper("bandwidth=8Mbit shared=true queue=3000B");
    assert_eq!(arrival_over(&mut narrow, 0, 1000, &mut uplink), None);
}

#[test]
fn a_packet_larger_than_the_queue_passes_an_idle_link() {
    let mut shaper = shaper("bandwidth=8Mbit queue=100B");
    assert_eq!(arrival(&mut shaper, 0, 1000), Some(MS));
    assert_eq!(arrival(&mut shaper, 0, 1000), None);
    assert_eq!(arrival(&mut shaper, 2 * MS, 1000), Some(3 * MS));
}

#[test]
fn another_rate_counts_from_now_on() {
    let mut shaper = shaper("bandwidth=8kbit queue=1MiB");
    assert_eq!(arrival(&mut shaper, 0, 1000), Some(1_000 * MS));
    shaper.set(Link::parse("bandwidth=8Mbit").expect("a link"));
    assert_eq!(arrival(&mut shaper, MS, 1000), Some(2 * MS));
}

#[test]
fn the_asked_share_is_lost() {
    let mut shaper = shaper("loss=1%");
    let lost = (0..1_000_000).filter(|_| arrival(&mut shaper, 0, 100).is_none()).count();
    // Six standard deviations of the binomial distribution are 597; the seed is fixed.
    assert!((9_400..10_600).contains(&lost), "{lost}");
    assert_eq!(shaper.counters.lost, lost as u64);
}

#[test]
fn total_loss_loses_all_and_a_cut_link_passes_nothing() {
    let mut lossy = shaper("loss=100%");
    assert!((0..1_000).all(|_| arrival(&mut lossy, 0, 100).is_none()));
    let mut cut = shaper("cut=true");
    assert!((0..1_000).all(|_| arrival(&mut cut, 0, 100).is_none()));
    assert_eq!(cut.counters.cut, 1_000);
    cut.set(Link::default());
    assert_eq!(arrival(&mut cut, 9, 100), Some(9));
}

#[test]
fn uniform_jitter_is_within_its_bounds_and_around_the_delay() {
    let mut shaper = shaper("delay=50ms jitter=10ms");
    let arrivals: Vec<u64> = (0..100_000).filter_map(|_| arrival(&mut shaper, 0, 1)).collect();
    assert!(arrivals.iter().all(|at| (40 * MS..=60 * MS).contains(at)));
    let mean = arrivals.iter().sum::<u64>() / arrivals.len() as u64;
    assert!(mean.abs_diff(50 * MS) < MS / 5, "{mean}");
    let early = arrivals.iter().filter(|at| **at < 45 * MS).count();
    assert!((24_000..26_000).contains(&early), "{early}");
}

#[test]
fn normal_jitter_has_the_asked_deviation() {
    let mut shaper = shaper("delay=50ms jitter=5ms distribution=normal");
    let arrivals: Vec<f64> =
        (0..100_000).filter_map(|_| arrival(&mut shaper, 0, 1)).map(|at| at as f64).collect();
    let mean = arrivals.iter().sum::<f64>() / arrivals.len() as f64;
    let variance = arrivals.iter().map(|at| (at - mean).powi(2)).sum::<f64>();
    let deviation = (variance / arrivals.len() as f64).sqrt() / MS as f64;
    assert!((mean / MS as f64 - 50.0).abs() < 0.2, "{mean}");
    assert!((deviation - 5.0).abs() < 0.1, "{deviation}");
}

#[test]
fn normal_jitter_never_arrives_before_it_is_sent() {
    let mut shaper = shaper("delay=5ms jitter=5ms distribution=normal");
    let sent = 1_000 * MS;
    assert!((0..10_000).filter_map(|_| arrival(&mut shaper, sent, 1)).all(|at| at >= sent));
}

#[test]
fn reordered_packets_skip_the_delay() {
    let mut shaper = shaper("delay=50ms reorder=25%");
    let arrivals: Vec<u64> = (0..10_000).filter_map(|_| arrival(&mut shaper, 0, 1)).collect();
    let skipped = arrivals.iter().filter(|at| **at == 0).count();
    assert!(arrivals.iter().all(|at| *at == 0 || *at == 50 * MS));
    assert!((2_200..2_800).contains(&skipped), "{skipped}");
    assert_eq!(shaper.counters.reordered, skipped as u64);
}

#[test]
fn duplicates_arrive_a_second_time() {
    let mut shaper = shaper("delay=1ms duplicate=100%");
    let verdict = shaper.offer(0, 10, &mut 0);
    assert_eq!(verdict, Verdict::Arrives { at_ns: MS, again_at_ns: Some(MS) });
    assert_eq!(shaper.counters.duplicated, 1);
}

#[test]
fn the_same_seed_does_the_same_and_links_differ() {
    let link = Link::parse("delay=5ms jitter=5ms loss=10%").expect("a link");
    let draw = |seed, from, to| {
        let mut shaper = Shaper::new(link.clone(), seed, from, to);
        (0..100).map(|_| arrival(&mut shaper, 0, 1)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1, 0, 1), draw(1, 0, 1));
    assert_ne!(draw(1, 0, 1), draw(2, 0, 1));
    assert_ne!(draw(1, 0, 1), draw(1, 1, 0));
}

#[test]
fn the_longest_delay_at_the_lowest_rate_does_not_overflow() {
    let mut shaper = shaper("delay=60s jitter=60s bandwidth=1kbit queue=4GiB");
    let now = Duration::from_secs(86_400 * 365).as_nanos() as u64;
    for _ in 0..1_000 {
        assert!(arrival(&mut shaper, now, 65_535).is_some_and(|at| at > now));
    }
}

#[test]
fn flights_land_in_order_of_time_then_of_departure() {
    let mut flights = Flights::new(4);
    for (at_ns, slot) in [(30, 0), (10, 1), (10, 2), (20, 3)] {
        flights.add(at_ns, slot, 0);
    }
    assert_eq!(flights.next_at_ns(), Some(10));
    assert_eq!(flights.due(9), None);
    let landed: Vec<_> = std::iter::from_fn(|| flights.due(20)).map(|flight| flight.slot).collect();
    assert_eq!(landed, [1, 2, 3]);
    assert_eq!(flights.len(), 1);
}

#[test]
fn a_pool_lends_each_place_once_and_no_more_than_it_has() {
    let mut pool = Pool::new(2, 8);
    let first = pool.take().expect("a place");
    pool.room(first)[..3].copy_from_slice(b"abc");
    pool.set_length(first, 3);
    let second = pool.copy(first).expect("a place");
    assert_ne!(first, second);
    assert_eq!(pool.packet(second), b"abc");
    assert_eq!((pool.take(), pool.copy(first)), (None, None));
    pool.give(first);
    assert_eq!(pool.left(), 1);
    assert_eq!(pool.packet(second), b"abc");
}
