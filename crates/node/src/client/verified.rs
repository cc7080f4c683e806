//! Reads of one replica, verified: nothing is ordered, and no replica is believed.
//!
//! A read asks all replicas for the newest certified block they know, and one for the value with
//! its proof. What that promises, *bounded-stale*, and why, is said at
//! [`proven`](quorate_core::client::proven): the state read is one that the cluster was in, and
//! lacks nothing of what was answered to anybody before the read began but for the last few blocks,
//! at most as many as the caller allows. It is not said to be the newest: who needs that orders the
//! read ([`Client::submit`](super::Client::submit)).

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_app::kv::proof::{self, Refusal, Verified};
use quorate_core::base::crypto::Scheme;
use quorate_core::base::wire::{Decode as _, DecodeError, Encode as _};
use quorate_core::client::message::{Request, Response, Unproven};
use quorate_core::client::proven::{Bound, NotProven, Proofs, newest};
use quorate_core::client::succession::NotFollowed;
use quorate_core::{Committee, Digest, Height, ReplicaId, planted};
use quorate_transport::Connection;
use tokio::task::JoinSet;

use super::ReplicaAddress;
use super::pull::dial;
use super::succession::{Chain, Following, addresses};
use crate::config::Cluster;
use crate::family::{self, ByKey, Lacking};

/// How many blocks a state may be behind the newest one where the caller has no opinion. A state is
/// shown by a block a handful of heights above it, and blocks go on while a proof is on its way.
pub const DEFAULT_MAX_LAG_BLOCKS: u64 = 64;
/// How long a replica may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The value, and of which state.
    pub verified: Verified,
    /// The height of the newest certified block when the read began.
    pub newest: Height,
    /// The replica that was believed, for its proof.
    pub replica: ReplicaId,
    /// Replicas that were asked before it, and why they were of no use.
    pub passed_over: Vec<(ReplicaId, AskError)>,
}

/// Why a replica was of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// It cannot be reached.
    #[error("cannot be reached: {0}")]
    Dial(String),
    /// It ended the connection.
    #[error("closes the connection: is it of another version?")]
    Closed,
    /// It did not answer.
    #[error("does not answer")]
    Silent,
    /// Its answer cannot be read.
    #[error("answers with garbage: {0}")]
    Garbage(DecodeError),
    /// What it says of the members is not proven.
    #[error("is not believed: {0}")]
    NotFollowed(NotFollowed),
    /// It has another snapshot by now than the one that it was asked for.
    #[error("has another snapshot by now")]
    Replaced,
    /// It says that it proves nothing.
    #[error("proves nothing: {}", why(*.0))]
    Unproven(Unproven),
    /// What it calls the newest block is not certified.
    #[error("is not believed: {0}")]
    NotNewest(NotProven),
    /// Its answer is not proven, or too old.
    #[error("is not believed: {0}")]
    Refused(Refusal),
}

fn why(reason: Unproven) -> &'static str {
    match reason {
        Unproven::Busy => "too many requests wait",
        Unproven::NoProofs => "its application makes no proofs",
        Unproven::Question => "its application does not understand the question",
        Unproven::Unavailable => "its state cannot be read",
        Unproven::Epoch => "it is in another epoch",
        Unproven::Forgotten => "it lost its data",
        Unproven::Late => "its state is behind",
        Unproven::Restricted => "keys of clients have prefixes",
    }
}

/// Why nothing was read. It may be tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Too few replicas said what is newest: how old an answer is cannot be told.
    #[error("only {answered} of the {needed} replicas that it takes say what is newest{}", list(.failed))]
    TooFew {
        /// How many did.
        answered: usize,
        /// How many it takes.
        needed: usize,
        /// The others.
        failed: Vec<(ReplicaId, AskError)>,
    },
    /// No replica gave an answer that is proven and recent enough.
    #[error("no answer is proven and recent enough{}", list(.0))]
    NotBelieved(Vec<(ReplicaId, AskError)>),
}

fn list(failed: &[(ReplicaId, AskError)]) -> String {
    failed.iter().map(|(replica, error)| format!("; replica {replica} {error}")).collect()
}

/// What a replica was asked for the newest block.
struct Asked {
    replica: ReplicaId,
    round: u64,
    result: Result<(Connection, Height), AskError>,
}

