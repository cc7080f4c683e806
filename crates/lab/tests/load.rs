//! The load generator against replicas without consensus.

#[path = "../../node/tests/mock/mod.rs"]
mod mock;

use std::sync::Arc;
use std::time::Duration;

use mock::{Execute, Mock, Vice};
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::{Route, SessionConfig};
use quorate_crypto::SecretKey;
use quorate_lab::load::{self, Arrivals, LoadConfig, LoadError, LoadReport, Workload};
use quorate_node::client::Authenticity;

/// Replicas on threads of their own.
struct Cluster {
    mock: Mock,
    _runtime: tokio::runtime::Runtime,
}

fn cluster(vices: &[Vice], execute: Execute) -> Cluster {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    Cluster { mock: runtime.block_on(Mock::start(vices, execute)), _runtime: runtime }
}

fn config(cluster: &Cluster, workload: Workload, arrivals: Arrivals) -> LoadConfig {
    let keys = (1..4).map(|i| Arc::new(SecretKey::from_seed(&[i; 32])) as Arc<dyn ClientSigner>);
    LoadConfig {
        protocol: "mock".into(),
        replicas: cluster.mock.addresses(),
        session: SessionConfig::new(cluster.mock.chain(), cluster.mock.addresses().len()),
        authenticity: Authenticity::Channel,
        contacts: None,
        keys: keys.collect(),
        workload,
        write_records: false,
        outstanding: 2,
        callers: None,
        arrivals,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_millis(1200),
        interval: Duration::from_secs(1),
        patience: Duration::from_secs(20),
        notice: |_| {},
    }
}

fn ok(_: &[u8], reply: &mut Vec<u8>) {
    reply.push(b'+');
}

fn sound(report: &LoadReport) {
    assert!(report.commands > 0);
    assert_eq!((report.wrong, report.failed, report.unanswered), (0, 0, 0));
    assert!(report.goodput > 0.0 && report.seconds >= 1.2);
    let quantiles = [report.p50_ms, report.p90_ms, report.p99_ms, report.p999_ms, report.max_ms];
    assert!(quantiles.is_sorted() && report.p50_ms > 0.0 && report.mean_ms > 0.0);
    assert!(report.mean_ms <= report.max_ms);
    assert!(report.series.len() >= 2);
    assert_eq!(report.series.iter().map(|second| second.at).collect::<Vec<_>>()[..2], [0.0, 1.0]);
}

#[test]
fn a_closed_loop_of_empty_commands() {
    let cluster = cluster(&[Vice::None; 4], ok);
    let workload = Workload::noop(100, b"+").unwrap();
    let report = load::run(&config(&cluster, workload, Arrivals::Closed)).unwrap();
    sound(&report);
    assert!(cluster.mock.executed() >= report.commands);
    assert_eq!(report.commands % 100, 0);
    assert_eq!(report.series.iter().map(|second| second.commands).sum::<u64>(), report.commands);
    assert_eq!((report.n, report.batch, report.payload, report.clients), (4, 100, 0, 3));
}

#[test]
fn a_closed_loop_of_puts_through_one_replica_that_is_silent() {
    let cluster = cluster(&[Vice::Silent, Vice::None, Vice::None, Vice::None], ok);
    let put = |key: &[u8], value: &[u8]| [b"PUT ", key, b" ", value].concat();
    let workload = Workload::put(10, 128, 1000, 1, b"+", put).unwrap();
    let mut config = config(&cluster, workload, Arrivals::Closed);
    config.session.route = Route::One { first: ReplicaId(0) };
    let report = load::run(&config).unwrap();
    sound(&report);
    assert_eq!(report.payload, 128);
    assert!(report.warnings.contains(&"replicas {0} did not answer in the warm-up".to_owned()));
}

/// Of four replicas one may be faulty: one that takes connections and says nothing is not waited
/// for as long as there is patience.
#[test]
fn a_silent_replica_is_waited_for_briefly() {
    let cluster = cluster(&[Vice::Silent, Vice::None, Vice::None, Vice::None], ok);
    let mut config = config(&cluster, Workload::noop(10, b"+").unwrap(), Arrivals::Closed);
    config.patience = Duration::from_secs(3600);
    let report = load::run(&config).unwrap();
    sound(&report);
    assert!(report.warnings.contains(&"replicas {0} did not answer in the warm-up".to_owned()));
}

