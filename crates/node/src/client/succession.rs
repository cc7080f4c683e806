//! Following the members of a cluster that change, over the network.
//!
//! A client knows the first committee by `cluster.toml`. It asks members for the handovers, and
//! believes each by the signatures of the committee before it
//! ([`quorate_core::client::succession`]). Which replica told it does not matter: nobody can forge
//! one. A replica that lies can only keep silent, so every member is asked.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::membership::{MAX_REPLICAS, Member};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Request, Response};
use quorate_core::client::succession::{Follower, NotFollowed};
use quorate_core::{Committee, Digest, ReplicaId};
use quorate_crypto::MembersScheme;
use quorate_transport::{Connection, DialError, connect_to_anybody};
use tokio::task::JoinSet;

use super::ReplicaAddress;
use super::pull::{dial, limits};
use super::verified::AskError;
use crate::config::{Cluster, Contact, HostPort};
use crate::family;

/// How long a member may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What following the members of a cluster begins with.
#[derive(Clone)]
pub struct Following {
    cluster: Arc<Cluster>,
    /// How epochs ended, as far as that is known to begin with.
    handovers: Vec<Bytes>,
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "following the members of {}", self.cluster.chain)
    }
}

impl Following {
    /// That of a cluster whose members may change; `None` if they are fixed.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Option<Self> {
        let cluster = cluster.is_governed().then(|| Arc::new(cluster.clone()))?;
        Some(Self { cluster, handovers: Vec::new() })
    }

    /// The committees as far as they are known.
    #[must_use]
    pub fn begin(&self) -> Chain {
        let follower = family::follower(&self.cluster);
        let committees = vec![follower.committee().clone()];
        let (cluster, handovers) = (Arc::clone(&self.cluster), Vec::new());
        let scheme = MembersScheme::default();
        let mut chain = Chain { cluster, follower, scheme, handovers, committees };
        // They were followed before.
        let _ = chain.take(self.handovers.clone());
        chain
    }
}

/// Nobody told how the members changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no member of epoch {epoch} answers{}", list(.failed))]
pub struct Unreached {
    /// The epoch of the newest committee that is known.
    pub epoch: u64,
    /// Why none of them does.
    pub failed: Vec<(ReplicaId, AskError)>,
}

fn list(failed: &[(ReplicaId, AskError)]) -> String {
    failed.iter().map(|(replica, error)| format!("; replica {replica} {error}")).collect()
}

/// The committees of a cluster, up to the newest that is known.
pub struct Chain {
    cluster: Arc<Cluster>,
    follower: Box<dyn Follower>,
    scheme: MembersScheme,
    /// What led here.
    handovers: Vec<Bytes>,
    /// From the first to the newest.
    committees: Vec<Committee>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a chain in epoch {}", self.committee().epoch())
    }
}

impl Chain {
    /// The newest committee that is known.
    #[must_use]
    pub fn committee(&self) -> &Committee {
        self.follower.committee()
    }

    /// All committees, from the first to the newest.
    #[must_use]
    pub fn committees(&self) -> &[Committee] {
        &self.committees
    }

    /// What led to the newest: how epochs ended, from the first, encoded.
    #[must_use]
    pub fn handovers(&self) -> &[Bytes] {
        &self.handovers
    }

    /// What a client begins with that is to know as much as this.
    #[must_use]
    pub fn following(&self) -> Following {
        Following { cluster: Arc::clone(&self.cluster), handovers: self.handovers.clone() }
    }

    /// An id for a newcomer: the lowest that nobody ever had, or else the one that has been vacant
    /// longest, since at least one whole epoch.
    #[must_use]
    pub fn vacant_id(&self) -> Option<ReplicaId> {
        let last_use = |id: &ReplicaId| self.committees.iter().rposition(|it| it.contains(*id));
        let ids = (0..MAX_REPLICAS as u16).map(ReplicaId);
        let newest = self.committees.len() - 1;
        let is_free = |id: &ReplicaId| last_use(id).is_none_or(|epoch| epoch + 1 < newest);
        ids.filter(is_free).min_by_key(|id| (last_use(id).map_or(0, |epoch| epoch + 1), *id))
    }

    /// Follows handovers, as far as they are genuine; those that are known are passed over. Returns
    /// whether they led on. (A liar can put garbage behind what is genuine: whoever asked has to go
    /// over to the newest members all the same.)
    ///
    /// # Errors
    /// [`NotFollowed`]: they led nowhere, and who sent them is faulty, or of another chain.
    pub fn take(&mut self, handovers: Vec<Bytes>) -> Result<bool, NotFollowed> {
        let mut led_on = false;
        for handover in handovers {
            match self.follower.follow(handover.clone(), &self.scheme) {
                Ok(false) => {}
                Ok(true) => {
                    led_on = true;
                    self.handovers.push(handover);
                    self.committees.push(self.follower.committee().clone());
                }
                Err(_) if led_on => break,
                Err(error) => return Err(error),
            }
        }
        Ok(led_on)
    }

