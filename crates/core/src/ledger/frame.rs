//! A client's request frame: commands of one session, in order, signed once.
//!
//! The frame is the unit of everything on a command's way in: one signature, one hash, one entry
//! in the mempool, one reference in a block. It is kept in the bytes it arrived in, so that it is
//! neither copied nor encoded again on its way to other replicas and to the log.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::crypto::{Check, Claim, PublicKey, Signature, Statement};
use crate::base::membership::{Committee, Rules};
use crate::base::types::{Digest, Sequence, SessionId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::change::SignedChange;
use crate::ledger::directive::SignedDirective;
use crate::ledger::generation::Step;
use crate::ledger::packed::Packed;
pub use crate::ledger::packed::{MAX_BODY_BYTES, MAX_COMMANDS};

/// Bytes of a frame beside its commands.
pub const OVERHEAD_BYTES: usize = 32 + 8 + 8 + 4 + 4 + 64;

/// Identifies a frame: the hash of everything in it but the signature.
pub type FrameId = Digest;

/// A request frame. Well formed by construction: the counts agree with the body.
///
/// Layout: key 32, session u64, first u64, count u32, body length u32, body, signature 64. The
/// body is `count` commands, each behind its length (u32).
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    encoded: Bytes,
    key: PublicKey,
    session: SessionId,
    first: Sequence,
    count: u32,
    id: FrameId,
}

/// A frame that is shared between mempool, blocks and log.
pub type SharedFrame = Arc<Frame>;

/// What frames are hashed under.
const DOMAIN: &str = "quorate frame";

const BODY_AT: usize = OVERHEAD_BYTES - 64;

