//! Accepting connections, and no more of them than there is room for.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Limits;
use super::carrier::Carrier;
use super::counters::{Counters, count};
use super::link::FAREWELL;
use super::places::{Caps, Network, Place, Places, Rule};

/// How long to wait when the system accepts nothing, for want of descriptors say.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Connections that have given way and are not gone yet, at most: nobody is accepted meanwhile.
pub const LEAVING: usize = 16;

/// Where places are for those who arrive and are not known yet: strangers, and apart from them
/// whoever comes from an address of the other replicas.
#[derive(Clone)]
pub(super) struct HalfOpen {
    strangers: Places,
    familiar: Option<(Familiar, Places)>,
}

/// The networks that other replicas are in, as far as their names were found.
pub(super) type Familiar = Arc<RwLock<HashSet<Network>>>;

impl HalfOpen {
    pub(super) fn new(limits: &Limits, familiar: Option<Familiar>) -> Self {
        let (all, of_network) = (limits.half_open, limits.half_open_per_address);
        let places = |of_network| Places::new(Caps { all, of_network }, Rule::OldestGivesWay);
        // All replicas may be behind one address.
        let familiar = familiar.map(|familiar| (familiar, places(all)));
        Self { strangers: places(of_network), familiar }
    }

    /// How many there are.
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

/// Waits until the sender says `true`, or is gone.
pub(super) async fn closed(closing: &mut watch::Receiver<bool>) {
    // Either way it is over; the value that is lent out must not be kept across an await.
    drop(closing.wait_for(|closing| *closing).await);
}

/// Accepts until `closing` and gives every connection to `serve`, with the place that it has until
/// it is known; `stay` are those that may be served beyond that. Then waits for those there are, a
/// little. Dropping the future ends them all.
pub(super) async fn accept_all<C: Carrier, Serving>(
    carrier: C,
    half_open: HalfOpen,
    stay: usize,
    counters: Arc<Counters>,
    mut closing: watch::Receiver<bool>,
    serve: impl Fn(C::Arrival, Place) -> Serving,
) where
    Serving: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let most = half_open.all() + stay + LEAVING;
    loop {
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
    // Those that do not end by then are ended by dropping the set.
    let _ = tokio::time::timeout(FAREWELL, all).await;
}
