//! Whom a replica takes for the leader of its view.

use std::sync::Arc;

use quorate_core::protocols::hotstuff::block::{Block, SharedBlock};
use quorate_core::protocols::hotstuff::leader::{Election, History};
use quorate_core::protocols::hotstuff::rules::{Fast, Rules};
use quorate_core::protocols::hotstuff::{Message, Settings};
use quorate_core::protocols::protocol::Protocol;
use quorate_core::{Epoch, Height, View};

use crate::cluster::keys::{CHAIN, committee};
use crate::driven::{Replica, block};

/// A leader of Fast-HotStuff extends the highest QC of its AggQC, even if it knows a higher one: so
/// it is behind the former that everybody finds who leads.
#[test]
fn behind_an_agg_qc_the_leader_is_elected_from_what_it_must_extend() {
    let mut apart = 0;
    for view in 6..40 {
        let settings = Settings { election: Election::Reputation, ..Settings::new(&Fast) };
        let chain = chain(&Replica::new(settings.clone()), 4);
        let mut replica = Replica::recovered(settings, None, chain[1..].to_vec());
        // It has a QC of block 4, and those who gave up had none above that of block 3.
        let [third, fourth] = [3, 4].map(|at| replica.qc(at, 1, chain[at as usize].id()));
        let agg_qc = replica.tc(view - 1, &third).build();
        for (high_qc, high_tc) in [(fourth, None), (third, Some(agg_qc))] {
            let high_qc = high_qc.build();
            let advance = Message::Advance { is_answer: true, high_qc, high_tc, decided: None };
            replica.take(1, advance);
        }
        assert_eq!(
            (replica.driver.status().view, replica.driver.high_qc().view()),
            (View(view), View(4))
        );
        // A QC of a block two views in a row commits its parent.
        let leader = |head: usize| {
            let (head, committed) = (chain[head].id(), Height(head as u64 - 1));
            let history = History { tree: replica.driver.tree(), head: &head, committed };
            let length = Fast.facts().chain_length;
            Election::Reputation.leader(View(view), &committee(4), length, &history)
        };
        assert_eq!(replica.driver.status().leader, Some(leader(3)), "view {view}");
        apart += u64::from(leader(3) != leader(4));
    }
    assert!(apart > 2, "{apart}");
}

/// Genesis and the blocks of as many views, whoever leads them.
fn chain(replica: &Replica, views: u64) -> Vec<SharedBlock> {
    let mut chain = vec![Arc::new(Block::genesis(CHAIN, Epoch(0)))];
    for view in 1..=views {
        let parent = chain.last().expect("genesis").clone();
        let justify = replica.qc(parent.view.0, 1, parent.id()).build();
        chain.push(block(view, &parent, justify));
    }
    chain
}
