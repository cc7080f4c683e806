//! Changes of the members: the command that ends an epoch.
//!
//! A change names the members of the next epoch, who may change them then, and the [`Rules`] that
//! they execute by. It is an ordered
//! command like any other, alone in its frame. The block in which it executes *seals* its epoch:
//! nothing above that block enters the log in the old epoch, and the next epoch's first block
//! stands on it. (Lamport, Malkhi, Zhou, *Reconfiguring a State Machine*, 2010, section 2: a
//! command that stops the old machine.)
//!
//! Two kinds of signatures come with it, and are verified before any replica votes for its block:
//!
//! - the *approvals* of as many administrators as the present epoch's [`Governance`] wants;
//! - the word of a quorum **of the next committee** that they are *ready*: each has caught up, and
//!   holds the secret keys of the next epoch. That is its proof of possession, too. Without it a
//!   change could hand the cluster to members that are not there.
//!
//! What a change may do is judged when it executes, so that all replicas judge alike:
//!
//! - at least [`MIN_VOTERS`] members count;
//! - a member joins as a learner (weight 0), and is promoted by a later change, once it has caught
//!   up: a replica can hardly be ready that nobody may connect to;
//! - rules never go down: what was executed by newer ones is in the state;
//! - a change that raises them needs the word of *all* members that count then, not of a quorum. A
//!   member says that it is ready only if its program supports the rules of the next epoch, and one
//!   that does not support them stops where that epoch begins. With a quorum alone, up to f members
//!   would stop at once, and no further one might fail. A member that does not come back is removed
//!   first, by an earlier change or in the same one;
//! - a member that is to have another key or contact gives its word itself, whether it counts or
//!   learns. Otherwise whoever hands an administrator a file could take the place of a member that
//!   knows nothing of it. A member that cannot speak is removed instead;
//! - a key stays with its id. An id that changes its key stays where it is reached (a key is
//!   rotated); to take over the id of a member that left is left to a later change.
//!
//! Where the members have a threshold key, a change brings the public [shares](NextShares) of the
//! next one, which its members [generated](crate::ledger::generation). Then
//!
//! - all members that count weigh the same: each has one share;
//! - *all* of them say that they are ready, each by its own key and by its share. A member is ready
//!   only if it came to these shares itself. From keys that nobody signed with, members that
//!   collude could make up sums;
//! - a change that changes nothing else may be made: it leads to a fresh key.
//!
//! A change that leaves the members that count as they are, with their keys and weights, may come
//! without shares: they keep the key, and a quorum is ready for it as for any change. So a member
//! that cannot speak is replaced by two changes, even of four: the first adds a learner, and all
//! next members of the second can speak.
//!
//! Such a change has format 3; all others have format 2. The number at the end of the magic is that
//! of the encoding. Every command with the words before
//! it is a change, of whatever number: a replica that cannot read it refuses it, and none gives it
//! to the application. So a later encoding is a new rule of the core, and is read only where the
//! epoch has that rule.

mod shares;

use bytes::Bytes;

use crate::base::crypto::{Check, Kind, PublicKey, Signature, Statement};
use crate::base::membership::{
    Committee, CommitteeError, Governance, MAX_REPLICAS, Member, Opening, ReplicaKey, Rules,
    encode_members,
};
use crate::base::types::{Digest, Epoch, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::approvals::{self, Approvals, TooFew};

pub use shares::NextShares;

/// The fewest members that count: with fewer nobody may lie.
pub const MIN_VOTERS: usize = 4;

/// What the command begins with.
const MAGIC: &[u8; 16] = b"quorate change 2";
/// What it begins with if it brings shares, which follow.
const SHARES_MAGIC: &[u8; 16] = b"quorate change 3";
/// Its words, without the number of the encoding.
const WORDS: &[u8] = MAGIC.split_at(15).0;

/// The members of the next epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The epoch that it ends.
    pub ends: Epoch,
    /// The next members, by id; `None`: vacant.
    pub members: Vec<Option<Member>>,
    /// The administrators of the next epoch.
    pub governance: Governance,
    /// The rules of the next epoch.
    pub rules: Rules,
}