impl Frame {
    /// A frame of `commands`, the first of which has number `first` in `session`, signed by
    /// `sign`. Returns `None` if there are too many commands or bytes for one frame.
    pub fn build<'a>(
        key: PublicKey,
        session: SessionId,
        first: Sequence,
        commands: impl IntoIterator<Item = &'a [u8]>,
        chain: &Digest,
        sign: impl FnOnce(&Statement) -> Signature,
    ) -> Option<Self> {
        let mut encoded = Self::head(key, session, first, 256);
        let mut count = 0u32;
        for command in commands {
            crate::base::wire::put_bytes(&mut encoded, command);
            count += 1;
            if count as usize > MAX_COMMANDS || encoded.len() - BODY_AT > MAX_BODY_BYTES {
                return None;
            }
        }
        Some(Self::seal(encoded, key, session, first, count, chain, sign))
    }

    /// As [`Frame::build`], of commands that are packed already: they are copied, not walked.
    pub fn of_packed<'a>(
        key: PublicKey,
        session: SessionId,
        first: Sequence,
        parts: impl Iterator<Item = &'a Packed> + Clone,
        chain: &Digest,
        sign: impl FnOnce(&Statement) -> Signature,
    ) -> Option<Self> {
        let (mut count, mut bytes) = (0usize, 0usize);
        for part in parts.clone() {
            count = count.saturating_add(part.len());
            bytes = bytes.saturating_add(part.body().len());
        }
        if count > MAX_COMMANDS || bytes > MAX_BODY_BYTES {
            return None;
        }
        let mut encoded = Self::head(key, session, first, bytes + OVERHEAD_BYTES);
        for part in parts {
            encoded.extend_from_slice(part.body());
        }
        Some(Self::seal(encoded, key, session, first, count as u32, chain, sign))
    }

    /// Everything before the body, in a buffer of `capacity` bytes; [`Frame::seal`] fills in the
    /// count and the length.
    fn head(key: PublicKey, session: SessionId, first: Sequence, capacity: usize) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(capacity);
        key.encode(&mut encoded);
        session.encode(&mut encoded);
        first.encode(&mut encoded);
        encoded.extend_from_slice(&[0; 8]);
        encoded
    }

    fn seal(
        mut encoded: Vec<u8>,
        key: PublicKey,
        session: SessionId,
        first: Sequence,
        count: u32,
        chain: &Digest,
        sign: impl FnOnce(&Statement) -> Signature,
    ) -> Self {
        let body = (encoded.len() - BODY_AT) as u32;
        encoded[48..52].copy_from_slice(&count.to_le_bytes());
        encoded[52..56].copy_from_slice(&body.to_le_bytes());
        let id = Digest::of(DOMAIN, &encoded);
        // Always 64 bytes, behind which nothing follows: clients sign with Ed25519.
        let end = encoded.len() + 64;
        encoded.extend_from_slice(sign(&Statement::frame(chain, &id)).as_bytes());
        encoded.resize(end, 0);
        Self { encoded: encoded.into(), key, session, first, count, id }
    }

    /// A request to open a session for `key`. Of several with one key the highest `incarnation`
    /// counts; the same one asked again is answered with the same session.
    pub fn open(
        key: PublicKey,
        incarnation: u64,
        chain: &Digest,
        sign: impl FnOnce(&Statement) -> Signature,
    ) -> Self {
        match Self::build(key, SessionId(0), Sequence(incarnation), [], chain, sign) {
            Some(frame) => frame,
            None => unreachable!("an empty frame is within every limit"),
        }
    }

    /// Whether this asks for a session to be opened; `first` is then the incarnation.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session == SessionId(0)
    }

    /// The client's key.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// The same, where it lies.
    pub(super) fn key_in_place(&self) -> &PublicKey {
        &self.key
    }

    /// The session it belongs to; 0 for a request to open one.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The number of its first command.
    #[must_use]
    pub fn first(&self) -> Sequence {
        self.first
    }

    /// How many commands it has.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The number behind its last command.
    #[must_use]
    pub fn end(&self) -> Sequence {
        self.first.plus(u64::from(self.count))
    }

    /// Its identity: computed once, when it was built or decoded.
    #[must_use]
    pub fn id(&self) -> FrameId {
        self.id
    }

    /// Bytes of its encoding.
    #[must_use]
    pub fn encoded_bytes(&self) -> &Bytes {
        &self.encoded
    }

    /// The commands, in order.
    pub fn commands(&self) -> impl Iterator<Item = &[u8]> {
        Commands { body: &self.encoded[BODY_AT..self.encoded.len() - 64] }
    }

    /// The client's signature, not to be believed.
    #[must_use]
    pub fn signature(&self) -> Signature {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(&self.encoded[self.encoded.len() - 64..]);
        Signature::from(bytes)
    }

    /// This frame, resting on its client's signature. Where members may change, it must be claimed
    /// [with its approvals](Self::claim_with_approvals).
    #[must_use]
    pub fn claim(self: Arc<Self>, chain: &Digest) -> Claim<SharedFrame> {
        let check = Check::Client {
            key: self.key,
            statement: Statement::frame(chain, &self.id),
            signature: self.signature(),
        };
        Claim::new(self, mutant!("frame-signature-unchecked", Vec::new(), vec![check]))
    }

    /// The same, resting as well on the signatures and proofs of the change of members, the
    /// directive or the step of a key generation that it may be under the rules of the epoch. These
    /// can be hundreds: where members are fixed, no stranger may have them verified.
    #[must_use]
    pub fn claim_with_approvals(
        self: Arc<Self>,
        chain: &Digest,
        rules: Rules,
    ) -> Claim<SharedFrame> {
        let Some(approvals) = self.approvals(chain, rules) else { return self.claim(chain) };
        let more = planted!("approvals-unchecked", Vec::new(), approvals);
        let claim = self.claim(chain);
        let checks = claim.checks().iter().cloned().chain(more).collect();
        Claim::new(claim.unverified().clone(), checks)
    }

    /// What it rests on besides its client's signature, if it is what administrators sign or a step
    /// of a key generation.
    fn approvals(&self, chain: &Digest, rules: Rules) -> Option<Vec<Check>> {
        match (self.change(rules), self.directive(rules), self.step(rules)) {
            (Some(Ok(change)), ..) => Some(change.checks(chain)),
            (_, Some(Ok(directive)), _) => Some(directive.checks(chain)),
            (.., Some(Ok(step))) => Some(step.checks(chain)),
            _ => None,
        }
    }

    /// What that [weighs](Check::weight) under these rules; of almost all frames, nothing.
    #[must_use]
    pub fn proofs(&self, rules: Rules) -> usize {
        // No weight depends on the chain.
        let checks = self.approvals(&Digest::default(), rules);
        checks.into_iter().flatten().map(|check| check.weight()).sum()
    }

    /// Whether this frame is a change of members. It may still be refused.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.count == 1 && self.commands().next().is_some_and(SignedChange::is_one)
    }

    /// The change of members that this frame is in an epoch with these rules, if it is one.
    #[must_use]
    pub fn change(&self, rules: Rules) -> Option<Result<SignedChange, DecodeError>> {
        let command = self.commands().next().filter(|_| self.is_change())?;
        Some(SignedChange::of_command_under(command, rules))
    }

    /// Whether it may end the epoch of this committee.
    #[must_use]
    pub fn may_seal(&self, current: &Committee) -> bool {
        self.change(current.rules())
            .and_then(Result::ok)
            .is_some_and(|change| change.may_seal(current))
    }

    /// Whether this frame is a directive on clients. It may still be refused.
    #[must_use]
    pub fn is_directive(&self) -> bool {
        self.count == 1 && self.commands().next().is_some_and(SignedDirective::is_one)
    }

    /// The directive on clients that this frame is in an epoch with these rules, if it is one.
    #[must_use]
    pub fn directive(&self, rules: Rules) -> Option<Result<SignedDirective, DecodeError>> {
        let command = self.commands().next().filter(|_| self.is_directive())?;
        Some(SignedDirective::of_command_under(command, rules))
    }

    /// The step of a key generation that this frame is in an epoch with these rules, if it is one.
    #[must_use]
    pub fn step(&self, rules: Rules) -> Option<Result<Step, DecodeError>> {
        let command = self.commands().next().filter(|_| self.is_step(rules))?;
        Some(Step::of_command(command))
    }

    pub(crate) fn is_step(&self, rules: Rules) -> bool {
        self.count == 1 && self.commands().next().is_some_and(|it| Step::is_one(it, rules))
    }

    /// Whether this frame rests on signatures under later rules that an epoch with these rules does
    /// not verify: it is a directive of a [format](SignedDirective::is_known_under) that they do
    /// not know, a [change](SignedChange::is_known_under) of such a format, or a step of a key
    /// generation.
    #[must_use]
    pub fn is_unverified_under(&self, rules: Rules) -> bool {
        let is_new = |command: &[u8]| {
            let is_change = SignedChange::is_one(command);
            is_change && !SignedChange::is_known_under(command, rules)
                || rules.core < Rules::GENERATED_KEYS && Step::is_one(command, Rules::EVERY_FORMAT)
        };
        let is_known = |command| SignedDirective::is_known_under(command, rules);
        let command = self.commands().next().filter(|_| self.count == 1);
        self.is_directive() && !command.is_some_and(is_known) || command.is_some_and(is_new)
    }

    /// The same of what rests on signatures from `now` on. Rules before the latest let go of
    /// directives alone where they were switched on, and so does every later program.
    #[must_use]
    pub fn is_unverified_until(&self, former: Rules, now: Rules) -> bool {
        let is_one = self.is_directive() || now.core >= Rules::GENERATED_KEYS;
        now.core > former.core && is_one && self.is_unverified_under(former)
    }

    /// Whether this frame is of those that administrators send, under these rules: what they sign,
    /// or a step of a key generation.
    #[must_use]
    pub fn is_administrative(&self, rules: Rules) -> bool {
        self.is_change() || self.is_directive() || self.is_step(rules)
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "frame {:?} {:?} {:?}+{}", self.id, self.session, self.first, self.count)
    }
}

