//! What the deciding thread does when the members change: it opens and closes channels, tells
//! people, and gives this replica's word that it is ready.

use std::io;

use bytes::Bytes;
use quorate_core::base::crypto::{Signature, Signer};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Program, Response, ShareWord};
use quorate_core::ledger::change::{NextShares, SignedChange};
use quorate_core::ledger::generation::Generation;
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::protocols::protocol::{BlockOf, Protocol, Types};
use quorate_core::{Committee, Digest, Height, ReplicaId};
use quorate_crypto::ConsensusKey;
use quorate_transport::ConnectionId;

use super::decide::{Decider, Reach};
use super::epochs::Epochs;
use super::generating::Prepared;
use super::inbox::Question;
use super::keyring::{Keyring, SHARE_REMEDY};
use super::transport_key::TransportKey;
use crate::config::Contact;
use crate::http::VERSION;

impl<T: Types> Reach<T> {
    /// An epoch has begun; how the one before it ended is on disk, and is being sent.
    pub(super) fn begin_epoch(&mut self, committee: Committee) {
        let (epoch, size) = (committee.epoch(), committee.replicas().count());
        if epoch <= self.epochs.committee().epoch() {
            // A replica whose state is of an earlier epoch than it knows of comes to it again. Its
            // channels and its key are those of the last one.
            return tracing::info!("it comes to epoch {epoch} again");
        }
        for id in committee.replicas() {
            let unread = committee.member(id).and_then(|member| Contact::of(member).err());
            if let Some(error) = unread {
                tracing::warn!("replica {id} is not reached: its contact cannot be read: {error}");
            }
        }
        let before = self.epochs.standing(self.me);
        take_key(&self.keyring, &committee, self.me);
        self.epochs.begin(committee);
        take_transport_key(&self.transport, &self.epochs, self.me);
        self.links.change_members(self.epochs.peers());
        self.metrics.epoch.set(epoch.0);
        tracing::info!("epoch {epoch} has begun, with {size} members");
        let now = self.epochs.standing(self.me);
        match now.said() {
            _ if now == before => {}
            Some(said) => tracing::warn!("{said}"),
            None => tracing::info!("this replica counts from now on"),
        }
    }

    /// The epoch is settled if these blocks show that a certificate of it is durable here: former
    /// transport keys of members count no more, and this replica erases the keys that it had. The
    /// second block above the epoch's genesis carries a certificate, or was committed by a quorum
    /// that had one; and a block is written down before it is committed.
    pub(super) fn settle_epoch(&self, blocks: &[BlockOf<T>]) {
        let Some(last) = blocks.last() else { return };
        let (settled, committee) = (self.epochs.is_settled(), self.epochs.committee());
        let signing = self.keyring.has_former();
        let transport = self.transport.has_former(&committee, self.me);
        let shares = self.keyring.has_former_shares();
        let is_done = settled && !signing && !transport && !shares;
        if !is_settled_at(&committee, last.height()) || is_done {
            return;
        }
        if !settled {
            self.epochs.settle();
            self.links.change_members(self.epochs.peers());
        }
        let erased = |what: &str, erased: io::Result<()>| match erased {
            Ok(()) => tracing::info!("the {what} key of the epoch before is erased"),
            Err(error) => tracing::warn!(
                "the {what} key of the epoch before could not be erased: {error}; see to the folder \
                 of the keys, and restart"
            ),
        };
        if shares {
            self.keyring.settle_shares(committee.epoch());
        }
        if signing {
            erased("consensus", self.keyring.erase_former());
        }
        if transport {
            erased("transport", self.transport.erase_former());
        }
    }
}

/// Whether a certificate of the committee's epoch is durable where a block of this height is.
pub(super) fn is_settled_at(committee: &Committee, height: Height) -> bool {
    height >= committee.opening().height.plus(2)
}

