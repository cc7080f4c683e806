//! Accepts connections, and bounds how many there are at once.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use quorate_core::planted;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Limits;
use super::carrier::Carrier;
use super::counters::{Counters, count};
use super::link::FAREWELL;
use super::places::{Caps, Network, Place, Places, Rule};

/// The pause after a failure of `accept`, for example when no file descriptor is left.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// The most connections that have been told to give way and have not ended yet. While there are
/// this many, no further connection is accepted.
pub const LEAVING: usize = 16;

/// The places for connections whose other side is not known yet. Connections from addresses of
/// other replicas have places of their own, so that a flood of strangers cannot take them.
#[derive(Clone)]
pub(super) struct HalfOpen {
    strangers: Places,
    familiar: Option<(Familiar, Places)>,
}

/// The networks of the other replicas, as far as their names could be resolved.
pub(super) type Familiar = Arc<RwLock<HashSet<Network>>>;

impl HalfOpen {
    pub(super) fn new(limits: &Limits, familiar: Option<Familiar>) -> Self {
        let (all, of_network) = (limits.half_open, limits.half_open_per_address);
        let rule = planted!("half-open-for-ever", Rule::HeavierGivesWay, Rule::OldestGivesWay);
        let places = |of_network| Places::new(Caps { all, of_network }, rule);
        // All replicas may share one address, so one network may take all of these places.
        let familiar = familiar.map(|familiar| (familiar, places(all)));
        Self { strangers: places(of_network), familiar }
    }

    /// The number of places.
    pub(super) fn all(&self) -> usize {
        self.strangers.all() + self.familiar.as_ref().map_or(0, |(_, places)| places.all())
    }

    fn take(&self, network: Network) -> Option<(Place, bool)> {
        match &self.familiar {
            Some((familiar, places)) if contains(familiar, network) => places.take(network),
            _ => self.strangers.take(network),
        }
    }
}

fn contains(familiar: &Familiar, network: Network) -> bool {
    familiar.read().unwrap_or_else(PoisonError::into_inner).contains(&network)
}

/// Waits until the sender says `true` or is dropped.
pub(super) async fn closed(closing: &mut watch::Receiver<bool>) {
    // Both results mean the end. The borrowed value must not be held across an await.
    drop(closing.wait_for(|closing| *closing).await);
}

/// Accepts connections until `closing`, and hands each to `serve` with a place that it holds until
/// its other side is known. At most `stay` connections may be served beyond that. Then waits a
/// short time for the connections that are left. Dropping the future ends them all.
pub(super) async fn accept_all<C: Carrier, Serving>(
    carrier: C,
    half_open: HalfOpen,
    stay: impl Fn() -> usize,
    counters: Arc<Counters>,
    mut closing: watch::Receiver<bool>,
    serve: impl Fn(C::Arrival, Place) -> Serving,
) where
    Serving: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    loop {
        let most = half_open.all() + stay() + LEAVING;
        tokio::select! {
            arrival = carrier.arrival(), if tasks.len() < most => match arrival {
                Ok((arrival, address)) => match half_open.take(address.into()) {
                    Some((place, gave_way)) => {
                        if gave_way {
                            count(&counters.gave_way);
                        }
                        tasks.spawn(serve(arrival, place));
                    }
                    None => count(&counters.too_many_connections),
                },
                Err(_) => {
                    count(&counters.accept_failed);
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            },
            Some(_) = tasks.join_next() => {}
            () = closed(&mut closing) => break,
        }
    }
    let leaving = carrier.close();
    let all = async {
        while tasks.join_next().await.is_some() {}
        leaving.await;
    };
    // Dropping the set ends the connections that are left by then.
    let _ = tokio::time::timeout(FAREWELL, all).await;
}