#[test]
fn open_loops() {
    for arrivals in [Arrivals::Even { rate: 2000.0 }, Arrivals::Poisson { rate: 2000.0, seed: 3 }] {
        let cluster = cluster(&[Vice::None; 4], ok);
        let workload = Workload::noop(50, b"+").unwrap();
        let report = load::run(&config(&cluster, workload, arrivals)).unwrap();
        sound(&report);
        assert_eq!(report.rate, Some(2000.0));
    }
}

#[test]
fn an_open_loop_is_charged_for_a_cluster_that_stalls() {
    let cluster = cluster(&[Vice::None; 4], ok);
    let workload = Workload::noop(50, b"+").unwrap();
    let mut config = config(&cluster, workload, Arrivals::Even { rate: 500.0 });
    config.duration = Duration::from_secs(5);
    config.patience = Duration::from_secs(2);
    let mock = cluster.mock.clone();
    let stall = std::thread::spawn(move || {
        // In the middle of what is measured: nobody answers from then on.
        while mock.executed() < 300 {
            std::thread::sleep(Duration::from_millis(5));
        }
        (0..4).for_each(|replica| mock.set_vice(replica, Vice::Silent));
    });
    let report = load::run(&config).unwrap();
    stall.join().unwrap();
    assert!(report.unanswered > 0);
    // What was not answered waited at least until the end.
    assert!(report.max_ms >= 1900.0, "{}", report.max_ms);
    assert!(report.warnings.iter().any(|warning| warning.ends_with("were not answered")));
}

#[test]
fn wrong_answers_are_counted() {
    let cluster = cluster(&[Vice::None; 4], |_, reply| reply.push(b'?'));
    let workload = Workload::noop(10, b"+").unwrap();
    let report = load::run(&config(&cluster, workload, Arrivals::Closed)).unwrap();
    assert_eq!(report.commands, 0);
    assert!(report.wrong > 0);
    assert!(report.warnings.iter().any(|warning| warning.ends_with("answered wrongly")));
}

#[test]
fn a_cluster_that_is_not_there() {
    let cluster = cluster(&[Vice::Down, Vice::Down, Vice::Down, Vice::None], ok);
    let workload = Workload::noop(10, b"+").unwrap();
    let mut config = config(&cluster, workload, Arrivals::Closed);
    config.patience = Duration::from_secs(2);
    let error = load::run(&config).unwrap_err();
    assert!(matches!(error, LoadError::NotOpen { open: 0, clients: 3, .. }));
    let down = &cluster.mock.addresses()[1].address;
    assert!(error.to_string().contains(down), "{error} does not name {down}");
    config.keys.clear();
    assert!(matches!(load::run(&config).unwrap_err(), LoadError::Config(_)));
    assert!(Workload::noop(5000, b"+").is_err() && Workload::noop(0, b"+").is_err());
}

#[test]
fn the_report_is_written() {
    let json = serde_json::to_value(LoadReport::default()).unwrap();
    for field in "batch payload n protocol goodput mean_ms p50_ms p99_ms max_ms warnings".split(' ')
    {
        assert!(json.get(field).is_some(), "{field}");
    }
}

#[test]
fn a_store_that_answers_reads_with_anything_is_wrong() {
    use quorate_app::kv::reply;
    use quorate_lab::load::{Mix, Popularity};
    // Of the right length, but not what was written under that key.
    let cluster = cluster(&[Vice::None; 4], |_, out| reply::encode::bulk(out, &[7; 100]));
    let workload = Workload::ycsb(10, 100, Mix::C, Popularity::Zipfian, (1000, 1)).unwrap();
    let report = load::run(&config(&cluster, workload, Arrivals::Closed)).unwrap();
    assert!(report.wrong > 0 && report.commands == 0, "{report:?}");
}