/// From now on the replica proves the transport key that the newest committee names for it.
pub(super) fn take_transport_key(transport: &TransportKey, epochs: &Epochs, me: ReplicaId) {
    let Some(key) = epochs.transport_key(me) else { return };
    let (before, shown) = (transport.identity().key(), Digest(key.0));
    if !transport.enter(key) {
        tracing::error!(
            "the members know this replica by the transport key {shown}, and it has {}: they \
             refuse its connections. Put the key file back as transport.key.next beside the other one \
             and restart; or have another key named (`quorate member new-key --transport`)",
            Digest(before.0)
        );
    } else if before != key {
        tracing::info!("this replica connects by its new transport key {shown}");
    }
}

/// From now on the replica signs by the key that this committee names, if it is a member.
pub(super) fn take_key(keyring: &Keyring, committee: &Committee, me: ReplicaId) {
    // Who is no member has no share, and erases those that it had.
    if let Err(error) = keyring.enter_share(committee, me) {
        let epoch = committee.epoch();
        tracing::error!(
            "the share of the threshold key that epoch {epoch} names for this replica is not in use: \
             {error}. Its votes count for nothing. {SHARE_REMEDY}"
        );
    }
    let Some(key) = committee.key(me) else { return };
    let before = keyring.public();
    if !keyring.enter(key) {
        let epoch = committee.epoch();
        tracing::error!(
            "epoch {epoch} names the consensus key {key} for this replica, and it has {before}: \
             what it signs counts for nothing. Put the key file back as consensus.key.next beside \
             the other one and restart; or have another key named (`quorate member new-key`)"
        );
    } else if before != *key {
        tracing::info!("this replica signs by its new consensus key {key}");
    }
}

/// A replica's word for a change.
enum Word {
    /// By its own key.
    Plain(Signature),
    /// By its share of the next threshold key as well.
    WithShares(Box<ShareWord>),
}

impl<P: Protocol, S: StateMachine> Decider<P, S> {
    /// Tells a client whether this replica is ready for a change, whose approvals hold.
    pub(super) fn give_word(&mut self, question: &Question) {
        let id = question.id;
        let response = match self.word(question.bytes.clone()) {
            Ok(Word::Plain(signature)) => Response::Ready { id, signature },
            Ok(Word::WithShares(word)) => Response::ReadyWithShares { id, word },
            Err(reason) => Response::NotReady { id, reason: reason.into_bytes().into() },
        };
        self.answer(question.connection, response);
    }

    /// Tells a client what this program is, and whether the replica is ready for another epoch.
    pub(super) fn tell_program(&self, connection: ConnectionId, id: u64) {
        let execution = self.replica.execution();
        let (members, versions) = (execution.members(), self.reach.links.versions());
        let not_ready = match members.committee() {
            Some(current) => self.not_ready(current),
            None => Some("the members and the rules of this cluster are fixed".to_owned()),
        };
        let program = Program {
            release: Bytes::from_static(VERSION.as_bytes()),
            versions: (versions.oldest(), versions.newest()),
            supports: execution.supported_rules(),
            epoch: members.committee().map(Committee::epoch).unwrap_or_default(),
            rules: members.rules(),
            not_ready: not_ready.unwrap_or_default().into(),
        };
        self.answer(connection, Response::Program { id, program });
    }

    fn answer(&self, connection: ConnectionId, response: Response) {
        for response in self.reach.links.answers(response) {
            // The client may be gone.
            let _ = self.reach.listener.send(connection, response.to_bytes().into());
        }
    }

