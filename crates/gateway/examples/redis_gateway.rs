//! The Redis gateway over a store in this very process: no replication, so that what is measured
//! is the gateway. Usage: `redis_gateway [address]`, then for example
//! `redis-benchmark -p 6379 -t set,get,incr,mset -n 200000 -c 50 -P 16 -q`.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use quorate_app::kv::KeyValue;
use quorate_core::ledger::state_machine::{Decided, Replies, StateMachine};
use quorate_core::{Height, View};
use quorate_gateway::server::{Limits, Security, serve};
use quorate_gateway::{Cluster, Submission};
use tokio::net::TcpListener;

struct Alone(Mutex<KeyValue>);

impl Cluster for Alone {
    fn submit(&self, commands: Vec<Bytes>) -> Submission {
        let commands: Vec<&[u8]> = commands.iter().map(|command| &command[..]).collect();
        let block = Decided {
            height: Height(1),
            view: View(1),
            commands: &commands,
            rules: 1,
            callers: &[],
        };
        let mut replies = Replies::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).apply(&block, &mut replies);
        let replies = replies.iter().map(Bytes::copy_from_slice).collect();
        Box::pin(std::future::ready(Ok(replies)))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6379".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    let store = Arc::new(Alone(Mutex::new(KeyValue::new())));
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(listener, store, Limits::default(), Security::default(), stop).await
}
