//! What the load generator itself costs: processor time per command, against four replicas without
//! consensus in the same process. `cargo run --release -p quorate-lab --example generator_cost`

#[path = "../../node/tests/mock/mod.rs"]
mod mock;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use mock::{Mock, Vice};
use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::SessionConfig;
use quorate_crypto::SecretKey;
use quorate_lab::load::{self, Arrivals, LoadConfig, Workload};
use quorate_node::client::Authenticity;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    let mock = runtime.block_on(Mock::start(&[Vice::None; 4], |_, reply| reply.push(0)));
    let loads = [
        (400, 0, 4, 4, Arrivals::Closed),
        (100, 0, 4, 4, Arrivals::Closed),
        (400, 128, 4, 4, Arrivals::Closed),
        (400, 1024, 4, 2, Arrivals::Closed),
        (1, 0, 1, 1, Arrivals::Closed),
        (400, 0, 4, 4, Arrivals::Even { rate: 100_000.0 }),
    ];
    println!("batch payload clients in-flight  commands/s  mean ms  p99 ms  generator us/command");
    for (batch, payload, clients, outstanding, arrivals) in loads {
        let put = |key: &[u8], value: &[u8]| [key, value].concat();
        let workload = match payload {
            0 => Workload::noop(batch, &[0])?,
            _ => Workload::put(batch, payload, 100_000, 1, &[0], put)?,
        };
        let keys = (1..=clients).map(|seed| SecretKey::from_seed(&[seed; 32]));
        let report = load::run(&LoadConfig {
            protocol: "none".into(),
            replicas: mock.addresses(),
            session: SessionConfig::new(mock.chain(), 4),
            authenticity: Authenticity::Channel,
            contacts: None,
            keys: keys.map(|key| Arc::new(key) as Arc<dyn ClientSigner>).collect(),
            workload,
            write_records: false,
            outstanding,
            callers: None,
            arrivals,
            warm_up: Duration::from_millis(300),
            duration: Duration::from_secs(3),
            interval: Duration::from_secs(1),
            patience: Duration::from_secs(5),
            notice: |_| {},
        })?;
        let cost = report.generator_us.unwrap_or(f64::NAN);
        println!(
            "{batch:5} {payload:7} {clients:7} {outstanding:9} {:11.0} {:8.3} {:7.3} {cost:21.3}",
            report.goodput, report.mean_ms, report.p99_ms
        );
        report.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    }
    Ok(())
}