    /// This replica's signature under a change that it would accept, if it has caught up.
    fn word(&self, change: Bytes) -> Result<Word, String> {
        let unread = |error| format!("the change cannot be read: {error}");
        let mut change = SignedChange::from_bytes(change).map_err(unread)?;
        let members = self.replica.execution().members();
        let current = members.committee().ok_or("the members of this cluster are fixed")?;
        let prepared = self.prepared(&change, current)?;
        change.shares = prepared.as_ref().map(|Prepared { generation, keys, .. }| {
            let (generation, keys) = (*generation, keys.clone());
            Box::new(NextShares { generation, keys, possessions: Vec::new() })
        });
        let next = change.approved(current, current.opening()).map_err(|it| it.to_string())?;
        if let Some(shares) = &change.shares {
            let height = self.replica.execution().height().next();
            let allowed = members.generations().allow(&change, shares, &next, height);
            allowed.map_err(|refusal| refusal.to_string())?;
        }
        for id in next.replicas() {
            let unread = next.member(id).and_then(|member| Contact::of(member).err());
            if let Some(error) = unread {
                return Err(format!("the contact of replica {id} cannot be read: {error}"));
            }
        }
        let supported = self.replica.execution().supported_rules();
        if !supported.cover(next.rules()) {
            return Err(format!(
                "its program supports rules up to {supported}, and the change switches on {}: upgrade \
                 this replica first",
                next.rules()
            ));
        }
        let signer = next.key(self.reach.me).and_then(|key| self.reach.keyring.signer_of(key));
        let signer = signer.ok_or("the change gives it another key than it has")?;
        let contact = next.member(self.reach.me).and_then(|member| Contact::of(member).ok());
        if contact.is_some_and(|contact| !self.reach.transport.holds(contact.transport_key)) {
            return Err("the change gives it another transport key than it has".to_owned());
        }
        match self.not_ready(current) {
            None => {
                let share = prepared.as_ref().and_then(|prepared| prepared.share.as_deref());
                self.signed(&change, &current.chain(), &*signer, share)
            }
            Some(reason) => Err(reason),
        }
    }

    /// The shares of the key that was generated for a change, as this replica came to them; `None`
    /// if none was.
    fn prepared(
        &self,
        change: &SignedChange,
        current: &Committee,
    ) -> Result<Option<Prepared>, String> {
        let generations = self.replica.execution().members().generations();
        let is_for_it = |it: &&Generation| it.plan().change == change.change.digest();
        let generation = generations.current().filter(is_for_it);
        let Some(generation) = generation.filter(|_| current.shares().is_some()) else {
            return Ok(None);
        };
        self.reach.generating.prepared(&generation.digest()).map(Some)
    }

    /// The word for a change, by the own key that the next epoch names, and by the share if there
    /// is one.
    fn signed(
        &self,
        change: &SignedChange,
        chain: &Digest,
        signer: &dyn Signer,
        share: Option<&ConsensusKey>,
    ) -> Result<Word, String> {
        let ready = signer.sign(&change.readiness(chain));
        let Some(shares) = &change.shares else { return Ok(Word::Plain(ready)) };
        let (me, keys) = (self.reach.me, shares.keys.clone());
        let possession = match (keys.key(me), change.possession(chain, me)) {
            (Some(_), Some(statement)) => share.ok_or("it has no share")?.sign(&statement),
            // It learns.
            _ => Signature::NONE,
        };
        let generation = shares.generation;
        Ok(Word::WithShares(Box::new(ShareWord { generation, keys, ready, possession })))
    }

    /// Why this replica cannot be counted on in another epoch, if it cannot.
    fn not_ready(&self, current: &Committee) -> Option<String> {
        let connected = self.reach.links.connected();
        let others = connected.into_iter().filter(|id| *id != self.reach.me);
        let reached = current.weight_of(others.chain([self.reach.me]));
        let status = self.replica.protocol().status();
        if reached < current.quorum() {
            let needed = current.quorum();
            return Some(format!("it reaches members that weigh {reached}, and not {needed}"));
        }
        if status.abstain_until >= status.view {
            return Some("it abstains, since it lost its data".to_owned());
        }
        if !self.replica.is_caught_up() {
            return Some("it has not caught up; try again when it has".to_owned());
        }
        None
    }
}