    /// Asks the members of the newest committee for how its epoch ended, and those of the next
    /// one, until nobody knows a later one.
    ///
    /// # Errors
    /// [`Unreached`] if no member of the last one answers.
    pub async fn catch_up(&mut self) -> Result<(), Unreached> {
        while self.look().await? {}
        Ok(())
    }

    /// Asks whoever answers clients at an address how the newest epoch that is known here ended,
    /// and so on, until it knows no later one. Who it is does not matter: nobody can forge an
    /// answer.
    ///
    /// # Errors
    /// [`AskError`]: it does not answer, or its answer proves nothing.
    pub async fn ask_at(&mut self, address: &HostPort) -> Result<(), AskError> {
        loop {
            let (chain, from) = (self.committee().chain(), self.committee().epoch());
            let at = address.to_string();
            let dialled = connect_to_anybody(&at, chain, limits());
            let answer = answered(dialled, &Request::Handovers { id: 1, from }).await?;
            let Response::Handovers { handovers, .. } = answer else {
                return Err(AskError::Silent);
            };
            match self.take(handovers) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(AskError::NotFollowed(error)),
            }
        }
    }

    /// Asks all members of the newest committee. Returns whether one led on.
    async fn look(&mut self) -> Result<bool, Unreached> {
        let (chain, from) = (self.committee().chain(), self.committee().epoch());
        let mut asking = JoinSet::new();
        for (replica, address) in addresses(self.committee()) {
            asking.spawn(async move {
                let request = Request::Handovers { id: 1, from };
                let dialled = by_any_key(replica, address, chain);
                (replica, answered(dialled, &request).await)
            });
        }
        let (mut answered, mut failed) = (false, Vec::new());
        while let Some(Ok((replica, answer))) = asking.join_next().await {
            match answer {
                Ok(Response::Handovers { handovers, .. }) => match self.take(handovers) {
                    Ok(true) => return Ok(true),
                    Ok(false) => answered = true,
                    Err(error) => failed.push((replica, AskError::Dial(error.to_string()))),
                },
                Ok(_) => {}
                Err(error) => failed.push((replica, error)),
            }
        }
        if answered { Ok(false) } else { Err(Unreached { epoch: from.0, failed }) }
    }
}

/// Where clients reach the members of a committee, as far as their contacts can be read.
#[must_use]
pub fn addresses(committee: &Committee) -> Vec<(ReplicaId, ReplicaAddress)> {
    let members = committee.replicas().filter_map(|id| Some((id, committee.member(id)?)));
    members.filter_map(|(id, member)| Some((id, address(member)?))).collect()
}

/// Where clients reach a member, if its contact can be read.
#[must_use]
pub fn address(member: &Member) -> Option<ReplicaAddress> {
    let Contact { transport_key: key, client_address, .. } = Contact::of(member).ok()?;
    Some(ReplicaAddress { address: client_address.to_string(), key })
}

/// The answer of one replica to a request, over a connection of its own. The request's id is 1.
///
/// # Errors
/// [`AskError`].
pub async fn request_of(
    replica: ReplicaId,
    address: ReplicaAddress,
    chain: Digest,
    request: &Request,
) -> Result<Response, AskError> {
    answered(dial(replica, address, chain), request).await
}

/// A connection to a member, by whatever key: it may have gone over to one that only a later
/// committee names. For questions whose answers prove themselves.
async fn by_any_key(
    replica: ReplicaId,
    address: ReplicaAddress,
    chain: Digest,
) -> Result<Connection, DialError> {
    let at = address.address.clone();
    match dial(replica, address, chain).await {
        Err(DialError::Key { .. }) => connect_to_anybody(&at, chain, limits()).await,
        dialled => dialled,
    }
}

async fn answered(
    dialled: impl Future<Output = Result<Connection, DialError>>,
    request: &Request,
) -> Result<Response, AskError> {
    let answered = async {
        let dialled = dialled.await;
        let mut connection = dialled.map_err(|error| AskError::Dial(error.to_string()))?;
        connection.push(request.to_bytes().into()).map_err(|_| AskError::Closed)?;
        while let Some(message) = poll_fn(|cx| connection.poll_receive(cx)).await {
            let response = Response::from_bytes(message).map_err(AskError::Garbage)?;
            if let Response::Unproven { id: 1, reason } = response {
                return Err(AskError::Unproven(reason));
            }
            if let Response::Handovers { id: 1, .. }
            | Response::Answer { id: 1, .. }
            | Response::Clients { id: 1, .. }
            | Response::Ready { id: 1, .. }
            | Response::NotReady { id: 1, .. }
            | Response::ReadyWithShares { id: 1, .. }
            | Response::Generation { id: 1, .. }
            | Response::Dealing { id: 1, .. }
            | Response::Program { id: 1, .. } = response
            {
                return Ok(response);
            }
        }
        Err(AskError::Closed)
    };
    tokio::time::timeout(ANSWER_WITHIN, answered).await.unwrap_or(Err(AskError::Silent))
}

#[cfg(test)]
mod tests;
