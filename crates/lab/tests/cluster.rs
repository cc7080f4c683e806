//! The load generator against a real cluster, in this process.

#[path = "../../cli/tests/cluster/ports.rs"]
mod ports;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use ports::ports;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::{Route, SessionConfig};
use quorate_crypto::SecretKey;
use quorate_lab::load::{self, Arrivals, LoadConfig, Mix, Popularity, Workload};
use quorate_node::client::{Authenticity, ReplicaAddress};
use quorate_node::config::{self, Overrides};
use quorate_node::launch::{Launched, Remedies, launch};
use quorate_node::testnet::{self, Options};

struct Cluster {
    addresses: Vec<ReplicaAddress>,
    session: SessionConfig,
    _replicas: Vec<Launched>,
    _runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
    _ports: TcpListener,
}

fn cluster() -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let (held, first_port) = ports(3 * 4);
    let options = Options { base_port: Some(first_port), ..Options::default() };
    let net = testnet::init(&folder.path().join("net"), 4, &options).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let committee = net.cluster.committee().unwrap();
    let start = |home| {
        let loaded = config::load(home, &Overrides::default()).unwrap();
        let keys = loaded.open_keys().unwrap();
        runtime.block_on(launch(&loaded, committee.clone(), keys, Remedies::default())).unwrap()
    };
    let replicas = net.replicas.iter().map(start).collect::<Vec<_>>();
    let address = |(replica, member): (&Launched, &config::Member)| ReplicaAddress {
        address: replica.client_address.to_string(),
        key: member.transport_key,
    };
    Cluster {
        addresses: replicas.iter().zip(&net.cluster.members).map(address).collect(),
        session: SessionConfig::new(committee.chain(), 4),
        _replicas: replicas,
        _runtime: runtime,
        _folder: folder,
        _ports: held,
    }
}

fn keys(first: u8) -> Vec<Arc<dyn ClientSigner>> {
    let keys = (first..first + 2).map(|seed| SecretKey::from_seed(&[seed; 32]));
    keys.map(|key| Arc::new(key) as Arc<dyn ClientSigner>).collect()
}

#[test]
fn a_cluster_answers_every_command_rightly() {
    let cluster = cluster();
    let loads = [
        (Route::All, Arrivals::Closed),
        (Route::One { first: ReplicaId(1) }, Arrivals::Closed),
        (Route::All, Arrivals::Poisson { rate: 500.0, seed: 1 }),
    ];
    for (turn, (route, arrivals)) in loads.into_iter().enumerate() {
        let report = load::run(&LoadConfig {
            protocol: "hotstuff-chained".into(),
            replicas: cluster.addresses.clone(),
            session: SessionConfig { route, ..cluster.session },
            authenticity: Authenticity::Channel,
            contacts: None,
            keys: keys(1 + 2 * turn as u8),
            workload: Workload::noop(50, &[]).unwrap(),
            write_records: false,
            outstanding: 4,
            callers: None,
            arrivals,
            warm_up: Duration::from_millis(200),
            duration: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            patience: Duration::from_secs(60),
            notice: |_| {},
        });
        let report = report.unwrap();
        assert!(report.commands > 0, "{report:?}");
        assert_eq!((report.wrong, report.failed, report.unanswered), (0, 0, 0), "{report:?}");
    }
}

#[test]
fn every_answer_of_the_ycsb_workloads_is_right() {
    let cluster = cluster();
    let mixes = [Mix::A, Mix::B, Mix::C, Mix::D, Mix::E, Mix::F];
    let of = |mix: Mix| Workload::ycsb(20, 100, mix, mix.usual(), (500, 1)).unwrap();
    let mut workloads: Vec<Workload> = mixes.map(of).to_vec();
    workloads.push(Workload::exchange(20, 100, (500, 1)).unwrap());
    workloads.push(Workload::ycsb(20, 8, Mix::A, Popularity::Uniform, (500, 1)).unwrap());
    for (turn, workload) in workloads.into_iter().enumerate() {
        let report = load::run(&LoadConfig {
            protocol: "hotstuff-chained".into(),
            replicas: cluster.addresses.clone(),
            session: cluster.session,
            authenticity: Authenticity::Channel,
            contacts: None,
            keys: keys(101 + 2 * turn as u8),
            workload,
            write_records: true,
            outstanding: 2,
            callers: None,
            arrivals: Arrivals::Closed,
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(500),
            interval: Duration::from_millis(250),
            patience: Duration::from_secs(60),
            notice: |_| {},
        });
        let report = report.unwrap();
        assert!(report.commands > 0, "{turn}: {report:?}");
        assert_eq!((report.wrong, report.failed, report.unanswered), (0, 0, 0), "{turn}");
        assert!(report.series.len() >= 2, "{turn}: {:?}", report.series);
    }
}