/// Reads values of the key-value application, one replica at a time. It keeps its connections.
///
/// ```no_run
/// use quorate_node::client::ReplicaAddress;
/// use quorate_node::client::verified::{DEFAULT_MAX_LAG_BLOCKS, VerifiedReader};
/// use quorate_node::config::load_cluster;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let (cluster, _) = load_cluster("client/config/cluster.toml".as_ref())?;
/// let replicas = cluster.members.iter().map(|member| ReplicaAddress {
///     address: member.client_address.to_string(),
///     key: member.transport_key,
/// });
/// let mut reader = VerifiedReader::new(replicas.collect(), &cluster, 0)?;
/// let reading = reader.get(b"greeting", DEFAULT_MAX_LAG_BLOCKS).await?;
/// println!("{:?}, {} blocks ago", reading.verified.value, reading.verified.lag_blocks);
/// # Ok(())
/// # }
/// ```
pub struct VerifiedReader {
    /// By id; `None`: vacant.
    replicas: Vec<Option<ReplicaAddress>>,
    committee: Committee,
    /// Where members may change: the cluster, and their committees so far.
    following: Option<(Cluster, Chain)>,
    proofs: Arc<dyn Proofs>,
    scheme: Arc<dyn Scheme>,
    connections: BTreeMap<ReplicaId, Connection>,
    /// Replicas being asked for what is newest; those that take long are left over for the next
    /// read.
    asking: JoinSet<Asked>,
    being_asked: Vec<ReplicaId>,
    /// Numbers the reads.
    round: u64,
}

impl VerifiedReader {
    /// Reads from `replicas` (in the order of their ids) what `cluster` holds; `first`, of any
    /// size, says which of them is asked first. Connects when it reads.
    ///
    /// # Errors
    /// [`Lacking`] if the cluster's protocol proves nothing.
    pub fn new(
        replicas: Vec<ReplicaAddress>,
        cluster: &Cluster,
        first: u32,
    ) -> Result<Self, Lacking> {
        let following = Following::of(cluster);
        let following = following.map(|following| (cluster.clone(), following.begin()));
        Ok(Self {
            replicas: replicas.into_iter().map(Some).collect(),
            committee: cluster.committee()?,
            following,
            proofs: family::proofs(cluster)?,
            scheme: family::scheme(cluster),
            connections: BTreeMap::new(),
            asking: JoinSet::new(),
            being_asked: Vec::new(),
            round: first.into(),
        })
    }

    /// The same, where members may change: it begins with those that `following` leads to.
    #[must_use]
    pub fn following(mut self, cluster: &Cluster, following: &Following) -> Self {
        self.following = Some((cluster.clone(), following.begin()));
        self.go_over();
        self
    }