struct Commands<'a> {
    body: &'a [u8],
}

impl<'a> Iterator for Commands<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.body.split_first_chunk::<4>()?;
        let (command, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.body = rest;
        Some(command)
    }
}

impl Encode for Frame {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encoded);
    }
}

impl Decode for Frame {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let unnamed = Unnamed::decode(reader)?;
        let id = Digest::of(DOMAIN, unnamed.hashed());
        Ok(unnamed.named(id))
    }
}

/// A frame that is well formed, and whose identity is still to be computed: many of them are hashed
/// [together](name_all).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unnamed {
    encoded: Bytes,
    key: PublicKey,
    session: SessionId,
    first: Sequence,
    count: u32,
}

impl Unnamed {
    /// What the identity is the hash of: everything but the signature.
    fn hashed(&self) -> &[u8] {
        &self.encoded[..self.encoded.len() - 64]
    }

    /// The client's key.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// The session it belongs to; 0 for a request to open one.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The number of its first command.
    #[must_use]
    pub fn first(&self) -> Sequence {
        self.first
    }

    /// How many commands it has.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of its encoding.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        self.encoded.len()
    }

    /// Bytes to be hashed.
    #[must_use]
    pub fn hashed_bytes(&self) -> usize {
        self.hashed().len()
    }

    fn named(self, id: FrameId) -> Frame {
        let Self { encoded, key, session, first, count } = self;
        Frame { encoded, key, session, first, count, id }
    }
}

/// Gives each frame its identity, as [`Frame::decode`](Decode::decode) does to one.
#[must_use]
pub fn name_all(frames: Vec<Unnamed>) -> Vec<Frame> {
    let hashed: Vec<&[u8]> = frames.iter().map(Unnamed::hashed).collect();
    let ids = Digest::of_each(DOMAIN, &hashed);
    frames.into_iter().zip(ids).map(|(frame, id)| frame.named(id)).collect()
}

impl Decode for Unnamed {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let mut ahead = reader.clone();
        let key = PublicKey::decode(&mut ahead)?;
        let session = SessionId::decode(&mut ahead)?;
        let first = Sequence::decode(&mut ahead)?;
        let count = ahead.length("commands in a frame", MAX_COMMANDS)?;
        let body = ahead.byte_string("bytes of commands in a frame", MAX_BODY_BYTES)?;
        let commands = Commands { body: &body };
        let (mut seen, mut bytes) = (0, 0);
        for command in commands {
            seen += 1;
            bytes += 4 + command.len();
        }
        if seen != count || bytes != body.len() {
            return Err(DecodeError::Invalid { field: "frame: its count disagrees with its body" });
        }
        if session == SessionId(0) && count != 0 || session != SessionId(0) && count == 0 {
            return Err(DecodeError::Invalid { field: "frame: commands without a session" });
        }
        if first.0.checked_add(count as u64).is_none() || first == Sequence(0) {
            return Err(DecodeError::Invalid { field: "frame: sequence number" });
        }
        let encoded = reader.take(OVERHEAD_BYTES + body.len())?;
        Ok(Self { encoded, key, session, first, count: count as u32 })
    }
}
