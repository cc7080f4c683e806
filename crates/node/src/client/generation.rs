//! Having a threshold key generated: what administrators do before a change that needs one.
//!
//! Members that sign with a threshold key need a fresh one for each change of those that count. An
//! administrator asks the next members for the keys that their shares are to be encrypted to, and
//! begins a generation with them. The members do the rest by themselves; then they give their words
//! for the change ([`gather`](super::change::gather)).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::{
    Check, ClientSigner, ENCRYPTION_PROOF_BYTES, PublicKey, Scheme as _, Signer as _,
};
use quorate_core::base::wire::{DecodeError, Encode, Reader, put_bytes};
use quorate_core::client::message::{Generating, MAX_CHANGE_BYTES, OfferedKey, Request, Response};
use quorate_core::ledger::approvals::Approvals;
use quorate_core::ledger::change::{self, Change, SignedChange};
use quorate_core::ledger::generation::{Dealer, Generation, Plan, Standing, Step};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};
use quorate_crypto::{MembersScheme, SecretKey};
use tokio::task::JoinSet;

pub use quorate_core::ledger::generation::Refusal;

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

/// What a member says of the key generation; or why it says nothing.
pub type Word = (ReplicaId, Result<Generating, String>);

/// How the key generations of an epoch stand, as members say of which one is correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witnessed {
    /// A correct member has executed this height.
    pub height: Height,
    /// The serial of the next generation.
    pub next_serial: u64,
    /// The latest generation.
    pub current: Option<Generation>,
}

/// How the key generations of the epoch of `current` stand. Members at work differ for a moment,
/// and a liar says anything: what counts is the same word of members that weigh f + 1, and of such
/// words the latest. `None`: they do not agree.
#[must_use]
pub fn witnessed(current: &Committee, said: &[Word]) -> Option<Witnessed> {
    let of_epoch = || words_of(current, said);
    let mut named: BTreeMap<Vec<u8>, (&Generating, usize)> = BTreeMap::new();
    for (id, told) in of_epoch() {
        let mut same = told.next_serial.to_bytes();
        told.current.encode(&mut same);
        named.entry(same).or_insert((told, 0)).1 += current.weight(id);
    }
    // All that a generation has of this kind only grows.
    let age = |told: &Generating| {
        let of = |it: &Generation| it.dealt().len() + it.disqualified().len();
        (told.next_serial, told.current.as_ref().map_or(0, of))
    };
    let agreed = named.values().filter(|(_, weight)| *weight >= current.honest_witness());
    let (latest, _) = agreed.max_by_key(|(told, _)| age(told))?;
    let heights = of_epoch().map(|(id, told)| (told.height, current.weight(id)));
    Some(Witnessed {
        height: reached(heights.collect(), current.honest_witness()).unwrap_or_default(),
        next_serial: latest.next_serial,
        current: latest.current.clone(),
    })
}

/// What members of a committee say that are in its epoch.
fn words_of<'a>(
    current: &'a Committee,
    said: &'a [Word],
) -> impl Iterator<Item = (ReplicaId, &'a Generating)> {
    let told = said.iter().filter_map(|(id, told)| Some((*id, told.as_ref().ok()?)));
    told.filter(|(_, told)| told.epoch == current.epoch())
}

/// The greatest height that members of so much weight have reached by their words.
fn reached(mut heights: Vec<(Height, usize)>, needed: usize) -> Option<Height> {
    heights.sort_unstable_by(|one, next| next.cmp(one));
    let mut weight = 0;
    let reaches = heights.iter().find(|(_, more)| {
        weight += more;
        weight >= needed
    });
    reaches.map(|(height, _)| *height)
}

