//! The properties that every protocol owes the replica around it, whatever it tolerates besides.
//! Each property is a function over a [`Family`]; the list at the end says which protocols are held
//! to it. A new protocol adds a line there, and nothing else.

use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::rules::{
    Basic, Chained, Fast, HotStuff2, Rules, Simplified, TwoChain,
};
use quorate_core::protocols::pbft::{Authentication, Settings};
use quorate_core::protocols::protocol::{Capability, Protocol as _};
use quorate_core::protocols::snow::snowman::{Fallback, Settings as SnowmanSettings};
use quorate_sim::family::{Family, HotStuffs, Pbfts, Sequencers, Snowmans, TwoDelays};
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

/// Longer than anything here takes, in microseconds of the simulated clock.
const PATIENCE: u64 = 60_000_000;

fn start<F: Family>(config: Config) -> Cluster<F> {
    Cluster::of(config, Trace::default())
}

/// So many requests, one after the other.
fn serve<F: Family>(cluster: &mut Cluster<F>, requests: usize) {
    for request in 0..requests {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(PATIENCE), "request {request} is not answered");
    }
}

/// All replicas come to the same commands: as many as were asked for, each once.
fn must_agree<F: Family>(cluster: &mut Cluster<F>) {
    assert!(cluster.run_until(PATIENCE, Cluster::is_level), "replicas differ");
    let asked: u64 = cluster.oracles.asked.values().sum();
    assert_eq!(cluster.oracles.commands.len() as u64, asked, "not each command once");
}

/// In a quiet network all replicas execute the same commands, whatever their number.
fn agrees<F: Family>(config: Config) {
    for replicas in [1, 2, 3, 4, 7] {
        let mut cluster = start::<F>(Config { replicas, clients: 3, ..config.clone() });
        for _ in 0..10 {
            (0..3).for_each(|client| cluster.request(client, 5, 20));
            assert!(cluster.run_until_answered(PATIENCE), "{replicas} replicas: no answers");
        }
        must_agree(&mut cluster);
    }
}

/// Clients that ask again before they can have been answered have each command executed once.
fn executes_once<F: Family>(config: Config) {
    let mut cluster = start::<F>(Config { client_patience: 500, ..config });
    serve(&mut cluster, 30);
    must_agree(&mut cluster);
}

/// A replica that is killed right behind any of its first writes, before anything that rests on it
/// has left, comes back with it, and the cluster goes on.
fn restarts_behind_every_write<F: Family>(config: Config) {
    let config = Config { sync_micros: (200, 200), ..config };
    for victim in [0, 1] {
        for write in 1..=24 {
            let mut cluster = start::<F>(config.clone());
            cluster.request(0, 1, 10);
            let mut requests = 1;
            while cluster.slots[victim].disk.writes < write {
                if cluster.is_answered() {
                    cluster.request(0, 1, 10);
                    requests += 1;
                    assert!(requests < 200, "replica {victim} does not write {write} times");
                }
                let until = cluster.now.after(quorate_core::Duration::from_micros(PATIENCE));
                assert!(cluster.step(until), "nothing happens any more");
            }
            cluster.crash(victim);
            cluster.boot(victim);
            serve(&mut cluster, 5);
            must_agree(&mut cluster);
        }
    }
}

/// A replica that was away fetches the blocks that it missed.
fn catches_up<F: Family>(config: Config) {
    let mut cluster = start::<F>(config);
    serve(&mut cluster, 3);
    cluster.crash(3);
    serve(&mut cluster, 40);
    cluster.boot(3);
    must_agree(&mut cluster);
    assert_eq!(cluster.slots[3].disk.begins().map(|height| height.0), Some(1));
}

/// A replica that was away for longer than logs last takes over a snapshot.
fn takes_over_a_snapshot<F: Family>(config: Config) {
    let config = Config { snapshot_blocks: 10, retire: true, log_room_bytes: 0, ..config };
    let mut cluster = start::<F>(config);
    serve(&mut cluster, 3);
    cluster.crash(3);
    serve(&mut cluster, 60);
    cluster.boot(3);
    serve(&mut cluster, 3);
    must_agree(&mut cluster);
    let begins = cluster.slots[3].disk.begins().expect("it runs");
    assert!(begins.0 > 10, "its log begins at {begins:?}: it fetched every block");
}

