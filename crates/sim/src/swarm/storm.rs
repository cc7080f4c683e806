//! What goes wrong, and when.

use quorate_core::Duration;
use quorate_core::base::membership;

use super::changes::Changes;
use super::{Plan, Trouble, draw};
use crate::cluster::Cluster;
use crate::disk::{Corruption, Disk, Fate, Place};
use crate::family::Family;
use crate::network::Link;
use crate::rng::Rng;

/// A storm: clients ask, things go wrong, time goes by.
pub(super) fn rage<F: Family>(
    cluster: &mut Cluster<F>,
    rng: &mut Rng,
    plan: &Plan,
    trouble: Trouble,
) {
    let rounds = match plan.storm_seconds {
        Some(_) => u64::MAX,
        None if draw::is_costly(&cluster.config) => rng.between((5, 15)),
        None => rng.between((10, 80)),
    };
    let ends = cluster.now.after(Duration::from_secs(plan.storm_seconds.unwrap_or(u64::MAX >> 32)));
    let faults = membership::faults(cluster.config.replicas);
    // What came to be drawn later has numbers of its own: older seeds stay what they were.
    let mut later = draw::later(cluster.config.seed);
    let mut victims = match trouble {
        Trouble::LostData => draw::some(rng, cluster.config.replicas, faults),
        _ => Vec::new(),
    };
    victims.retain(|victim| !cluster.config.twins.contains(victim));
    victims.truncate(faults.saturating_sub(cluster.config.twins.len()));
    let (mut harmed, mut changes) =
        (Vec::new(), Changes::of(cluster.config.seed, cluster.config.replicas, trouble));
    for _ in 0..rounds {
        if cluster.now >= ends {
            break;
        }
        let client = rng.below(cluster.clients.len() as u64) as usize;
        if rng.percent(60) {
            let drawn = (1 + rng.below(4), rng.pick(&[10, 100]));
            let (commands, bytes) = draw::large_request(&cluster.config).unwrap_or(drawn);
            cluster.request(client, commands, bytes);
        }
        if rng.percent(50) {
            disturb(cluster, rng);
        }
        changes.lose_data(cluster);
        match trouble {
            Trouble::LostData if rng.percent(5) => {
                if let Some(victim) = victims.pop() {
                    lose_data(cluster, rng, victim);
                    harmed.push(victim);
                }
            }
            Trouble::LostData if later.percent(20) => damage_again(cluster, &mut later, &harmed),
            Trouble::Liars if rng.percent(10) => forget(cluster, rng),
            Trouble::Liars if later.percent(10) => set_back(cluster, &mut later),
            Trouble::Changes | Trouble::LyingChanges if rng.percent(25) => {
                changes.draw(cluster, rng)
            }
            _ => {}
        }
        cluster.run_for(rng.pick(&[1_000, 10_000, 50_000, 300_000]));
    }
}

/// A correct replica loses its disk, and says so; or something on it is damaged, which is found
/// when it starts again, or repaired, or costs nothing.
fn lose_data<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng, slot: usize) {
    if rng.percent(50) {
        if rng.percent(60) {
            cluster.misdirect_write(slot, 1 + rng.below(6), rng.percent(50));
        } else {
            cluster.corrupt(slot, rng.pick(&Corruption::ALL));
        }
        return;
    }
    if cluster.slots[slot].core.is_some() {
        cluster.crash(slot);
    }
    cluster.faults.fired("data lost");
    let nonce = cluster.rng.number() as u8;
    cluster.rejoin(slot, nonce);
}

/// What was harmed is harmed again, most often where there is seldom something to harm; or it
/// starts again, and finds it.
fn damage_again<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng, harmed: &[usize]) {
    if harmed.is_empty() {
        return;
    }
    let slot = rng.pick(harmed);
    if cluster.slots[slot].disk.is_damaged() {
        if cluster.slots[slot].core.is_some() {
            cluster.faults.fired("crash");
            cluster.crash(slot);
        }
        cluster.faults.fired("restart");
        return cluster.boot(slot);
    }
    let misdirected = rng.percent(60);
    let rare = rng.pick(&[Place::Offer, Place::Snapshot]);
    if rng.percent(30) || !cluster.corrupt(slot, Corruption { place: rare, misdirected }) {
        cluster.corrupt(slot, rng.pick(&Corruption::ALL));
    }
}

fn liar<F: Family>(cluster: &Cluster<F>, rng: &mut Rng) -> usize {
    let faulty: Vec<usize> =
        (0..cluster.slots.len()).filter(|slot| cluster.slots[*slot].faulty).collect();
    rng.pick(&faulty)
}