/// The serial of the next generation: the highest one of which members say the same that weigh
/// f + 1.
fn serial_of(current: &Committee, said: &[Word]) -> Option<u64> {
    let mut named: BTreeMap<u64, usize> = BTreeMap::new();
    for (id, told) in words_of(current, said) {
        *named.entry(told.next_serial).or_default() += current.weight(id);
    }
    let agreed = named.into_iter().filter(|(_, weight)| *weight >= current.honest_witness());
    agreed.map(|(serial, _)| serial).max()
}

/// Whether a change needs a fresh threshold key: those that count are to be others, or to have
/// other keys or weights.
#[must_use]
pub fn is_needed(change: &Change, current: &Committee) -> bool {
    current.shares().is_some() && !change::have_the_voters_of(&change.members, current)
}

/// What members say of the key generation; or why one says nothing. Where a change is named, next
/// members offer an encryption key as well.
pub async fn told(committee: &Committee, change: Option<&Change>) -> Vec<Word> {
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
            Ok(Response::NotReady { reason, .. }) => Err(printable(&reason)),
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
pub fn under_way(change: &Change, current: &Committee, said: &[Word]) -> Option<Plan> {
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
    let agreed = named.values().filter(is_said).map(|(plan, _)| plan);
    agreed.max_by_key(|plan| plan.serial).cloned()
}

/// What became of a change or of the beginning of a generation while it was submitted, as members
/// say of which one is correct. Replicas do not order what could not be carried out, nor tell why:
/// each may be ahead of it, or behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was carried out.
    Done,
    /// It is refused from now on.
    Refused(Refusal),
    /// Its epoch has ended.
    EpochEnded,
}

/// The serial of the generation with this digest, if anybody names one: the digest proves it.
fn serial_with(generation: &Digest, said: &[Word]) -> Option<u64> {
    let told = said.iter().filter_map(|(_, told)| told.as_ref().ok()?.current.as_ref());
    let named = told.filter(|it| it.digest() == *generation).map(|it| it.plan().serial);
    named.max()
}

/// What became of a change that brings shares of the generation with this serial, if it is known;
/// `None`: nothing yet.
///
/// Members that are behind tell of earlier generations. Where a change was carried out, its
/// generation is over, and none is under way. So neither says that a change is refused.
fn fate_of_change(
    change: &SignedChange,
    serial: Option<u64>,
    current: &Committee,
    said: &[Word],
) -> Option<Fate> {
    let shares = change.shares.as_ref()?;
    let planned = change.change.digest();
    fate(current, said, |told| {
        let generation = told.current.as_ref()?;
        let (plan, open_to) = (generation.plan(), generation.open_to());
        let (qualified, needed) = (generation.qualified().count(), plan.quorum());
        let has_gone_on = generation.digest() != shares.generation;
        let Some(serial) = serial else {
            return (plan.change == planned).then_some(Fate::Refused(Refusal::Stale));
        };
        Some(Fate::Refused(match plan.serial.cmp(&serial) {
            Ordering::Less => return None,
            Ordering::Greater if plan.change != planned => Refusal::OtherChange,
            _ if told.height.next() > open_to => Refusal::Expired(open_to),
            _ if has_gone_on => Refusal::Stale,
            _ if qualified < needed => Refusal::TooFew { qualified, needed },
            _ => return None,
        }))
    })
}

/// What became of the beginning of a generation; `None`: nothing yet.
fn fate_of_begin(begin: &Begin, current: &Committee, said: &[Word]) -> Option<Fate> {
    let found = begin.plan.serial;
    fate(current, said, |told| match &told.current {
        Some(generation) if *generation.plan() == begin.plan => Some(Fate::Done),
        _ if told.next_serial <= found => None,
        _ => Some(Fate::Refused(Refusal::Serial { found, next: told.next_serial })),
    })
}

