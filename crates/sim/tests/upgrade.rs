//! Programs that change under a running cluster: what must hold while there are two, and behind the
//! switch.

use std::num::NonZeroU64;

use quorate_core::base::crypto::{ClientSigner as _, Signature, Signer as _};
use quorate_core::base::membership::Rules;
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::directive::{Directive, Order, SignedDirective};
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::outcome::Outcome;
use quorate_core::ledger::sessions::Standing;
use quorate_core::protocols::hotstuff::rules::TwoChain;
use quorate_core::replica::Refused;
use quorate_core::{Epoch, ReplicaId, Sequence, SessionId};
use quorate_sim::administrator::{self, Administrator};
use quorate_sim::family::{Family, HotStuffs, Pbfts};
use quorate_sim::keys::{self, CHAIN, Key};
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

/// Virtual time, microseconds.
const SECOND: u64 = 1_000_000;
const NEW: Rules = Rules { core: 1, application: 2 };
/// The replica whose program is old.
const OLD: usize = 3;

fn config(seed: u64) -> Config {
    let rules = &TwoChain;
    let second_vote = true;
    Config {
        replicas: 4,
        members: Some(4),
        rules,
        second_vote,
        seed,
        clients: 2,
        ..Config::default()
    }
}

/// Snapshots are taken soon, and the blocks below them are gone.
fn cut(seed: u64) -> Config {
    Config {
        snapshot_blocks: 8,
        retire: true,
        log_room_bytes: 8 << 10,
        batch_commands: 4,
        ..config(seed)
    }
}

/// Clients work.
fn work<F: Family>(cluster: &mut Cluster<F>) {
    for client in 0..2 {
        cluster.request(client, 20, 20);
    }
    assert!(cluster.run_until_answered(20 * SECOND), "commands are lost");
}

/// Another program is put in a replica's place while clients work.
fn put<F: Family>(cluster: &mut Cluster<F>, slot: usize, newest_rules: u16) {
    cluster.request(0, 20, 20);
    cluster.crash(slot);
    cluster.slots[slot].newest_rules = newest_rules;
    cluster.boot(slot);
    work(cluster);
    assert!(cluster.run_until(20 * SECOND, Cluster::is_level), "it does not catch up");
}

/// Submits the switch; those say that they are ready whose programs support the new rules, and
/// `also`. Returns the reply.
fn switch<F: Family>(
    cluster: &mut Cluster<F>,
    administrator: &mut Administrator,
    also: Option<usize>,
) -> Vec<u8> {
    let newest: Vec<u16> = cluster.slots.iter().map(|slot| slot.newest_rules).collect();
    let is_ready = |id: usize| newest[id] >= NEW.application || Some(id) == also;
    let change = administrator.change_under(NEW, Epoch(0), &[Some(1); 4], is_ready);
    let frame = administrator.submit(cluster, &change);
    work(cluster);
    let said = |cluster: &Cluster<F>| reply(cluster, &frame);
    assert!(cluster.run_until(20 * SECOND, |cluster| said(cluster).is_some()));
    said(cluster).expect("it was there")
}

fn reply<F: Family>(cluster: &Cluster<F>, frame: &Frame) -> Option<Vec<u8>> {
    cluster.correct().find_map(|core| match core.execution().standing(frame) {
        Standing::Settled(Outcome::Executed { replies, .. }) => Some(replies[4..].to_vec()),
        _ => None,
    })
}

/// The rules by which a replica executed its last block.
fn last_rules<F: Family>(cluster: &Cluster<F>, slot: usize) -> u16 {
    cluster.core(slot).execution().application().rules
}

fn upgraded<F: Family>(config: Config) -> (Cluster<F>, Administrator) {
    let mut cluster = Cluster::<F>::of(config, Trace::default());
    let administrator = Administrator::of(&mut cluster, 5 * SECOND).expect("no session");
    (0..4).for_each(|slot| put(&mut cluster, slot, 2));
    (cluster, administrator)
}

fn one_by_one<F: Family>(config: Config) {
    let (mut cluster, mut administrator) = upgraded::<F>(config);
    // And back, one by one: nothing was switched on.
    (0..4).for_each(|slot| put(&mut cluster, slot, 1));
    (0..4).filter(|slot| *slot != OLD).for_each(|slot| put(&mut cluster, slot, 2));
    let said = switch(&mut cluster, &mut administrator, None);
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("must be ready for rules 1.2; not ready: 3"), "{said}");
    assert_eq!(last_rules(&cluster, 0), 1);
    put(&mut cluster, OLD, 2);
    let said = switch(&mut cluster, &mut administrator, None);
    assert_eq!(said.first(), Some(&0), "{}", String::from_utf8_lossy(&said));
    work(&mut cluster);
    assert!(cluster.run_until(20 * SECOND, Cluster::is_level));
    assert!((0..4).all(|slot| last_rules(&cluster, slot) == 2));
}

