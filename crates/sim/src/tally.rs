//! What replicas told clients, liars among them: a client believes what f + 1 say alike.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::client::message::Outcome;
use quorate_core::crypto::PublicKey;

/// What a request is known by: the client, the session (0: to open one), the first number.
type Request = (PublicKey, u64, u64);

/// What replicas told clients.
#[derive(Debug, Default)]
pub struct Tally {
    said: BTreeMap<Request, Vec<(Outcome, BTreeSet<usize>)>>,
}

/// What an outcome is about.
pub(crate) fn request(client: PublicKey, outcome: &Outcome) -> Request {
    match outcome {
        Outcome::Opened { incarnation, .. } => (client, 0, *incarnation),
        Outcome::Executed { session, first, .. } | Outcome::Rejected { session, first, .. } => {
            (client, session.0, first.0)
        }
    }
}

impl Tally {
    /// A replica says this to a client. Returns how many have said exactly so.
    pub fn hears(&mut self, replica: usize, client: PublicKey, outcome: &Outcome) -> usize {
        let said = self.said.entry(request(client, outcome)).or_default();
        match said.iter_mut().find(|(known, _)| known == outcome) {
            Some((_, by)) => {
                by.insert(replica);
                by.len()
            }
            None => {
                said.push((outcome.clone(), BTreeSet::from([replica])));
                1
            }
        }
    }
}