    /// What is under `key`, in a state at most `max_lag_blocks` behind the newest certified block.
    /// Replicas are asked one after the other until one is believed, each read beginning with
    /// another.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn get(&mut self, key: &[u8], max_lag_blocks: u64) -> Result<Reading, ReadError> {
        let read = self.read(key, max_lag_blocks, self.order()).await;
        if read.is_err() && self.follow().await {
            return self.read(key, max_lag_blocks, self.order()).await;
        }
        read
    }

    /// Who is asked.
    pub(super) fn committee(&self) -> &Committee {
        &self.committee
    }

    /// Where a replica is, if there is such a replica.
    pub(super) fn address(&self, replica: ReplicaId) -> Option<ReplicaAddress> {
        self.replicas.get(replica.index())?.clone()
    }

    /// All replicas, beginning with another one each time.
    fn order(&self) -> Vec<ReplicaId> {
        let count = self.replicas.len() as u64;
        (0..count).map(|step| ReplicaId(((self.round + step) % count) as u16)).collect()
    }

    /// Looks whether there are other members by now, and goes over to them.
    pub(super) async fn follow(&mut self) -> bool {
        let Some((_, chain)) = &mut self.following else { return false };
        // What stands in the way, the read has told.
        let _ = chain.catch_up().await;
        self.go_over()
    }

    /// Goes over to the newest members that are known, if there are others by now.
    fn go_over(&mut self) -> bool {
        let Some((cluster, chain)) = &self.following else { return false };
        let committee = chain.committee().clone();
        if committee.epoch() == self.committee.epoch() {
            return false;
        }
        let Ok(proofs) = family::proofs_of(cluster, committee.clone()) else { return false };
        let mut replicas = vec![None; committee.size()];
        for (replica, address) in addresses(&committee) {
            replicas[replica.index()] = Some(address);
        }
        (self.proofs, self.scheme) = (proofs, Arc::new(ByKey::new(committee.clone())));
        (self.replicas, self.committee) = (replicas, committee);
        self.connections.clear();
        self.asking = JoinSet::new();
        self.being_asked.clear();
        true
    }

    /// As [`get`](Self::get), of this replica alone.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn get_from(
        &mut self,
        replica: ReplicaId,
        key: &[u8],
        max_lag_blocks: u64,
    ) -> Result<Reading, ReadError> {
        let read = self.read(key, max_lag_blocks, vec![replica]).await;
        if read.is_err() && self.follow().await {
            return self.read(key, max_lag_blocks, vec![replica]).await;
        }
        read
    }

    async fn read(
        &mut self,
        key: &[u8],
        max_lag_blocks: u64,
        order: Vec<ReplicaId>,
    ) -> Result<Reading, ReadError> {
        self.round += 1;
        let newest = self.newest().await?;
        let bound = Bound { newest, max_lag_blocks };
        let mut passed_over = Vec::new();
        for replica in order {
            match self.prove(replica, key, bound).await {
                Ok(verified) => return Ok(Reading { verified, newest, replica, passed_over }),
                Err(error) => passed_over.push((replica, error)),
            }
        }
        Err(ReadError::NotBelieved(passed_over))
    }

    /// The height of the newest certified block, of those that q replicas show.
    async fn newest(&mut self) -> Result<Height, ReadError> {
        let committee = self.committee.clone();
        for replica in committee.replicas() {
            if !self.being_asked.contains(&replica) {
                self.ask_newest(replica);
            }
        }
        let (mut shown, mut failed) = (BTreeMap::new(), Vec::new());
        while let Some(asked) = self.asking.join_next().await {
            let Ok(Asked { replica, round, result }) = asked else { continue };
            self.being_asked.retain(|one| *one != replica);
            match result {
                Ok((connection, height)) => {
                    self.connections.insert(replica, connection);
                    if planted!("newest-of-an-earlier-read", true, round == self.round) {
                        shown.insert(replica, height);
                    } else {
                        // Asked before this read began: it does not count.
                        self.ask_newest(replica);
                    }
                }
                Err(error) => failed.push((replica, error)),
            }
            if let Some(newest) = newest(&committee, &shown) {
                return Ok(newest);
            }
        }
        let (answered, needed) = (shown.len(), committee.quorum());
        Err(ReadError::TooFew { answered, needed, failed })
    }

    /// The way to a replica, if there is such a replica.
    fn way(&mut self, replica: ReplicaId) -> Option<Way> {
        let address = self.replicas.get(replica.index())?.clone()?;
        let connection = self.connections.remove(&replica);
        Some(Way { replica, address, chain: self.committee.chain(), connection })
    }

    fn ask_newest(&mut self, replica: ReplicaId) {
        let Some(way) = self.way(replica) else { return };
        let (round, proofs) = (self.round, Arc::clone(&self.proofs));
        let scheme = Arc::clone(&self.scheme);
        self.being_asked.push(replica);
        self.asking.spawn(async move {
            let result = async {
                let (connection, answer) = way.ask(&Request::Newest { id: round }, round).await?;
                let height = proofs.newest(answer, &*scheme).map_err(|reason| match reason {
                    NotProven::Unreadable(error) => AskError::Garbage(error),
                    reason => AskError::NotNewest(reason),
                })?;
                Ok((connection, height))
            };
            Asked { replica, round, result: result.await }
        });
    }

    /// What `replica` proves of a key.
    async fn prove(
        &mut self,
        replica: ReplicaId,
        key: &[u8],
        bound: Bound,
    ) -> Result<Verified, AskError> {
        let way = self.way(replica).ok_or(AskError::Silent)?;
        let request = Request::Prove { id: self.round, question: Bytes::copy_from_slice(key) };
        let (connection, answer) = way.ask(&request, self.round).await?;
        self.connections.insert(replica, connection);
        proof::verify(&*self.proofs, &*self.scheme, key, answer, bound).map_err(AskError::Refused)
    }
}

/// A way to a replica.
struct Way {
    replica: ReplicaId,
    address: ReplicaAddress,
    chain: Digest,
    connection: Option<Connection>,
}

impl Way {
    /// The answer to the request of this id. A connection that was kept and is gone is made again.
    async fn ask(mut self, request: &Request, id: u64) -> Result<(Connection, Bytes), AskError> {
        if let Some(mut kept) = self.connection.take() {
            match ask(&mut kept, request, id).await {
                Err(AskError::Closed) => {}
                answer => return answer.map(|answer| (kept, answer)),
            }
        }
        let Self { replica, address, chain, .. } = self;
        let dialled = dial(replica, address, chain).await;
        let mut connection = dialled.map_err(|error| AskError::Dial(error.to_string()))?;
        let answer = ask(&mut connection, request, id).await?;
        Ok((connection, answer))
    }
}

/// The answer to the request of this id; anything else is passed over.
pub(super) async fn ask(
    connection: &mut Connection,
    request: &Request,
    id: u64,
) -> Result<Bytes, AskError> {
    connection.push(request.to_bytes().into()).map_err(|_| AskError::Closed)?;
    let proves = matches!(request, Request::Prove { .. });
    let answered = async {
        while let Some(message) = poll_fn(|cx| connection.poll_receive(cx)).await {
            match Response::from_bytes(message).map_err(AskError::Garbage)? {
                Response::Proven { id: of, answer } if of == id && proves => return Ok(answer),
                Response::Newest { id: of, newest }
                    if planted!("answers-of-any-question", true, of == id) && !proves =>
                {
                    return Ok(newest);
                }
                Response::Unproven { id: of, reason } if of == id => {
                    return Err(AskError::Unproven(reason));
                }
                _ => {}
            }
        }
        Err(AskError::Closed)
    };
    tokio::time::timeout(ANSWER_WITHIN, answered).await.unwrap_or(Err(AskError::Silent))
}
