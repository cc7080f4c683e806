//! Members that change and sign with a threshold key: they generate a fresh one for each epoch.

mod governed;

use governed::{SECOND, Weights, administrator_of, config, members, run_to};
use quorate_core::base::crypto::Form;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::succession::{Follower, Succession};
use quorate_core::ledger::change::SignedChange;
use quorate_core::protocols::hotstuff::verifier::Verifier;
use quorate_core::{Committee, Epoch};
use quorate_sim::administrator::Administrator;
use quorate_sim::family::HotStuffs;
use quorate_sim::keys::{self, Mock};
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

fn threshold(seed: u64) -> Config {
    Config { forms: (Form::Threshold, Form::Aggregate), ..config(seed) }
}

/// The change with its key, once a correct replica has seen all deal.
fn generated(
    cluster: &mut Cluster<HotStuffs>,
    administrator: &mut Administrator,
    change: SignedChange,
    cheats: &[u16],
) -> SignedChange {
    administrator.generate(cluster, &change.change, cheats);
    let with_shares = |cluster: &Cluster<HotStuffs>| {
        let mut all = cluster.correct();
        all.find_map(|core| {
            administrator.with_shares::<HotStuffs>(core, change.clone(), cheats.len())
        })
    };
    assert!(cluster.run_until(20 * SECOND, |cluster| with_shares(cluster).is_some()));
    with_shares(cluster).expect("it was there")
}

/// The members become others, one change after another, each with a key of its own, while clients
/// want commands executed. In `between` the key is generated, and the change not yet sent.
fn grow_and_shrink(
    config: Config,
    cheats: &[u16],
    mut between: impl FnMut(&mut Cluster<HotStuffs>),
) -> Cluster<HotStuffs> {
    let mut cluster = Cluster::<HotStuffs>::of(config, Trace::default());
    let mut administrator = administrator_of(&mut cluster);
    let steps: [Weights; 3] = [members(0..4, 4..8), members(0..7, 7..8), members(4..8, 0..0)];
    for (ends, weights) in steps.iter().enumerate() {
        cluster.request(0, 30, 20);
        cluster.run_for(2_000);
        let change = administrator.change(Epoch(ends as u64), weights, |_| true);
        let cheats: Vec<u16> =
            cheats.iter().copied().filter(|id| weights[usize::from(*id)] == Some(1)).collect();
        let change = generated(&mut cluster, &mut administrator, change, &cheats);
        between(&mut cluster);
        administrator.submit(&mut cluster, &change);
        cluster.request(1, 30, 20);
        let next: Vec<usize> = (0..8).filter(|id| weights[*id].is_some()).collect();
        run_to(&mut cluster, &next, ends as u64 + 1);
        assert!(cluster.run_until_answered(20 * SECOND), "commands are lost in change {ends}");
    }
    cluster
}

#[test]
fn four_grow_to_seven_and_shrink_to_four_others_each_with_a_fresh_key() {
    for seed in 0..5 {
        let mut cluster = grow_and_shrink(threshold(seed), &[2, 6], |_| ());
        let handovers = cluster.core(4).handovers().to_vec();
        let keys: Vec<_> = handovers.iter().map(|it| it.next.shares().cloned()).collect();
        assert!(keys.iter().all(Option::is_some), "seed {seed}");
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}");
        (0..4).for_each(|slot| cluster.crash(slot));
        cluster.request(0, 50, 20);
        assert!(cluster.run_until_answered(20 * SECOND), "the new members do not go on alone");
        // A client that knows genesis alone comes to the last key.
        let settings = threshold(seed).protocol();
        let make = move |committee: &Committee| {
            Verifier::new(settings.domain(committee.clone()), settings.rules.facts())
        };
        let mut client = Succession::new(&keys::governed_by_shares(4), Box::new(make));
        for handover in &handovers {
            let bytes = handover.to_bytes().into();
            assert_eq!(Follower::follow(&mut client, bytes, &Mock), Ok(true), "seed {seed}");
        }
        assert_eq!(Follower::committee(&client).shares(), keys[2].as_ref());
    }
}

#[test]
fn replicas_killed_between_the_dealings_and_the_change_know_the_generation_again() {
    for seed in 0..5 {
        grow_and_shrink(threshold(seed), &[], |cluster| {
            let running: Vec<usize> =
                (0..8).filter(|slot| cluster.slots[*slot].core.is_some()).collect();
            running.iter().for_each(|slot| cluster.crash(*slot));
            running.iter().for_each(|slot| cluster.boot(*slot));
        });
    }
}
