//! How many streams there are at once, in all and of one address.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_transport::places::Network;

use super::{STREAMS, STREAMS_OF_ADDRESS};

/// The streams of each address; clones share them.
#[derive(Clone, Default)]
pub(super) struct Seats(Arc<Mutex<BTreeMap<Network, usize>>>);

/// The place of a stream. Dropping it gives it back.
pub(super) struct Seat {
    network: Network,
    seats: Seats,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Full {
    /// All are taken.
    #[error("this replica has {STREAMS} streams at once, and all are open: try another, or later")]
    All,
    /// The address has as many as one may.
    #[error(
        "an address may have {STREAMS_OF_ADDRESS} streams at once, and yours has as many open: close \
         one, or read several prefixes from one stream"
    )]
    Address,
}

impl Seats {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<Network, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a stream to an address.
    pub(super) fn take(&self, network: Network) -> Result<Seat, Full> {
        let mut taken = self.locked();
        if taken.get(&network).is_some_and(|count| *count >= STREAMS_OF_ADDRESS) {
            return Err(Full::Address);
        }
        if taken.values().sum::<usize>() >= STREAMS {
            return Err(Full::All);
        }
        *taken.entry(network).or_default() += 1;
        Ok(Seat { network, seats: self.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.locked();
        if let Some(count) = taken.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn network(text: &str) -> Network {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn an_address_has_a_part_of_the_places_and_each_is_given_back() {
        let seats = Seats::default();
        let mut first: Vec<_> =
            (0..STREAMS_OF_ADDRESS).map(|_| seats.take(network("10.0.0.1")).unwrap()).collect();
        assert_eq!(seats.take(network("10.0.0.1")).err(), Some(Full::Address));
        assert_eq!(seats.take(network("::ffff:10.0.0.1")).err(), Some(Full::Address), "the same");
        // Another address has places still, until all are taken.
        let others: Vec<_> = (STREAMS_OF_ADDRESS..STREAMS)
            .map(|other| seats.take(network(&format!("10.0.1.{other}"))).unwrap())
            .collect();
        assert_eq!(seats.take(network("10.0.0.2")).err(), Some(Full::All));
        first.pop();
        assert!(seats.take(network("10.0.0.2")).is_ok());
        drop((first, others));
        assert!(seats.locked().is_empty(), "nothing is kept of who has gone");
    }

    #[test]
    fn refusals_name_the_limit() {
        assert!(Full::Address.to_string().contains("an address may have 4 streams at once"));
        assert!(Full::All.to_string().contains("this replica has 8 streams at once"));
    }
}
