/// Why a message was refused before any signature was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Malformed {
    /// A signer outside the committee.
    #[error("a signer is not a member of the committee")]
    UnknownSigner,
    /// A signer counted twice, or out of order.
    #[error("signers are not in strictly ascending order")]
    UnorderedSigners,
    /// Fewer than q signers.
    #[error("fewer signers than a quorum")]
    NoQuorum,
    /// A certificate of view 0 that is not the genesis certificate.
    #[error("not the genesis certificate")]
    NotGenesis,
    /// Fields that contradict each other.
    #[error("fields contradict each other")]
    Contradiction,
    /// A certificate in a form that the committee's scheme does not make.
    #[error("a certificate of another signature scheme")]
    WrongForm,
    /// A vote or certificate of a phase that the protocol does not have.
    #[error("of a phase that the protocol does not have")]
    WrongPhase,
    /// Sent by somebody who may not send it.
    #[error("the sender may not send this")]
    WrongSender,
    /// Of another epoch.
    #[error("of another epoch")]
    WrongEpoch,
    /// Too old to matter.
    #[error("too old to matter")]
    Stale,
    /// An answer to a question that was not asked.
    #[error("answers a question that was not asked")]
    Unasked,
}
