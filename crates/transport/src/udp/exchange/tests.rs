//! Tests with two ends and a network between them, on virtual time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::outgoing::FIRST_WINDOW_BYTES;
use super::super::path::LEAST_BYTES;
use super::*;

const WINDOW: usize = 8 << 20;
const LONGEST: usize = 1 << 20;

/// The faults of the network. Shares are per 1000.
#[derive(Clone, Copy, Debug)]
struct Network {
    delay: Duration,
    jitter: Duration,
    lost: u64,
    doubled: u64,
    /// Longer datagrams are lost.
    longest: usize,
}

const GOOD: Network = Network {
    delay: Duration::from_micros(50),
    jitter: Duration::ZERO,
    lost: 0,
    doubled: 0,
    longest: 65_000,
};
const FAR: Network = Network { delay: Duration::from_millis(50), longest: 1500, ..GOOD };

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

struct World {
    now: Instant,
    ends: [Exchange; 2],
    /// Packets under way, by time and order of sending, with the receiver.
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    order: u64,
    random: Random,
    network: Network,
    /// Datagrams sent, and the longest.
    sent: u64,
    longest: usize,
    got: [Vec<Bytes>; 2],
}

impl World {
    fn new(network: Network, seed: u64) -> Self {
        let now = Instant::now() + Duration::from_secs(3600);
        let end = || {
            let mut end = Exchange::new(now, WINDOW);
            end.open_up(LONGEST, WINDOW).unwrap();
            end
        };
        Self {
            now,
            ends: [end(), end()],
            flying: BTreeMap::new(),
            order: 0,
            random: Random(seed),
            network,
            sent: 0,
            longest: 0,
            got: [Vec::new(), Vec::new()],
        }
    }

    fn write(&mut self, from: usize, number: u64, length: usize) {
        self.ends[from].write(message(number, length));
    }

    fn fly(&mut self, to: usize, bytes: Vec<u8>) {
        let datagram = bytes.len() + RECORD_BYTES;
        self.sent += 1;
        let network = self.network;
        if self.random.below(1000) < network.lost || datagram > network.longest {
            return;
        }
        self.longest = self.longest.max(datagram);
        let copies = 1 + u64::from(self.random.below(1000) < network.doubled);
        for _ in 0..copies {
            let jitter = self.random.below(network.jitter.as_nanos() as u64 + 1);
            let at = self.now + network.delay + Duration::from_nanos(jitter);
            self.order += 1;
            self.flying.insert((at, self.order), (to, bytes.clone()));
        }
    }

    /// Runs until `done` or until nothing is left to happen. Returns the time that took.
    fn run(&mut self, done: impl Fn(&Self) -> bool) -> Duration {
        let begun = self.now;
        let mut packet = Vec::new();
        for _ in 0..5_000_000 {
            for from in 0..2 {
                while self.ends[from].transmit(self.now, &mut packet) {
                    self.fly(1 - from, packet.clone());
                }
                while let Some(mut messages) = self.ends[from].take() {
                    while let Some(length) = messages.first_chunk() {
                        let length = u32::from_le_bytes(*length) as usize + 4;
                        self.got[from].push(messages.split_to(length));
                    }
                }
            }
            if done(self) {
                return self.now - begun;
            }
            let now = self.now;
            let timer = self.ends.iter_mut().filter_map(|end| end.deadline(now)).min();
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let Some(next) = timer.into_iter().chain(arrival).min() else {
                panic!("nothing happens any more, and it is not done")
            };
            self.now = self.now.max(next);
            while let Some(first) = self.flying.first_entry() {
                if first.key().0 > self.now {
                    break;
                }
                let (to, bytes) = first.remove();
                self.ends[to].receive(self.now, &bytes).unwrap();
            }
        }
        panic!("it does not end");
    }

    fn numbers(&self, at: usize) -> Vec<u64> {
        self.got[at].iter().map(number).collect()
    }
}