/// What members that weigh f + 1 say of something.
fn fate(
    current: &Committee,
    said: &[Word],
    judge: impl Fn(&Generating) -> Option<Fate>,
) -> Option<Fate> {
    let told = said.iter().filter_map(|(id, told)| Some((*id, told.as_ref().ok()?)));
    let fates = told.filter_map(|(id, told)| {
        let fate = match told.epoch.cmp(&current.epoch()) {
            Ordering::Less => None,
            Ordering::Equal => judge(told),
            Ordering::Greater => Some(Fate::EpochEnded),
        };
        Some((fate?, current.weight(id)))
    });
    let fates: Vec<(Fate, usize)> = fates.collect();
    let is_said = |(fate, _): &&(Fate, usize)| {
        let same = fates.iter().filter(|(other, _)| other == fate);
        same.map(|(_, weight)| weight).sum::<usize>() >= current.honest_witness()
    };
    fates.iter().find(is_said).map(|(fate, _)| fate.clone())
}

/// Waits until something became of a change, by the words of members.
pub(super) async fn becomes_of_change(change: &SignedChange, chain: &Chain) -> Fate {
    let Some(shares) = &change.shares else { return std::future::pending().await };
    let mut serial = None;
    becomes(chain, |current, said| {
        serial = serial.or_else(|| serial_with(&shares.generation, said));
        fate_of_change(change, serial, current, said)
    })
    .await
}

