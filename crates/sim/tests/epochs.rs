//! Members that change: what must hold of a cluster that hands over to another committee.

mod governed;

use std::cell::Cell;
use std::rc::Rc;

use governed::{SECOND, Weights, administrator_of, config, epoch, members, run_to};
use quorate_adversary::forge;
use quorate_core::base::crypto::{Scheme as _, Signer as _};
use quorate_core::base::wire::Encode as _;
use quorate_core::client::succession::{Follower, Succession};
use quorate_core::ledger::change::SignedChange;
use quorate_core::ledger::execution::StateSummary;
use quorate_core::ledger::frame::Frame;
use quorate_core::ledger::outcome::Outcome;
use quorate_core::ledger::sessions::Standing;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Proof, Qc};
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::verifier::Verifier;
use quorate_core::protocols::hotstuff::{self, Message};
use quorate_core::protocols::protocol::{Ballot, Handover, Malformed, Protocol as _, Shown};
use quorate_core::replica::Refused;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Committee, Epoch, ReplicaId, Sequence};
use quorate_sim::administrator::{Administrator, drawn, members_are_level, newest};
use quorate_sim::campaign::{self, Campaign, Progress};
use quorate_sim::family::{Family, HotStuffs, Pbfts};
use quorate_sim::keys::{self, CHAIN, Key, Mock};
use quorate_sim::network::Fate;
use quorate_sim::rng::Rng;
use quorate_sim::swarm::{Plan, Trouble};
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

/// What became of a frame with one command: the reply to it.
fn reply<F: Family>(cluster: &Cluster<F>, frame: &Frame) -> Option<Vec<u8>> {
    cluster.correct().find_map(|core| match core.execution().standing(frame) {
        Standing::Settled(Outcome::Executed { replies, .. }) => Some(replies[4..].to_vec()),
        _ => None,
    })
}