/// A change with the signatures that it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedChange {
    /// The change.
    pub change: Change,
    /// Of administrators, over [`Change::approval`].
    pub approvals: Approvals,
    /// Of next members, over [`Self::readiness`], with their keys of the next epoch.
    pub ready: Vec<(ReplicaId, Signature)>,
    /// The public shares of the key that the next members generated, if they have one.
    pub shares: Option<Box<NextShares>>,
}

/// Why a change was refused. Nothing has changed then, and the cluster goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("the change cannot be read: {0}")]
    Unreadable(DecodeError),
    /// It came with other commands, so its signatures were not verified.
    #[error("a change must be the only command of its frame")]
    NotAlone,
    /// Nobody may change the members of this cluster.
    #[error("this cluster has no administrators, so its members are fixed")]
    NotGoverned,
    /// The block before it in the same epoch changes the members already.
    #[error("another change is under way: wait until epoch {0} has begun")]
    UnderWay(Epoch),
    /// It ends another epoch.
    #[error("the change ends epoch {found}, and this is epoch {current}: plan it anew")]
    Epoch {
        /// The epoch that it ends.
        found: Epoch,
        /// The current one.
        current: Epoch,
    },
    /// Too few administrators signed it.
    #[error("{found} administrators signed, {needed} must")]
    NotApproved {
        /// How many signed.
        found: usize,
        /// How many must.
        needed: usize,
    },
    /// The next members are no committee.
    #[error(transparent)]
    Committee(#[from] CommitteeError),
    /// Too few of the next members count.
    #[error("{0} members would count, and fewer than {MIN_VOTERS} tolerate no fault")]
    TooFew(usize),
    /// A new member would count at once.
    #[error(
        "replica {0} is new, and would count at once: add it as a learner, and promote it once it has caught up"
    )]
    NotLearnt(ReplicaId),
    /// A key would move from one id to another.
    #[error("replica {to} would have the key of replica {from}: a member keeps its id")]
    Moved {
        /// Its id.
        from: ReplicaId,
        /// Its next id.
        to: ReplicaId,
    },
    /// An id would go from one member to another.
    #[error(
        "replica {0} would be another machine: remove the member first, and add the other by a later change"
    )]
    Taken(ReplicaId),
    /// The next members are the present ones.
    #[error("the change changes nothing")]
    Same,
    /// Too few of the next members said that they are ready.
    #[error(
        "members that weigh {found} are ready, and a quorum of the next committee weighs {needed}; not ready: {}",
        listed(missing)
    )]
    NotReady {
        /// The weight of those that are.
        found: usize,
        /// The weight of a quorum.
        needed: usize,
        /// Those that are not.
        missing: Vec<ReplicaId>,
    },
    /// Rules would go down.
    #[error(
        "the epoch executes by rules {current}, and the change names {found}: rules never go down"
    )]
    RulesDown {
        /// Those of the change.
        found: Rules,
        /// Those in force.
        current: Rules,
    },
    /// Somebody did not say that it is ready for new rules.
    #[error(
        "all members that count must be ready for rules {rules}; not ready: {}",
        listed(missing)
    )]
    NotReadyForRules {
        /// The new rules.
        rules: Rules,
        /// Those that are not.
        missing: Vec<ReplicaId>,
    },
    /// Members would have other keys or contacts, and did not say that these are theirs.
    #[error(
        "who is to have another key or contact must say so itself; not ready: {}",
        listed(missing)
    )]
    NotTheirs {
        /// Those that did not say it.
        missing: Vec<ReplicaId>,
    },
    /// The members have a threshold key, and the change brings no next one.
    #[error(
        "members that count would be others, and no threshold key comes with them: have one generated"
    )]
    NoShares,
    /// The members have no threshold key, and the change brings one.
    #[error("the members sign with keys of their own, and the change brings a threshold key")]
    NoThresholdKey,
    /// Somebody did not sign with its share, or not with its own key.
    #[error(
        "all members that count must sign with their shares and their own keys; missing: {}",
        listed(missing)
    )]
    NotPossessed {
        /// Those that did not.
        missing: Vec<ReplicaId>,
    },
}

impl From<TooFew> for Refusal {
    fn from(TooFew { found, needed }: TooFew) -> Self {
        Self::NotApproved { found, needed }
    }
}