async fn becomes(chain: &Chain, mut look: impl FnMut(&Committee, &[Word]) -> Option<Fate>) -> Fate {
    loop {
        if let Some(fate) = look(chain.committee(), &told(chain.committee(), None).await) {
            return fate;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A generation for a change, with the encryption keys that its next members told; not signed by
/// anybody. Nothing in it rests on the word of one member: its serial is the one that members of
/// weight f + 1 say, and each key is proved.
///
/// # Errors
/// The members without a key, and why. Whoever lies is among them, and nobody else for its sake.
pub fn plan(
    change: &Change,
    current: &Committee,
    said: &[Word],
) -> Result<Begin, Vec<(ReplicaId, String)>> {
    let Some(serial) = serial_of(current, said) else { return Err(without_serial(said)) };
    let (mut dealers, mut proofs, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (id, member) in change.members.iter().enumerate() {
        let Some(member) = member.as_ref().filter(|member| !member.is_learner()) else { continue };
        let id = ReplicaId(id as u16);
        let key: Result<[u8; 32], _> = member.key.as_bytes().try_into();
        match (offer_of(id, said, (change.ends, serial)), key) {
            (Ok(OfferedKey { key: encryption, proof }), Ok(key)) => {
                dealers.push(Dealer { id, key: PublicKey(key), encryption });
                proofs.push(proof);
            }
            (Err(why), _) => missing.push((id, why)),
            (_, Err(_)) => missing.push((id, "its key is none of Ed25519".to_owned())),
        }
    }
    let (ends, digest) = (change.ends, change.digest());
    let plan = Plan { ends, serial, change: digest, open_blocks: OPEN_BLOCKS, dealers };
    let begin = Begin { plan, proofs, approvals: Vec::new() };
    missing.extend(unproved(&begin, current));
    if missing.is_empty() {
        let former = witnessed(current, said).and_then(|it| it.current);
        missing = used_again(&begin.plan, former.as_ref().map(Generation::plan));
    }
    missing.sort_by_key(|(id, _)| *id);
    if missing.is_empty() { Ok(begin) } else { Err(missing) }
}

/// Why there is no plan: members do not agree which generation is the next one.
fn without_serial(said: &[Word]) -> Vec<(ReplicaId, String)> {
    let why = |told: &Result<Generating, String>| match told {
        Err(why) => why.clone(),
        Ok(told) => format!(
            "it says that the next key generation is {} of epoch {}, and too few members say the same",
            told.next_serial, told.epoch
        ),
    };
    said.iter().map(|(id, told)| (*id, why(told))).collect()
}

/// The encryption key that a member offers for the generation of this epoch and serial.
fn offer_of(id: ReplicaId, said: &[Word], place: (Epoch, u64)) -> Result<OfferedKey, String> {
    let told = said.iter().find(|(replica, _)| *replica == id).map(|(_, told)| told);
    let told = told.ok_or("it is no member yet: add it as a learner first")?.as_ref()?;
    match (told.epoch, told.next_serial).cmp(&place) {
        Ordering::Less => Err("it has not caught up".to_owned()),
        Ordering::Greater => Err(format!(
            "it says that the next key generation is {} of epoch {}, and the others say {} of epoch {}",
            told.next_serial, told.epoch, place.1, place.0
        )),
        Ordering::Equal => told.encryption.ok_or_else(|| printable(&told.waits_for)),
    }
}

/// The dealers of a plan that did not prove that they have the secret half of their encryption
/// keys. A proof for another member or another generation is none.
#[must_use]
pub fn unproved(begin: &Begin, current: &Committee) -> Vec<(ReplicaId, String)> {
    let Begin { plan, proofs, .. } = begin;
    let check = |(dealer, proof): (&Dealer, &[u8; ENCRYPTION_PROOF_BYTES])| {
        let context = dealer.possession(&current.chain(), plan.ends, plan.serial);
        Check::EncryptionKey { context, key: dealer.encryption, proof: *proof }
    };
    let checks: Vec<Check> = plan.dealers.iter().zip(proofs).map(check).collect();
    let verdicts = MembersScheme::default().verify(&checks);
    let proved = plan.dealers.iter().zip(verdicts.into_iter().chain(std::iter::repeat(false)));
    let failed = proved.filter(|(_, holds)| !holds).map(|(dealer, _)| dealer.id);
    let why = "it does not prove that the encryption key which it offers is its own: it lies, or is broken";
    failed.map(|id| (id, why.to_owned())).collect()
}

/// The dealers whose encryption keys, which they proved, were used in the plan before, or are those
/// of another dealer as well.
fn used_again(plan: &Plan, former: Option<&Plan>) -> Vec<(ReplicaId, String)> {
    let former = former.into_iter().flat_map(|former| &former.dealers);
    let used: Vec<_> = former.map(|dealer| dealer.encryption).collect();
    let again = plan.dealers.iter().filter(|dealer| {
        let same = |other: &&Dealer| other.encryption == dealer.encryption;
        used.contains(&dealer.encryption) || plan.dealers.iter().filter(same).count() > 1
    });
    let why =
        "it offers an encryption key that was used before: it lies, or its files were put back";
    again.map(|dealer| (dealer.id, why.to_owned())).collect()
}

/// What a member says, without what would control a terminal: programs write in ASCII.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|it| matches!(it, ' '..='~')).collect()
}

/// Adds the approval of an administrator, in place of an earlier one of the same.
pub fn approve(begin: &mut Begin, current: &Committee, administrator: &SecretKey) {
    let key = administrator.public_key();
    begin.approvals.retain(|(signer, _)| *signer != key);
    let signature = administrator.sign(&begin.plan.approval(&current.chain()));
    begin.approvals.push((key, signature));
}

/// Begins a generation, in a session of `client`, or hears from members that it has begun.
///
/// # Errors
/// [`ChangeError`]: also if members say that another one was begun before it.
pub async fn begin(
    begin: &Begin,
    cluster: &Cluster,
    chain: &Chain,
    client: Arc<dyn ClientSigner>,
) -> Result<(), ChangeError> {
    let step = begin.clone().into_step().to_command();
    let becomes = becomes(chain, |current, said| fate_of_begin(begin, current, said));
    let fate = tokio::select! {
        done = carried_out(step, cluster, chain, client) => return done.map(drop),
        fate = becomes => fate,
    };
    let (found, current) = (begin.plan.ends, begin.plan.ends.next());
    let refusal = match fate {
        Fate::Done => return Ok(()),
        Fate::Refused(refusal) => refusal,
        Fate::EpochEnded => Refusal::Epoch { found, current },
    };
    Err(ChangeError::RefusedThere(refusal.to_string()))
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
mod tests;
