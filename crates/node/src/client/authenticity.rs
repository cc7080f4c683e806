//! By what a client knows that an outcome is a replica's.

use std::fmt;
use std::sync::Arc;

use quorate_core::base::crypto::{Check, PublicKey, Scheme, Share, Signature};
use quorate_core::client::message::Response;
use quorate_core::{Committee, ReplicaId};

use super::succession::Following;
use crate::config::Cluster;
use crate::family;

/// By what a client knows that an outcome is a replica's.
#[derive(Clone, Default)]
pub enum Authenticity {
    /// The channel: the replica's transport key is pinned.
    #[default]
    Channel,
    /// The channel of whoever is a member by now. The client follows the members, and pins the keys
    /// that their committee names.
    Members(Following),
    /// The replica's signature. f + 1 equal signed outcomes convince a third party as well.
    Signed {
        /// Whose keys.
        committee: Committee,
        /// What they sign with.
        scheme: Arc<dyn Scheme>,
    },
}

impl fmt::Debug for Authenticity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Channel => "Channel",
            Self::Members(_) => "Members",
            Self::Signed { .. } => "Signed",
        })
    }
}

impl Authenticity {
    /// As the cluster's replicas make them.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        if let Some(following) = Following::of(cluster) {
            return Self::Members(following);
        }
        match (family::signs_outcomes(cluster), cluster.committee()) {
            (true, Ok(committee)) => Self::Signed { committee, scheme: family::scheme(cluster) },
            _ => Self::Channel,
        }
    }

    /// Whether each response to the client of `key` is authentic, all signatures checked as one
    /// batch. Outcomes are to come in the form that was agreed on; a replica's hints are never
    /// signed.
    #[must_use]
    pub fn verify(&self, key: &PublicKey, responses: &[(ReplicaId, Response)]) -> Vec<bool> {
        let Self::Signed { committee, scheme } = self else {
            let is_plain = |response: &Response| match response {
                Response::Signed { .. } => false,
                Response::Tentative { signature, .. } => *signature == Signature::NONE,
                _ => true,
            };
            return responses.iter().map(|(_, response)| is_plain(response)).collect();
        };
        let check = |(signer, response): &(ReplicaId, Response)| match response {
            Response::Signed { outcome, signature } => {
                let (statement, signature) = (outcome.statement(committee, key), *signature);
                Some(Check::Replica(Share { signer: *signer, statement, signature }))
            }
            Response::Tentative { view, outcome, signature } => {
                let statement = outcome.tentative_statement(committee, key, *view);
                Some(Check::Replica(Share { signer: *signer, statement, signature: *signature }))
            }
            _ => None,
        };
        let checks: Vec<_> = responses.iter().filter_map(check).collect();
        let mut verdicts = scheme.verify(&checks).into_iter();
        let verdict = |(_, response): &(ReplicaId, Response)| match response {
            Response::Signed { .. } | Response::Tentative { .. } => {
                verdicts.next().unwrap_or(false)
            }
            Response::Outcome(_) => false,
            _ => true,
        };
        responses.iter().map(verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::base::crypto::{ClientSigner as _, Signer as _};
    use quorate_core::base::membership::ReplicaKey;
    use quorate_core::client::message::{Outcome, Refusal};
    use quorate_core::{Digest, Epoch, Sequence, SessionId, View};
    use quorate_crypto::SecretKey;
    use quorate_crypto::committee_keys::MemberKey;

    use super::*;

    fn key(id: u8) -> SecretKey {
        SecretKey::from_seed(&[id + 1; 32])
    }

    fn committee(chain: &[u8], epoch: u64) -> Committee {
        let keys = (0..4).map(|id| ReplicaKey::from(key(id).public_key().0)).collect();
        Committee::new(Digest::of("test", chain), Epoch(epoch), keys).unwrap()
    }

    fn outcome() -> Outcome {
        let (session, replies) = (SessionId(7), vec![0; 9].into());
        Outcome::Executed { session, first: Sequence(3), count: 1, replies }
    }

    fn signed(committee: &Committee, client: u8, signer: u8) -> Response {
        let outcome = outcome();
        let statement = outcome.statement(committee, &key(client).public_key());
        Response::Signed { signature: key(signer).sign(&statement), outcome }
    }

    fn tentative(committee: &Committee, signed_of: u64, view: u64) -> Response {
        let (outcome, view) = (outcome(), View(view));
        let client = key(90).public_key();
        let statement = outcome.tentative_statement(committee, &client, View(signed_of));
        Response::Tentative { view, signature: key(1).sign(&statement), outcome }
    }

    /// What is signed for another chain, epoch or client, by another replica, or not at all, is
    /// refused, whatever stands beside it.
    #[test]
    fn a_signed_outcome_counts_for_its_signer_chain_epoch_and_client_alone() {
        let ours = committee(b"ours", 2);
        let scheme = quorate_crypto::SchemeName::Ed25519;
        let keys = [0, 1, 2, 3].map(|id| key(id).public_key().0);
        let members = keys.each_ref().map(|key| MemberKey { key, possession: None });
        let scheme = quorate_crypto::CommitteeScheme::new(scheme, &members, None).unwrap();
        let authenticity =
            Authenticity::Signed { committee: ours.clone(), scheme: Arc::new(scheme) };
        let (client, refusal) = (90, Refusal::Busy);
        let hint = Response::Refused { session: SessionId(7), first: Sequence(3), reason: refusal };
        let none = Response::Signed { outcome: outcome(), signature: Signature::NONE };
        // Neither signature stands for the other kind.
        let Response::Signed { outcome: same, signature } = signed(&ours, client, 1) else {
            unreachable!()
        };
        let as_tentative = Response::Tentative { view: View(0), outcome: same, signature };
        let Response::Tentative { outcome: same, signature, .. } = tentative(&ours, 0, 0) else {
            unreachable!()
        };
        let as_committed = Response::Signed { outcome: same, signature };
        let said = [
            (signed(&ours, client, 1), true),
            (signed(&ours, client, 2), false),
            (signed(&committee(b"theirs", 2), client, 1), false),
            (signed(&committee(b"ours", 3), client, 1), false),
            (signed(&ours, 91, 1), false),
            (none, false),
            (tentative(&ours, 4, 4), true),
            (tentative(&ours, 4, 5), false),
            (as_tentative, false),
            (as_committed, false),
            (Response::Outcome(outcome()), false),
            (hint, true),
            (signed(&ours, client, 1), true),
        ];
        let (responses, expected): (Vec<_>, Vec<_>) =
            said.map(|(response, holds)| ((ReplicaId(1), response), holds)).into_iter().unzip();
        let client = key(client).public_key();
        assert_eq!(authenticity.verify(&client, &responses), expected);
        // Nobody asked for signatures where the channel is enough.
        let signed = [(ReplicaId(1), signed(&ours, 90, 1))];
        assert_eq!(Authenticity::Channel.verify(&client, &signed), [false]);
    }
}
