//! The gateway's sockets: connections are accepted, served side by side, and wound up.

mod budget;
mod connection;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use quorate_node::tls;
use quorate_transport::Door;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Cluster;
use super::acl::gate::Gate;
use super::commands::Shared;
use budget::Budget;

/// What connections may take up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at a time. A further one takes the place of an idle one, or is told so and
    /// closed ([`Shared::admit`]).
    pub max_clients: usize,
    /// Most submissions of one connection that are not answered yet. The connection is not read
    /// from while there are so many.
    pub max_submissions: usize,
    /// Most bytes of commands in them. One command may exceed it, alone.
    pub max_submitted_bytes: usize,
    /// Most bytes of requests that have not arrived whole, and of commands and the gateway's own
    /// answers under way, of all connections together.
    pub max_held_bytes: usize,
    /// How long a request may take to arrive.
    pub request_timeout: Duration,
    /// Most bytes of replies to one submission: a connection that is owed more is closed.
    pub max_output_bytes: usize,
    /// How long a client may take no byte of what it is owed.
    pub stall_timeout: Duration,
    /// How long a client that is owed nothing may send nothing. `None`: for ever.
    pub idle_timeout: Option<Duration>,
    /// How long what was submitted is waited for when the gateway stops.
    pub stop_timeout: Duration,
}

/// Who is let in, and how the line is kept. The default: everybody, in the clear.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The users.
    pub gate: Arc<Gate>,
    /// TLS with the newest certificates; none: bytes are not encrypted.
    pub tls: Option<watch::Receiver<Arc<ServerConfig>>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_clients: 10_000,
            max_submissions: 16,
            max_submitted_bytes: 8 << 20,
            max_held_bytes: 256 << 20,
            request_timeout: Duration::from_secs(60),
            max_output_bytes: 256 << 20,
            stall_timeout: Duration::from_secs(60),
            idle_timeout: Some(Duration::from_secs(3600)),
            stop_timeout: Duration::from_secs(10),
        }
    }
}

/// How long to wait when no connection can be accepted, for lack of descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves Redis clients on `listener` until `stop` is ready. Then no more is read, what was
/// submitted is waited for and answered ([`Limits::stop_timeout`]), and all is closed.
///
/// # Errors
/// If the listener has no local address. An error of one connection ends that connection only.
pub async fn serve(
    listener: TcpListener,
    cluster: Arc<dyn Cluster>,
    limits: Limits,
    security: Security,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let shared = Shared::new(address, limits.max_clients, cluster.frame_limits());
    let shared = Arc::new(shared.for_users(security.gate));
    let budget = Budget::new(limits.max_held_bytes);
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let door = Door::new(listener);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            // Reaped as they end, so that the set holds no more than are open.
            Some(_) = connections.join_next() => {}
            accepted = door.accept() => match accepted {
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                Ok((stream, address)) => match shared.admit(address) {
                    None => turn_away(&stream),
                    Some(connection) => {
                        let (cluster, stopped) = (Arc::clone(&cluster), stopped.clone());
                        let served = connection::Served {
                            connection, cluster, limits, budget: budget.clone(), stopped,
                        };
                        let tls = security.tls.as_ref().map(|newest| Arc::clone(&newest.borrow()));
                        connections.spawn(async move {
                            match tls {
                                None => connection::run_plain(stream, served).await,
                                Some(tls) => connection::run_tls(stream, tls, served).await,
                            }
                        });
                    }
                },
            },
        }
    }
    drop(door);
    let _ = stopping.send(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.stop_timeout, all_ended).await.is_err() {
        connections.shutdown().await;
    }
    Ok(())
}

/// Says why and closes. The few bytes fit the socket's empty buffer; if not, so be it.
fn turn_away(stream: &TcpStream) {
    let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
}
