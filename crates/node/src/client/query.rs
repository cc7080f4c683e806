//! Questions that are not ordered: f + 1 equal answers are believed.
//!
//! Every replica is asked, and answers from its own state. Among f + 1 equal answers one is of a
//! correct replica, so the answer is one that the service really gave. It may be old, for that
//! replica may be behind; to read the newest state, submit the question as a command. Where blocks
//! are decided meanwhile, replicas may answer from different states; the question is then asked
//! again.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::membership;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{MAX_QUESTION_BYTES, Request, Response, Unproven};
use quorate_core::{Committee, Digest, ReplicaId};
use quorate_transport::Connection;
use tokio::task::JoinSet;

use super::ReplicaAddress;
use super::pull::dial;

/// How long one round may take.
const ROUND_WITHIN: Duration = Duration::from_secs(5);
/// Rounds until the question is given up.
const ROUNDS: u32 = 8;
/// The pause before the second round; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(20);
/// Connections to a replica that wait for the next question.
const MOST_IDLE: usize = 16;

/// Why a question was not answered. Nothing was changed; it may be asked again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The question is longer than replicas take.
    #[error("the question has {0} bytes, more than {MAX_QUESTION_BYTES}")]
    TooLong(usize),
    /// Too few replicas gave the same answer.
    #[error(
        "{answered} replicas answered, and {needed} equal answers are needed: the state changes too \
         fast, or the service does not answer alike everywhere; submit the question as a command{}",
        list(.failed)
    )]
    Unequal {
        /// How many answered in the last round.
        answered: usize,
        /// How many must say the same.
        needed: usize,
        /// What the others said in the last round.
        failed: Vec<(ReplicaId, String)>,
    },
    /// Too few replicas answered.
    #[error("{answered} replicas answered, and {needed} are needed{}", list(.failed))]
    TooFew {
        /// How many answered in the last round.
        answered: usize,
        /// How many must.
        needed: usize,
        /// What the others said in the last round.
        failed: Vec<(ReplicaId, String)>,
    },
}

fn list(failed: &[(ReplicaId, String)]) -> String {
    failed.iter().map(|(replica, trouble)| format!("; replica {replica} {trouble}")).collect()
}

/// Asks replicas, and keeps connections to them.
#[derive(Debug)]
pub(super) struct Questions {
    replicas: RwLock<Arc<Replicas>>,
    chain: Digest,
}

/// Whom to ask.
#[derive(Debug)]
struct Replicas {
    /// Each with how much it counts.
    ways: Vec<(usize, Arc<Way>)>,
    /// How much must say the same.
    needed: usize,
}

/// The way to a replica.
struct Way {
    replica: ReplicaId,
    address: ReplicaAddress,
    idle: Mutex<Vec<Connection>>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the way to replica {}", self.replica)
    }
}

impl Questions {
    pub(super) fn new(replicas: &[ReplicaAddress], chain: Digest) -> Self {
        let way = |(id, address): (usize, &ReplicaAddress)| (1, Way::to(id, address));
        let ways = replicas.iter().enumerate().map(way).collect();
        let needed = membership::honest_witness(replicas.len());
        Self { replicas: RwLock::new(Arc::new(Replicas { ways, needed })), chain }
    }

    /// From now on the members of `committee`, at these addresses, are asked.
    pub(super) fn change_members(
        &self,
        committee: &Committee,
        addresses: &[Option<ReplicaAddress>],
    ) {
        let way = |replica: ReplicaId| {
            let address = addresses.get(replica.index())?.as_ref()?;
            Some((committee.weight(replica), Way::to(replica.index(), address)))
        };
        let ways = committee.voters().filter_map(way).collect();
        let replicas = Arc::new(Replicas { ways, needed: committee.honest_witness() });
        *self.replicas.write().unwrap_or_else(PoisonError::into_inner) = replicas;
    }

    pub(super) async fn ask(&self, question: Bytes) -> Result<Bytes, QueryError> {
        if question.len() > MAX_QUESTION_BYTES {
            return Err(QueryError::TooLong(question.len()));
        }
        let mut pause = PAUSE;
        let mut round = self.round(&question).await;
        for _ in 1..ROUNDS {
            if round.is_ok() {
                break;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            round = self.round(&question).await;
        }
        round
    }

    /// Asks every replica once.
    async fn round(&self, question: &Bytes) -> Result<Bytes, QueryError> {
        let mut asking = JoinSet::new();
        let replicas = self.replicas.read().unwrap_or_else(PoisonError::into_inner).clone();
        for (weight, way) in &replicas.ways {
            let weight = *weight;
            let (way, chain, question) = (Arc::clone(way), self.chain, question.clone());
            asking.spawn(async move {
                let answered = tokio::time::timeout(ROUND_WITHIN, way.ask(chain, question)).await;
                (
                    way.replica,
                    weight,
                    answered.unwrap_or_else(|_| Err("does not answer".to_owned())),
                )
            });
        }
        let needed = replicas.needed;
        let (mut alike, mut failed) = (BTreeMap::<Bytes, usize>::new(), Vec::new());
        while let Some(answered) = asking.join_next().await {
            match answered {
                Ok((_, weight, Ok(answer))) => {
                    let count = alike.entry(answer.clone()).or_default();
                    *count += weight;
                    if *count >= needed {
                        // The others may still hand their connections back.
                        asking.detach_all();
                        return Ok(answer);
                    }
                }
                Ok((replica, _, Err(trouble))) => failed.push((replica, trouble)),
                Err(_) => {}
            }
        }
        let answered = alike.values().sum();
        Err(match answered >= needed {
            true => QueryError::Unequal { answered, needed, failed },
            false => QueryError::TooFew { answered, needed, failed },
        })
    }
}

impl Way {
    fn to(id: usize, address: &ReplicaAddress) -> Arc<Self> {
        let (replica, address) = (ReplicaId(id as u16), address.clone());
        Arc::new(Self { replica, address, idle: Mutex::default() })
    }

    fn kept(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(connection);
        }
    }

    /// A connection that was kept may have been closed meanwhile; then a new one is made.
    async fn ask(&self, chain: Digest, question: Bytes) -> Result<Bytes, String> {
        while let Some(mut connection) = self.kept() {
            if let Some(answer) = answer_of(&mut connection, &question).await? {
                self.keep(connection);
                return Ok(answer);
            }
        }
        let dialled = dial(self.replica, self.address.clone(), chain).await;
        let mut connection = dialled.map_err(|error| format!("cannot be reached: {error}"))?;
        match answer_of(&mut connection, &question).await? {
            Some(answer) => {
                self.keep(connection);
                Ok(answer)
            }
            None => Err("closes the connection".to_owned()),
        }
    }
}

/// The answer to a question, the only one of this connection; `None`: the connection is closed.
async fn answer_of(connection: &mut Connection, question: &Bytes) -> Result<Option<Bytes>, String> {
    let request = Request::Query { id: 1, question: question.clone() };
    if connection.push(request.to_bytes().into()).is_err() {
        return Ok(None);
    }
    while let Some(message) = poll_fn(|cx| connection.poll_receive(cx)).await {
        match Response::from_bytes(message) {
            Ok(Response::Answer { id: 1, answer }) => return Ok(Some(answer)),
            Ok(Response::Unproven { id: 1, reason }) => {
                return Err(match reason {
                    Unproven::Busy => "has too many questions waiting",
                    _ => "cannot answer from its state",
                }
                .to_owned());
            }
            Ok(_) => {}
            Err(error) => return Err(format!("answers with garbage: {error}")),
        }
    }
    Ok(None)
}
