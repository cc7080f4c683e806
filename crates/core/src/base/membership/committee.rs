use std::sync::Arc;

use super::counts::{faults, honest_witness, quorum, quorum_of_a_fifth, witness_of_a_fifth};
use super::member::{Governance, Member, ReplicaKey};
use super::rules::Rules;
use crate::base::crypto::{Check, PublicKey, Share, ShareKeys};
use crate::base::types::{Digest, Epoch, Height, MAX_REPLICAS, ReplicaId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};

/// The replicas of one epoch, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committee {
    chain: Digest,
    epoch: Epoch,
    opening: Opening,
    /// By id; `None`: vacant. Shared: every part of a replica has a committee of its own.
    members: Arc<[Option<Member>]>,
    governance: Arc<Governance>,
    rules: Rules,
    /// Of the threshold key that its members generated, if they sign with one.
    shares: Option<Arc<ShareKeys>>,
    /// The sum of the weights.
    weight: usize,
    quorum: usize,
    /// Whose turn it is, around; each member as often as it weighs.
    turns: Arc<[ReplicaId]>,
}

/// Where an epoch begins: its first block (its own genesis, which holds no command) has this height
/// and stands on that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The block that sealed the epoch before; the chain's identity in the first epoch.
    pub after: Digest,
    /// The height of the epoch's genesis.
    pub height: Height,
}

/// Why a list of members is no committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitteeError {
    /// No replica at all, or more than [`MAX_REPLICAS`].
    #[error("a committee has 1 to {MAX_REPLICAS} replicas, not {0}")]
    Size(usize),
    /// Two replicas with one key would count twice for one will.
    #[error("replicas {0} and {1} have the same key")]
    SharedKey(ReplicaId, ReplicaId),
    /// Nobody counts.
    #[error("no replica has a weight: promote one")]
    NoWeight,
    /// More weight than turns are kept for.
    #[error("the weights come to {0}; their sum is at most {most}", most = Committee::MAX_WEIGHT)]
    TooHeavy(usize),
    /// More signatures are wanted than there are administrators, or none of some.
    #[error(
        "{approvals} of {administrators} administrators must sign: that is never so, or always"
    )]
    Approvals {
        /// How many signatures are wanted.
        approvals: u16,
        /// How many administrators there are.
        administrators: usize,
    },
    /// A threshold key has one share for each member that counts.
    #[error(
        "replicas {0} and {1} weigh differently, and a threshold key has one share for each: give all \
         that count the same weight"
    )]
    UnequalWeights(ReplicaId, ReplicaId),
    /// The shares are not those of the members that count, or another number of them signs.
    #[error(
        "{shares} shares of the threshold key are not one for each of the {voters} members that \
         count, of which a quorum signs"
    )]
    Shares {
        /// How many shares there are.
        shares: usize,
        /// How many members count.
        voters: usize,
    },
    /// The epoch's rules are older than threshold keys that members generate.
    #[error(
        "a threshold key of members that change needs rules {needed} of the core, and these are {0}",
        needed = Rules::GENERATED_KEYS
    )]
    NoSharesYet(Rules),
}

impl Committee {
    /// The most that the weights may come to.
    pub const MAX_WEIGHT: usize = 1024;

    /// The first committee of a chain that nobody may change; `keys[i]` belongs to replica i, and
    /// all weigh the same.
    ///
    /// # Errors
    /// [`CommitteeError`] if the size is out of range or two keys are equal.
    pub fn new(chain: Digest, epoch: Epoch, keys: Vec<ReplicaKey>) -> Result<Self, CommitteeError> {
        let members = keys.into_iter().map(|key| Some(Member::new(key))).collect();
        let opening = Opening { after: chain, height: Height(0) };
        Self::with_members(chain, epoch, opening, members, Governance::default())
    }

    /// The committee of `chain` in `epoch`, which begins at `opening`; `members[i]` is replica i.
    ///
    /// # Errors
    /// [`CommitteeError`].
    pub fn with_members(
        chain: Digest,
        epoch: Epoch,
        opening: Opening,
        mut members: Vec<Option<Member>>,
        governance: Governance,
    ) -> Result<Self, CommitteeError> {
        check_members(&members)?;
        let used = members.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        members.truncate(used);
        let (approvals, administrators) = (governance.approvals, governance.administrators.len());
        if usize::from(approvals) > administrators || (approvals == 0) != (administrators == 0) {
            return Err(CommitteeError::Approvals { approvals, administrators });
        }
        let weights: Vec<usize> = members
            .iter()
            .map(|member| member.as_ref().map_or(0, |member| usize::from(member.weight)))
            .collect();
        let weight = weights.iter().sum();
        match weight {
            0 => return Err(CommitteeError::NoWeight),
            1..=Self::MAX_WEIGHT => {}
            _ => return Err(CommitteeError::TooHeavy(weight)),
        }
        let turns = turns(&weights).into();
        let (members, governance) = (members.into(), Arc::new(governance));
        let (quorum, rules) = (quorum(weight), Rules::FIRST);
        let shares = None;
        Ok(Self {
            chain,
            epoch,
            opening,
            members,
            governance,
            rules,
            shares,
            weight,
            quorum,
            turns,
        })
    }