/// A copy of a liar's disk is made, or one that was made is put back.
fn set_back<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng) {
    let slot = liar(cluster, rng);
    if rng.percent(50) || !cluster.restore_old_state(slot) {
        cluster.keep_state(slot);
    }
}

/// A liar forgets all it ever said.
fn forget<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng) {
    let slot = liar(cluster, rng);
    if cluster.slots[slot].core.is_some() {
        cluster.crash(slot);
    }
    cluster.faults.fired("liar forgets");
    cluster.slots[slot].disk = Disk::default();
    cluster.boot(slot);
}

/// One random fault, or the end of one.
fn disturb<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng) {
    let slots = cluster.slots.len();
    let slot = rng.below(slots as u64) as usize;
    let runs = cluster.slots[slot].core.is_some();
    match rng.below(13) {
        0 if runs => {
            cluster.faults.fired("crash");
            cluster.crash(slot);
        }
        1 | 2 => {
            trouble_disk(cluster, rng, slot);
        }
        3..=5 if !runs => {
            cluster.faults.fired("restart");
            cluster.boot(slot);
        }
        6 if rng.percent(50) => {
            let sides = rng.number();
            cluster.faults.fired("partition");
            cluster.network.partition(|slot| (sides.rotate_right(slot as u32) & 1) as usize);
        }
        6 => {
            cluster.faults.fired("partition");
            part_leaders(cluster, rng);
        }
        7 => {
            let to = rng.below(slots as u64) as usize;
            let cut = rng.percent(70);
            if cut {
                cluster.faults.fired("one-way cut");
            }
            cluster.network.link(slot, to).cut = cut;
        }
        8 => cluster.network.heal(),
        9 if runs => {
            let pause = rng.pick(&[20_000, 200_000, 2_000_000]);
            cluster.pause(slot, pause);
        }
        10 => congest(cluster, rng, slot),
        11 => isolate_for_a_while(cluster, rng, slot),
        _ => {}
    }
}

/// The disk will lose its power, fail to sync, or be full for a while: none of it costs what was
/// promised.
fn trouble_disk<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng, slot: usize) {
    match rng.below(8) {
        0 => cluster.fail_sync(slot),
        1 => cluster.fill_disk(slot, rng.below(12)),
        2 => cluster.free_disk(slot),
        _ => {
            let fate = power_fate(rng);
            cluster.power_failure_in(slot, 1 + rng.below(12), fate);
        }
    }
}

/// What a power failure does to what is in flight.
fn power_fate(rng: &mut Rng) -> Fate {
    match rng.below(7) {
        0 => Fate::Kept,
        1 => Fate::Lost,
        2 => Fate::ContentLost,
        3 => Fate::NamesLost,
        4 => Fate::Torn { sectors: rng.below(4) },
        5 => Fate::Hole { sector: rng.below(4) },
        _ => Fate::Mixed { seed: rng.number() },
    }
}

/// Two runs of leaders, either of which could commit if it were a quorum; twins sit on both sides.
fn part_leaders<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng) {
    let (replicas, from) = (cluster.config.replicas, rng.below(10) as usize);
    let ids: Vec<usize> = cluster.slots.iter().map(|slot| slot.id).collect();
    let half = |slot: usize| (ids[slot] + from) % replicas < replicas / 2;
    let twins: Vec<usize> = cluster.config.twins.clone();
    cluster.network.partition(|slot| match twins.contains(&ids[slot]) {
        true => usize::from(slot >= replicas),
        false => usize::from(half(slot)),
    });
}

/// All that one replica sends crawls, or goes as it used to again.
fn congest<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng, slot: usize) {
    let usual = cluster.config.link;
    let crawl = Link { bytes_per_ms: 20, ..usual };
    let link = if rng.percent(60) { crawl } else { usual };
    for to in 0..cluster.slots.len() {
        let cut = cluster.network.link(slot, to).cut;
        *cluster.network.link(slot, to) = Link { cut, ..link };
    }
}

/// One replica hears nobody, and after some time it does again.
fn isolate_for_a_while<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng, slot: usize) {
    cluster.faults.fired("timed isolation");
    let slots = cluster.slots.len();
    let set = |cluster: &mut Cluster<F>, cut: bool| {
        for other in (0..slots).filter(|other| *other != slot) {
            cluster.network.link(slot, other).cut = cut;
            cluster.network.link(other, slot).cut = cut;
        }
    };
    set(cluster, true);
    cluster.run_for(rng.pick(&[50_000, 500_000, 3_000_000]));
    set(cluster, false);
}
