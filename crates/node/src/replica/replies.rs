//! Signed answers to clients, where the cluster agreed on them: a thread of its own signs, for a
//! signature takes longer than most turns of the deciding thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::Committee;
use quorate_core::base::crypto::{PublicKey, Signer};
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::Response;
use quorate_transport::{ClientListener, ConnectionId};

use super::inbox::Outside;
use super::metrics::Metrics;
use super::profile::Stage;
use super::spawn;

/// Answers that may wait to be signed. One more waits in the deciding thread: the signing thread
/// waits for nobody.
const WAITING: usize = 1024;

/// An answer, and where it goes.
struct Reply {
    client: PublicKey,
    response: Response,
    connections: Vec<ConnectionId>,
}

/// The way to the signing thread.
pub struct Replies {
    replies: Option<SyncSender<Reply>>,
    thread: Option<JoinHandle<()>>,
}

/// What the signing thread works with.
struct Signing {
    committee: Committee,
    signer: Arc<dyn Signer>,
    listener: Arc<ClientListener>,
    metrics: Arc<Metrics>,
}

impl Replies {
    /// Signs for a member of the committee, and sends through `listener`.
    ///
    /// # Errors
    /// The system gave no thread.
    pub fn start(
        (committee, signer): (Committee, Arc<dyn Signer>),
        listener: Arc<ClientListener>,
        metrics: Arc<Metrics>,
        outside: &Outside,
    ) -> std::io::Result<Self> {
        let (replies, queue) = sync_channel(WAITING);
        let signing = Signing { committee, signer, listener, metrics };
        let thread = spawn("sign", outside.guard("sign", move || signing.run(&queue)))?;
        Ok(Self { replies: Some(replies), thread: Some(thread) })
    }

    /// Signs an answer to the client of a key, if it is an outcome, and sends it.
    pub fn sign(&self, client: PublicKey, connections: Vec<ConnectionId>, response: Response) {
        if let Some(replies) = &self.replies {
            // Without a thread there the replica is about to stop.
            let _ = replies.send(Reply { client, response, connections });
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        drop(self.replies.take());
        if let Some(thread) = self.thread.take() {
            // Its panic was told to the replica.
            let _ = thread.join();
        }
    }
}

impl Signing {
    /// Works until nobody answers any more.
    fn run(&self, queue: &Receiver<Reply>) {
        while let Ok(Reply { client, response, connections }) = queue.recv() {
            let response = match response {
                Response::Outcome(outcome) => {
                    let began = Instant::now();
                    let signature = self.signer.sign(&outcome.statement(&self.committee, &client));
                    self.metrics.profile.stage(Stage::Authenticate).visit(began.elapsed(), 1, 1);
                    Response::Signed { outcome, signature }
                }
                Response::Tentative { view, outcome, .. } => {
                    let began = Instant::now();
                    let statement = outcome.tentative_statement(&self.committee, &client, view);
                    let signature = self.signer.sign(&statement);
                    self.metrics.profile.stage(Stage::Authenticate).visit(began.elapsed(), 1, 1);
                    Response::Tentative { view, outcome, signature }
                }
                // A hint, by the replica's own word.
                response => response,
            };
            let bytes = Bytes::from(response.to_bytes());
            for connection in &connections {
                // A client that is gone or does not read asks again.
                let _ = self.listener.send(*connection, bytes.clone());
            }
        }
    }
}
