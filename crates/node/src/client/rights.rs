//! Saying who may send commands: what an administrator asks for becomes a directive, and a client
//! submits it.

use std::sync::Arc;

use bytes::Bytes;
use quorate_app::kv::quotas::{self, MAX_KEYS_ASKED};
use quorate_core::base::crypto::{ClientSigner, PublicKey, Signer as _};
use quorate_core::base::wire::Decode as _;
use quorate_core::client::message::{Request, Response};
use quorate_core::ledger::clients::Clients;
use quorate_core::ledger::directive::{Refusal, SignedDirective};
use quorate_core::{Committee, ReplicaId};
use quorate_crypto::SecretKey;
use tokio::task::JoinSet;

use super::change::{ChangeError, carried_out};
use super::succession::{Chain, addresses, request_of};
use super::verified::AskError;
use crate::config::Cluster;

/// How often the members are asked while a change of the list is on its way to them.
const ATTEMPTS: usize = 20;
/// How long it is waited in between.
const ASK_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_millis(250);

/// It is not known who the clients are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "members that weigh {agreed} agree on the list of clients, and {needed} must{}",
    .failed.iter().map(|(id, error)| format!("; replica {id} {error}")).collect::<String>()
)]
pub struct Unlisted {
    /// The most weight behind one list.
    pub agreed: usize,
    /// f + 1.
    pub needed: usize,
    /// Those that did not answer, and why.
    pub failed: Vec<(ReplicaId, AskError)>,
}

/// The list of clients on which f + 1 members of the newest committee agree. The words of members
/// that are behind for a moment differ, so they are asked again for some seconds.
///
/// # Errors
/// [`Unlisted`].
pub async fn list(committee: &Committee) -> Result<Clients, Unlisted> {
    let mut attempt = 1;
    loop {
        match ask(committee).await {
            Err(_) if attempt < ATTEMPTS => {}
            done => return done,
        }
        attempt += 1;
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
    }
}

async fn ask(committee: &Committee) -> Result<Clients, Unlisted> {
    let chain = committee.chain();
    let mut asking = JoinSet::new();
    for (replica, address) in addresses(committee) {
        asking.spawn(async move {
            let request = Request::Clients { id: 1 };
            (replica, request_of(replica, address, chain, &request).await)
        });
    }
    let (mut lists, mut failed) = (Vec::<(Clients, usize)>::new(), Vec::new());
    let needed = committee.honest_witness();
    while let Some(Ok((replica, answer))) = asking.join_next().await {
        let clients = answer.and_then(|answer| match answer {
            Response::Clients { clients, .. } => {
                Clients::from_bytes(clients).map_err(AskError::Garbage)
            }
            _ => Err(AskError::Silent),
        });
        let clients = match clients {
            Ok(clients) => clients,
            Err(error) => {
                failed.push((replica, error));
                continue;
            }
        };
        let weight = committee.weight(replica);
        match lists.iter_mut().find(|(list, _)| *list == clients) {
            Some((_, agreed)) => *agreed += weight,
            None => lists.push((clients, weight)),
        }
    }
    // Members that are behind agree as well, on an earlier one.
    let agreed = lists.iter().filter(|(_, agreed)| *agreed >= needed);
    if let Some((list, _)) = agreed.max_by_key(|(list, _)| list.next_serial()) {
        return Ok(list.clone());
    }
    let agreed = lists.iter().map(|(_, agreed)| *agreed).max().unwrap_or_default();
    Err(Unlisted { agreed, needed, failed })
}

/// Too few members say what keys have stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "members that weigh {answered} say what keys have stored, and {needed} must: some are not reached, \
     or of a release that does not tell{}",
    .failed.iter().map(|(id, error)| format!("; replica {id} {error}")).collect::<String>()
)]
pub struct NotTold {
    /// How much those weigh that say it.
    pub answered: usize,
    /// A quorum.
    pub needed: usize,
    /// Those that did not answer, and why.
    pub failed: Vec<(ReplicaId, AskError)>,
}