#[test]
fn a_cluster_is_upgraded_one_by_one_and_goes_back_until_the_switch() {
    for seed in 0..5 {
        one_by_one::<HotStuffs>(config(seed));
        one_by_one::<Pbfts>(config(seed));
        one_by_one::<HotStuffs>(cut(seed));
    }
}

/// A cluster that has switched, with a replica that said it was ready and was away then.
fn switched_without_one<F: Family>(config: Config) -> Cluster<F> {
    let (mut cluster, mut administrator) = upgraded::<F>(config);
    cluster.crash(OLD);
    cluster.slots[OLD].newest_rules = 1;
    // From now on it is not one of those that everything must hold of.
    cluster.slots[OLD].faulty = true;
    let said = switch(&mut cluster, &mut administrator, Some(OLD));
    assert_eq!(said.first(), Some(&0), "{}", String::from_utf8_lossy(&said));
    (0..5).for_each(|_| work(&mut cluster));
    cluster
}

/// Runs until the old one has stopped, while clients work.
fn until_stopped<F: Family>(cluster: &mut Cluster<F>) {
    let has_stopped = |cluster: &Cluster<F>| cluster.slots[OLD].halted.is_some();
    for _ in 0..20 {
        if cluster.run_until(SECOND, has_stopped) {
            return;
        }
        work(cluster);
    }
    panic!("the old one goes on");
}

/// The old one stops with both versions in its words, has executed nothing by the new rules, and
/// blames nobody; the others go on.
fn stops<F: Family>(mut cluster: Cluster<F>) {
    let unfit = cluster.refused.get(&Refused::Unfit).copied();
    until_stopped(&mut cluster);
    let said = cluster.slots[OLD].halted.as_ref().expect("it stopped").to_string();
    assert!(said.contains("epoch 1 executes by rules 1.2"), "{said}");
    assert!(said.contains("supports none newer than 3.1"), "{said}");
    if let Some(core) = &cluster.slots[OLD].core {
        assert!(core.execution().application().rules < 2);
    }
    assert_eq!(cluster.refused.get(&Refused::Unfit).copied(), unfit);
    work(&mut cluster);
}

#[test]
fn an_old_program_that_catches_up_stops_where_the_new_rules_begin() {
    for seed in 0..5 {
        let mut cluster = switched_without_one::<HotStuffs>(config(seed));
        cluster.boot(OLD);
        stops(cluster);
        let mut cluster = switched_without_one::<Pbfts>(config(seed));
        cluster.boot(OLD);
        stops(cluster);
    }
}

#[test]
fn an_old_program_takes_over_no_snapshot_of_the_new_rules() {
    for seed in 0..5 {
        let mut cluster = switched_without_one::<HotStuffs>(cut(seed));
        let below = cluster.core(0).execution().members().committee().map(|it| it.opening().height);
        let is_cut = |cluster: &Cluster, slot: usize| cluster.slots[slot].disk.begins() > below;
        for round in 0.. {
            if (0..3).all(|slot| is_cut(&cluster, slot)) {
                break;
            }
            assert!(round < 1_000, "the blocks do not go");
            work(&mut cluster);
        }
        cluster.boot(OLD);
        until_stopped(&mut cluster);
        // It did not come to the end of the old epoch by itself: it was offered a state.
        let members = cluster.core(OLD).execution().members();
        assert_eq!(members.rules(), Rules::FIRST, "seed {seed}");
        assert_eq!(members.sealed(), None, "seed {seed}");
        stops(cluster);
    }
}

#[test]
fn an_old_program_does_not_start_in_an_epoch_of_the_new_rules() {
    for (seed, config) in [(0, config(0)), (1, config(1)), (2, cut(2)), (3, cut(3))] {
        let (mut cluster, mut administrator) = upgraded::<HotStuffs>(config);
        let said = switch(&mut cluster, &mut administrator, None);
        assert_eq!(said.first(), Some(&0), "seed {seed}");
        (0..3).for_each(|_| work(&mut cluster));
        cluster.crash(OLD);
        cluster.slots[OLD].newest_rules = 1;
        cluster.slots[OLD].faulty = true;
        cluster.boot(OLD);
        assert!(cluster.slots[OLD].halted.is_some(), "seed {seed}");
        stops(cluster);
    }
}