    /// The same, whose members sign with shares of this threshold key: each that counts with its
    /// own, which all weigh the same.
    ///
    /// # Errors
    /// [`CommitteeError`] if weights differ, if the shares are those of other members, or if the
    /// rules know no such key.
    pub fn with_shares(self, shares: ShareKeys) -> Result<Self, CommitteeError> {
        if self.rules.core < Rules::GENERATED_KEYS {
            return Err(CommitteeError::NoSharesYet(self.rules));
        }
        self.weighs_equally()?;
        let is_quorum = self.quorum_among(self.voters()) == Some(shares.quorum());
        if !shares.replicas().eq(self.voters()) || !is_quorum {
            let (shares, voters) = (shares.replicas().count(), self.voter_count());
            return Err(CommitteeError::Shares { shares, voters });
        }
        Ok(Self { shares: Some(Arc::new(shares)), ..self })
    }

    /// Whether all members that count weigh the same. A quorum of weight is then a quorum of heads:
    /// n − ⌊(n − 1) / 3⌋ of n, as ⌊(nw − 1) / 3w⌋ = ⌊(n − 1) / 3⌋ for all w ≥ 1.
    ///
    /// # Errors
    /// [`CommitteeError::UnequalWeights`] names two that do not.
    pub fn weighs_equally(&self) -> Result<(), CommitteeError> {
        let mut voters = self.voters();
        let first = voters.next();
        let differs = |id: &ReplicaId| first.is_some_and(|it| self.weight(it) != self.weight(*id));
        match (first, voters.find(differs)) {
            (Some(first), Some(other)) => Err(CommitteeError::UnequalWeights(first, other)),
            _ => Ok(()),
        }
    }

    /// The rules by which frames' signatures and proofs are verified, where `rules` would be. What
    /// only a threshold key needs is refused where it executes if members have none, and nobody may
    /// have it verified. Whether they have one never changes in a chain, so all replicas agree.
    #[must_use]
    pub fn verified_under(&self, rules: Rules) -> Rules {
        let core = match self.shares {
            Some(_) => rules.core,
            None => rules.core.min(Rules::GENERATED_KEYS - 1),
        };
        Rules { core, ..rules }
    }

    /// The newest rules worth switching on, of those that programs support. Rules that are for
    /// members with a threshold key alone are of no use to others, whose chain never has one: they
    /// come with the rules behind them.
    #[must_use]
    pub fn offers(&self, supported: Rules) -> Rules {
        let is_for_shares = supported.core == Rules::GENERATED_KEYS && self.shares.is_none();
        let core = if is_for_shares { Rules::GENERATED_KEYS - 1 } else { supported.core };
        Rules { core: core.max(self.rules.core), ..supported }
    }

    /// The public keys of the shares that its members sign with, if they have a threshold key.
    #[must_use]
    pub fn shares(&self) -> Option<&Arc<ShareKeys>> {
        self.shares.as_ref()
    }

    /// The same, whose epoch executes by these rules.
    #[must_use]
    pub fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// The committee of the next epoch, under the rules of this one.
    ///
    /// # Errors
    /// [`CommitteeError`].
    pub fn next(
        &self,
        opening: Opening,
        members: Vec<Option<Member>>,
        governance: Governance,
    ) -> Result<Self, CommitteeError> {
        let next = Self::with_members(self.chain, self.epoch.next(), opening, members, governance);
        next.map(|next| next.under(self.rules))
    }

    /// The chain's identity: the digest of what all members agreed on at its start.
    #[must_use]
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// The epoch this committee serves.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Where that epoch begins.
    #[must_use]
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// The administrators.
    #[must_use]
    pub fn governance(&self) -> &Governance {
        &self.governance
    }

    /// The rules that its epoch executes by.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The same with another quorum: a bug put in on purpose.
    #[cfg(quorate_mutants)]
    #[must_use]
    pub fn with_quorum(self, quorum: usize) -> Self {
        Self { quorum, ..self }
    }

    /// The same with those of an earlier epoch beside its own: a bug put in on purpose.
    #[cfg(quorate_mutants)]
    #[must_use]
    pub fn with_those_of(self, earlier: &Self) -> Self {
        let size = self.members.len().max(earlier.members.len());
        let one = |id: usize| {
            let now = self.members.get(id).cloned().flatten();
            now.or_else(|| earlier.members.get(id).cloned().flatten())
        };
        Self { members: (0..size).map(one).collect(), ..self }
    }

