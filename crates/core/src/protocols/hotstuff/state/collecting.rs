//! Votes at hand, and what is being verified or joined.

use std::collections::BTreeMap;

use crate::base::membership::Committee;
use crate::base::types::View;
use crate::protocols::hotstuff::certificate::{Qc, TimeOut, Vote};
use crate::protocols::hotstuff::votes::VoteCollector;
use crate::protocols::protocol::Ballot;

/// Votes on their way to a certificate, and time-outs of which one is being made.
///
/// Every question to the verifier has a number of its own, and is here until its answer comes.
#[derive(Clone, Debug)]
pub struct Collecting {
    /// The votes at hand.
    pub votes: VoteCollector,
    asks: BTreeMap<u64, Ask>,
    next_ask: u64,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// To verify these votes, all for one ballot.
    Votes(Ballot, Vec<Vote>),
    /// To join these votes.
    JoinVotes(Ballot, Vec<Vote>, Trust),
    /// To verify the certificate of these votes, joined as they came.
    Joined(Qc, Vec<Vote>),
    /// To join these time-outs of one view, which were verified.
    JoinTimeOuts(View, Vec<(TimeOut, Qc)>),
}

/// Whether votes were verified before they are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    Verified,
    AsTheyCame,
}

impl Ask {
    /// The ballot whose certificate is on its way.
    fn ballot(&self) -> Option<Ballot> {
        match self {
            Self::Votes(ballot, _) | Self::JoinVotes(ballot, ..) => Some(*ballot),
            Self::Joined(qc, _) => Some(qc.ballot()),
            Self::JoinTimeOuts(..) => None,
        }
    }
}

impl Collecting {
    pub fn new(committee: &Committee) -> Self {
        Self { votes: VoteCollector::new(committee), asks: BTreeMap::new(), next_ask: 0 }
    }

    /// The number under which something is asked for.
    pub fn ask(&mut self, ask: Ask) -> u64 {
        let number = self.next_ask;
        self.next_ask += 1;
        self.asks.insert(number, ask);
        number
    }

    /// What was asked for under a number, once its answer has come.
    pub fn answered(&mut self, number: u64) -> Option<Ask> {
        self.asks.remove(&number)
    }

    /// The ballots whose certificates are on their way.
    pub fn under_way(&self) -> impl Iterator<Item = Ballot> {
        self.asks.values().filter_map(Ask::ballot)
    }

    /// Whether the time-out certificate of `view` is being made.
    pub fn joins_time_outs_of(&self, view: View) -> bool {
        let same = |ask: &Ask| matches!(ask, Ask::JoinTimeOuts(of, _) if *of == view);
        self.asks.values().any(same)
    }
}
