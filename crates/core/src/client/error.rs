//! What a client may conclude when it gets no answer.

use crate::ledger::message::{Refusal, Rejection};

/// Why commands have no replies. The three kinds differ in what the caller may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The commands were not executed and never will be: they may be submitted again.
    #[error("not executed, may be submitted again: {0}")]
    Retryable(#[from] NotExecuted),
    /// The commands were not executed, and neither will others of this client be.
    #[error("not executed, and nothing else of this client will be: {0}")]
    Fatal(#[from] Fatal),
    /// The commands may have been executed or not; submitting them again may execute them twice.
    #[error("may or may not have been executed: {0}")]
    Ambiguous(#[from] Unknown),
}

/// Why a read was given up. Nothing was changed: the questions may be ordered instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No question, or more or longer ones than fit a message, or too many wait already.
    #[error("the questions do not fit in one message, or too many wait; ask fewer at a time")]
    DoesNotFit,
    /// Too few replicas answer, or their states do not come to the index in time.
    #[error("too few replicas answer in time")]
    TooFew,
    /// Replicas answered, and no f + 1 alike: the state changes too fast.
    #[error("no f + 1 replicas gave the same answer")]
    Unequal,
    /// The members are others by now, or are about to be.
    #[error("the members change")]
    Members,
    /// The replicas give no read index: their protocol has none, or they lost their data, or keys
    /// of clients have prefixes.
    #[error("too few replicas give a read index")]
    NoIndex,
    /// The answers are longer than fit a message, or take too long.
    #[error("the answers are too long, or take too long")]
    TooLong,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// Why commands were provably not executed: they never left the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExecuted {
    /// Too many bytes are waiting to be sent already.
    #[error("too much is waiting to be sent; submit less at a time")]
    Backlog,
    /// More commands or bytes than one frame may hold, or no command at all.
    #[error("the batch is empty or does not fit in one frame; split it")]
    DoesNotFit,
    /// The caller's time was up before they were sent.
    #[error("the time was up before the commands were sent")]
    TimeUp,
    /// The cluster has no room for another session at the moment.
    #[error("the cluster has no room for another session; try later")]
    NoRoomForSession,
    /// The client was closed before they were sent.
    #[error("the client was closed")]
    Closed,
}

/// Why a client can do no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// f + 1 replicas refuse what this client sends, for a reason that will not go away.
    #[error("f + 1 replicas refuse: {0:?}; check the key, the chain and the size limits")]
    Refused(Refusal),
    /// The replicated state turned it down for a reason that will not go away.
    #[error("the cluster rejects: {}", said(*.0))]
    Rejected(Rejection),
    /// Another process opened a session with the same key and a higher incarnation.
    #[error("the incarnation {by} of this key is at work; give each client a key of its own")]
    Superseded {
        /// The incarnation of its session.
        by: u64,
    },
}

/// Why it is not known whether commands were executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The caller's time was up after they were sent.
    #[error("no answer in the time given")]
    TimeUp,
    /// The session expired or was replaced after they were sent.
    #[error("the session ended before an answer came")]
    SessionEnded,
    /// The session ended after they were sent, since the client lost its rights.
    #[error("the session ended before an answer came: {}", said(*.0))]
    RightsLost(Rejection),
    /// They were executed, but so long ago that the replies are gone.
    #[error("executed, but the replies are gone")]
    ReplyForgotten,
    /// f + 1 replicas agree on replies that are no replies to these commands.
    #[error("the replies agreed on are malformed; a replica's application is at fault")]
    Malformed,
    /// The client was closed after they were sent.
    #[error("the client was closed before an answer came")]
    Closed,
}

/// The fault and its remedy.
fn said(reason: Rejection) -> &'static str {
    match reason {
        Rejection::Revoked => {
            "the key of this client is revoked; use another key, or have an administrator allow this \
             one (`quorate client allow`)"
        }
        Rejection::NotListed => {
            "the cluster takes commands from listed clients alone, and the key of this one is not \
             listed; have an administrator allow it (`quorate client allow`)"
        }
        Rejection::ReadOnly => {
            "the key of this client may not have commands ordered; have an administrator allow it \
             (`quorate client allow`)"
        }
        Rejection::ForeignSession => "the session is another key's; check the key and the chain",
        Rejection::UnknownSession => "there is no such session; check the chain",
        Rejection::BeyondWindow => "too many frames at a time; keep to the cluster's window",
        Rejection::AnswerForgotten => "the commands executed, and their answers are gone",
        Rejection::TooManySessions => "there is no room for another session; try later",
    }
}
