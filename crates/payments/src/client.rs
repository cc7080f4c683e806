//! A wallet's connection to one node.

use std::time::Duration;

use quorate_core::ReplicaId;
use quorate_transport::{DialError, Limits, ReceiveHalf, SendHalf, dial};

use crate::ask::{Answer, Question, frame, read_frame};
use crate::network::Network;

/// How long a node may take for an answer that needs no decision.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a node gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It cannot be reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The connection broke.
    #[error("the node ended the connection: ask another one with --node")]
    Ended,
    /// It took too long.
    #[error("the node did not answer in time: ask another one with --node")]
    TimedOut,
    /// It answered what was not asked.
    #[error("the node's answer makes no sense: ask another one with --node")]
    Foreign,
}

/// A connection to a node. Questions are asked one after the other or many at once.
pub struct Client {
    send: SendHalf,
    receive: ReceiveHalf,
    next: u64,
}

impl Client {
    /// Connects to a node.
    ///
    /// # Errors
    /// [`AskError::Dial`]
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(network: &Network, node: ReplicaId) -> Result<Self, AskError> {
        let of = network.nodes.get(node.index()).ok_or(AskError::Foreign)?;
        let (key, chain) = (of.transport_key, network.chain());
        let (send, receive) = dial(&of.client_address, key, chain, Limits::clients()).await?;
        Ok(Self { send, receive, next: 1 })
    }

    /// Sends a question; the number that its answers will have.
    ///
    /// # Errors
    /// [`AskError::Ended`]
    pub async fn send(&mut self, question: &Question) -> Result<u64, AskError> {
        let number = self.next;
        self.next += 1;
        self.send.send(frame(number, question)).await.map_err(|_| AskError::Ended)?;
        Ok(number)
    }

    /// The next answer, and the number of its question.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn receive(&mut self) -> Result<(u64, Answer), AskError> {
        let frame = self.receive.receive().await.ok_or(AskError::Ended)?;
        read_frame(frame).map_err(|_| AskError::Foreign)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn ask(&mut self, question: &Question) -> Result<Answer, AskError> {
        let number = self.send(question).await?;
        self.answer(number, PATIENCE).await
    }

    /// Waits for an answer to a question; those to others are left out.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn answer(&mut self, number: u64, within: Duration) -> Result<Answer, AskError> {
        let wait = async {
            loop {
                let (of, answer) = self.receive().await?;
                if of == number {
                    return Ok(answer);
                }
            }
        };
        tokio::time::timeout(within, wait).await.unwrap_or(Err(AskError::TimedOut))
    }
}
