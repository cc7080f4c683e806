//! One file a subcommand: its arguments and what it does with them.

pub mod backup;
#[cfg(feature = "laboratory")]
pub mod bench;
pub mod bridge;
pub mod client;
pub mod completions;
pub mod config;
#[cfg(feature = "laboratory")]
pub mod demo;
pub mod deploy;
#[cfg(feature = "laboratory")]
pub mod experiment;
pub mod gateway;
pub mod genesis;
pub mod get;
pub mod init;
pub mod keygen;
#[cfg(feature = "laboratory")]
pub mod load;
pub mod man;
pub mod member;
#[cfg(feature = "laboratory")]
pub mod net;
pub mod new;
pub mod pay;
#[cfg(feature = "laboratory")]
pub mod profile;
pub mod protocols;
pub mod pull;
pub mod restore;
mod services;
#[cfg(feature = "laboratory")]
pub mod sim;
#[cfg(feature = "laboratory")]
pub mod snow;
pub mod start;
pub mod status;
pub mod store;
pub mod testnet;
#[cfg(feature = "laboratory")]
pub mod testnet_up;
pub mod top;
#[cfg(feature = "laboratory")]
pub mod twins;
pub mod upgrade;
pub mod version;
pub mod wallet;
pub mod watch;
#[cfg(not(feature = "laboratory"))]
mod without_laboratory;

#[cfg(not(feature = "laboratory"))]
pub use without_laboratory::{
    bench, demo, experiment, load, net, pay_bench, pay_demo, profile, sim, snow, store_bench,
    testnet_up, twins,
};

#[cfg(all(test, feature = "laboratory"))]
mod tests {
    use clap::{Args, Command};

    fn accepts<T: Args>(line: &str) -> bool {
        let command = T::augment_args(Command::new("test").no_binary_name(true));
        command.clone().debug_assert();
        command.try_get_matches_from(line.split_whitespace()).is_ok()
    }

    #[test]
    fn arguments_read_what_they_promise() {
        assert!(accepts::<super::demo::Arguments>(
            "--seconds 5 --protocol hotstuff-chained -n 7 --port 6400"
        ));
        assert!(!accepts::<super::demo::Arguments>("--protocol paxos"));
        assert!(accepts::<super::start::Arguments>(
            "--home a --set log.level=warn --log-format json --rejoin-after-data-loss"
        ));
        assert!(!accepts::<super::start::Arguments>("--set log.level"));
        assert!(accepts::<super::gateway::Arguments>("--home client --listen 127.0.0.1:6379"));
        assert!(!accepts::<super::gateway::Arguments>("--listen nowhere"));
        assert!(accepts::<super::get::Arguments>("--verified --max-lag 5 --replica 2 key"));
        assert!(!accepts::<super::get::Arguments>("key"));
        assert!(!accepts::<super::get::Arguments>("--verified --max-lag few key"));
        assert!(accepts::<super::load::Arguments>(
            "--home client --frame 400 --payload 512B --rate 1000 --clients 4 \
             --seconds 60 --warmup 10 --send-to one --workload set"
        ));
        assert!(!accepts::<super::load::Arguments>("--rate 10 --payload 5"));
        assert!(accepts::<super::sim::Arguments>(
            "--seed 7 --seeds 10 --minutes 0.5 --protocol hotstuff-fast -n 7 --trouble liars --threads 2"
        ));
        assert!(accepts::<super::sim::Arguments>("--replay 7 --folder there --storm-seconds 9"));
        assert!(!accepts::<super::sim::Arguments>("--folder there"));
        assert!(!accepts::<super::sim::Arguments>("--minutes 0"));
        assert!(!accepts::<super::sim::Arguments>("--trouble storms"));
        assert!(accepts::<super::profile::Arguments>(
            "-n 7 --rate 1000 --payload 512B --durability os --seconds 9 --leader fixed"
        ));
        assert!(!accepts::<super::profile::Arguments>("--durability perhaps"));
        assert!(accepts::<super::status::Arguments>("--address 127.0.0.1:9000"));
        assert!(accepts::<super::status::Arguments>("--address 127.0.0.1:9000 --home x"));
        assert!(!accepts::<super::status::Arguments>("--address 9000"));
        assert!(accepts::<super::testnet_up::Arguments>("testnet"));
        assert!(accepts::<super::restore::Arguments>("backup --home replica --height 7"));
        assert!(accepts::<super::restore::Arguments>("backup --new again --out homes -n 7"));
        assert!(!accepts::<super::restore::Arguments>("backup"));
        assert!(!accepts::<super::restore::Arguments>("backup --new again"));
        assert!(!accepts::<super::restore::Arguments>("backup --home a --new b --out c"));
    }
}
