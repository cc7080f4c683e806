//! Datagrams from ever other addresses, to replicas that reach each other over UDP: asks for
//! tokens, and openings with tokens that nobody gave.
//!
//! Whatever is kept of an address before it has shown that it can be reached at it fills places
//! with addresses that nobody has.
//!
//! Answered by tokens that are a hash of the address, and by keeping nothing before one is shown.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;

use super::super::{Flood, Target, Trial};
use crate::random::Random;

/// Datagrams behind each other.
const BURST: u64 = 64;
/// Pause between bursts.
const PAUSE: Duration = Duration::from_millis(2);

pub(in super::super) const FLOOD: Flood = Flood {
    udp: true,
    ..Flood::by_client("made-up-addresses", "UDP datagrams from 60,000 addresses", |target| {
        Box::pin(async move {
            target.begin().await;
            flood(target).await;
        })
    })
    .with(Trial::Return)
};

async fn flood(target: Arc<Target>) {
    let mut random = Random(66);
    loop {
        let mut draw = |end: u64| (random.unit() * end as f64) as u64;
        let from = Ipv4Addr::new(127, 66, draw(250) as u8 + 1, draw(250) as u8 + 1);
        let Ok(socket) = UdpSocket::bind((from, 0)).await else { return };
        for number in 0..BURST {
            let at = (draw(u64::MAX) as usize) % target.peers.len().max(1);
            let Some(Ok(to)) = target.peers.get(at).map(|peer| peer.parse::<SocketAddr>()) else {
                return;
            };
            let mut datagram: Vec<u8> = (0..1200).map(|_| draw(256) as u8).collect();
            if number % 2 == 0 {
                // An ask for a token.
                datagram.truncate(64);
                datagram[9..].fill(0);
            }
            datagram[0] = if number % 2 == 0 { 1 } else { 3 };
            if socket.send_to(&datagram, to).await.is_ok() {
                target.did(1);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