/// A message of this length: its number, and bytes derived from the number.
fn message(number: u64, length: usize) -> Bytes {
    let mut bytes = ((length.max(8)) as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend((8..length).map(|at| (number as usize + at) as u8));
    bytes.into()
}

/// The number of a message. The message must be as written.
fn number(bytes: &Bytes) -> u64 {
    let number = u64::from_le_bytes(bytes[4..12].try_into().unwrap());
    assert_eq!(*bytes, message(number, bytes.len() - 4));
    number
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Under any faults of the network, every message arrives once and unchanged in both
    /// directions, and the end is known.
    #[test]
    fn every_message_comes_once(
        seed in any::<u64>(),
        lost in 0u64..400,
        doubled in 0u64..300,
        jitter in 0u64..20_000,
        longest in prop_oneof![Just(1200usize), Just(1500), Just(65_000)],
        lengths in proptest::collection::vec((0usize..2, 0usize..60_000), 1..40),
    ) {
        let jitter = Duration::from_micros(jitter);
        let network = Network { jitter, lost, doubled, longest, ..GOOD };
        let mut world = World::new(network, seed);
        let mut expected = [BTreeSet::new(), BTreeSet::new()];
        for (number, (from, length)) in lengths.into_iter().enumerate() {
            world.write(from, number as u64, length);
            expected[1 - from].insert(number as u64);
        }
        world.ends.iter_mut().for_each(Exchange::finish);
        world.run(|world| world.ends.iter().all(|end| end.is_finished() && end.has_ended()));
        for (at, expected) in expected.iter().enumerate() {
            let numbers = world.numbers(at);
            prop_assert_eq!(numbers.len(), expected.len());
            prop_assert_eq!(&numbers.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    /// Forged packets cause an error or nothing.
    #[test]
    fn whatever_arrives_does_no_harm(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..20),
    ) {
        let now = Instant::now();
        let mut end = Exchange::new(now, WINDOW);
        let mut packet = Vec::new();
        for bytes in packets {
            if end.receive(now, &bytes).is_err() {
                break;
            }
            for _ in 0..10 {
                let _ = end.transmit(now, &mut packet);
            }
        }
    }
}

/// Without retransmission a lost packet costs its messages, and holds up no others, however much
/// was lost since the beginning: here 25 MB with windows of 8 MiB.
#[test]
fn what_is_not_sent_again_is_forgotten_by_both_ends() {
    for (lost, least, most) in [(0, 25_000, 25_000), (10, 24_000, 24_900), (100, 18_000, 22_500)] {
        let mut world = World::new(Network { lost, ..FAR }, 5);
        world.ends.iter_mut().for_each(Exchange::give_up_lost);
        (0..25_000).for_each(|number| world.write(0, number, 1000));
        world.ends.iter_mut().for_each(Exchange::finish);
        world.run(|world| world.ends.iter().all(|end| end.is_finished() && end.has_ended()));
        let came: BTreeSet<u64> = world.numbers(1).into_iter().collect();
        assert_eq!(came.len(), world.got[1].len(), "none comes twice");
        assert!((least..=most).contains(&came.len()), "{lost} of 1,000 lost: {} came", came.len());
        assert_eq!(world.ends[0].kept(), 0);
    }
}

/// Bytes from before the switch, the greetings of a connection, are sent again all the same.
#[test]
fn what_was_written_before_loss_is_accepted_is_sent_again() {
    let mut world = World::new(Network { lost: 1000, ..FAR }, 1);
    world.write(0, 0, 100);
    world.ends.iter_mut().for_each(Exchange::give_up_lost);
    let mut packet = Vec::new();
    assert!(world.ends[0].transmit(world.now, &mut packet), "lost");
    world.write(0, 1, 100);
    assert!(world.ends[0].transmit(world.now, &mut packet), "lost as well");
    world.network.lost = 0;
    world.run(|world| world.ends[0].kept() == 0);
    assert_eq!(world.numbers(1), [0]);
}

#[test]
fn one_packet_lost_holds_up_its_own_message_alone() {
    let mut world = World::new(FAR, 1);
    world.network.lost = 1000;
    world.write(0, 0, 100);
    let mut packet = Vec::new();
    assert!(world.ends[0].transmit(world.now, &mut packet), "lost");
    world.network.lost = 0;
    (1..4).for_each(|number| world.write(0, number, 100));
    let taken = world.run(|world| world.got[1].len() == 3);
    assert_eq!((world.numbers(1), taken), (vec![1, 2, 3], FAR.delay));
    world.run(|world| world.got[1].len() == 4);
    assert_eq!(world.numbers(1), [1, 2, 3, 0]);
}

/// The seconds until 40 MB have arrived, in proposals of 100 kB, at a round trip of 100 ms.
fn seconds(lost: u64) -> f64 {
    let mut world = World::new(Network { lost, ..FAR }, 7);
    for number in 0..400 {
        world.write(0, number, 100_000);
    }
    world.run(|world| world.got[1].len() == 400).as_secs_f64()
}

/// With 1 % loss the throughput must hold.
#[test]
fn a_loss_of_a_hundredth_does_not_collapse_throughput_nor_does_one_of_a_twentieth() {
    let without = seconds(0);
    for (lost, most) in [(10, 1.5), (50, 2.0)] {
        let with = seconds(lost);
        assert!(with < without * most, "{without:.2} s, and {with:.2} s with {lost} of 1,000 lost");
    }
}

#[test]
fn datagrams_become_as_long_as_the_way_allows() {
    for (longest, expected) in [(1200, LEAST_BYTES), (1500, 1452), (65_000, 6500)] {
        let mut world = World::new(Network { longest, ..GOOD }, 3);
        for round in 0..50 {
            world.write(0, round, 50_000);
            world.run(|world| world.got[1].len() as u64 == round + 1);
        }
        assert_eq!(world.longest, expected);
        // The path now carries only shorter datagrams.
        world.network.longest = 1200;
        world.write(0, 50, 50_000);
        world.run(|world| world.got[1].len() == 51);
    }
}

/// Small messages continue to arrive, so no time-out reveals the change.
#[test]
fn a_way_that_takes_shorter_datagrams_than_before_is_noticed_by_what_is_lost() {
    let mut world = World::new(GOOD, 3);
    for round in 0..50 {
        world.write(0, round, 50_000);
        world.run(|world| world.got[1].len() as u64 == round + 1);
    }
    world.network.longest = 1200;
    world.write(0, 50, 50_000);
    for number in 51..1000 {
        if world.numbers(1).contains(&50) {
            return;
        }
        world.write(0, number, 10);
        world.run(|world| world.numbers(1).contains(&number));
    }
    panic!("the long message never arrives");
}

#[test]
fn somebody_who_takes_nothing_is_sent_no_more_than_a_window() {
    let mut world = World::new(GOOD, 5);
    let mut packet = Vec::new();
    let first = world.now;
    (0..20).for_each(|number| world.write(0, number, 1_000_000));
    while world.now - first < Duration::from_secs(30) {
        for from in 0..2 {
            while world.ends[from].transmit(world.now, &mut packet) {
                world.ends[1 - from].receive(world.now, &packet).unwrap();
            }
        }
        world.now += Duration::from_millis(1);
    }
    assert!(world.ends[0].kept() >= 20_000_000 - WINDOW);
    world.run(|world| world.got[1].len() == 20);
}

#[test]
fn nothing_is_sent_when_nothing_is_to_be_said() {
    let mut world = World::new(GOOD, 9);
    world.write(0, 0, 10);
    world.run(|world| world.got[1].len() == 1);
    let until = world.now + Duration::from_secs(5);
    let mut packet = Vec::new();
    while world.now < until {
        for from in 0..2 {
            while world.ends[from].transmit(world.now, &mut packet) {
                world.sent += 1;
                world.ends[1 - from].receive(world.now, &packet).unwrap();
            }
        }
        world.now += Duration::from_millis(1);
    }
    assert!(world.sent < 12, "{} packets", world.sent);
    let now = world.now;
    assert_eq!(world.ends.each_mut().map(|end| end.deadline(now)), [None, None]);
}

#[test]
fn who_acknowledges_what_was_not_sent_is_found_out() {
    let now = Instant::now();
    let mut end = Exchange::new(now, WINDOW);
    let mut packet = Vec::new();
    packet::begin(&mut packet, &Header::default(), std::iter::once(&(0..3)));
    let found = end.receive(now, &packet);
    assert_eq!(found, Err(Misbehaved("it acknowledges what was not sent, or twice")));
}

/// The cost of handling a packet must not grow when it repeats itself.
#[test]
fn who_acknowledges_twice_in_one_packet_is_found_out() {
    let now = Instant::now();
    let mut end = Exchange::new(now, WINDOW);
    let mut packet = Vec::new();
    end.write(message(0, 100));
    assert!(end.transmit(now, &mut packet));
    packet::begin(&mut packet, &Header::default(), [0..1, 0..1].iter());
    assert!(end.receive(now, &packet).is_err());
}

/// Reordered packets are not lost.
#[test]
fn a_way_on_which_packets_overtake_each_other_is_no_slower() {
    let seconds = |jitter| {
        let delay = Duration::from_millis(10);
        let mut world = World::new(Network { delay, jitter, ..GOOD }, 11);
        (0..400).for_each(|number| world.write(0, number, 100_000));
        world.run(|world| world.got[1].len() == 400).as_secs_f64()
    };
    let even = seconds(Duration::ZERO);
    for jitter in [200, 3000].map(Duration::from_micros) {
        let uneven = seconds(jitter);
        assert!(uneven < even * 2.5, "{even:.2} s, and {uneven:.2} s with {jitter:?}");
    }
}

#[test]
fn what_is_kept_does_not_grow_with_what_only_acknowledges() {
    let mut world = World::new(GOOD, 13);
    world.write(0, 0, 10);
    let mut packet = Vec::new();
    assert!(world.ends[0].transmit(world.now, &mut packet), "never acknowledged");
    for number in 1..10_000 {
        packet::begin(&mut packet, &Header { number: number * 2, ..Header::default() }, [].iter());
        packet::ping(&mut packet);
        world.ends[0].receive(world.now, &packet).unwrap();
        assert!(world.ends[0].transmit(world.now, &mut packet));
    }
    assert_eq!(world.ends[0].sent.len(), 1);
}

/// A long message may be written before the other side knows our identity.
#[test]
fn a_long_message_behind_a_hello_waits_until_it_is_taken() {
    let mut world = World::new(GOOD, 17);
    let now = world.now;
    world.ends = [(); 2].map(|()| Exchange::new(now, FIRST_WINDOW_BYTES));
    world.write(0, 0, 100);
    (1..4).for_each(|number| world.write(0, number, 100_000 >> (number * 4)));
    world.run(|world| world.got[1].len() == 1);
    world.ends[1].open_up(LONGEST, WINDOW).unwrap();
    world.run(|world| world.got[1].len() == 4);
    assert_eq!(world.numbers(1)[0], 0);
}