fn listed(replicas: &[ReplicaId]) -> String {
    replicas.iter().map(ReplicaId::to_string).collect::<Vec<_>>().join(", ")
}

impl Change {
    /// What identifies it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of("quorate change", &self.to_bytes())
    }

    fn statement(&self, chain: &Digest, kind: Kind, content: &Digest) -> Statement {
        Statement::new(chain, self.ends, 0, kind, View(0), 0, content)
    }

    /// What an administrator signs.
    #[must_use]
    pub fn approval(&self, chain: &Digest) -> Statement {
        self.statement(chain, Kind::Approval, &self.digest())
    }

    /// What a next member signs that has caught up, with its key of the next epoch. Where it has a
    /// share of a new key, see [`SignedChange::readiness`].
    #[must_use]
    pub fn readiness(&self, chain: &Digest) -> Statement {
        self.statement(chain, Kind::Readiness, &self.digest())
    }

    /// Whether `id` is a member of `current` and stays one, with another key or contact.
    #[must_use]
    pub fn alters(&self, current: &Committee, id: ReplicaId) -> bool {
        let next = self.members.get(id.index()).and_then(Option::as_ref);
        current.member(id).zip(next).is_some_and(|(before, next)| {
            (&before.key, &before.contact) != (&next.key, &next.contact)
        })
    }

    /// The committee that follows `current`, by what the members themselves say.
    fn follows(
        &self,
        current: &Committee,
        opening: Opening,
        has_shares: bool,
    ) -> Result<Committee, Refusal> {
        if self.ends != current.epoch() {
            return Err(Refusal::Epoch { found: self.ends, current: current.epoch() });
        }
        let next = current.next(opening, self.members.clone(), self.governance.clone())?;
        let next = next.under(self.rules);
        if next.members() == current.members()
            && next.governance() == current.governance()
            && next.rules() == current.rules()
            && !has_shares
        {
            return Err(Refusal::Same);
        }
        if current.shares().is_some() {
            next.weighs_equally()?;
        }
        if !next.rules().cover(current.rules()) {
            return Err(Refusal::RulesDown { found: next.rules(), current: current.rules() });
        }
        match next.voter_count() {
            MIN_VOTERS.. => {}
            few => return Err(Refusal::TooFew(few)),
        }
        for to in next.replicas() {
            let Some(member) = next.member(to) else { continue };
            match current.member(to) {
                None if !member.is_learner() => return Err(Refusal::NotLearnt(to)),
                Some(before) if before.key != member.key && before.contact != member.contact => {
                    return Err(Refusal::Taken(to));
                }
                _ => {}
            }
            let same_key = |id: &ReplicaId| current.key(*id) == Some(&member.key);
            if let Some(from) = current.replicas().find(same_key).filter(|from| *from != to) {
                return Err(Refusal::Moved { from, to });
            }
        }
        Ok(next)
    }
}

impl SignedChange {
    /// Whether a command is a change, by its first bytes.
    #[must_use]
    pub fn is_one(command: &[u8]) -> bool {
        command.starts_with(WORDS)
    }

    /// The change as a command.
    #[must_use]
    pub fn to_command(&self) -> Vec<u8> {
        let mut command = Vec::new();
        match &self.shares {
            None => command.extend_from_slice(MAGIC),
            Some(shares) => {
                command.extend_from_slice(SHARES_MAGIC);
                shares.encode(&mut command);
            }
        }
        self.encode(&mut command);
        command
    }