/// The members become others, one change after another, while clients want commands executed.
fn grow_and_shrink<F: Family>(config: Config) -> Cluster<F> {
    let mut cluster = Cluster::<F>::of(config, Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    let steps = [members(0..4, 4..8), members(0..7, 7..8), members(4..8, 0..0)];
    for (ends, weights) in steps.iter().enumerate() {
        for client in 0..2 {
            cluster.request(client, 30, 20);
        }
        cluster.run_for(2_000);
        let change = administrator.change(Epoch(ends as u64), weights, |_| true);
        administrator.submit(&mut cluster, &change);
        for client in 0..2 {
            cluster.request(client, 30, 20);
        }
        let next: Vec<usize> = (0..8).filter(|id| weights[*id].is_some()).collect();
        run_to(&mut cluster, &next, ends as u64 + 1);
        assert!(cluster.run_until_answered(20 * SECOND), "commands are lost in change {ends}");
    }
    cluster
}

#[test]
fn four_grow_to_seven_and_shrink_to_four_others_with_none_in_common() {
    for seed in 0..10 {
        let mut cluster = grow_and_shrink::<HotStuffs>(config(seed));
        // No view is lost, and few are without commands: twice the two-chain's depth, and one.
        assert_eq!(cluster.noted.get("timed-out"), None, "seed {seed}");
        for handover in cluster.core(4).handovers() {
            let void = handover.void.len();
            assert!(void <= 5, "seed {seed}: {void} blocks behind {}", handover.ended());
            println!("{void} void blocks, {} bytes", handover.to_bytes().len());
        }
        // The old members are gone for good, and nobody misses them.
        (0..4).for_each(|slot| cluster.crash(slot));
        cluster.request(0, 50, 20);
        // With four of eight slots a client still wants three equal answers.
        assert!(cluster.run_until_answered(20 * SECOND), "the new members do not go on alone");
    }
}

#[test]
fn elections_that_look_back_begin_anew_with_each_epoch() {
    for seed in 0..5 {
        for election in [Election::Carousel, Election::Reputation] {
            grow_and_shrink::<HotStuffs>(Config { election, ..config(seed) });
        }
    }
}

#[test]
fn pbft_grows_and_shrinks_as_well() {
    for seed in 0..10 {
        grow_and_shrink::<Pbfts>(config(seed));
    }
}

/// A replica that was away for three epochs, and one that never was there, come after.
fn away<F: Family>(config: Config) {
    let mut cluster = Cluster::<F>::of(config, Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    cluster.crash(3);
    cluster.crash(7);
    let steps = [members(0..4, 4..8), members(0..6, 6..8), members(1..8, 0..1)];
    for (ends, weights) in steps.iter().enumerate() {
        cluster.request(0, 60, 20);
        // Six of seven are ready: the seventh is away.
        let change = administrator.change(Epoch(ends as u64), weights, |id| ![3, 7].contains(&id));
        let frame = administrator.submit(&mut cluster, &change);
        assert!(cluster.run_until_answered(20 * SECOND), "epoch {ends}");
        assert!(cluster.run_until(20 * SECOND, |cluster| reply(cluster, &frame).is_some()));
        let said = reply(&cluster, &frame).expect("it was there");
        assert_eq!(said.first(), Some(&0), "{}", String::from_utf8_lossy(&said));
        run_to(&mut cluster, &[1, 2, 4, 5], ends as u64 + 1);
    }
    cluster.request(0, 60, 20);
    assert!(cluster.run_until_answered(20 * SECOND));
    cluster.boot(3);
    cluster.boot(7);
    run_to(&mut cluster, &[3, 7], 3);
    cluster.request(1, 60, 20);
    assert!(cluster.run_until_answered(20 * SECOND));
    assert!(cluster.run_until(20 * SECOND, Cluster::is_level), "they do not catch up");
}

#[test]
fn who_was_away_for_three_epochs_comes_through_all_of_them() {
    for seed in 0..10 {
        away::<HotStuffs>(config(seed));
        away::<Pbfts>(config(seed));
    }
}

#[test]
fn who_finds_the_blocks_gone_takes_over_a_state_of_a_later_epoch() {
    for seed in 0..10 {
        let cut = |seed| Config {
            snapshot_blocks: 8,
            retire: true,
            log_room_bytes: 8 << 10,
            batch_commands: 4,
            ..config(seed)
        };
        away::<HotStuffs>(cut(seed));
    }
}

/// All replicas lose their power at any instant of a change.
#[test]
fn a_change_survives_that_all_are_killed_in_the_middle_of_it() {
    for seed in 0..200_u64 {
        let mut cluster = Cluster::<HotStuffs>::of(config(seed), Trace::default());
        let mut administrator = administrator_of(&mut cluster);
        cluster.request(0, 40, 20);
        cluster.run_for(3_000);
        let change = administrator.change(Epoch(0), &members(0..4, 4..8), |_| true);
        administrator.submit(&mut cluster, &change);
        cluster.request(1, 40, 20);
        cluster.run_for(1_000 + 150 * seed);
        (0..8).for_each(|slot| cluster.crash(slot));
        (0..8).for_each(|slot| cluster.boot(slot));
        submit_again(&mut cluster, &mut administrator, &change);
        run_to(&mut cluster, &[0, 1, 2, 3, 4, 5, 6, 7], 1);
        assert!(cluster.run_until_answered(20 * SECOND), "seed {seed}: commands are lost");
        assert!(cluster.run_until(20 * SECOND, Cluster::is_level), "seed {seed}");
    }
}

/// The same frame once more: what was not ordered before the crash is now.
fn submit_again(
    cluster: &mut Cluster<HotStuffs>,
    administrator: &mut Administrator,
    change: &SignedChange,
) {
    administrator.next = Sequence(administrator.next.0 - 1);
    administrator.submit(cluster, change);
}

#[test]
fn what_may_not_be_changed_is_refused_with_the_reason_and_nothing_halts() {
    let mut cluster = Cluster::<HotStuffs>::of(config(1), Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    let mut all = |weights: &Weights, bend: &dyn Fn(&mut SignedChange)| {
        let mut change = administrator.change(Epoch(0), weights, |_| true);
        bend(&mut change);
        let frame = administrator.submit(&mut cluster, &change);
        cluster.request(0, 3, 20);
        assert!(cluster.run_until(20 * SECOND, |cluster| reply(cluster, &frame).is_some()));
        assert!(cluster.run_until_answered(20 * SECOND));
        String::from_utf8(reply(&cluster, &frame).expect("it was there")).expect("words")
    };
    let same = members(0..4, 0..0);
    let refusals = [
        (all(&same, &|_| {}), "changes nothing"),
        (all(&members(0..3, 3..4), &|_| {}), "3 members would count"),
        (all(&members(0..5, 0..0), &|_| {}), "replica 4 is new"),
        (all(&members(0..4, 4..5), &|it| it.approvals.clear()), "0 administrators signed, 1 must"),
        (all(&members(0..4, 4..5), &|it| it.ready.truncate(2)), "not ready: 2, 3"),
    ];
    for (said, expected) in refusals {
        assert!(said.contains(expected), "{said:?} does not say {expected:?}");
    }
}

/// Leaders put no commands above a change, as they would be void if it counts. A stranger could
/// keep blocks empty by changes that nobody approved.
#[test]
fn a_change_that_nobody_approved_holds_up_no_commands() {
    let mut cluster = Cluster::<HotStuffs>::of(config(1), Trace::default());
    let administrator = administrator_of(&mut cluster);
    let current = cluster.core(0).execution().members().committee().cloned().expect("governed");
    let approved = administrator.change(Epoch(0), &members(0..4, 4..8), |_| true);
    let later = administrator.change(Epoch(1), &members(0..4, 4..8), |_| true);
    let strangers = SignedChange { approvals: Vec::new(), ..approved.clone() };
    let may_seal = |change: &SignedChange| change.may_seal(&current);
    assert_eq!([&approved, &later, &strangers].map(may_seal), [true, false, false]);
}

#[test]
fn signatures_of_a_change_that_do_not_hold_are_never_ordered() {
    let mut cluster = Cluster::<HotStuffs>::of(config(1), Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    let mut change = administrator.change(Epoch(0), &members(0..4, 4..8), |_| true);
    // Two members are not ready, and somebody signs for them.
    let forged = Key::of_client(9).sign(&change.change.readiness(&CHAIN));
    change.ready[2].1 = forged;
    change.ready[3].1 = forged;
    administrator.submit(&mut cluster, &change);
    cluster.run_for(SECOND);
    assert_eq!(cluster.unsigned, 8);
    assert_eq!(epoch(&cluster, 0), Epoch(0));
}

/// Where members are fixed, nobody can make a replica believe that it is behind.
#[test]
fn a_liar_that_speaks_of_later_epochs_is_refused_where_members_are_fixed() {
    let mut cluster = Cluster::<HotStuffs>::of(Config::default(), Trace::default());
    cluster.request(0, 3, 20);
    assert!(cluster.run_until_answered(20 * SECOND));
    cluster.run_for(SECOND);
    let high_qc = Qc::genesis(Block::genesis(CHAIN, Epoch(0)).id());
    let word = Message::Advance { high_qc, high_tc: None, decided: None, is_answer: false };
    let later = PeerMessage::Protocol { epoch: Epoch(7), message: word, frames: Vec::new() };
    for message in [later, PeerMessage::AskHandover(Epoch(0))] {
        cluster.inject(3, 0, &message);
    }
    let sent = cluster.slots[0].sent;
    cluster.run_for(10 * SECOND);
    let refused = Refused::Malformed(Malformed::WrongEpoch);
    assert_eq!(cluster.refused.get(&refused), Some(&2));
    assert_eq!(cluster.slots[0].sent, sent);
    assert!(!cluster.has_timer(), "it asks for what is not there");
}

/// How a chain came through ten epochs, no two in a row with a member in common.
fn ten_epochs() -> Vec<Handover<hotstuff::Types>> {
    let mut cluster = Cluster::<HotStuffs>::of(config(3), Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    for ends in 0..10 {
        // The other half learns.
        let voters = if ends % 2 == 0 { 0..4 } else { 4..8 };
        let weights: Weights = std::array::from_fn(|id| Some(u16::from(voters.contains(&id))));
        let change = administrator.change(Epoch(ends), &weights, |_| true);
        administrator.submit(&mut cluster, &change);
        cluster.request(0, 5, 20);
        run_to(&mut cluster, &[0, 1, 2, 3, 4, 5, 6, 7], ends + 1);
        assert!(cluster.run_until_answered(20 * SECOND));
    }
    cluster.core(0).handovers().iter().map(|handover| (**handover).clone()).collect()
}

/// A client that knows genesis alone.
fn client() -> Succession<Verifier> {
    let settings = config(3).protocol();
    let make = move |committee: &Committee| {
        Verifier::new(settings.domain(committee.clone()), settings.rules.facts())
    };
    Succession::new(&keys::governed(4), Box::new(make))
}

/// Has a client follow handovers; says to which committee it came, or why not.
fn follow(
    client: &mut Succession<Verifier>,
    handovers: &[Handover<hotstuff::Types>],
) -> Result<Committee, String> {
    for handover in handovers {
        let claim = client.claim(handover.clone()).map_err(|reason| reason.to_string())?;
        let verdicts = Mock.verify(claim.checks());
        let verified = claim.settle(&verdicts).ok_or("a signature does not hold")?;
        client.follow(&verified);
    }
    Ok(client.committee().clone())
}

/// The handover with another committee in it, and a certificate of the root that this makes,
/// signed with the old committee's keys that were stolen.
fn forged(
    honest: &Handover<hotstuff::Types>,
    epoch: &Committee,
    stolen: usize,
) -> Handover<hotstuff::Types> {
    let thieves = (8..12).map(|id| Some(keys::member(id, 1))).collect();
    let next = epoch.next(honest.next.opening(), thieves, keys::governance()).unwrap();
    let state = StateSummary { members: next.digest(), ..honest.state };
    let block = forge::changed(&honest.shown.block, |content| content.state_root = state.root());
    let ballot = Ballot { block: block.id(), ..honest.shown.evidence.ballot() };
    let domain = config(3).protocol().domain(epoch.clone());
    let statement = domain.vote(ballot.view, ballot.phase, &ballot.block);
    let keys = epoch.voters().take(stolen);
    let signatures = keys.map(|id| (id, Key::of_replica(id.index()).sign(&statement))).collect();
    let evidence = forge::qc(ballot, &Proof::List(signatures)).unwrap();
    Handover { state, next, shown: Shown { block, evidence }, void: Vec::new() }
}

#[test]
fn a_client_that_knows_genesis_comes_through_ten_epochs_and_is_not_deceived() {
    let handovers = ten_epochs();
    let last = follow(&mut client(), &handovers).expect("they follow from each other");
    assert_eq!(last.epoch(), Epoch(10));
    let bytes: usize = handovers.iter().map(|it| it.to_bytes().len()).sum();
    assert!(bytes < 64 << 10, "the proof has {bytes} bytes");

    // Those that are known are passed over: several replicas tell the same.
    let mut told = client();
    for handover in handovers.iter().chain(&handovers[3..]) {
        let is_new = handover.ended() >= told.committee().epoch();
        let led_on = Follower::follow(&mut told, handover.to_bytes().into(), &Mock);
        assert_eq!(led_on, Ok(is_new), "{}", handover.ended());
    }
    assert_eq!(told.committee().epoch(), Epoch(10));

    // One is missing, or two changed places.
    assert!(follow(&mut client(), &handovers[1..]).unwrap_err().contains("another epoch"));

    let mut epochs = vec![keys::governed(4)];
    epochs.extend(handovers.iter().map(|handover| handover.next.clone()));
    for (at, (honest, epoch)) in handovers.iter().zip(&epochs).enumerate() {
        let with = |stolen| [&handovers[..at], &[forged(honest, epoch, stolen)]].concat();
        // f keys, even of each epoch, and one more.
        for stolen in [epoch.faults(), epoch.faults() + 1] {
            let refused = follow(&mut client(), &with(stolen)).unwrap_err();
            assert!(refused.contains("fewer signers than a quorum"), "{refused}");
        }
        // q keys that were not erased deceive whoever knows no later epoch ...
        let deceived = follow(&mut client(), &with(epoch.quorum())).expect("q keys are enough");
        assert_ne!(deceived.digest(), honest.next.digest());
        // ... and nobody who has pinned one.
        let mut pinned = client().pin(honest.next.epoch(), honest.next.digest());
        let refused = follow(&mut pinned, &with(epoch.quorum())).unwrap_err();
        assert!(refused.contains("pinned"), "{refused}");
    }
}

/// The void blocks of a handover are covered by no signature. A liar leaves them out. A replica
/// that kept its word would lead nobody to the end of the epoch who is behind.
#[test]
fn a_handover_that_leads_nobody_to_its_end_is_not_kept() {
    for seed in 0..5 {
        let mut cluster = Cluster::<HotStuffs>::of(config(seed), Trace::default());
        let mut administrator = administrator_of(&mut cluster);
        let change = administrator.change(Epoch(0), &members(0..4, 4..5), |_| true);
        administrator.submit(&mut cluster, &change);
        let is_sealed =
            |cluster: &Cluster| cluster.core(1).execution().members().sealed().is_some();
        assert!(cluster.run_until(20 * SECOND, is_sealed), "nothing is sealed");
        cluster.network.partition(|slot| usize::from(slot == 1));
        run_to(&mut cluster, &[0, 2, 3], 1);
        assert_eq!(epoch(&cluster, 1), Epoch(0), "it was cut off too late");

        cluster.network.heal();
        let told = Rc::new(Cell::new(false));
        let tells = Rc::clone(&told);
        cluster.meddler = Some(Box::new(move |from, to, message| match message {
            _ if to != 1 => Fate::Goes,
            PeerMessage::Handover(handover) if from == 0 => {
                tells.set(true);
                let bent = Handover { void: Vec::new(), ..(**handover).clone() };
                Fate::Bent(Box::new(PeerMessage::Handover(bent.into())))
            }
            _ => Fate::Lost,
        }));
        cluster.request(0, 1, 20);
        cluster.run_for(2 * SECOND);
        assert!(told.get(), "the liar was not asked");
        cluster.meddler = None;
        run_to(&mut cluster, &[0, 1, 2, 3], 1);
        for slot in 0..4 {
            assert!(cluster.core(slot).handovers().iter().all(|it| it.is_linked()), "of {slot}");
        }
    }
}

/// Changes, crashes, losses and delays, one after another. One replica at a time is down.
fn storm<F: Family>(seed: u64, config: Config) {
    let mut rng = Rng::new(seed);
    let mut cluster = Cluster::<F>::of(config, Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    let mut down: Option<usize> = None;
    for _ in 0..12 {
        cluster.request(rng.below(2) as usize, 1 + rng.below(20), 20);
        match (rng.below(5), down) {
            (0, None) => {
                let slot = rng.below(8) as usize;
                cluster.crash(slot);
                down = Some(slot);
            }
            (0 | 1, Some(slot)) => {
                cluster.boot(slot);
                down = None;
            }
            (1, None) => cluster.pause(rng.below(8) as usize, 200_000),
            _ => {
                let newest = newest(&cluster);
                let weights = drawn(&mut rng, 8, &newest);
                let change = administrator.change(newest.epoch(), &weights, |id| down != Some(id));
                administrator.submit(&mut cluster, &change);
            }
        }
        cluster.run_for(rng.below(400_000));
    }
    if let Some(slot) = down {
        cluster.boot(slot);
    }
    // Channels break when something is lost, and open again.
    cluster.network.set_all(|link| link.loss_percent = 0);
    for (one, two) in (0..8).flat_map(|one| (0..one).map(move |two| (one, two))) {
        cluster.reconnect(one, two);
    }
    if !cluster.run_until_answered(120 * SECOND) {
        panic!("seed {seed}: commands are lost: {}", standings(&cluster));
    }
    if !cluster.run_until(120 * SECOND, members_are_level) {
        panic!("seed {seed}: not level: {}", standings(&cluster));
    }
}

/// Where each replica stands.
fn standings<F: Family>(cluster: &Cluster<F>) -> String {
    let one = |slot: usize| match &cluster.slots[slot].core {
        None => format!("r{slot} is down"),
        Some(core) => {
            let (execution, protocol) = (core.execution(), core.protocol().status());
            format!(
                "r{slot} {} sealed {} height {} committed {} view {} pending {} commands {} of {}",
                epoch(cluster, slot),
                execution.members().sealed().is_some(),
                execution.height(),
                protocol.committed,
                protocol.view,
                core.mempool().len(),
                execution.application().commands.len(),
                cluster.oracles.commands.len(),
            )
        }
    };
    let weights: Vec<usize> =
        (0..8).map(|id| newest(cluster).weight(ReplicaId(id as u16))).collect();
    let all: Vec<String> = (0..8).map(one).collect();
    format!("weights {weights:?}\n{}", all.join("\n"))
}

/// The first storm and how many: `QUORATE_TEST_EPOCHS=1000+500` runs others.
fn seeds() -> (u64, u64) {
    let Ok(wanted) = std::env::var("QUORATE_TEST_EPOCHS") else { return (0, 40) };
    let (first, count) = wanted.split_once('+').expect("FIRST+COUNT");
    (first.parse().expect("a seed"), count.parse().expect("a number"))
}

#[test]
fn changes_among_crashes_losses_and_delays_lose_nothing() {
    let (first, count) = seeds();
    for seed in first..first + count {
        let mut config = config(seed);
        config.link.delay = (500, 20_000);
        config.link.loss_percent = 2;
        if seed % 2 == 0 {
            (config.snapshot_blocks, config.retire, config.log_room_bytes) = (8, true, 8 << 10);
        }
        storm::<HotStuffs>(seed, config.clone());
        storm::<Pbfts>(seed, config);
    }
}

/// The same among all else that goes wrong in the worlds of `quorate sim --trouble changes`:
/// partitions, clocks, disks that lose power or are full; and with a liar (`lying-changes`).
#[test]
fn members_change_in_any_world() {
    let campaign = |trouble, seeds| Campaign {
        first: 0,
        seeds,
        time: None,
        threads: 2,
        most_violations: 1,
        plan: Plan { trouble: Some(trouble), ..Plan::default() },
    };
    for trouble in [Trouble::Changes, Trouble::LyingChanges] {
        let hotstuff = campaign(trouble, 100).run::<HotStuffs>(&Progress::default());
        let pbft = campaign(trouble, 40).run::<Pbfts>(&Progress::default());
        for report in [hotstuff, pbft] {
            assert_eq!(report.violations, []);
            assert!(report.tally.faults.of("members changed") > 0);
        }
    }
}

/// A replica that did not know yet that the epoch was sealed put commands into a block; the others
/// lost its frames once it was decided, and nobody could make the handover (878). The power failed
/// between the file of the epochs and the log's blocks up to the sealing one (5107). The disk was
/// full between the ends of two epochs, before the state of a later one was taken over (2699).
/// Nobody gave void blocks to who needed them to come to the end of the epoch (1055).
#[test]
fn worlds_that_once_failed_do_not_fail_again() {
    let once = [
        (878, Trouble::Changes),
        (2_699, Trouble::Changes),
        (5_107, Trouble::Changes),
        (1_055, Trouble::LyingChanges),
    ];
    for (seed, trouble) in once {
        runs_clean::<HotStuffs>(seed, trouble);
    }
    // A PBFT replica that committed by a liar's COMMIT said none itself. The learner that was to be
    // a member next lacked one, and nothing more was ordered.
    runs_clean::<Pbfts>(1_098, Trouble::LyingChanges);
    // All were restarted in the second epoch after some had not come to the end of the first.
    // Nobody found the blocks of that one in its log, and those behind were a part of every quorum.
    runs_clean::<Pbfts>(6_386, Trouble::LyingChanges);
}

fn runs_clean<F: Family>(seed: u64, trouble: Trouble) {
    let plan = Plan { trouble: Some(trouble), ..Plan::default() };
    let (outcome, _) = campaign::run::<F>(seed, &plan, Trace::default());
    assert_eq!(outcome.err(), None, "seed {seed}");
}
