//! Accepting connections, and no more of them than there is room for.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Limits;
use super::carrier::Carrier;
use super::counters::{Counters, count};
use super::link::FAREWELL;

/// How long to wait when the system has no descriptors left.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// A place among the connections, given back when dropped.
pub(super) struct Place {
    address: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Place {
    fn take(
        address: IpAddr,
        taken: &Arc<Mutex<HashMap<IpAddr, usize>>>,
        limits: &Limits,
    ) -> Option<Self> {
        let mut map = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = map.values().sum();
        let here = map.get(&address).copied().unwrap_or(0);
        if total >= limits.connections || here >= limits.connections_per_address {
            return None;
        }
        map.insert(address, here + 1);
        Some(Self { address, taken: taken.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut map = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = map.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                map.remove(&self.address);
            }
        }
    }
}

/// Waits until the sender says `true`, or is gone.
pub(super) async fn closed(closing: &mut watch::Receiver<bool>) {
    // Either way it is over; the value that is lent out must not be kept across an await.
    drop(closing.wait_for(|closing| *closing).await);
}

/// Accepts until `closing` and gives every connection to `serve`. Then waits for those there are,
/// a little. Dropping the future ends them all.
pub(super) async fn accept_all<C: Carrier, Serving>(
    carrier: C,
    limits: Limits,
    counters: Arc<Counters>,
    mut closing: watch::Receiver<bool>,
    serve: impl Fn(C::Arrival) -> Serving,
) where
    Serving: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let taken = Arc::default();
    loop {
        tokio::select! {
            arrival = carrier.arrival() => match arrival {
                Ok((arrival, address)) => match Place::take(address, &taken, &limits) {
                    Some(place) => {
                        let serving = serve(arrival);
                        tasks.spawn(async move {
                            serving.await;
                            drop(place);
                        });
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