    /// The same with weights of 1: a bug put in on purpose.
    #[cfg(quorate_mutants)]
    #[must_use]
    pub fn by_heads(self) -> Self {
        let mut members = self.members.to_vec();
        members.iter_mut().flatten().for_each(|member| member.weight = member.weight.min(1));
        let governance = (*self.governance).clone();
        let heads = Self::with_members(self.chain, self.epoch, self.opening, members, governance);
        let shares = self.shares.clone();
        heads.map(|heads| Self { shares, ..heads.under(self.rules) }).unwrap_or(self)
    }

    /// How many ids there are, vacant ones included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// How many ids there can ever be: more than now where members may change.
    #[must_use]
    pub fn most_replicas(&self) -> usize {
        let is_fixed = self.governance.administrators.is_empty();
        if is_fixed { self.size() } else { MAX_REPLICAS }
    }

    /// How much `replica` counts: 0 for a learner, or if there is no such replica.
    #[must_use]
    pub fn weight(&self, replica: ReplicaId) -> usize {
        self.member(replica).map_or(0, |member| usize::from(member.weight))
    }

    /// How much these replicas count together. Each must be named once.
    #[must_use]
    pub fn weight_of(&self, replicas: impl IntoIterator<Item = ReplicaId>) -> usize {
        replicas.into_iter().map(|replica| self.weight(replica)).sum()
    }

    /// How many of these replicas, the first of them, are a quorum together; `None` if all are
    /// none. Each must be named once.
    #[must_use]
    pub fn quorum_among(&self, replicas: impl IntoIterator<Item = ReplicaId>) -> Option<usize> {
        let mut weight = 0;
        let last = replicas.into_iter().position(|replica| {
            weight += self.weight(replica);
            weight >= self.quorum
        });
        last.map(|last| last + 1)
    }

    /// [f](faults): how much weight may lie.
    #[must_use]
    pub fn faults(&self) -> usize {
        faults(self.weight)
    }

    /// [q](quorum): any two quorums share a correct replica, and the correct ones alone make one.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// [f + 1](honest_witness): at least one of these is correct.
    #[must_use]
    pub fn honest_witness(&self) -> usize {
        honest_witness(self.weight)
    }

    /// [a](quorum_of_a_fifth): where fewer than a fifth lie, the correct ones are the majority of
    /// any such set, and of any larger one, if a − f of them agree.
    #[must_use]
    pub fn quorum_of_a_fifth(&self) -> usize {
        quorum_of_a_fifth(self.weight)
    }

    /// [f + 1](witness_of_a_fifth), where fewer than a fifth lie: at least one of these is correct.
    #[must_use]
    pub fn witness_of_a_fifth(&self) -> usize {
        witness_of_a_fifth(self.weight)
    }

    /// The member with this id, if there is one.
    #[must_use]
    pub fn member(&self, replica: ReplicaId) -> Option<&Member> {
        self.members.get(replica.index())?.as_ref()
    }

    /// By id; `None`: vacant.
    #[must_use]
    pub fn members(&self) -> &[Option<Member>] {
        &self.members
    }

    /// The key of `replica`, if there is such a replica.
    #[must_use]
    pub fn key(&self, replica: ReplicaId) -> Option<&ReplicaKey> {
        self.member(replica).map(|member| &member.key)
    }

    /// The same check by the signer's key instead of its id, if the statement is of this epoch,
    /// and the key is one that a signature is checked by alone (Ed25519). Where members change, an
    /// id names different keys in time. Where they have a threshold key, what is
    /// [joined](crate::base::crypto::Statement::is_joined) is checked by the shares of the epoch.
    #[must_use]
    pub fn by_key(&self, check: Check) -> Check {
        if let Some(shares) = &self.shares
            && check.is_of_joined(self.epoch)
        {
            return Check::Joined { keys: Arc::clone(shares), check: Box::new(check) };
        }
        let Check::Replica(Share { signer, statement, signature }) = &check else { return check };
        let key = self.key(*signer).filter(|_| statement.epoch() == self.epoch);
        let key = key.and_then(|key| key.as_bytes().try_into().ok());
        match key {
            Some(key) => {
                Check::Client { key: PublicKey(key), statement: *statement, signature: *signature }
            }
            None => check,
        }
    }

    /// Whether there is such a replica.
    #[must_use]
    pub fn contains(&self, replica: ReplicaId) -> bool {
        self.member(replica).is_some()
    }

