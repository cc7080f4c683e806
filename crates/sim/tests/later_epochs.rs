//! Replicas that come back in a later epoch than that of their state: they lost their data, or a
//! state that they took over. The oracles see all that is signed: nobody contradicts what it said
//! before, in whatever epoch.

mod governed;

use governed::{SECOND, administrator_of, config, epoch, members, run_to};
use quorate_core::protocols::pbft;
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::replica::Input;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Epoch, Height, ReplicaId, View};
use quorate_sim::administrator::{Administrator, newest};
use quorate_sim::disk::Fate as Power;
use quorate_sim::family::{Family, HotStuffs, Pbfts};
use quorate_sim::network::{Fate, Link};
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

/// The replica that comes back. It is a member that counts in all epochs, unless a test says so.
const BACK: usize = 3;

/// Logs are cut after a few blocks: who was away for long finds the blocks gone.
fn cut(seed: u64) -> Config {
    Config {
        snapshot_blocks: 8,
        snapshot_micros: 150_000,
        retire: true,
        log_room_bytes: 0,
        batch_commands: 4,
        link: Link::steady(200),
        pbft: pbft::Settings { checkpoint_every: 4, window: 16, ..pbft::Settings::default() },
        ..config(seed)
    }
}

/// Ends the newest epoch: learners come or go, and the first four count on. Who is down is not
/// ready, nor is who came back.
fn change<F: Family>(cluster: &mut Cluster<F>, administrator: &mut Administrator) {
    let ends = newest(cluster).epoch();
    let learners = 4..5 + (ends.0 % 3) as usize;
    // Who gets another key has to say itself that it is ready.
    let rotates = cluster.config.second_keys_from == Some(ends.0 + 1);
    let change = administrator.change(ends, &members(0..4, learners), |id| id != BACK || rotates);
    administrator.submit(cluster, &change);
    run_to(cluster, &[0, 1, 2], ends.0 + 1);
}

fn work<F: Family>(cluster: &mut Cluster<F>, commands: u64) {
    for _ in 0..commands / 10 {
        cluster.request(0, 10, 20);
        assert!(cluster.run_until_answered(60 * SECOND), "commands are lost");
    }
}

/// The same for so long that snapshots are durable, and logs are cut.
fn work_long<F: Family>(cluster: &mut Cluster<F>) {
    for _ in 0..12 {
        cluster.request(0, 8, 8_000);
        assert!(cluster.run_until_answered(60 * SECOND), "commands are lost");
        cluster.run_for(SECOND / 5);
    }
}

/// Another member goes, so that nothing is ordered without the one that came back.
fn speaks<F: Family>(cluster: &mut Cluster<F>) {
    for round in 0.. {
        work(cluster, 100);
        // PBFT leaves a view for one replica after some time.
        cluster.run_for(2 * SECOND);
        let (status, rejoins) =
            (cluster.core(BACK).protocol().status(), cluster.core(BACK).is_rejoining());
        if !rejoins && status.abstain_until < status.view {
            break;
        }
        assert!(round < 10, "it rejoins for ever: {rejoins}, {status:?}");
    }
    assert!(cluster.run_until(60 * SECOND, Cluster::is_level), "it does not catch up");
    cluster.crash(0);
    work(cluster, 30);
    cluster.boot(0);
}

/// The heights of the snapshots on a disk.
fn snapshots<F: Family>(cluster: &Cluster<F>, slot: usize) -> Vec<u64> {
    let files = cluster.slots[slot].disk.files();
    files.iter().filter_map(|name| name.strip_suffix(".snapshot")?.parse().ok()).collect()
}

/// The height of the newest snapshot on its disk.
fn snapshot<F: Family>(cluster: &Cluster<F>) -> u64 {
    snapshots(cluster, BACK).into_iter().max().unwrap_or(0)
}

/// It starts, and the others' logs begin behind their oldest snapshot. (Those of PBFT have long
/// segments, and are not cut in so short a time.)
fn comes_back<F: Family>(cluster: &mut Cluster<F>) {
    for slot in (0..8).filter(|slot| *slot != BACK) {
        let oldest = snapshots(cluster, slot).into_iter().min().expect("a snapshot");
        cluster.turn(slot, Input::LogBegins(Height(oldest).next()));
    }
    cluster.boot(BACK);
}

/// What happens to a replica.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// It is killed behind its `n`-th turn that persisted something.
    Kill(u64),
    /// Its power fails behind the `n`-th operation of its disk.
    Power(u64, Power),
}

