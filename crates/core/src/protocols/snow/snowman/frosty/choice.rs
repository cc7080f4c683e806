//! What the leader of a round may propose: a function of the reports alone, so everybody checks it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::words::{Proposal, SignedReport};
use crate::base::membership::Committee;
use crate::ledger::block::BlockId;

/// How much weight stands by each block right above a chain.
fn next(
    committee: &Committee,
    reports: &[SignedReport],
    chain: &[BlockId],
) -> BTreeMap<BlockId, usize> {
    let mut weights = BTreeMap::new();
    for SignedReport { from, report, .. } in reports {
        if report.chain.starts_with(chain)
            && let Some(next) = report.chain.get(chain.len())
        {
            let weight = planted!("frosty-final-ignored", 0, committee.weight(*from));
            *weights.entry(*next).or_default() += weight;
        }
    }
    weights
}

/// The blocks above the base that more than half of the reports stand by, lowest first. A block
/// that may be final is one of these, or below the base.
#[must_use]
pub fn majority(committee: &Committee, reports: &[SignedReport]) -> Vec<BlockId> {
    let all: usize = reports.iter().map(|signed| committee.weight(signed.from)).sum();
    let mut chain = Vec::new();
    loop {
        let mut weights = next(committee, reports, &chain).into_iter();
        match weights.find(|(_, weight)| 2 * weight > all) {
            Some((block, _)) => chain.push(block),
            None => return chain,
        }
    }
}

/// Where there is no majority: the blocks right above the base by the weight behind them, the most
/// first, and the lowest name among equals.
#[must_use]
pub fn candidates(committee: &Committee, reports: &[SignedReport]) -> Vec<BlockId> {
    let weights = next(committee, reports, &[]);
    let mut by_weight: Vec<_> =
        weights.into_iter().map(|(block, weight)| (Reverse(weight), block)).collect();
    by_weight.sort_unstable();
    by_weight.into_iter().map(|(_, block)| block).collect()
}

/// Whether the reports allow this: the whole majority chain; without one, any one block on the
/// base; or the base, if nobody stands by anything above it.
#[must_use]
pub fn is_allowed(committee: &Committee, proposal: &Proposal) -> bool {
    let Proposal { chain, reports, .. } = proposal;
    let majority = majority(committee, reports);
    match (majority.is_empty(), chain.len()) {
        (false, _) => *chain == majority,
        (true, 0) => reports.iter().all(|signed| signed.report.chain.is_empty()),
        (true, length) => length == 1,
    }
}
