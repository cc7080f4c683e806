//! Pulls decided blocks from replicas, and believes only what their certificates prove.
//!
//! One replica is asked at a time. One that does not answer, lies, or has nothing new makes room
//! for the next: a single correct replica that is up to date is enough.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::Scheme;
use quorate_core::base::wire::{Decode as _, DecodeError, Encode as _};
use quorate_core::client::decided::{DecidedBlock, Follow, NotDecided};
use quorate_core::client::message::{MAX_REPLY_BYTES, Request, Response};
use quorate_core::{Committee, Digest, Height, ReplicaId};
use quorate_transport::{Connection, DialError, Limits, Refusal};

use super::ReplicaAddress;
use super::verified::ask;
use crate::config::Cluster;
use crate::family::{self, Lacking};

/// Bytes asked for at once.
const BUDGET_BYTES: u32 = 4 << 20;
/// Bytes of an answer beside its blocks, at most.
const ANSWER_OVERHEAD_BYTES: usize = 64 << 10;
/// How long a replica may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Why a replica was of no use this time.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// It cannot be reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// It did not answer.
    #[error("replica {0} does not answer")]
    Silent(ReplicaId),
    /// Its answer cannot be read.
    #[error("replica {replica} answers with garbage: {error}")]
    Garbage {
        /// Who.
        replica: ReplicaId,
        /// What is wrong.
        error: DecodeError,
    },
    /// It does not keep the blocks asked for any more.
    #[error("replica {replica} keeps blocks from height {first} on only, not from {wanted}")]
    Gone {
        /// Who.
        replica: ReplicaId,
        /// What was asked for.
        wanted: Height,
        /// The first it has.
        first: Height,
    },
    /// Its answer proves nothing.
    #[error("replica {replica} is not believed: {reason}")]
    NotBelieved {
        /// Who.
        replica: ReplicaId,
        /// Why.
        reason: NotDecided,
    },
}

/// An executor's way to the decided blocks.
pub struct Puller {
    replicas: Vec<(ReplicaId, ReplicaAddress)>,
    chain: Digest,
    scheme: Arc<dyn Scheme>,
    decided: Box<dyn Follow>,
    asked: usize,
    connection: Option<Connection>,
    /// Numbers the questions for the newest evidence.
    round: u64,
    /// The evidence that proved the last blocks, if further blocks did not.
    newest: Option<Bytes>,
}

impl Puller {
    /// Pulls from `replicas` (in the order of their ids) what `cluster` decides, from height `from`
    /// on.
    ///
    /// # Errors
    /// [`Lacking`] if the cluster's protocol proves nothing.
    pub fn new(
        replicas: Vec<ReplicaAddress>,
        cluster: &Cluster,
        from: Height,
    ) -> Result<Self, Lacking> {
        let replicas = replicas.into_iter().enumerate();
        let replicas = replicas.map(|(id, address)| (ReplicaId(id as u16), address));
        Self::of(replicas.collect(), cluster, cluster.committee()?, from)
    }

    /// The same where the members are by now those of `committee`.
    ///
    /// # Errors
    /// [`Lacking`] if the cluster's protocol proves nothing.
    pub fn of(
        replicas: Vec<(ReplicaId, ReplicaAddress)>,
        cluster: &Cluster,
        committee: Committee,
        from: Height,
    ) -> Result<Self, Lacking> {
        Ok(Self {
            replicas,
            chain: committee.chain(),
            scheme: family::scheme_of(cluster, &committee),
            decided: family::follow_of(cluster, committee, from)?,
            asked: 0,
            connection: None,
            round: 0,
            newest: None,
        })
    }

    /// Asks one replica for what follows, and returns what is proven to be decided: blocks with
    /// their frames, in order, none left out. If that is nothing, or it failed, the next call asks
    /// the next replica.
    ///
    /// # Errors
    /// [`PullError`]; it may be called again.
    pub async fn pull(&mut self) -> Result<Vec<DecidedBlock>, PullError> {
        let pulled = self.ask_one().await;
        let useful = pulled.as_ref().is_ok_and(|blocks| !blocks.is_empty());
        if !useful {
            self.ask_another();
        }
        pulled
    }

    /// The next call asks the next replica.
    pub fn ask_another(&mut self) {
        self.connection = None;
        self.asked = (self.asked + 1) % self.replicas.len().max(1);
    }