impl Blow {
    /// Strikes it; says whether it came to that while `lasts`.
    fn strike<F: Family>(
        self,
        cluster: &mut Cluster<F>,
        lasts: impl Fn(&Cluster<F>) -> bool,
    ) -> bool {
        let writes = cluster.slots[BACK].disk.writes;
        if let Self::Power(n, fate) = self {
            cluster.power_failure_in(BACK, n, fate);
        }
        let struck = |cluster: &Cluster<F>| match self {
            Self::Kill(n) => cluster.slots[BACK].disk.writes >= writes + n,
            Self::Power(..) => cluster.slots[BACK].core.is_none(),
        };
        cluster.run_until(5 * SECOND, |cluster| struck(cluster) || !lasts(cluster));
        let was_struck = struck(cluster) && (cluster.slots[BACK].core.is_none() || lasts(cluster));
        if cluster.slots[BACK].core.is_some() {
            cluster.crash(BACK);
        }
        cluster.slots[BACK].disk.heal();
        cluster.boot(BACK);
        was_struck
    }
}

/// Strikes a replica at each point of something that happens again and again in the same way: the
/// cluster that `begin` makes. Returns how often, and how often it was mute when it came back.
fn at_each_point<F: Family>(
    begin: impl Fn(u64) -> Cluster<F>,
    lasts: impl Fn(&Cluster<F>) -> bool + Copy,
    end: impl Fn(Cluster<F>),
) -> (u64, u64) {
    let (mut struck, mut mute) = (0, 0);
    let power = |n| Blow::Power(n, if n % 2 == 0 { Power::Lost } else { Power::Kept });
    let blows: [fn(u64) -> Blow; 2] = [Blow::Kill, power];
    for blow in blows {
        let points = std::iter::successors(Some(1), |n| Some(n + 1 + n / 4));
        for n in points.take(60) {
            let mut cluster = begin(n % 3);
            let was_struck = blow(n).strike(&mut cluster, lasts);
            mute += u64::from(cluster.core(BACK).is_mute());
            end(cluster);
            if !was_struck {
                break;
            }
            struck += 1;
        }
    }
    (struck, mute)
}