/// A replica that lost its data comes back, where the protocol has a way: it abstains at first,
/// even if it starts again meanwhile, and takes part in the end, so that another one may be down.
fn comes_back_without_data<F: Family>(config: Config) {
    if !F::Protocol::CAPABILITIES.contains(&Capability::Rejoin) {
        return;
    }
    let mut cluster = start::<F>(config);
    serve(&mut cluster, 10);
    cluster.crash(3);
    serve(&mut cluster, 3);
    cluster.rejoin(3, 9);
    let abstains = |cluster: &Cluster<F>| {
        let core = cluster.slots[3].core.as_ref().expect("it runs");
        let status = core.protocol().status();
        core.is_rejoining() || status.abstain_until >= status.view
    };
    assert!(cluster.run_until(PATIENCE, |cluster| {
        cluster.slots[3].core.as_ref().is_some_and(|core| !core.is_rejoining())
    }));
    assert!(abstains(&cluster), "it speaks at once");
    cluster.crash(3);
    cluster.boot(3);
    assert!(abstains(&cluster), "it forgot that it abstains");
    for _ in 0..100 {
        serve(&mut cluster, 1);
        cluster.run_for(1_000_000);
        if !abstains(&cluster) {
            break;
        }
    }
    assert!(!abstains(&cluster), "it abstains for ever");
    cluster.crash(1);
    serve(&mut cluster, 5);
    cluster.boot(1);
    must_agree(&mut cluster);
}

/// With nothing to do nobody speaks, and no timer runs.
fn falls_silent<F: Family>(config: Config) {
    let mut cluster = start::<F>(config);
    serve(&mut cluster, 5);
    let silent = |cluster: &Cluster<F>| cluster.in_flight() == 0 && !cluster.has_timer();
    assert!(cluster.run_until(PATIENCE, silent), "it does not fall silent");
    let sent: u64 = cluster.slots.iter().map(|slot| slot.sent).sum();
    cluster.run_for(PATIENCE);
    assert_eq!(cluster.slots.iter().map(|slot| slot.sent).sum::<u64>(), sent);
}

fn hotstuff(rules: &'static dyn Rules) -> Config {
    Config { rules, ..Config::default() }
}

/// What `quorate testnet init` chooses.
fn default_choice() -> Config {
    let (broadcast_votes, second_vote) = (true, true);
    Config { election: Election::Carousel, broadcast_votes, second_vote, ..hotstuff(&TwoChain) }
}

fn pbft(authentication: Authentication) -> Config {
    // Few, so that checkpoints are met.
    let settings =
        Settings { authentication, window: 8, checkpoint_every: 4, ..Settings::default() };
    Config { pbft: settings, ..Config::default() }
}

fn sampled() -> Config {
    let settings = SnowmanSettings { checkpoint_every: 4, ..SnowmanSettings::default() };
    Config { snowman: settings, ..Config::default() }
}

/// So impatient that quorum and samples decide in turn.
fn falling_back() -> Config {
    let mut config = sampled();
    let round = quorate_core::Duration::from_millis(20);
    config.snowman.fallback = Some(Fallback { undecided: 3, round });
    config
}

macro_rules! conformance {
    ($($name:ident: $family:ty, $config:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn agrees() {
                super::agrees::<$family>($config);
            }

            #[test]
            fn executes_once() {
                super::executes_once::<$family>($config);
            }

            #[test]
            fn restarts_behind_every_write() {
                super::restarts_behind_every_write::<$family>($config);
            }

            #[test]
            fn catches_up() {
                super::catches_up::<$family>($config);
            }

            #[test]
            fn takes_over_a_snapshot() {
                super::takes_over_a_snapshot::<$family>($config);
            }

            #[test]
            fn comes_back_without_data() {
                super::comes_back_without_data::<$family>($config);
            }

            #[test]
            fn falls_silent() {
                super::falls_silent::<$family>($config);
            }
        }
    )*};
}

conformance! {
    hotstuff_basic: HotStuffs, hotstuff(&Basic);
    hotstuff_chained: HotStuffs, hotstuff(&Chained);
    hotstuff_simplified: HotStuffs, hotstuff(&Simplified);
    hotstuff_fast: HotStuffs, hotstuff(&Fast);
    hotstuff_two_chain: HotStuffs, hotstuff(&TwoChain);
    hotstuff_two_chain_second_votes: HotStuffs, default_choice();
    hotstuff_2: HotStuffs, hotstuff(&HotStuff2);
    pbft_with_signatures: Pbfts, pbft(Authentication::Signatures);
    pbft_with_macs: Pbfts, pbft(Authentication::Macs);
    snowman: Snowmans, sampled();
    snowman_frosty: Snowmans, falling_back();
    two_delay: TwoDelays, Config::default();
    sequencer: Sequencers, Config::default();
}
