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
use quorate_core::client::succession::NotFollowed;
use quorate_core::ledger::block::BlockId;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};
use quorate_transport::{Connection, DialError, Limits, Refusal};

use super::ReplicaAddress;
use super::succession::{Chain, Following, addresses};
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
    cluster: Cluster,
    replicas: Vec<(ReplicaId, ReplicaAddress)>,
    chain: Digest,
    /// Where members may change: their committees, as far as they are known.
    following: Option<Chain>,
    /// The epoch whose blocks are followed.
    epoch: Epoch,
    scheme: Arc<dyn Scheme>,
    decided: Box<dyn Follow>,
    /// Blocks that the end of an epoch proved.
    ready: Vec<DecidedBlock>,
    asked: usize,
    connection: Option<Connection>,
    /// Numbers the questions for the newest evidence.
    round: u64,
    /// The evidence that proved the last blocks, if further blocks did not.
    newest: Option<Bytes>,
}

impl Puller {
    /// Pulls from `replicas` (in the order of their ids) what `cluster` decides, from height `from`
    /// on. Where members may change, it goes over to later ones.
    ///
    /// # Errors
    /// [`Lacking`] if the cluster's protocol proves nothing.
    pub fn new(
        replicas: Vec<ReplicaAddress>,
        cluster: &Cluster,
        from: Height,
    ) -> Result<Self, Lacking> {
        let ids = (0..).map(ReplicaId);
        let replicas = ids.zip(replicas).collect();
        let mut puller = Self::of(replicas, cluster, cluster.committee()?, from)?;
        puller.following = Following::of(cluster).map(|following| following.begin());
        Ok(puller)
    }

    /// Pulls what this committee decides, and nothing of other epochs.
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
            cluster: cluster.clone(),
            replicas,
            chain: committee.chain(),
            following: None,
            epoch: committee.epoch(),
            scheme: family::scheme_of(cluster, &committee),
            decided: family::follow(cluster, committee, from)?,
            ready: Vec::new(),
            asked: 0,
            connection: None,
            round: 0,
            newest: None,
        })
    }

    /// The same, where members may change: it asks those that `following` leads to.
    #[must_use]
    pub fn following(mut self, following: &Following) -> Self {
        self.following = Some(following.begin());
        self.reach_members();
        self
    }

    /// How many replicas may be asked.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.replicas.len()
    }

    /// Asks one replica for what follows, and returns what is proven to be decided: blocks with
    /// their frames, in order, none left out but the geneses of epochs, which hold nothing. If that
    /// is nothing, or it failed, the next call asks the next replica.
    ///
    /// # Errors
    /// [`PullError`]; it may be called again.
    pub async fn pull(&mut self) -> Result<Vec<DecidedBlock>, PullError> {
        loop {
            self.go_on();
            if !self.ready.is_empty() {
                return Ok(std::mem::take(&mut self.ready));
            }
            let pulled = self.ask_one().await;
            if pulled.as_ref().is_ok_and(|blocks| !blocks.is_empty()) {
                return pulled;
            }
            self.ask_another();
            if self.asked != 0 || !self.look().await {
                return pulled;
            }
        }
    }

    /// Looks whether there are other members by now. Nobody has anything new.
    async fn look(&mut self) -> bool {
        let Some(chain) = &mut self.following else { return false };
        let before = chain.committee().epoch();
        // What stands in the way, the pull has told.
        let _ = chain.catch_up().await;
        let leads_on = chain.committee().epoch() > before;
        if leads_on {
            self.reach_members();
        }
        leads_on
    }

    /// From now on the newest members are asked, and those of the epoch whose blocks are followed.
    fn reach_members(&mut self) {
        let Some(chain) = &self.following else { return };
        let of_epoch = chain.committees().iter().find(|known| known.epoch() == self.epoch);
        let mut replicas = addresses(chain.committee());
        for (id, address) in of_epoch.map(addresses).unwrap_or_default() {
            if replicas.iter().all(|(_, known)| known.key != address.key) {
                replicas.push((id, address));
            }
        }
        (self.replicas, self.asked, self.connection) = (replicas, 0, None);
    }

    /// Goes over to the next epoch, as far as it is known how epochs ended and all of their blocks
    /// were handed out.
    fn go_on(&mut self) {
        let Some(chain) = &self.following else { return };
        let later = |known: &&Committee| known.epoch() > self.epoch;
        let later: Vec<Committee> = chain.committees().iter().filter(later).cloned().collect();
        for next in later {
            let (end, block) = end_before(&next);
            self.ready.extend(self.decided.ends_at(end, block));
            let from = self.decided.wanted().max(next.opening().height.next());
            if !self.decided.is_over() {
                return;
            }
            // It proves something: it did so in the epoch before.
            let Ok(decided) = family::follow(&self.cluster, next.clone(), from) else { return };
            (self.decided, self.newest, self.epoch) = (decided, None, next.epoch());
            self.scheme = family::scheme_of(&self.cluster, &next);
        }
    }

    /// The next call asks the next replica.
    pub fn ask_another(&mut self) {
        self.connection = None;
        self.asked = (self.asked + 1) % self.replicas.len().max(1);
    }

    async fn ask_one(&mut self) -> Result<Vec<DecidedBlock>, PullError> {
        let Some((replica, address)) = self.replicas.get(self.asked).cloned() else {
            return Err(PullError::Silent(ReplicaId::default()));
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
        let handovers = self.following.as_ref().map(|chain| chain.handovers().to_vec());
        Proof {
            blocks: self.decided.held_back(),
            newest: self.newest.clone(),
            handovers: handovers.unwrap_or_default(),
        }
    }
}