/// It comes back without its data, fetches what it lacks, and meets the new rules on the way.
#[test]
fn an_old_program_that_rejoins_without_its_data_stops_as_well() {
    for seed in 0..5 {
        let (mut cluster, mut administrator) = upgraded::<HotStuffs>(config(seed));
        cluster.crash(OLD);
        cluster.slots[OLD].newest_rules = 1;
        cluster.slots[OLD].faulty = true;
        cluster.rejoin(OLD, 9);
        let is_back = |cluster: &Cluster| !cluster.core(OLD).is_rejoining();
        assert!(cluster.run_until(20 * SECOND, is_back), "nobody testifies");
        let said = switch(&mut cluster, &mut administrator, Some(OLD));
        assert_eq!(said.first(), Some(&0), "{}", String::from_utf8_lossy(&said));
        stops(cluster);
    }
}

/// A replica whose program does not know the rules, in the middle of its epoch's end: it stops with
/// the others' first block, and they go on.
#[test]
fn an_old_program_that_is_there_stops_when_the_others_switch() {
    for seed in 0..5 {
        let (mut cluster, mut administrator) = upgraded::<HotStuffs>(config(seed));
        put(&mut cluster, OLD, 1);
        cluster.slots[OLD].faulty = true;
        let said = switch(&mut cluster, &mut administrator, Some(OLD));
        assert_eq!(said.first(), Some(&0), "{}", String::from_utf8_lossy(&said));
        assert_eq!(
            cluster.core(0).execution().members().committee().map(|it| it.weight(ReplicaId(3))),
            Some(1)
        );
        stops(cluster);
    }
}

/// The session of a client that is none of the cluster's.
fn session_of<F: Family>(cluster: &mut Cluster<F>, key: &Key) -> SessionId {
    let open = Frame::open(key.public_key(), 1, &CHAIN, |statement| key.sign(statement));
    administrator::submit(cluster, &open.clone().into());
    let session = |cluster: &Cluster<F>| match cluster.core(0).execution().standing(&open) {
        Standing::Settled(Outcome::Opened { session, .. }) => Some(session),
        _ => None,
    };
    assert!(cluster.run_until(5 * SECOND, |cluster| session(cluster).is_some()));
    session(cluster).expect("it was there")
}

/// A directive of a format that the rules before quotas do not know, with a made-up approval.
fn forged(key: &Key, session: SessionId) -> SharedFrame {
    let grant = Grant { stored_bytes: NonZeroU64::new(1 << 40), ..Grant::default() };
    let directive = Directive { serial: 1, order: Order::Allow(key.public_key(), grant) };
    let approvals = vec![(keys::administrator().public_key(), Signature::from([0; 64]))];
    let command = SignedDirective { directive, approvals }.to_command();
    let (key, commands) = (*key, [command.as_slice()]);
    let sign = |statement: &_| key.sign(statement);
    let frame = Frame::build(key.public_key(), session, Sequence(1), commands, &CHAIN, sign);
    frame.expect("it is small").into()
}

/// So many replicas get a forged directive between the block that switches the rules and the next
/// epoch, from edges that verify its client's signature alone, as those of old programs do.
fn forged_at_the_switch<F: Family>(seed: u64, reached: usize) {
    let mut cluster = Cluster::<F>::of(config(seed), Trace::default());
    let mut administrator = Administrator::of(&mut cluster, 5 * SECOND).expect("no session");
    let stranger = Key::of_client(77);
    let session = session_of(&mut cluster, &stranger);
    work(&mut cluster);
    let quotas = Rules { core: Rules::QUOTAS, application: 1 };
    let change = administrator.change_under(quotas, Epoch(0), &[Some(1); 4], |_| true);
    administrator.submit(&mut cluster, &change);
    let is_sealed = |cluster: &Cluster<F>, slot: usize| {
        cluster.core(slot).execution().members().sealed().is_some()
    };
    assert!(cluster.run_until(20 * SECOND, |cluster| is_sealed(cluster, 0)));
    for slot in 0..reached {
        cluster.slots[slot].formats = Rules::FIRST;
        cluster.submit_to(slot, forged(&stranger, session));
    }
    let rules = |cluster: &Cluster<F>, slot| cluster.core(slot).execution().members().rules();
    let is_switched = |cluster: &Cluster<F>| (0..4).all(|slot| rules(cluster, slot) == quotas);
    assert!(cluster.run_until(20 * SECOND, is_switched), "seed {seed}: no switch");
    (0..3).for_each(|_| work(&mut cluster));
    for slot in 0..4 {
        let serial = cluster.core(slot).execution().sessions().clients().next_serial();
        assert_eq!(serial, 1, "seed {seed}: replica {slot} carried it out");
    }
    let blamed = cluster.refused.get(&Refused::BadSignature);
    assert_eq!(blamed, None, "seed {seed}: an honest replica is distrusted");
}

#[test]
fn a_forged_directive_in_mempools_is_never_carried_out_behind_the_switch() {
    for seed in 0..5 {
        for reached in [2, 4] {
            forged_at_the_switch::<HotStuffs>(seed, reached);
            forged_at_the_switch::<Pbfts>(seed, reached);
        }
    }
}