    /// The ids of all members, ascending.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let members = Arc::clone(&self.members);
        (0..members.len()).filter(move |id| members[*id].is_some()).map(|id| ReplicaId(id as u16))
    }

    /// The ids of those that count, ascending.
    pub fn voters(&self) -> impl Iterator<Item = ReplicaId> + use<'_> {
        let counts = |member: &Option<Member>| member.as_ref().is_some_and(|it| !it.is_learner());
        let ids = self.members.iter().enumerate().filter(move |(_, member)| counts(member));
        ids.map(|(id, _)| ReplicaId(id as u16))
    }

    /// How many members count.
    #[must_use]
    pub fn voter_count(&self) -> usize {
        self.members.iter().flatten().filter(|member| !member.is_learner()).count()
    }

    /// The replica whose turn it is: each that counts as often as it weighs, evenly.
    #[must_use]
    pub fn turn(&self, turn: u64) -> ReplicaId {
        let turns = self.turns.len().max(1) as u64;
        self.turns.get((turn % turns) as usize).copied().unwrap_or_default()
    }

    /// After how many turns everybody had its own.
    #[must_use]
    pub fn rotation(&self) -> usize {
        self.turns.len()
    }

    /// The digest of all that the members agree on: the epoch, the members, who may change them,
    /// the rules, and the shares of their threshold key. It does not cover where the epoch begins.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = self.chain.to_bytes();
        self.epoch.encode(&mut bytes);
        encode_members(&self.members, &mut bytes);
        self.governance.encode(&mut bytes);
        self.rules.encode(&mut bytes);
        if let Some(shares) = &self.shares {
            shares.digest().encode(&mut bytes);
        }
        Digest::of("quorate committee", &bytes)
    }
}

/// Writes members by id; a vacant id as 0.
pub(crate) fn encode_members(members: &[Option<Member>], out: &mut Vec<u8>) {
    (members.len() as u32).encode(out);
    for member in members {
        out.push(u8::from(member.is_some()));
        if let Some(member) = member {
            member.encode(out);
        }
    }
}

/// Reads members by id.
pub(crate) fn decode_members(reader: &mut Reader) -> Result<Vec<Option<Member>>, DecodeError> {
    let count = reader.length("members", MAX_REPLICAS)?;
    (0..count).map(|_| reader.option("whether there is a member")).collect()
}

impl Encode for Committee {
    fn encode(&self, out: &mut Vec<u8>) {
        self.chain.encode(out);
        self.epoch.encode(out);
        self.opening.after.encode(out);
        self.opening.height.encode(out);
        encode_members(&self.members, out);
        self.governance.encode(out);
        self.rules.encode(out);
        if self.rules.core >= Rules::GENERATED_KEYS {
            self.shares.as_deref().cloned().encode(out);
        }
    }
}

impl Decode for Committee {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (chain, epoch) = (Digest::decode(reader)?, Epoch::decode(reader)?);
        let opening = Opening { after: Digest::decode(reader)?, height: Height::decode(reader)? };
        let (members, governance) = (decode_members(reader)?, Governance::decode(reader)?);
        let rules = Rules::decode(reader)?;
        let shares: Option<ShareKeys> = match rules.core {
            Rules::GENERATED_KEYS.. => reader.option("whether there is a threshold key")?,
            _ => None,
        };
        Self::with_members(chain, epoch, opening, members, governance)
            .map(|committee| committee.under(rules))
            .and_then(|committee| match shares {
                Some(shares) => committee.with_shares(shares),
                None => Ok(committee),
            })
            .map_err(|_| DecodeError::Invalid { field: "members: no committee" })
    }
}

fn check_members(members: &[Option<Member>]) -> Result<(), CommitteeError> {
    if members.iter().flatten().count() == 0 || members.len() > MAX_REPLICAS {
        return Err(CommitteeError::Size(members.len()));
    }
    for (i, member) in members.iter().enumerate() {
        let Some(member) = member else { continue };
        let same = |other: &Option<Member>| other.as_ref().is_some_and(|it| it.key == member.key);
        if let Some(j) = members[..i].iter().position(same) {
            return Err(CommitteeError::SharedKey(ReplicaId(j as u16), ReplicaId(i as u16)));
        }
    }
    Ok(())
}

/// Whose turn it is, around: each as often as it weighs, and as evenly as can be (smooth weighted
/// round-robin: credit grows by the weight, the richest has its turn and pays for all).
fn turns(weights: &[usize]) -> Vec<ReplicaId> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let weights: Vec<i64> = weights.iter().map(|weight| (weight / divisor) as i64).collect();
    let total: i64 = weights.iter().sum();
    let mut credit = vec![0_i64; weights.len()];
    let mut turns = Vec::with_capacity(total as usize);
    for _ in 0..total {
        credit.iter_mut().zip(&weights).for_each(|(credit, weight)| *credit += weight);
        let richest = (0..credit.len()).filter(|id| weights[*id] > 0).max_by_key(|id| {
            // Of equals the one with the lowest id.
            (credit[*id], std::cmp::Reverse(*id))
        });
        let Some(richest) = richest else { break };
        credit[richest] -= total;
        turns.push(ReplicaId(richest as u16));
    }
    turns
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
