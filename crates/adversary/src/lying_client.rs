//! The frames of a client that lies: numbers that are taken, missing or beyond every window, two
//! frames under one number, foreign sessions, signatures that do not hold, frames too large for any
//! decoder.
//!
//! One liar's frames must cost the others nothing: a signature that only some replicas can check
//! makes them disagree about what was requested (the big-MAC attack on PBFT). Numbers that nobody
//! bounds fill the session table.
//!
//! Answered by frames signed once and checked before they enter a mempool, by sessions that belong
//! to one key, execute in order and wait in a bounded window, and by caps before anything is
//! allocated.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner, Signature, Statement};
use quorate_core::base::wire::Encode as _;
use quorate_core::ledger::frame::{Frame, MAX_COMMANDS, SharedFrame};
use quorate_core::{Digest, Sequence, SessionId};

/// A kind of lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Two frames of different commands under one number.
    Twins,
    /// A number whose predecessor never comes.
    Gap,
    /// A number that was executed long ago.
    Past,
    /// The last number there is.
    LastNumber,
    /// A session that belongs to somebody else, or to nobody.
    ForeignSession,
    /// A signature that does not hold.
    BadSignature,
    /// A session opened again, under an incarnation of long ago.
    OldIncarnation,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Twins,
        Self::Gap,
        Self::Past,
        Self::LastNumber,
        Self::ForeignSession,
        Self::BadSignature,
        Self::OldIncarnation,
    ];
}

/// A client that lies, in a session of its own.
pub struct LyingClient<'a> {
    /// Its key.
    pub signer: &'a dyn ClientSigner,
    /// The chain.
    pub chain: Digest,
    /// Its session, opened as it should be.
    pub session: SessionId,
    /// The number that comes next in it.
    pub next: Sequence,
}

impl LyingClient<'_> {
    /// An honest frame of these commands, from the next number on; `None` if they are too many.
    #[must_use]
    pub fn frame(&self, commands: &[&[u8]]) -> Option<SharedFrame> {
        self.build(self.session, self.next, commands, |statement| self.signer.sign(statement))
    }

    /// The frames of one lie, of these commands or (the second of twins) these others.
    #[must_use]
    pub fn lie(&self, lie: Lie, commands: &[&[u8]], others: &[&[u8]]) -> Vec<SharedFrame> {
        let sign = |statement: &Statement| self.signer.sign(statement);
        let (session, next) = (self.session, self.next);
        let frames = match lie {
            Lie::Twins => {
                [self.build(session, next, commands, sign), self.build(session, next, others, sign)]
            }
            Lie::Gap => [self.build(session, next.plus(1000), commands, sign), None],
            Lie::Past => [self.build(session, Sequence(1), others, sign), None],
            Lie::LastNumber => {
                let last = Sequence(u64::MAX - commands.len() as u64);
                [self.build(session, last, commands, sign), None]
            }
            Lie::ForeignSession => [
                self.build(SessionId(1), Sequence(1), commands, sign),
                self.build(SessionId(u64::MAX), Sequence(1), commands, sign),
            ],
            Lie::BadSignature => {
                [self.build(session, next, commands, |_| Signature::from([7; 64])), None]
            }
            Lie::OldIncarnation => {
                let key = self.signer.public_key();
                [Some(Arc::new(Frame::open(key, 1, &self.chain, sign))), None]
            }
        };
        frames.into_iter().flatten().collect()
    }

    /// The bytes of a frame with more commands than any may have: none that a decoder may take.
    #[must_use]
    pub fn oversized(&self) -> Bytes {
        let mut encoded = Vec::new();
        self.signer.public_key().encode(&mut encoded);
        self.session.encode(&mut encoded);
        self.next.encode(&mut encoded);
        let count = MAX_COMMANDS as u32 + 1;
        count.encode(&mut encoded);
        (4 * count).encode(&mut encoded);
        encoded.resize(encoded.len() + 4 * count as usize, 0);
        let statement = Statement::frame(&self.chain, &Digest::of("quorate frame", &encoded));
        encoded.extend_from_slice(self.signer.sign(&statement).as_bytes());
        encoded.into()
    }

    fn build(
        &self,
        session: SessionId,
        first: Sequence,
        commands: &[&[u8]],
        sign: impl FnOnce(&Statement) -> Signature,
    ) -> Option<SharedFrame> {
        let commands = commands.iter().copied();
        let key = self.signer.public_key();
        Frame::build(key, session, first, commands, &self.chain, sign).map(Arc::new)
    }
}