/// Away for three epochs, it takes over a state of the last one.
fn skips<F: Family>(seed: u64) -> Cluster<F> {
    let mut cluster = Cluster::<F>::of(cut(seed), Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    work(&mut cluster, 40);
    cluster.crash(BACK);
    for _ in 0..3 {
        change(&mut cluster, &mut administrator);
        work_long(&mut cluster);
    }
    comes_back(&mut cluster);
    let came = |cluster: &Cluster<F>| epoch(cluster, BACK) == Epoch(3);
    cluster.request(0, 1, 20);
    assert!(cluster.run_until(20 * SECOND, came), "it does not come to the last epoch");
    for client in 0..2 {
        cluster.request(client, 100, 20);
    }
    assert!(snapshot(&cluster) < newest(&cluster).opening().height.0, "it is durable too early");
    cluster
}

fn before_a_state_of_a_later_epoch_is_durable<F: Family>() {
    let is_written = |cluster: &Cluster<F>| snapshot(cluster) >= newest(cluster).opening().height.0;
    let (struck, mute) = at_each_point(
        skips::<F>,
        |cluster| !is_written(cluster),
        |mut cluster| {
            run_to(&mut cluster, &[BACK], 3);
            speaks(&mut cluster);
        },
    );
    assert!(struck > 5 && mute > 2, "struck {struck} times, mute {mute} times");
}

#[test]
fn a_state_of_a_later_epoch_that_was_not_durable_is_taken_over_again() {
    before_a_state_of_a_later_epoch_is_durable::<HotStuffs>();
    before_a_state_of_a_later_epoch_is_durable::<Pbfts>();
}

/// It takes over a state of the epoch that it is in, which ends before that state is durable.
fn ends_early<F: Family>(seed: u64) -> Cluster<F> {
    let config = Config { snapshot_micros: 1_000_000, ..cut(seed) };
    let mut cluster = Cluster::<F>::of(config, Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    work(&mut cluster, 40);
    cluster.crash(BACK);
    let height = cluster.core(0).execution().height();
    work_long(&mut cluster);
    comes_back(&mut cluster);
    let took_over = |cluster: &Cluster<F>| {
        cluster.core(BACK).execution().height() > height.plus(8) && snapshot(cluster) <= height.0
    };
    cluster.request(0, 1, 20);
    assert!(cluster.run_until(20 * SECOND, took_over), "it takes over no state");
    let change = administrator.change(Epoch(0), &members(0..4, 4..5), |id| id != BACK);
    administrator.submit(&mut cluster, &change);
    run_to(&mut cluster, &[BACK], 1);
    assert!(snapshot(&cluster) <= height.0, "it is durable too early");
    for client in 0..2 {
        cluster.request(client, 100, 20);
    }
    cluster
}

fn before_a_state_of_an_epoch_that_ended_is_durable<F: Family>() {
    let lasts = |cluster: &Cluster<F>| snapshot(cluster) < newest(cluster).opening().height.0;
    let (struck, mute) = at_each_point(ends_early::<F>, lasts, |mut cluster| {
        run_to(&mut cluster, &[BACK], 1);
        speaks(&mut cluster);
    });
    assert!(struck > 2 && mute > 0, "struck {struck} times, mute {mute} times");
}

#[test]
fn a_state_that_was_not_durable_when_its_epoch_ended_is_taken_over_again() {
    before_a_state_of_an_epoch_that_ended_is_durable::<HotStuffs>();
    before_a_state_of_an_epoch_that_ended_is_durable::<Pbfts>();
}

/// Loses its data now.
fn lose<F: Family>(cluster: &mut Cluster<F>, nonce: u8) {
    cluster.crash(BACK);
    cluster.rejoin(BACK, nonce);
}

/// Members change twice, the second time with other keys for all, before the data is lost, and once
/// while the replica comes back.
fn loses_its_data<F: Family>(config: Config) -> Cluster<F> {
    let config = Config { second_keys_from: Some(2), ..config };
    let mut cluster = Cluster::<F>::of(config, Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    for _ in 0..2 {
        work_long(&mut cluster);
        change(&mut cluster, &mut administrator);
    }
    work_long(&mut cluster);
    run_to(&mut cluster, &[BACK], 2);
    cluster.crash(BACK);
    let change = administrator.change(Epoch(2), &members(0..4, 5..6), |id| id != BACK);
    administrator.submit(&mut cluster, &change);
    cluster.request(1, 20, 20);
    lose(&mut cluster, 7);
    cluster
}

fn rejoins<F: Family>(config: fn(u64) -> Config) {
    for seed in 0..5 {
        let mut cluster = loses_its_data::<F>(config(seed));
        run_to(&mut cluster, &[0, 1, 2, BACK], 3);
        speaks(&mut cluster);
    }
}

#[test]
fn who_lost_its_data_rejoins_where_members_have_changed() {
    rejoins::<HotStuffs>(config);
    rejoins::<HotStuffs>(cut);
    rejoins::<Pbfts>(config);
    rejoins::<Pbfts>(cut);
}

fn rejoins_though_it_is_stopped<F: Family>(config: fn(u64) -> Config) -> u64 {
    let rejoins = |cluster: &Cluster<F>| {
        cluster.slots[BACK].core.as_ref().is_some_and(|core| core.is_rejoining())
    };
    let (struck, mute) = at_each_point(
        |seed| loses_its_data::<F>(config(seed)),
        rejoins,
        |mut cluster| {
            run_to(&mut cluster, &[BACK], 3);
            speaks(&mut cluster);
        },
    );
    assert!(struck > 5, "struck only {struck} times");
    mute
}

#[test]
fn who_is_stopped_while_it_rejoins_rejoins_still() {
    rejoins_though_it_is_stopped::<HotStuffs>(config);
    let mute = rejoins_though_it_is_stopped::<HotStuffs>(cut);
    assert!(mute > 0, "it was never stopped before a state of a later epoch was durable");
    rejoins_though_it_is_stopped::<Pbfts>(config);
}

/// None of the first members is left; those who are now know the way from them.
fn rejoins_among_others<F: Family>(seed: u64) {
    let mut cluster = Cluster::<F>::of(cut(seed), Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    let steps = [members(0..4, 4..8), members(0..8, 0..0), members(BACK..8, 0..0)];
    for (ends, weights) in steps.iter().enumerate() {
        work(&mut cluster, 40);
        let change = administrator.change(Epoch(ends as u64), weights, |_| true);
        administrator.submit(&mut cluster, &change);
        run_to(&mut cluster, &[BACK, 4, 5, 6, 7], ends as u64 + 1);
    }
    (0..BACK).for_each(|slot| cluster.crash(slot));
    work(&mut cluster, 200);
    lose(&mut cluster, 7);
    run_to(&mut cluster, &[BACK], 3);
    work(&mut cluster, 300);
    assert!(cluster.run_until(60 * SECOND, Cluster::is_level), "it does not catch up");
    assert!(!cluster.core(BACK).is_rejoining());
}

#[test]
fn who_lost_its_data_rejoins_where_none_of_the_first_members_is_left() {
    for seed in 0..5 {
        rejoins_among_others::<HotStuffs>(seed);
        rejoins_among_others::<Pbfts>(seed);
    }
}

/// A member that was removed comes to the epoch in which it is none, and says nothing.
fn finds_that_it_was_removed<F: Family>(seed: u64) {
    let mut cluster = Cluster::<F>::of(config(seed), Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    let steps = [members(0..4, 4..5), members(0..5, 0..0)];
    for (ends, weights) in steps.iter().enumerate() {
        work(&mut cluster, 40);
        let change = administrator.change(Epoch(ends as u64), weights, |_| true);
        administrator.submit(&mut cluster, &change);
        run_to(&mut cluster, &[0, 1, 2, BACK], ends as u64 + 1);
    }
    cluster.crash(BACK);
    let mut weights = members(0..5, 0..0);
    weights[BACK] = None;
    let change = administrator.change(Epoch(2), &weights, |id| id != BACK);
    administrator.submit(&mut cluster, &change);
    run_to(&mut cluster, &[0, 1, 2, 4], 3);
    lose(&mut cluster, 7);
    run_to(&mut cluster, &[BACK], 3);
    work(&mut cluster, 100);
    let core = cluster.core(BACK);
    let members = core.execution().members().committee().expect("it is governed");
    assert!(!members.contains(ReplicaId(BACK as u16)));
    assert!(core.is_rejoining(), "nobody testified to it");
    assert!(!core.is_caught_up());
}

#[test]
fn who_lost_its_data_and_was_removed_finds_that_it_is_no_member() {
    for seed in 0..5 {
        finds_that_it_was_removed::<HotStuffs>(seed);
        finds_that_it_was_removed::<Pbfts>(seed);
    }
}

/// One replica comes to the next epoch before all others, speaks there, and loses its data. The
/// others testify in the epoch that is about to end. Returns whether it came to that.
fn was_the_first(before: u64) -> bool {
    const FIRST: usize = 1;
    let config = Config { second_vote: false, ..config(before) };
    let mut cluster = Cluster::<HotStuffs>::of(config, Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    for _ in 0..before {
        cluster.request(0, 1, 20);
        assert!(cluster.run_until_answered(20 * SECOND));
    }
    // Nothing of the next epoch arrives, nor how this one ended. What the first one says of this
    // one arrives late.
    cluster.meddler = Some(Box::new(|from, _, message| match message {
        PeerMessage::Handover(_) => Fate::Lost,
        PeerMessage::Protocol { epoch, .. } if *epoch > Epoch(0) => Fate::Lost,
        PeerMessage::Protocol { .. } if from == FIRST => Fate::Late(10_000),
        _ => Fate::Goes,
    }));
    let change = administrator.change(Epoch(0), &members(0..4, 4..5), |_| true);
    administrator.submit(&mut cluster, &change);
    cluster.request(0, 5, 20);
    let is_one_there = |cluster: &Cluster| (0..4).any(|slot| epoch(cluster, slot) == Epoch(1));
    assert!(cluster.run_until(20 * SECOND, is_one_there));
    cluster.run_for(100);
    let there: Vec<usize> = (0..4).filter(|slot| epoch(&cluster, *slot) == Epoch(1)).collect();
    let proposed = cluster.proposed.iter().filter(|(_, slot, _)| *slot == FIRST).count();
    let leads = cluster.core(FIRST).protocol().view() == View(1) && proposed > 0;
    if there != [FIRST] || !leads {
        return false;
    }
    cluster.crash(FIRST);
    cluster.rejoin(FIRST, 7);
    let rejoined = |cluster: &Cluster| !cluster.core(FIRST).is_rejoining();
    if !cluster.run_until(20_000, rejoined) {
        return false;
    }
    assert_eq!(epoch(&cluster, FIRST), Epoch(0));
    cluster.meddler = None;
    cluster.request(1, 30, 20);
    run_to(&mut cluster, &[0, 1, 2, 3], 1);
    for _ in 0..30 {
        cluster.request(0, 1, 20);
        assert!(cluster.run_until_answered(60 * SECOND));
    }
    assert!(cluster.run_until(60 * SECOND, rejoined), "it rejoins for ever");
    true
}

#[test]
fn who_lost_its_data_does_not_speak_again_in_an_epoch_that_only_it_had_come_to() {
    let happened = (0..40).filter(|before| was_the_first(*before)).count();
    assert!(happened > 0, "no replica was in the next epoch alone");
}
