//! Finding the members that there are by now.
//!
//! A replica that was away for long, or joins, knows members that may be gone. Then nobody that it
//! reaches as a peer can tell it more. So it asks as a client does, of whom the clients' side of
//! every replica tells how epochs ended, and opens channels to the members that this proves. All
//! else it learns from them by the protocol.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::ReplicaId;
use quorate_transport::Peers;

use crate::client::succession::Following;
use crate::replica::epochs::{Epochs, Standing};
use crate::replica::transport_key::TransportKey;

/// How long members may take to connect before they are looked for elsewhere, and how often they
/// are.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// Looks for members for as long as the replica runs, while it is none or reaches no quorum.
pub(crate) async fn run(
    me: ReplicaId,
    following: Following,
    epochs: Arc<Epochs>,
    peers: Arc<Peers>,
    transport: Arc<TransportKey>,
) {
    let mut chain = following.begin();
    let mut tells = true;
    loop {
        if is_lost(me, &epochs, &peers) {
            let known = epochs.handovers(chain.committee().epoch());
            // They were verified before they were written down here.
            let _ = chain.take(known);
            match chain.catch_up().await {
                Ok(()) => tells = true,
                Err(error) if tells => {
                    tells = false;
                    tracing::warn!(
                        "it is not known who the members are by now: {error}; see that those in \
                         cluster.toml, or later ones, run and are reached from here"
                    );
                }
                Err(_) => {}
            }
            if chain.committee().epoch() > epochs.committee().epoch() {
                epochs.is_ahead(chain.committee().clone());
                // Those members know this replica by that key. Without it, they refuse it, and its
                // log says so when it comes to the epoch.
                let key = epochs.transport_key(me);
                let _ = key.is_none_or(|key| transport.enter(key));
                peers.change_members(epochs.peers());
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether the replica cannot go on with the members that it knows.
fn is_lost(me: ReplicaId, epochs: &Epochs, peers: &Peers) -> bool {
    let committee = epochs.committee();
    let reached = peers.connected().into_iter().filter(|id| *id != me).chain([me]);
    epochs.standing(me) == Standing::Newcomer || committee.weight_of(reached) < committee.quorum()
}
