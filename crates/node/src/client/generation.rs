//! Having a threshold key generated: what administrators do before a change that needs one.
//!
//! Members that sign with a threshold key need a fresh one for each change of those that count. An
//! administrator asks the next members for the keys that their shares are to be encrypted to, and
//! begins a generation with them. The members do the rest by themselves; then they give their words
//! for the change ([`gather`](super::change::gather)).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner, ENCRYPTION_PROOF_BYTES, PublicKey, Signer as _};
use quorate_core::base::wire::{DecodeError, Encode, Reader, put_bytes};
use quorate_core::client::message::{Generating, MAX_CHANGE_BYTES, OfferedKey, Request, Response};
use quorate_core::ledger::approvals::Approvals;
use quorate_core::ledger::change::{Change, SignedChange};
use quorate_core::ledger::generation::{Dealer, Generation, Plan, Standing, Step};
use quorate_core::{Committee, ReplicaId};
use quorate_crypto::SecretKey;
use tokio::task::JoinSet;

use super::change::{ChangeError, carried_out};
use super::succession::{Chain, addresses, request_of};
use crate::config::Cluster;

/// For how many blocks a generation is open: minutes under load, and as long as it takes where
/// nobody else orders anything.
pub const OPEN_BLOCKS: u32 = 100_000;

/// How often members are asked how a generation stands while a change that names it is submitted.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a planned change in a file begins with that brings the beginning of a key generation.
const MAGIC: &[u8] = b"quorate change and generation 1";

/// The beginning of a key generation, with the administrators that signed it so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// What it is begun with.
    pub plan: Plan,
    /// Of its dealers, each for its encryption key.
    pub proofs: Vec<[u8; ENCRYPTION_PROOF_BYTES]>,
    /// Of administrators.
    pub approvals: Approvals,
}

impl Begin {
    fn into_step(self) -> Step {
        let Self { plan, proofs, approvals } = self;
        Step::Begin { plan, proofs, approvals }
    }
}

/// Whether a change needs a fresh threshold key: those that count are to be others, or to have
/// other keys or weights.
#[must_use]
pub fn is_needed(change: &Change, current: &Committee) -> bool {
    let voters = |members: &[Option<quorate_core::base::membership::Member>]| {
        let voters = members.iter().enumerate().filter_map(|(id, it)| Some((id, it.as_ref()?)));
        let voters = voters.filter(|(_, member)| !member.is_learner());
        let voters = voters.map(|(id, member)| (id, member.key.clone(), member.weight));
        voters.collect::<Vec<_>>()
    };
    current.shares().is_some() && voters(&change.members) != voters(current.members())
}