/// The height and the identity of the block that sealed the epoch before this committee's.
fn end_before(next: &Committee) -> (Height, BlockId) {
    let opening = next.opening();
    (Height(opening.height.0.saturating_sub(1)), opening.after)
}

/// What proves the last of some decided blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The blocks that follow, encoded.
    pub blocks: Vec<Bytes>,
    /// An encoded [`Newest`](quorate_core::client::proven::Newest), where one was needed.
    pub newest: Option<Bytes>,
    /// How the epochs ended, encoded, from the first.
    pub handovers: Vec<Bytes>,
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
    let committees = committees(cluster, proof)?;
    let all: Vec<_> = blocks.iter().chain(&proof.blocks).cloned().collect();
    let mut proven = Vec::with_capacity(blocks.len());
    let (mut left, mut from) = (&all[..], from);
    for (at, committee) in committees.iter().enumerate() {
        let end = committees.get(at + 1).map(end_before);
        from = from.max(committee.opening().height.next());
        if end.is_some_and(|(end, _)| from > end) {
            continue;
        }
        let scheme = family::scheme_of(cluster, committee);
        let mut decided = family::follow(cluster, committee.clone(), from)?;
        let mut most = left.len();
        if let Some((end, block)) = end {
            decided.ends_at(end, block);
            most = most.min(usize::try_from(end.0 - from.0 + 1).unwrap_or(most));
        }
        let here;
        (here, left) = left.split_at(most);
        for some in here.chunks(VERIFIED_AT_ONCE) {
            proven.extend(decided.take(some, &*scheme)?);
        }
        if left.is_empty() {
            if let Some(newest) = &proof.newest {
                proven.extend(decided.prove(newest, &*scheme)?);
            }
            break;
        }
    }
    Ok(proven)
}

/// The same of blocks that this committee decided, and none of other epochs.
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
    let mut decided = family::follow(cluster, committee.clone(), from)?;
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

/// The committees up to the last one that is proven.
fn committees(cluster: &Cluster, proof: &Proof) -> Result<Vec<Committee>, VerifyError> {
    let Some(following) = Following::of(cluster) else {
        return Ok(vec![cluster.committee().map_err(Lacking::from)?]);
    };
    let mut chain = following.begin();
    chain.take(proof.handovers.clone())?;
    Ok(chain.committees().to_vec())
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
    /// It is not proven how the members changed.
    #[error(transparent)]
    NotFollowed(#[from] NotFollowed),
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

/// For answers of many blocks or long values.
pub(super) fn limits() -> Limits {
    Limits { frame_bytes: MAX_REPLY_BYTES + ANSWER_OVERHEAD_BYTES, ..Limits::clients() }
}

/// Connects to a replica for answers of many blocks or long values, and makes sure that it is this
/// one.
pub(super) async fn dial(
    replica: ReplicaId,
    address: ReplicaAddress,
    chain: Digest,
) -> Result<Connection, DialError> {
    let connection =
        quorate_transport::connect(&address.address, address.key, chain, limits()).await?;
    match connection.replica() == replica {
        true => Ok(connection),
        false => Err(DialError::Refused { address: address.address, refusal: Refusal::Role }),
    }
}