    async fn ask_one(&mut self) -> Result<Vec<DecidedBlock>, PullError> {
        let Some((replica, address)) = self.replicas.get(self.asked).cloned() else {
            return Err(PullError::Silent(ReplicaId(0)));
        };
        let silent = PullError::Silent(replica);
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => dial(replica, address, self.chain).await?,
        };
        let wanted = self.decided.wanted();
        let request = Request::Pull { from: wanted, budget_bytes: BUDGET_BYTES };
        if connection.push(request.to_bytes().into()).is_err() {
            return Err(silent);
        }
        let (from, blocks) = match tokio::time::timeout(ANSWER_WITHIN, answer(&mut connection))
            .await
        {
            Ok(Some(answer)) => answer.map_err(|error| PullError::Garbage { replica, error })?,
            _ => return Err(silent),
        };
        if !blocks.is_empty() && from > wanted {
            return Err(PullError::Gone { replica, wanted, first: from });
        }
        let believed = |reason| PullError::NotBelieved { replica, reason };
        let mut decided = self.decided.take(&blocks, &*self.scheme).map_err(believed)?;
        if decided.is_empty() && self.decided.wants_newest() {
            // Nothing follows that would prove the last blocks of a cluster that rests.
            self.round += 1;
            let newest =
                ask(&mut connection, &Request::Newest { id: self.round }, self.round).await;
            if let Ok(newest) = newest {
                decided = self.decided.prove(&newest, &*self.scheme).map_err(believed)?;
                self.newest = (!decided.is_empty()).then_some(newest).or(self.newest.take());
            }
        }
        self.connection = Some(connection);
        Ok(decided)
    }

    /// What proves the last blocks that were handed out, beside these themselves.
    #[must_use]
    pub fn proof(&self) -> Proof {
        Proof { blocks: self.decided.held_back(), newest: self.newest.clone() }
    }
}

/// What proves the last of some decided blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The blocks that follow, encoded.
    pub blocks: Vec<Bytes>,
    /// An encoded [`Newest`](quorate_core::client::proven::Newest), where one was needed.
    pub newest: Option<Bytes>,
}

/// Blocks that are verified at a time.
const VERIFIED_AT_ONCE: usize = 256;

/// Verifies encoded blocks, the first of the height `from`, without asking anybody. Returns those
/// that are decided, in order.
///
/// # Errors
/// [`VerifyError`] if they are not a chain of this cluster.
pub fn verify(
    cluster: &Cluster,
    from: Height,
    blocks: &[Bytes],
    proof: &Proof,
) -> Result<Vec<DecidedBlock>, VerifyError> {
    let committee = cluster.committee().map_err(Lacking::from)?;
    verify_of(cluster, &committee, (from, blocks), proof)
}

/// The same where the members are by now those of `committee`.
///
/// # Errors
/// As [`verify`].
pub fn verify_of(
    cluster: &Cluster,
    committee: &Committee,
    (from, blocks): (Height, &[Bytes]),
    proof: &Proof,
) -> Result<Vec<DecidedBlock>, VerifyError> {
    let scheme = family::scheme_of(cluster, committee);
    let mut decided = family::follow_of(cluster, committee.clone(), from)?;
    let all: Vec<_> = blocks.iter().chain(&proof.blocks).cloned().collect();
    let mut proven = Vec::with_capacity(blocks.len());
    for some in all.chunks(VERIFIED_AT_ONCE) {
        proven.extend(decided.take(some, &*scheme)?);
    }
    if let Some(newest) = &proof.newest {
        proven.extend(decided.prove(newest, &*scheme)?);
    }
    Ok(proven)
}

/// Why blocks are not verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The protocol proves nothing.
    #[error(transparent)]
    Lacking(#[from] Lacking),
    /// They are no decided chain of the cluster.
    #[error(transparent)]
    NotDecided(#[from] NotDecided),
}

/// The next answer to a pull; anything else is passed over.
async fn answer(connection: &mut Connection) -> Option<Result<(Height, Vec<Bytes>), DecodeError>> {
    loop {
        let message = poll_fn(|cx| connection.poll_receive(cx)).await?;
        match Response::from_bytes(message) {
            Ok(Response::Blocks { from, blocks }) => return Some(Ok((from, blocks))),
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Connects to a replica for answers of many blocks or long values, and makes sure that it is this
/// one.
pub(super) async fn dial(
    replica: ReplicaId,
    address: ReplicaAddress,
    chain: Digest,
) -> Result<Connection, DialError> {
    let limits =
        Limits { frame_bytes: MAX_REPLY_BYTES + ANSWER_OVERHEAD_BYTES, ..Limits::clients() };
    let connection =
        quorate_transport::connect(&address.address, address.key, chain, limits).await?;
    match connection.replica() == replica {
        true => Ok(connection),
        false => Err(DialError::Refused { address: address.address, refusal: Refusal::Role }),
    }
}