/// How many bytes of the key-value store's state each key owns, in the order of `keys`.
///
/// A quorum is asked, and members answer from their own states, which may differ by some blocks. Of
/// each key the least figure is taken that members of weight f + 1 do not exceed: some correct
/// member says no more, and some correct member no less, whatever f liars say.
///
/// # Errors
/// [`NotTold`].
pub async fn stored(committee: &Committee, keys: &[PublicKey]) -> Result<Vec<u64>, NotTold> {
    let mut stored = Vec::with_capacity(keys.len());
    for keys in keys.chunks(MAX_KEYS_ASKED) {
        stored.append(&mut stored_by(committee, keys).await?);
    }
    Ok(stored)
}

async fn stored_by(committee: &Committee, keys: &[PublicKey]) -> Result<Vec<u64>, NotTold> {
    let (chain, count) = (committee.chain(), keys.len());
    let question = Bytes::from(quotas::question(keys));
    let mut asking = JoinSet::new();
    for (replica, address) in addresses(committee) {
        let request = Request::Query { id: 1, question: question.clone() };
        asking.spawn(async move { (replica, request_of(replica, address, chain, &request).await) });
    }
    let (mut said, mut failed) = (Vec::<(usize, Vec<u64>)>::new(), Vec::new());
    while let Some(Ok((replica, answer))) = asking.join_next().await {
        match answer {
            Ok(Response::Answer { answer, .. }) => {
                let stored = quotas::answer(&answer, count);
                said.extend(stored.map(|stored| (committee.weight(replica), stored)));
                // Nobody waits for those that are silent.
                if said.iter().map(|(weight, _)| weight).sum::<usize>() >= committee.quorum() {
                    break;
                }
            }
            Ok(_) => {}
            Err(error) => failed.push((replica, error)),
        }
    }
    let answered = said.iter().map(|(weight, _)| weight).sum();
    let needed = committee.quorum();
    if answered < needed {
        return Err(NotTold { answered, needed, failed });
    }
    let of = |at: usize| {
        let of_key = |(weight, stored): &(usize, Vec<u64>)| Some((*stored.get(at)?, *weight));
        witnessed(said.iter().filter_map(of_key).collect(), committee.honest_witness())
    };
    Ok((0..count).map(of).collect())
}

/// The least of the figures that is not exceeded by figures of so much weight.
fn witnessed(mut figures: Vec<(u64, usize)>, needed: usize) -> u64 {
    figures.sort_unstable();
    let mut weight = 0;
    let reaches = figures.iter().find(|(_, more)| {
        weight += more;
        weight >= needed
    });
    reaches.map_or(0, |(figure, _)| *figure)
}

/// Adds the approval of an administrator, in place of an earlier one of the same.
pub fn approve(directive: &mut SignedDirective, current: &Committee, administrator: &SecretKey) {
    let key = administrator.public_key();
    directive.approvals.retain(|(signer, _)| *signer != key);
    let signature = administrator.sign(&directive.directive.approval(&current.chain()));
    directive.approvals.push((key, signature));
}

/// Why the list is as it was, or it is not known whether it is.
#[derive(Debug, thiserror::Error)]
pub enum DirectiveError {
    /// The replicas would refuse it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The replicas refused it, or the client was turned down.
    #[error(transparent)]
    NotCarriedOut(#[from] ChangeError),
}

/// Submits a directive, in a session of `client`: an administrator always gets one. `clients` is
/// the list as it is known.
///
/// # Errors
/// [`DirectiveError`].
pub async fn submit(
    directive: &SignedDirective,
    clients: &Clients,
    cluster: &Cluster,
    chain: &Chain,
    client: Arc<dyn ClientSigner>,
) -> Result<(), DirectiveError> {
    // What is refused here would be refused there, and cost an ordered command.
    directive.judge(chain.committee(), clients)?;
    carried_out(directive.to_command(), cluster, chain, client).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::witnessed;

    /// One of four lies, high or low: the figure stays between what the correct ones say.
    #[test]
    fn a_liar_moves_no_figure_out_of_what_correct_members_say() {
        let of = |figures: [u64; 4]| witnessed(figures.map(|figure| (figure, 1)).to_vec(), 2);
        assert_eq!(of([0, 500, 500, 510]), 500);
        assert_eq!(of([u64::MAX, 500, 500, 510]), 500);
        assert_eq!(witnessed(vec![(0, 1), (7, 1), (9, 1)], 2), 7, "one is silent");
        assert_eq!(witnessed(vec![(9, 3), (1, 1)], 2), 9, "by weight");
    }
}
