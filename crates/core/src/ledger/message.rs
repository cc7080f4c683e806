//! What clients and replicas say to each other.

mod encoding;
mod generating;

use bytes::Bytes;

use super::block::MAX_FRAMES;
use super::frame::{self, SharedFrame};
pub use super::outcome::{MAX_REPLY_BYTES, Outcome, Refusal, Rejection, Unproven};
use super::packed::Packed;
pub use super::program::Program;
use crate::base::crypto::{PublicKey, Signature};
use crate::base::membership::{Governance, MAX_REPLICAS, Member};
use crate::base::types::{Epoch, Height, ReplicaId, Sequence, SessionId, View};
use generating::MAX_REASON_BYTES;
pub use generating::{Generating, OfferedKey, ShareWord};

/// Longest question to the application, bytes.
pub const MAX_QUESTION_BYTES: usize = 64 << 10;
/// Most questions in one [`Request::ReadAt`], and most bytes of them, packed.
pub const MAX_READS: usize = 1024;
/// See [`MAX_READS`].
pub const MAX_READS_BYTES: usize = 1 << 20;
/// Most bytes of the answers in one [`Response::Reads`], packed. All rounds of a client that may be
/// under way are to fit its queue at a replica, beside the outcomes of its commands.
pub const MAX_READ_ANSWERS_BYTES: usize = 256 << 10;
/// Most bytes of what an application proves, with its proof.
pub const MAX_CONTENT_BYTES: usize = MAX_REPLY_BYTES / 4;
/// Most bytes of an answer: a block of frames' names, two certificates, and the content.
pub const MAX_ANSWER_BYTES: usize =
    MAX_CONTENT_BYTES + 32 * MAX_FRAMES + 2 * 128 * MAX_REPLICAS + 1024;

/// Most handovers in one [`Response::Handovers`], and most bytes of one.
pub const MAX_HANDOVERS: usize = 256;
/// A committee, a summary of the state, a block of frames' names and a certificate.
const MAX_HANDOVER_BYTES: usize = MAX_CHANGE_BYTES + 32 * MAX_FRAMES + 128 * MAX_REPLICAS + 1024;
/// Longest change of the members: a committee with the shares of its key, and the signatures under
/// it.
pub const MAX_CHANGE_BYTES: usize =
    (Member::MAX_CONTACT_BYTES + 512) * MAX_REPLICAS + 160 * Governance::MAX_ADMINISTRATORS;
/// Most blocks in one [`Response::Blocks`].
const MAX_BLOCKS: usize = 4096;

/// From a client to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Order and execute this frame (or open a session, if it is such a frame).
    Submit {
        /// The client sent the frame to this replica alone: pass it on to the others now. Only a
        /// hint, and not signed.
        relay: bool,
        /// The frame.
        frame: SharedFrame,
    },
    /// Ask the application without ordering the question. The answer is this replica's alone.
    /// Refused with [`Response::Unproven`] where too many questions wait, or the state cannot be
    /// read.
    Query {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// What the application is asked.
        question: Bytes,
    },
    /// Send decided blocks from this height on, with the certificates that prove them.
    Pull {
        /// The first height wanted.
        from: Height,
        /// Send no more than about this many bytes.
        budget_bytes: u32,
    },
    /// Ask what this replica's state holds, and for the proof: an
    /// [answer](crate::client::proven::Answer) that rests on a certificate, not on the replica's
    /// word.
    Prove {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// What the application is asked.
        question: Bytes,
    },
    /// Send the newest certified block: what the age of a proven state is measured by.
    Newest {
        /// Chosen by the client, repeated in the answer.
        id: u64,
    },
    /// Send how this epoch and those after it ended.
    Handovers {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The epoch of the committee that the client knows.
        from: Epoch,
    },
    /// Give your word that you are ready for a change of the members: sign it with your key of the
    /// next epoch.
    Ready {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The encoded [`SignedChange`](super::change::SignedChange), with its approvals.
        change: Bytes,
    },
    /// Say how the key generation stands, and what shares for you may be encrypted to. Asked only
    /// of members that have a threshold key, as the next one.
    Generation {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The own key that the replica is to deal by, its key of the next epoch; `None`: it is not
        /// asked for an encryption key.
        key: Option<PublicKey>,
    },
    /// Send what this member dealt in the key generation under way.
    Dealing {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The dealer.
        dealer: ReplicaId,
    },
    /// Send the list of clients.
    Clients {
        /// Chosen by the client, repeated in the answer.
        id: u64,
    },
    /// Say what your program is, and which rules are in force.
    Program {
        /// Chosen by the client, repeated in the answer.
        id: u64,
    },
    /// Send the newest snapshot's description, with the evidence that proves its root.
    Offer {
        /// Chosen by the client, repeated in the answer.
        id: u64,
    },
    /// Send a chunk of that snapshot.
    Chunk {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The height of the snapshot.
        height: Height,
        /// Which chunk, from 0.
        chunk: u32,
    },
    /// Name what blocks changed from this height on, as the application lists it.
    Changes {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The first height wanted.
        from: Height,
        /// Answer when there is something, or after some seconds.
        wait: bool,
    },
    /// Send lists of what blocks changed from this height on.
    Lists {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The first height wanted.
        from: Height,
        /// Of its list, what begins at this byte.
        offset: u32,
        /// Send no more than about this many bytes.
        budget_bytes: u32,
    },
    /// Say up to which height there may be something that a client was answered for: this replica's
    /// part of a [read index](crate::client::read_index).
    ReadIndex {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The epoch of the committee that the client counts by.
        epoch: Epoch,
    },
    /// Ask the application, once this replica's state covers a height. All questions are answered
    /// from one state.
    ReadAt {
        /// Chosen by the client, repeated in the answer.
        id: u64,
        /// The epoch of the committee that the client counts by.
        epoch: Epoch,
        /// The lowest height of a state that may answer.
        index: Height,
        /// What the application is asked.
        questions: Packed,
    },
}