    /// The change that a command is.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn of_command(command: &[u8]) -> Result<Self, DecodeError> {
        if let Some(encoded) = command.strip_prefix(MAGIC) {
            return Self::from_bytes(Bytes::copy_from_slice(encoded));
        }
        let encoded = command.strip_prefix(SHARES_MAGIC).ok_or(DecodeError::Invalid {
            field: "format tag: this program reads changes of formats 2 and 3",
        })?;
        let mut reader = Reader::new(Bytes::copy_from_slice(encoded));
        let shares = Some(Box::new(NextShares::decode(&mut reader)?));
        let signed = Self { shares, ..Self::decode(&mut reader)? };
        reader.finish()?;
        Ok(signed)
    }

    /// The same in an epoch with these rules. What they do not know is refused in the words of the
    /// programs that had no other rules: replies are a part of the state.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn of_command_under(command: &[u8], rules: Rules) -> Result<Self, DecodeError> {
        if !Self::is_known_under(command, rules) {
            return Err(DecodeError::Invalid {
                field: "format tag: this program reads changes of format 2",
            });
        }
        Self::of_command(command)
    }

    /// Whether programs know the format of this command in an epoch with these rules.
    #[must_use]
    pub fn is_known_under(command: &[u8], rules: Rules) -> bool {
        command.starts_with(MAGIC) || rules.core >= Rules::GENERATED_KEYS
    }

    /// What a next member signs that has caught up, with its key of the next epoch. If the change
    /// brings shares, it covers them, and the generation as it stands then.
    #[must_use]
    pub fn readiness(&self, chain: &Digest) -> Statement {
        match &self.shares {
            None => self.change.readiness(chain),
            Some(shares) => {
                let content = shares.readiness(&self.change.digest());
                self.change.statement(chain, Kind::Readiness, &content)
            }
        }
    }

    /// What the next member `id` signs with its share, if the change brings shares.
    #[must_use]
    pub fn possession(&self, chain: &Digest, id: ReplicaId) -> Option<Statement> {
        let content = self.shares.as_ref()?.possession(&self.change.digest(), id);
        Some(self.change.statement(chain, Kind::Readiness, &content))
    }

    /// The signatures that have to hold. A signature by a key that cannot be checked alone counts
    /// for nothing, and has none.
    #[must_use]
    pub fn checks(&self, chain: &Digest) -> Vec<Check> {
        let readiness = self.readiness(chain);
        let approvals = self.approval_checks(chain).into_iter();
        let ready = self.ready.iter().filter_map(|(id, signature)| {
            let (key, signature) = (self.key_of(*id)?, *signature);
            Some(Check::Client { key, statement: readiness, signature })
        });
        let possession = |id| self.possession(chain, id).unwrap_or(readiness);
        let shares = self.shares.iter().flat_map(|shares| shares.checks(possession));
        approvals.chain(ready).chain(shares).collect()
    }

    /// The key of a next member, where it is one that a signature is checked by alone (Ed25519).
    fn key_of(&self, id: ReplicaId) -> Option<PublicKey> {
        let member = self.change.members.get(id.index())?.as_ref()?;
        member.key.as_bytes().try_into().ok().map(PublicKey)
    }

    /// Whether all who signed it are administrators of the current epoch, and each signed once.
    /// If not, no signature is worth verifying: anybody may have put it there.
    #[must_use]
    pub fn is_of_administrators(&self, current: &Committee) -> bool {
        approvals::are_of_administrators(&self.approvals, current)
    }

    /// The signatures of its administrators, which have to hold.
    #[must_use]
    pub fn approval_checks(&self, chain: &Digest) -> Vec<Check> {
        approvals::checks(&self.approvals, self.change.approval(chain))
    }

    /// The committee of the next epoch, which begins at `opening`, if the change may be made. Its
    /// [signatures](Self::checks) hold.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn judge(&self, current: &Committee, opening: Opening) -> Result<Committee, Refusal> {
        let next = self.approved(current, opening)?;
        let is_ready = |id: &ReplicaId| {
            self.key_of(*id).is_some() && self.ready.iter().any(|(ready, _)| ready == id)
        };
        let (found, needed) = (next.weight_of(next.voters().filter(is_ready)), next.quorum());
        if mutant!("next-committee-not-asked", false, found < needed) {
            let missing = next.voters().filter(|id| !is_ready(id)).collect();
            return Err(Refusal::NotReady { found, needed, missing });
        }
        let altered = next.replicas().filter(|id| self.change.alters(current, *id));
        let missing: Vec<_> = altered.filter(|id| !is_ready(id)).collect();
        if !missing.is_empty() {
            return Err(Refusal::NotTheirs { missing });
        }
        if next.rules() != current.rules() {
            let missing: Vec<_> = next.voters().filter(|id| !is_ready(id)).collect();
            if planted!("rules-need-a-quorum", false, !missing.is_empty()) {
                return Err(Refusal::NotReadyForRules { rules: next.rules(), missing });
            }
        }
        if let Some(shares) = &self.shares {
            let has_signed = |id: &ReplicaId| is_ready(id) && shares.is_possessed_by(*id);
            let missing: Vec<_> = next.voters().filter(|id| !has_signed(id)).collect();
            if !missing.is_empty() {
                return Err(Refusal::NotPossessed { missing });
            }
        }
        Ok(next)
    }

    /// The same, but for the word of the next members: what they look at before they give it.
    ///
    /// # Errors
    /// [`Refusal`], but none about readiness.
    pub fn approved(&self, current: &Committee, opening: Opening) -> Result<Committee, Refusal> {
        let governance = current.governance();
        if governance.administrators.is_empty() {
            return Err(Refusal::NotGoverned);
        }
        let next = self.change.follows(current, opening, self.shares.is_some())?;
        approvals::are_enough(&self.approvals, governance)?;
        match &self.shares {
            None => Self::with_the_former_key(next, current),
            Some(_) if current.shares().is_none() => Err(Refusal::NoThresholdKey),
            Some(shares) => Ok(next.with_shares(shares.keys.clone())?),
        }
    }

    /// A change that brings no shares: the members that count must be the same, and keep theirs.
    fn with_the_former_key(next: Committee, current: &Committee) -> Result<Committee, Refusal> {
        let Some(shares) = current.shares() else { return Ok(next) };
        if !have_the_voters_of(next.members(), current) {
            return Err(Refusal::NoShares);
        }
        Ok(next.with_shares((**shares).clone())?)
    }

    /// Whether it may end the epoch of this committee, by its approvals alone. Leaders put no
    /// commands above one that may, and a stranger who could make one would keep blocks empty.
    #[must_use]
    pub fn may_seal(&self, current: &Committee) -> bool {
        let has_what_it_needs = match (current.shares(), &self.shares) {
            (None, shares) => shares.is_none(),
            (Some(_), None) => have_the_voters_of(&self.change.members, current),
            (Some(_), Some(_)) => true,
        };
        self.change.ends == current.epoch() && has_what_it_needs && self.is_approved(current)
    }

    /// Whether as many administrators signed it as must.
    #[must_use]
    pub fn is_approved(&self, current: &Committee) -> bool {
        let governance = current.governance();
        !governance.administrators.is_empty()
            && approvals::are_enough(&self.approvals, governance).is_ok()
    }
}

