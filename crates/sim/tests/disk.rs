//! What a disk can do to a replica, at every point of a short run: it comes back, never contradicts
//! itself, and the others do not notice. The oracles look on all the time, and each recovery is
//! compared with what was promised.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_sim::disk::{Corruption, Fate, Place};
use quorate_sim::{Cluster, Config};

/// Logs of the smallest segments, snapshots every few blocks: everything happens in a short run.
fn config() -> Config {
    Config { snapshot_blocks: 7, retire: true, log_room_bytes: 0, ..Config::default() }
}

const ROUNDS: u64 = 12;

/// A client asks again and again; who is down is started a while later. In the end everything is
/// answered and all are in one state.
fn serve(cluster: &mut Cluster, mut each: impl FnMut(&mut Cluster, u64)) {
    for round in 0..ROUNDS {
        each(cluster, round);
        cluster.request(0, 3, 40);
        assert!(cluster.run_until_answered(60_000_000), "liveness: round {round} is not answered");
        boot_all(cluster);
    }
    settle(cluster);
}

fn boot_all(cluster: &mut Cluster) {
    for slot in 0..cluster.slots.len() {
        if cluster.slots[slot].core.is_none() {
            cluster.boot(slot);
        }
    }
}

/// Everybody is up, everything is answered, all are level.
fn settle(cluster: &mut Cluster) {
    for slot in 0..cluster.slots.len() {
        cluster.slots[slot].disk.heal();
    }
    boot_all(cluster);
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(60_000_000), "liveness: not everything is answered");
    let all_run = |cluster: &Cluster| cluster.slots.iter().all(|slot| slot.core.is_some());
    assert!(all_run(cluster), "a replica is down");
    assert!(cluster.run_until(60_000_000, Cluster::is_level), "liveness: a replica lags behind");
}

fn fates(n: u64) -> [Fate; 10] {
    [
        Fate::Kept,
        Fate::Lost,
        Fate::ContentLost,
        Fate::NamesLost,
        Fate::Torn { sectors: 0 },
        Fate::Torn { sectors: 1 },
        Fate::Hole { sector: 0 },
        Fate::Hole { sector: 1 },
        Fate::Mixed { seed: n },
        Fate::Mixed { seed: !n },
    ]
}

/// How many operations each disk is asked for in the run without faults. It must be long enough for
/// all that a disk is for: a snapshot, an offer, a segment that was retired.
fn operations() -> Vec<u64> {
    let mut cluster = Cluster::new(config());
    let before: Vec<u64> = cluster.slots.iter().map(|slot| slot.disk.operations()).collect();
    for _ in 0..ROUNDS {
        cluster.request(0, 3, 40);
        assert!(cluster.run_until_answered(60_000_000));
    }
    for slot in &cluster.slots {
        let files = slot.disk.files();
        for kind in [".snapshot", "offer"] {
            assert!(files.iter().any(|name| name.ends_with(kind)), "no {kind} in {files:?}");
        }
        assert!(!files.iter().any(|name| name.ends_with("00.wal")), "nothing retired: {files:?}");
    }
    let ends = cluster.slots.iter().map(|slot| slot.disk.operations());
    ends.zip(before).map(|(end, before)| end - before).collect()
}

#[test]
fn a_power_failure_at_every_operation_and_of_every_kind_costs_nothing_promised() {
    let operations = operations();
    let mut kinds = BTreeSet::new();
    for slot in [0, 3] {
        for n in 1..=operations[slot] {
            // Each operation meets each fate at one replica or the other.
            for (number, fate) in fates(n).into_iter().enumerate() {
                if (number + slot) % 2 == 0 && number > 1 {
                    continue;
                }
                let mut cluster = Cluster::new(config());
                cluster.power_failure_in(slot, n, fate);
                serve(&mut cluster, |_, _| {});
                assert_eq!(cluster.faults.of("power failure"), 1, "operation {n}, {fate:?}");
                kinds.extend(cluster.faults.iter().map(|(kind, _)| kind));
            }
        }
    }
    assert_eq!(kinds.len(), 7, "{kinds:?}");
}

#[test]
fn a_power_failure_at_every_operation_of_a_recovery_costs_nothing_promised() {
    let mut failures = 0;
    for fate in fates(7) {
        for n in 1.. {
            let mut cluster = Cluster::new(config());
            for _ in 0..5 {
                cluster.request(0, 3, 40);
                assert!(cluster.run_until_answered(60_000_000));
            }
            cluster.power_failure(1, Fate::Mixed { seed: n });
            let before = cluster.slots[1].disk.operations();
            cluster.power_failure_in(1, n, fate);
            cluster.boot(1);
            if cluster.slots[1].core.is_some() {
                assert!(cluster.slots[1].disk.operations() - before < n);
                break;
            }
            failures += 1;
            serve(&mut cluster, |_, _| {});
            assert_eq!(cluster.faults.of("power failure"), 2);
        }
    }
    assert!(failures > 30, "{failures} recoveries were interrupted");
}