/// From a replica to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// What became of a frame, by the replicated state: equal at every correct replica, and
    /// believed when f + 1 replicas say the same.
    Outcome(Outcome),
    /// An outcome with the signature of the replica that says it
    /// ([what it signs](Outcome::statement)): where the cluster agreed on signed outcomes. f + 1
    /// equal ones of different replicas convince anybody.
    Signed {
        /// The outcome.
        outcome: Outcome,
        /// The replica's signature.
        signature: Signature,
    },
    /// What becomes of a frame if the block that holds it is committed: its sender has prepared the
    /// block, and executed it on the state of committed blocks. Believed when n - f replicas say
    /// the same of one view: then the block is committed.
    Tentative {
        /// The view in which the block is prepared.
        view: View,
        /// The outcome.
        outcome: Outcome,
        /// The replica's signature ([what it signs](Outcome::tentative_statement)), where the
        /// cluster agreed on signed outcomes; [`Signature::NONE`] elsewhere.
        signature: Signature,
    },
    /// This replica did not take the frame in. Its own word only: a hint, never an outcome.
    Refused {
        /// The frame's session (0: it was to open one).
        session: SessionId,
        /// Its first number (or incarnation).
        first: Sequence,
        /// Why.
        reason: Refusal,
    },
    /// The application's answer to a query.
    Answer {
        /// The query's id.
        id: u64,
        /// The answer.
        answer: Bytes,
    },
    /// Decided blocks, as [`Request::Pull`] asked: each is an encoded block with its frames.
    Blocks {
        /// The first block's height.
        from: Height,
        /// The blocks, encoded one after the other.
        blocks: Vec<Bytes>,
    },
    /// An encoded [`Answer`](crate::client::proven::Answer).
    Proven {
        /// The request's id.
        id: u64,
        /// The answer.
        answer: Bytes,
    },
    /// An encoded [`Newest`](crate::client::proven::Newest).
    Newest {
        /// The request's id.
        id: u64,
        /// The block and its certificate.
        newest: Bytes,
    },
    /// This replica proves nothing, or does not answer a query, by its own word.
    Unproven {
        /// The request's id.
        id: u64,
        /// Why.
        reason: Unproven,
    },
    /// How epochs ended, one after the other from the one asked for: each an encoded
    /// [`Handover`](crate::protocols::protocol::Handover) without its void blocks. None where that
    /// one has not ended here. There may be more; then it is asked for.
    Handovers {
        /// The request's id.
        id: u64,
        /// The ends of epochs.
        handovers: Vec<Bytes>,
    },
    /// The list of clients in this replica's latest state.
    Clients {
        /// The request's id.
        id: u64,
        /// The encoded [`Clients`](super::clients::Clients).
        clients: Bytes,
    },
    /// This replica's word that it is ready for the next epoch.
    Ready {
        /// The request's id.
        id: u64,
        /// Its signature ([what it signs](super::change::Change::readiness)).
        signature: Signature,
    },
    /// The same with its share of the key that was generated for the change.
    ReadyWithShares {
        /// The request's id.
        id: u64,
        /// Its word.
        word: Box<ShareWord>,
    },
    /// How the key generation stands.
    Generation {
        /// The request's id.
        id: u64,
        /// What the replica says.
        generating: Box<Generating>,
    },
    /// What a member dealt; empty: the replica does not have it.
    Dealing {
        /// The request's id.
        id: u64,
        /// The dealing.
        dealing: Bytes,
    },
    /// This replica is not ready, or would not accept the change.
    NotReady {
        /// The request's id.
        id: u64,
        /// Why, in words.
        reason: Bytes,
    },
    /// What this replica's program is.
    Program {
        /// The request's id.
        id: u64,
        /// What it says.
        program: Program,
    },
    /// An encoded [`Offer`](crate::replica::message::Offer); empty: there is no snapshot that a
    /// quorum stands for.
    Offer {
        /// The request's id.
        id: u64,
        /// The offer.
        offer: Bytes,
    },
    /// A chunk of a snapshot.
    Chunk {
        /// The request's id.
        id: u64,
        /// Whether it is the last.
        last: bool,
        /// The chunk.
        bytes: Bytes,
    },
    /// What blocks changed, named; in an encoding of the application's.
    Changes {
        /// The request's id.
        id: u64,
        /// The names.
        links: Bytes,
    },
    /// Lists of what blocks changed; in an encoding of the application's.
    Lists {
        /// The request's id.
        id: u64,
        /// Parts of lists.
        page: Bytes,
    },
    /// This replica's part of a read index.
    ReadIndex {
        /// The request's id.
        id: u64,
        /// The height.
        index: Height,
    },
    /// The application's answers to [`Request::ReadAt`], from one state.
    Reads {
        /// The request's id.
        id: u64,
        /// The answers to the first questions: to as many as fit a message and the time that a
        /// replica gives.
        answers: Packed,
    },
}

/// A [`Request`] before anything of it was hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// [`Request::Submit`]; see [`name_all`](frame::name_all).
    Submit {
        /// As there.
        relay: bool,
        /// The frame, without its identity.
        frame: frame::Unnamed,
    },
    /// Any other.
    Other(Request),
}