/// What members say of the key generation; or why one says nothing. Where a change is named, next
/// members offer an encryption key as well.
pub async fn told(
    committee: &Committee,
    change: Option<&Change>,
) -> Vec<(ReplicaId, Result<Generating, String>)> {
    let chain = committee.chain();
    let mut asking = JoinSet::new();
    let next = |id: ReplicaId| {
        let key = change?.members.get(id.index())?.as_ref()?.key.as_bytes();
        key.try_into().ok().map(PublicKey)
    };
    for (replica, address) in addresses(committee) {
        let request = Request::Generation { id: 1, key: next(replica) };
        asking.spawn(async move { (replica, request_of(replica, address, chain, &request).await) });
    }
    let mut said: Vec<_> =
        committee.replicas().map(|id| (id, Err("its contact cannot be read".to_owned()))).collect();
    while let Some(Ok((replica, answer))) = asking.join_next().await {
        let answer = match answer {
            Ok(Response::Generation { generating, .. }) => Ok(*generating),
            Ok(Response::NotReady { reason, .. }) => {
                Err(String::from_utf8_lossy(&reason).into_owned())
            }
            Ok(_) => Err("it answers something else".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        said.iter_mut().filter(|(id, _)| *id == replica).for_each(|it| it.1 = answer.clone());
    }
    said
}

/// The generation that is under way for a change, if members of which one is correct say the same,
/// and a key may still come of it.
#[must_use]
pub fn under_way(
    change: &Change,
    current: &Committee,
    said: &[(ReplicaId, Result<Generating, String>)],
) -> Option<Plan> {
    let mut named: BTreeMap<Vec<u8>, (Plan, Vec<ReplicaId>)> = BTreeMap::new();
    for (replica, told) in said {
        let Ok(Generating { height, current: Some(generation), .. }) = told else { continue };
        let is_open =
            matches!(generation.standing(height.next()), Standing::Dealing | Standing::Enough);
        let plan = generation.plan();
        if is_open && plan.ends == current.epoch() && plan.change == change.digest() {
            let entry = named.entry(plan.to_bytes());
            entry.or_insert_with(|| (plan.clone(), Vec::new())).1.push(*replica);
        }
    }
    let is_said = |(_, by): &&(Plan, Vec<ReplicaId>)| {
        current.weight_of(by.iter().copied()) >= current.honest_witness()
    };
    named.values().find(is_said).map(|(plan, _)| plan.clone())
}

/// Whether a change names a generation as it stands no more, as members of which one is correct
/// say: a dealing or a complaint came after the words of its members.
#[must_use]
pub fn is_stale(
    change: &SignedChange,
    current: &Committee,
    said: &[(ReplicaId, Result<Generating, String>)],
) -> bool {
    let Some(shares) = &change.shares else { return false };
    let stands_otherwise = |told: &Generating| {
        let generation = told.current.as_ref().filter(|_| told.epoch == current.epoch());
        generation.is_some_and(|generation| generation.digest() != shares.generation)
    };
    let otherwise = said.iter().filter(|(_, told)| told.as_ref().is_ok_and(stands_otherwise));
    current.weight_of(otherwise.map(|(id, _)| *id)) >= current.honest_witness()
}

/// Waits until a change [is stale](is_stale). Replicas do not order such a change, nor tell why:
/// each may be ahead of the change, or behind it.
pub(super) async fn moves_on(change: &SignedChange, chain: &Chain) {
    if change.shares.is_none() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if is_stale(change, chain.committee(), &told(chain.committee(), None).await) {
            return;
        }
    }
}

/// The generation as most members see it: that of the highest state in which it is.
#[must_use]
pub fn newest(
    said: &[(ReplicaId, Result<Generating, String>)],
) -> Option<(&Generating, &Generation)> {
    let told = said.iter().filter_map(|(_, told)| told.as_ref().ok());
    let newest = told.max_by_key(|told| (told.epoch, told.height))?;
    Some((newest, newest.current.as_ref()?))
}

/// A generation for a change, with the encryption keys that its next members told; not signed by
/// anybody.
///
/// # Errors
/// The members without a key, and why.
pub fn plan(
    change: &Change,
    said: &[(ReplicaId, Result<Generating, String>)],
) -> Result<Begin, Vec<(ReplicaId, String)>> {
    let (mut dealers, mut proofs, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let of_epoch = said.iter().filter_map(|(_, told)| told.as_ref().ok());
    let of_epoch = of_epoch.filter(|told| told.epoch == change.ends);
    let serial = of_epoch.map(|told| told.next_serial).max().unwrap_or(1);
    for (id, member) in change.members.iter().enumerate() {
        let Some(member) = member.as_ref().filter(|member| !member.is_learner()) else { continue };
        let id = ReplicaId(id as u16);
        let told = said.iter().find(|(replica, _)| *replica == id).map(|(_, told)| told);
        let found = match told {
            None => Err("it is no member yet: add it as a learner first".to_owned()),
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(told)) if told.epoch != change.ends || told.next_serial != serial => {
                Err("it has not caught up".to_owned())
            }
            Some(Ok(told)) => {
                told.encryption.ok_or_else(|| String::from_utf8_lossy(&told.waits_for).into_owned())
            }
        };
        let key: Result<[u8; 32], _> = member.key.as_bytes().try_into();
        match (found, key) {
            (Ok(OfferedKey { key: encryption, proof }), Ok(key)) => {
                dealers.push(Dealer { id, key: PublicKey(key), encryption });
                proofs.push(proof);
            }
            (Err(why), _) => missing.push((id, why)),
            (_, Err(_)) => missing.push((id, "its key is none of Ed25519".to_owned())),
        }
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    let (ends, change) = (change.ends, change.digest());
    let plan = Plan { ends, serial, change, open_blocks: OPEN_BLOCKS, dealers };
    Ok(Begin { plan, proofs, approvals: Vec::new() })
}

/// Adds the approval of an administrator, in place of an earlier one of the same.
pub fn approve(begin: &mut Begin, current: &Committee, administrator: &SecretKey) {
    let key = administrator.public_key();
    begin.approvals.retain(|(signer, _)| *signer != key);
    let signature = administrator.sign(&begin.plan.approval(&current.chain()));
    begin.approvals.push((key, signature));
}

/// Begins a generation, in a session of `client`.
///
/// # Errors
/// [`ChangeError`].
pub async fn begin(
    begin: &Begin,
    cluster: &Cluster,
    chain: &Chain,
    client: Arc<dyn ClientSigner>,
) -> Result<(), ChangeError> {
    carried_out(begin.clone().into_step().to_command(), cluster, chain, client).await.map(drop)
}

/// A change as administrators hand it on in a file, with the generation that it needs.
#[must_use]
pub fn to_file(change: &SignedChange, begin: Option<&Begin>) -> Vec<u8> {
    let Some(begin) = begin.cloned() else { return change.to_command() };
    let mut bytes = MAGIC.to_vec();
    put_bytes(&mut bytes, &change.to_command());
    put_bytes(&mut bytes, &begin.into_step().to_command());
    bytes
}

/// Whether bytes are what [`to_file`] makes, by their beginning.
#[must_use]
pub fn is_file(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || SignedChange::is_one(bytes)
}

/// What [`to_file`] made bytes of.
///
/// # Errors
/// [`DecodeError`].
pub fn of_file(bytes: &[u8]) -> Result<(SignedChange, Option<Begin>), DecodeError> {
    let Some(encoded) = bytes.strip_prefix(MAGIC) else {
        return Ok((SignedChange::of_command(bytes)?, None));
    };
    let mut reader = Reader::new(Bytes::copy_from_slice(encoded));
    let change = reader.byte_string("change", MAX_CHANGE_BYTES)?;
    let step = reader.byte_string("beginning of a key generation", MAX_CHANGE_BYTES)?;
    reader.finish()?;
    let change = SignedChange::of_command(&change)?;
    match Step::of_command(&step)? {
        Step::Begin { plan, proofs, approvals } if plan.change == change.change.digest() => {
            Ok((change, Some(Begin { plan, proofs, approvals })))
        }
        _ => Err(DecodeError::Invalid { field: "beginning of a key generation for this change" }),
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::base::crypto::{ShareKeys, Signature};
    use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey, Rules};
    use quorate_core::ledger::change::NextShares;
    use quorate_core::ledger::generation::Generations;
    use quorate_core::{Digest, Epoch, Height};
    use quorate_crypto::bls::threshold;

    use super::*;

    fn key(number: u8) -> PublicKey {
        SecretKey::from_seed(&[number; 32]).public_key()
    }

    fn committee() -> Committee {
        let members = (0..4).map(|id| Some(Member::new(ReplicaKey::from(key(id).0)))).collect();
        let governance = Governance { administrators: vec![key(100)], approvals: 1 };
        let opening = Opening { after: Digest([1; 32]), height: Height(0) };
        let own = Committee::with_members(opening.after, Epoch(0), opening, members, governance);
        let dealt = threshold::deal(4, 3).unwrap();
        let keys = dealt.shares.iter().map(|share| share.public_key());
        let keys = (0..4).map(ReplicaId).zip(keys).collect();
        let rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
        own.unwrap().under(rules).with_shares(ShareKeys::new(3, keys).unwrap()).unwrap()
    }

    /// A change that names this generation.
    fn change(committee: &Committee, generation: Digest) -> SignedChange {
        let (members, rules) = (committee.members().to_vec(), committee.rules());
        let governance = committee.governance().clone();
        let change = Change { ends: Epoch(0), members, governance, rules };
        let keys = (**committee.shares().unwrap()).clone();
        let shares = NextShares { generation, keys, possessions: Vec::new() };
        let (approvals, ready) = (Vec::new(), Vec::new());
        SignedChange { change, approvals, ready, shares: Some(Box::new(shares)) }
    }

    fn step(committee: &Committee, before: &Generations, step: &Step) -> Generations {
        before.after(step, committee, Height(1)).unwrap().0
    }

    /// Replicas do not order a change that names an earlier standing, and a client that went on
    /// with it would wait in vain.
    #[test]
    fn a_change_is_stale_once_a_correct_member_says_that_the_generation_has_gone_on() {
        let committee = committee();
        let change_of = change(&committee, Digest::default()).change.digest();
        let dealers = (0..4).map(|id: u8| {
            let encryption = [id + 1; 32];
            Dealer { id: ReplicaId(id.into()), key: key(id), encryption }
        });
        let dealers = dealers.collect();
        let plan = Plan { ends: Epoch(0), serial: 1, change: change_of, open_blocks: 100, dealers };
        let approvals = vec![(key(100), Signature::NONE)];
        let begins = Step::Begin { plan: plan.clone(), proofs: vec![[0; 64]; 4], approvals };
        let begun = step(&committee, &Generations::default(), &begins);
        let (dealing, signature) = (Bytes::from_static(b"dealt"), Signature::NONE);
        let deals = Step::Deal { plan, dealer: ReplicaId(0), dealing, signature };
        let dealt = step(&committee, &begun, &deals);
        let told = |epoch: u64, generations: &Generations| Generating {
            epoch: Epoch(epoch),
            height: Height(2),
            next_serial: 2,
            current: generations.current().cloned(),
            encryption: None,
            waits_for: Bytes::new(),
        };
        let said = |of: [&Generations; 4], epoch| -> Vec<_> {
            of.iter().zip(0..).map(|(it, id)| (ReplicaId(id), Ok(told(epoch, it)))).collect()
        };
        let stale = |change: &SignedChange, said: &[_]| is_stale(change, &committee, said);
        let early = change(&committee, begun.current().unwrap().digest());
        assert!(!stale(&early, &said([&begun; 4], 0)));
        assert!(!stale(&early, &said([&dealt, &begun, &begun, &begun], 0)), "one may lie");
        assert!(stale(&early, &said([&dealt, &dealt, &begun, &begun], 0)));
        let late = change(&committee, dealt.current().unwrap().digest());
        assert!(!stale(&late, &said([&dealt; 4], 0)));
        // Its epoch has ended: it was made, or another one.
        assert!(!stale(&early, &said([&dealt; 4], 1)));
        let mut silent = said([&dealt; 4], 0);
        silent.iter_mut().skip(1).for_each(|it| it.1 = Err("no answer".to_owned()));
        assert!(!stale(&early, &silent));
        let plain = SignedChange { shares: None, ..early };
        assert!(!stale(&plain, &said([&dealt; 4], 0)), "it names no generation");
    }
}