/// The power of the whole building fails: nobody has what the coin took from all, and it must not
/// be voted for again.
#[test]
fn a_power_failure_of_all_at_once_costs_nothing_promised() {
    let operations = operations()[0];
    for replicas in [1, 4] {
        for n in (1..=operations / 2).step_by(replicas) {
            let mut cluster = Cluster::new(Config { replicas, ..config() });
            for slot in 0..replicas {
                let seed = n << 8 | slot as u64;
                cluster.power_failure_in(slot, n, Fate::Mixed { seed });
            }
            let is_out = |cluster: &Cluster| cluster.slots.iter().all(|slot| slot.core.is_none());
            for _ in 0..ROUNDS {
                cluster.request(0, 3, 40);
                cluster.run_until(3_000_000, |cluster| is_out(cluster) || cluster.is_answered());
                if is_out(&cluster) {
                    break;
                }
            }
            settle(&mut cluster);
        }
    }
}

#[test]
fn a_sync_that_fails_stops_the_replica_and_its_restart_tells_no_lie() {
    let operations = operations()[2];
    // Behind so many operations of the disk, the next sync fails.
    for n in 0..operations - 3 {
        let mut cluster = Cluster::new(config());
        let begun = cluster.slots[2].disk.operations();
        cluster.request(0, 3, 40);
        let mut rounds = 1;
        while !cluster
            .run_until(2_000_000, |cluster| cluster.slots[2].disk.operations() >= begun + n)
        {
            cluster.request(0, 3, 40);
            rounds += 1;
            assert!(rounds < 50, "the run is too short for {n} operations");
        }
        cluster.fail_sync(2);
        serve(&mut cluster, |_, _| {});
        assert_eq!(cluster.faults.of("sync error"), 1, "operation {n}");
    }
}

#[test]
fn a_replica_on_a_full_disk_is_down_until_there_is_room() {
    // The last operations write nothing.
    for after in (0..operations()[1] - 8).step_by(3) {
        let mut cluster = Cluster::new(config());
        cluster.fill_disk(1, after);
        for _ in 0..ROUNDS {
            cluster.request(0, 3, 40);
            assert!(cluster.run_until_answered(60_000_000), "after {after}");
        }
        assert_eq!(cluster.faults.of("full disk"), 1, "after {after}");
        assert!(cluster.slots[1].core.is_none() && cluster.slots[1].disk.is_full());
        // Started, it reads what is there, and is down again as soon as it has something to write.
        cluster.boot(1);
        cluster.request(0, 3, 40);
        assert!(cluster.run_until_answered(60_000_000), "after {after}");
        assert!(cluster.slots[1].core.is_none());
        assert_eq!(cluster.faults.of("full disk"), 2, "after {after}");
        cluster.free_disk(1);
        settle(&mut cluster);
    }
}

/// Damages the disk of one replica while it runs or while it is down, then starts it, as often as
/// `seeds` says.
fn damaged(corruption: Corruption, while_down: bool, seeds: std::ops::Range<u64>) -> (u64, u64) {
    let (mut fired, mut refused) = (0, 0);
    for seed in seeds {
        let mut cluster = Cluster::new(Config { seed, ..config() });
        for _ in 0..6 {
            cluster.request(0, 3, 40);
            assert!(cluster.run_until_answered(60_000_000));
        }
        cluster.run_for(1_000_000);
        if while_down {
            cluster.power_failure(1, Fate::Mixed { seed });
        }
        if !cluster.corrupt(1, corruption) {
            continue;
        }
        assert!(!cluster.corrupt(1, corruption), "a second damage before the first was met");
        fired += cluster.faults.of(corruption.name());
        if !while_down {
            cluster.request(0, 3, 40);
            assert!(cluster.run_until_answered(60_000_000));
            cluster.power_failure(1, Fate::Mixed { seed });
        }
        cluster.boot(1);
        refused += cluster.faults.of("data refused");
        serve(&mut cluster, |_, _| {});
        // Its vote counts again, however it came back.
        for _ in 0..30 {
            cluster.request(0, 1, 10);
            assert!(cluster.run_until_answered(60_000_000));
        }
        cluster.crash(2);
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(60_000_000), "{corruption:?}: it does not take part");
        assert!(cluster.run_until(60_000_000, Cluster::is_level));
    }
    (fired, refused)
}

#[test]
fn damage_at_rest_is_refused_or_repaired() {
    for corruption in Corruption::ALL {
        for while_down in [false, true] {
            let (fired, refused) = damaged(corruption, while_down, 0..25);
            assert!(fired >= 10, "{corruption:?} fired {fired} times");
            match corruption.place {
                // There is a second copy, an older snapshot, or the others.
                Place::Slots | Place::Snapshot | Place::Offer => assert_eq!(refused, 0),
                Place::Head => assert!(refused > 0 && refused < fired, "{refused} of {fired}"),
                Place::Records => assert!(refused > 0, "{refused} of {fired}"),
            }
        }
    }
}