/// Whether those of these members that count are the ones of a committee, with the same keys and
/// weights.
#[must_use]
pub fn have_the_voters_of(members: &[Option<Member>], committee: &Committee) -> bool {
    let count = |members: &[Option<Member>]| -> Vec<(usize, ReplicaKey, u16)> {
        let members = members.iter().enumerate().filter_map(|(id, it)| Some((id, it.as_ref()?)));
        let voters = members.filter(|(_, member)| !member.is_learner());
        voters.map(|(id, member)| (id, member.key.clone(), member.weight)).collect()
    };
    count(members) == count(committee.members())
}

impl Encode for Change {
    fn encode(&self, out: &mut Vec<u8>) {
        self.ends.encode(out);
        encode_members(&self.members, out);
        self.governance.encode(out);
        self.rules.encode(out);
    }
}

impl Decode for Change {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            ends: Epoch::decode(reader)?,
            members: crate::base::membership::decode_members(reader)?,
            governance: Governance::decode(reader)?,
            rules: Rules::decode(reader)?,
        })
    }
}

/// Without its [shares](SignedChange::shares), as administrators write it.
impl Encode for SignedChange {
    fn encode(&self, out: &mut Vec<u8>) {
        self.change.encode(out);
        approvals::encode(&self.approvals, out);
        (self.ready.len() as u32).encode(out);
        for (id, signature) in &self.ready {
            id.encode(out);
            signature.encode(out);
        }
    }
}

impl Decode for SignedChange {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let change = Change::decode(reader)?;
        let approvals = approvals::decode(reader)?;
        let ready = reader.length("ready members", MAX_REPLICAS)?;
        let ready = (0..ready)
            .map(|_| Ok((ReplicaId::decode(reader)?, Signature::decode(reader)?)))
            .collect::<Result<_, DecodeError>>()?;
        Ok(Self { change, approvals, ready, shares: None })
    }
}