#[test]
fn writes_that_go_astray_are_refused_or_repaired() {
    let (mut fired, mut refused) = ([0, 0], 0);
    for seed in 0..120 {
        let (lost, n) = (seed % 2 == 0, 1 + seed / 2 % 8);
        let mut cluster = Cluster::new(Config { seed, ..config() });
        for _ in 0..4 {
            cluster.request(0, 3, 40);
            assert!(cluster.run_until_answered(60_000_000));
        }
        assert!(cluster.misdirect_write(1, n, lost));
        assert!(!cluster.misdirect_write(1, n, lost));
        for _ in 0..seed % 3 {
            cluster.request(0, 3, 40);
            assert!(cluster.run_until_answered(60_000_000));
        }
        cluster.power_failure(1, Fate::Mixed { seed });
        fired[0] += cluster.faults.of("write lost");
        fired[1] += cluster.faults.of("write misdirected");
        cluster.boot(1);
        refused += cluster.faults.of("data refused");
        serve(&mut cluster, |_, _| {});
    }
    assert!(fired.iter().all(|fired| *fired > 10), "{fired:?}");
    assert!(refused > 5, "{refused} refused");
}

/// What a restarted replica has in its log below its snapshot it can still send: a snapshot that no
/// quorum vouched for yet is of no use to others.
#[test]
fn blocks_below_a_snapshot_that_is_not_attested_are_sent_after_everybody_restarted() {
    for snapshot_blocks in 3..12 {
        let mut cluster = Cluster::new(Config { snapshot_blocks, ..config() });
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(60_000_000));
        cluster.crash(3);
        for _ in 0..3 {
            cluster.request(0, 3, 40);
            assert!(cluster.run_until_answered(60_000_000));
        }
        cluster.run_for(2_000_000);
        for slot in 0..3 {
            cluster.crash(slot);
            cluster.boot(slot);
        }
        cluster.boot(3);
        assert!(
            cluster.run_until(10_000_000, Cluster::is_level),
            "{snapshot_blocks}: r3 is behind"
        );
    }
}

#[test]
fn one_replica_with_an_old_disk_counts_as_faulty_and_the_others_agree() {
    for seed in 0..20 {
        let mut cluster = Cluster::new(Config { seed, ..config() });
        serve(&mut cluster, |cluster, round| {
            if round == seed % 4 {
                cluster.keep_state(3);
            }
            if round == 4 + seed % 4 {
                assert!(cluster.restore_old_state(3));
            }
        });
        assert!(cluster.slots[3].faulty);
        assert_eq!(cluster.faults.of("old state restored"), 1);
        // Without it the others are a quorum, and at one.
        cluster.crash(3);
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(60_000_000));
    }
}

#[test]
fn on_slow_disks_votes_leave_later_and_none_is_lost() {
    let time = |sync_micros| {
        let mut cluster = Cluster::new(Config { sync_micros, ..config() });
        cluster.request(0, 1, 10);
        let sent = cluster.now;
        assert!(cluster.run_until_answered(60_000_000));
        let time = cluster.now.since(sent);
        serve(&mut cluster, |_, _| {});
        (time.as_micros(), cluster.faults.of("slow sync"))
    };
    let ((fast, none), (slow, some)) = (time((0, 0)), time((3_000, 5_000)));
    // Opening a session and a command take three views and more each, and each waits for a sync of
    // voters.
    assert!(slow >= fast + 3 * 3_000, "{slow} and {fast} microseconds");
    assert!(none == 0 && some > 50);
    for seed in 0..60 {
        let sync_micros = (100, 20_000);
        let mut cluster = Cluster::new(Config { seed, sync_micros, ..config() });
        serve(&mut cluster, |cluster, round| {
            // A crash meets what is durable and has not left.
            cluster.run_for(seed * 137 % 5_000);
            let slot = ((seed + round) % 4) as usize;
            if cluster.slots[slot].core.is_some() {
                cluster.power_failure(slot, Fate::Mixed { seed });
            }
        });
    }
}

#[test]
fn the_same_seed_is_the_same_run_whatever_the_disks_do() {
    let run = |seed| {
        let mut cluster = Cluster::new(Config { seed, sync_micros: (10, 900), ..config() });
        serve(&mut cluster, |cluster, round| match round {
            1 => cluster.power_failure_in(0, 5 + seed, Fate::Mixed { seed }),
            2 => cluster.fail_sync(1),
            3 if seed % 2 == 0 => {
                cluster.corrupt(2, Corruption::ALL[seed as usize % 10]);
            }
            3 => {
                cluster.misdirect_write(2, 2, false);
            }
            5 => {
                cluster.crash(2);
                cluster.boot(2);
            }
            _ => {}
        });
        (cluster.hash, cluster.steps, cluster.faults.clone())
    };
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed));
    }
}

#[test]
fn a_disk_that_is_not_what_was_written_is_noticed() {
    let mut cluster = Cluster::new(config());
    serve(&mut cluster, |_, _| {});
    cluster.crash(0);
    cluster.crash(1);
    let (left, right) = cluster.slots.split_at_mut(1);
    std::mem::swap(&mut left[0].disk, &mut right[0].disk);
    let panic = catch_unwind(AssertUnwindSafe(|| cluster.boot(0))).expect_err("another's disk");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.starts_with("durability: r0 cannot use what it wrote"), "{text}");
}
