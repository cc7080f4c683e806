//! Changing the members of a cluster: what an administrator asks for becomes a change, members say
//! that they are ready for it, and a client submits it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner, Scheme as _, Signature, Signer as _};
use quorate_core::base::membership::{self, Governance, Rules};
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::{Program, Request, Response, ShareWord};
use quorate_core::client::{ClientError, SessionConfig};
use quorate_core::ledger::change::{Change, NextShares, Refusal, SignedChange};
use quorate_core::ledger::execution::CHANGED;
use quorate_core::{Committee, Digest, ReplicaId};
use quorate_crypto::{MembersScheme, SecretKey};
use tokio::task::JoinSet;

use super::generation::{self, Fate};
use super::succession::{Chain, Unreached, address, addresses, request_of};
use super::{Authenticity, Client, ClientConfig};
use crate::config::{Cluster, Contact, Member};

/// How long a change may take from its submission to the epoch that it begins.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked whether the epoch has begun.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One thing that is to be different.
#[derive(Clone, Debug)]
pub enum Edit {
    /// A newcomer learns.
    Add(Member),
    /// A learner counts from now on, with weight 1.
    Promote(ReplicaId),
    /// A member leaves.
    Remove(ReplicaId),
    /// A member counts this much; 0: it learns.
    Weight(ReplicaId, u16),
    /// A member has another key from now on, to sign by or to connect by, and is what it was in all
    /// else.
    Rekey(Member),
    /// These are the administrators.
    Govern(Governance),
    /// These rules are switched on.
    Rules(Rules),
}

/// Why an edit makes no sense. Nothing was submitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No such member.
    #[error("there is no member {0}: `quorate member status` names them")]
    NoMember(ReplicaId),
    /// The id is taken.
    #[error(
        "replica {0} is a member already: give the newcomer another id (`quorate member new --id`), or \
         remove that one by an earlier change"
    )]
    Taken(ReplicaId),
    /// Something of the newcomer's is a member's.
    #[error("the {what} of replica {new} is also that of replica {old}: each needs its own")]
    Shared {
        /// What.
        what: &'static str,
        /// The newcomer.
        new: ReplicaId,
        /// The member.
        old: ReplicaId,
    },
    /// The file with the next key was made elsewhere, or before other changes.
    #[error(
        "the file with the next key of replica {0} has neither key of that member: take the file \
         from its home; rotate one key after the other"
    )]
    OtherMachine(ReplicaId),
    /// It has the key already.
    #[error(
        "replica {0} has this consensus key, and this transport key: `quorate member new-key` makes \
         another one"
    )]
    SameKey(ReplicaId),
    /// It counts already.
    #[error("replica {0} counts already: `quorate member weight` changes how much")]
    Counts(ReplicaId),
}

/// The change from `current` to what the edits say.
///
/// # Errors
/// [`EditError`].
pub fn plan(current: &Committee, edits: &[Edit]) -> Result<Change, EditError> {
    let mut members = current.members().to_vec();
    let (mut governance, mut rules) = (current.governance().clone(), current.rules());
    for edit in edits {
        match edit {
            Edit::Add(new) => add(&mut members, new)?,
            Edit::Promote(id) => match member(&mut members, *id)? {
                learner if learner.is_learner() => learner.weight = 1,
                _ => return Err(EditError::Counts(*id)),
            },
            Edit::Remove(id) => {
                member(&mut members, *id)?;
                members[id.index()] = None;
            }
            Edit::Weight(id, weight) => member(&mut members, *id)?.weight = *weight,
            Edit::Rekey(next) => rekey(&mut members, next)?,
            Edit::Govern(next) => governance = next.clone(),
            Edit::Rules(next) => rules = *next,
        }
    }
    Ok(Change { ends: current.epoch(), members, governance, rules })
}

fn member(
    members: &mut [Option<membership::Member>],
    id: ReplicaId,
) -> Result<&mut membership::Member, EditError> {
    members.get_mut(id.index()).and_then(Option::as_mut).ok_or(EditError::NoMember(id))
}

fn rekey(members: &mut [Option<membership::Member>], next: &Member) -> Result<(), EditError> {
    let id = next.id;
    let shared = |what, has: &dyn Fn(&membership::Member) -> bool| {
        let others = members.iter().enumerate().filter_map(|(old, it)| Some((old, it.as_ref()?)));
        let old = others.filter(|(old, _)| *old != id.index()).find(|(_, member)| has(member));
        old.map(|(old, _)| EditError::Shared { what, new: id, old: ReplicaId(old as u16) })
    };
    let transport_of =
        |member: &membership::Member| Contact::of(member).ok().map(|it| it.transport_key);
    let holder =
        shared("consensus key", &|member| member.key == next.consensus_key).or_else(|| {
            shared("transport key", &|member| transport_of(member) == Some(next.transport_key))
        });
    let member = member(members, id)?;
    if let Some(error) = holder {
        return Err(error);
    }
    let signs = member.key == next.consensus_key;
    match Contact::of(member) {
        Ok(contact) if signs && contact.transport_key == next.transport_key => {
            return Err(EditError::SameKey(id));
        }
        Ok(contact) if signs => {
            let contact = Contact { transport_key: next.transport_key, ..contact };
            member.contact = contact.to_bytes().into();
        }
        Ok(contact) if contact.transport_key != next.transport_key => {
            return Err(EditError::OtherMachine(id));
        }
        _ => member.key = next.consensus_key.clone(),
    }
    Ok(())
}

fn add(members: &mut Vec<Option<membership::Member>>, new: &Member) -> Result<(), EditError> {
    if member(members, new.id).is_ok() {
        return Err(EditError::Taken(new.id));
    }
    for (old, member) in members.iter().enumerate() {
        let Some(member) = member else { continue };
        let (old, new_id) = (ReplicaId(old as u16), new.id);
        let shared = |what| Err(EditError::Shared { what, new: new_id, old });
        if member.key == new.consensus_key {
            return shared("consensus key");
        }
        let Ok(contact) = Contact::of(member) else { continue };
        if contact.transport_key == new.transport_key {
            return shared("transport key");
        }
        if contact.peer_address == new.peer_address {
            return shared("peer address");
        }
        if contact.client_address == new.client_address {
            return shared("client address");
        }
    }
    if members.len() <= new.id.index() {
        members.resize(new.id.index() + 1, None);
    }
    members[new.id.index()] = Some(new.in_committee(0));
    Ok(())
}

/// Adds the approval of an administrator, in place of an earlier one of the same.
pub fn approve(change: &mut SignedChange, current: &Committee, administrator: &SecretKey) {
    let key = administrator.public_key();
    change.approvals.retain(|(signer, _)| *signer != key);
    let signature = administrator.sign(&change.change.approval(&current.chain()));
    change.approvals.push((key, signature));
}

/// Asks those who are to count, or are to have another key, whether they are ready, and adds their
/// words, as far as their signatures hold. Returns who is not, and why.
pub async fn gather(change: &mut SignedChange, current: &Committee) -> Vec<(ReplicaId, String)> {
    let chain = current.chain();
    let unsigned = SignedChange { ready: Vec::new(), shares: None, ..change.clone() };
    let encoded = Bytes::from(unsigned.to_bytes());
    let mut asking = JoinSet::new();
    let mut missing = Vec::new();
    for (id, member) in change.change.members.iter().enumerate() {
        let replica = ReplicaId(id as u16);
        let is_asked = |member: &&membership::Member| {
            !member.is_learner() || change.change.alters(current, replica)
        };
        let Some(member) = member.as_ref().filter(is_asked) else { continue };
        // One that is to have another transport key proves the present one still.
        let present = current.member(replica).unwrap_or(member);
        let Some(address) = address(present) else {
            missing.push((replica, "its contact cannot be read".to_owned()));
            continue;
        };
        let request = Request::Ready { id: 1, change: encoded.clone() };
        asking.spawn(async move { (replica, request_of(replica, address, chain, &request).await) });
    }
    change.ready.clear();
    let mut words = Vec::new();
    while let Some(Ok((replica, answer))) = asking.join_next().await {
        let word = match answer {
            Ok(Response::Ready { signature, .. }) => Ok(Word { ready: signature, shares: None }),
            Ok(Response::ReadyWithShares { word, .. }) => Ok(Word::with_shares(replica, *word)),
            Ok(Response::NotReady { reason, .. }) => Err(generation::printable(&reason)),
            Ok(_) => Err("it answers something else".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match word {
            Ok(word) => words.push((replica, word)),
            Err(why) => missing.push((replica, why)),
        }
    }
    let (words, forged) = genuine(&unsigned.change, &chain, words);
    missing.extend(forged);
    missing.extend(take(change, words));
    change.ready.sort_unstable_by_key(|(id, _)| *id);
    missing.sort_unstable_by_key(|(id, _)| *id);
    missing
}

/// Members whose word is missing, and why.
type Missing = Vec<(ReplicaId, String)>;

/// A next member's word for a change.
struct Word {
    ready: Signature,
    /// The key that it came to, and its own signature by its share.
    shares: Option<Box<NextShares>>,
}

impl Word {
    fn with_shares(replica: ReplicaId, word: ShareWord) -> Self {
        let ShareWord { generation, keys, ready, possession } = word;
        // A learner has none.
        let possessions = keys.key(replica).map(|_| (replica, possession)).into_iter().collect();
        let shares = Some(Box::new(NextShares { generation, keys, possessions }));
        Self { ready, shares }
    }
}

/// The words whose signatures hold. The others are returned apart, by name: replicas would refuse
/// the whole change for the sake of one, as a fault of the client that sends it.
fn genuine(
    change: &Change,
    chain: &Digest,
    words: Vec<(ReplicaId, Word)>,
) -> (Vec<(ReplicaId, Word)>, Missing) {
    let scheme = MembersScheme::default();
    let holds = |(replica, word): &(ReplicaId, Word)| {
        let (approvals, ready) = (Vec::new(), vec![(*replica, word.ready)]);
        let alone =
            SignedChange { change: change.clone(), approvals, ready, shares: word.shares.clone() };
        let checks = alone.checks(chain);
        // A key that is none of Ed25519 has no check, and its word counts for nothing.
        let wanted = 1 + word.shares.as_ref().map_or(0, |shares| shares.possessions.len());
        checks.len() == wanted && scheme.verify(&checks).into_iter().all(|holds| holds)
    };
    let (genuine, forged): (Vec<_>, Vec<_>) = words.into_iter().partition(holds);
    let why = "its signature under the change does not hold: it lies, or has another key than the \
               change gives it";
    (genuine, forged.into_iter().map(|(id, _)| (id, why.to_owned())).collect())
}

/// Takes the words into a change: where members came to a threshold key, those of most that came to
/// the same. Returns the others.
fn take(change: &mut SignedChange, words: Vec<(ReplicaId, Word)>) -> Missing {
    let same = |one: &Word, other: &Word| match (&one.shares, &other.shares) {
        (Some(one), Some(other)) => one.generation == other.generation && one.keys == other.keys,
        (one, other) => one.is_none() && other.is_none(),
    };
    let like = |word: &Word| words.iter().filter(|(_, other)| same(word, other)).count();
    let Some((_, first)) = words.iter().max_by_key(|(_, word)| like(word)) else {
        change.shares = None;
        return Vec::new();
    };
    let (most, others): (Vec<_>, Vec<_>) = words.iter().partition(|(_, word)| same(first, word));
    change.ready = most.iter().map(|(id, word)| (*id, word.ready)).collect();
    change.shares = first.shares.clone();
    if let Some(shares) = &mut change.shares {
        let possessions = most.iter().filter_map(|(_, word)| word.shares.as_ref());
        shares.possessions = possessions.flat_map(|it| it.possessions.clone()).collect();
        shares.possessions.sort_unstable_by_key(|(id, _)| *id);
    }
    let why = "it sees the key generation otherwise";
    others.into_iter().map(|(id, _)| (*id, why.to_owned())).collect()
}

/// Why the members are the same as before, or it is not known whether they are.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The replicas would refuse it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The replicas refused it, for this reason.
    #[error("{0}")]
    RefusedThere(String),
    /// A dealing or a complaint came after its words: members are asked for words anew.
    #[error("the key generation of the change has gone on since members gave their words")]
    Stale,
    /// The client was turned down.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It was accepted, and its epoch has not begun.
    #[error(
        "the change was accepted, and epoch {0} has not begun within {seconds} s: see `quorate member status`",
        seconds = BEGINS_WITHIN.as_secs()
    )]
    NotBegun(u64),
    /// Nobody tells whether it has.
    #[error(transparent)]
    Unreached(#[from] Unreached),
}

/// Submits a change in a session of `client`, and waits until its epoch has begun. `chain` comes to
/// that epoch.
///
/// # Errors
/// [`ChangeError`].
pub async fn submit(
    change: &SignedChange,
    cluster: &Cluster,
    chain: &mut Chain,
    client: Arc<dyn ClientSigner>,
) -> Result<(), ChangeError> {
    let current = chain.committee();
    // What is refused here would be refused there, and cost an ordered command.
    change.judge(current, current.opening())?;
    tokio::select! {
        done = carried_out(change.to_command(), cluster, chain, client) => drop(done?),
        fate = generation::becomes_of_change(change, chain) => match fate {
            Fate::Refused(generation::Refusal::Stale) => return Err(ChangeError::Stale),
            Fate::Refused(refusal) => return Err(ChangeError::RefusedThere(refusal.to_string())),
            // By this change or by another one: its members tell.
            Fate::Done | Fate::EpochEnded => {}
        },
    }
    let next = change.change.ends.next();
    let begins = async {
        loop {
            chain.catch_up().await?;
            let begun = chain.committees().iter().find(|committee| committee.epoch() == next);
            match begun {
                Some(committee) if has_members(committee, &change.change) => return Ok(()),
                Some(_) => {
                    let (found, current) = (change.change.ends, chain.committee().epoch());
                    return Err(Refusal::Epoch { found, current }.into());
                }
                None => {}
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let begun = tokio::time::timeout(BEGINS_WITHIN, begins).await;
    begun.unwrap_or(Err(ChangeError::NotBegun(next.0)))
}

/// Whether the members of a committee are those of a change. Vacant ids at the end name nobody.
fn has_members(committee: &Committee, change: &Change) -> bool {
    let used = change.members.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    committee.members() == &change.members[..used]
}

/// What the members of a committee say of their programs; or why one says nothing.
pub async fn programs(committee: &Committee) -> Vec<(ReplicaId, Result<Program, String>)> {
    let chain = committee.chain();
    let mut asking = JoinSet::new();
    for (replica, address) in addresses(committee) {
        asking.spawn(async move {
            (replica, request_of(replica, address, chain, &Request::Program { id: 1 }).await)
        });
    }
    let mut said: Vec<_> =
        committee.replicas().map(|id| (id, Err("its contact cannot be read".to_owned()))).collect();
    while let Some(Ok((replica, answer))) = asking.join_next().await {
        let program = match answer {
            Ok(Response::Program { program, .. }) => Ok(program),
            Ok(_) => Err("it answers something else".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        said.iter_mut().filter(|(id, _)| *id == replica).for_each(|it| it.1 = program.clone());
    }
    said
}

/// Has a command executed that administrators signed. Returns the number that its reply carries.
pub(crate) async fn carried_out(
    command: Vec<u8>,
    cluster: &Cluster,
    chain: &Chain,
    client: Arc<dyn ClientSigner>,
) -> Result<u64, ChangeError> {
    let session = SessionConfig::new(chain.committee().chain(), cluster.members.len());
    let replicas = cluster.members.iter().map(|member| super::ReplicaAddress {
        address: member.client_address.to_string(),
        key: member.transport_key,
    });
    let config = ClientConfig {
        replicas: replicas.collect(),
        session,
        authenticity: Authenticity::Members(chain.following()),
        give_up_after: Some(BEGINS_WITHIN),
        incarnation: None,
    };
    let client = Client::start(config, client);
    let replies = client.submit(vec![command.into()]).await?;
    let reply = replies.first().map(|reply| &reply[..]).unwrap_or_default();
    match reply.split_first() {
        Some((&CHANGED, number)) if number.len() == 8 => {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(number);
            Ok(u64::from_le_bytes(bytes))
        }
        Some((_, reason)) => {
            Err(ChangeError::RefusedThere(String::from_utf8_lossy(reason).into_owned()))
        }
        None => Err(ChangeError::RefusedThere("the replicas gave no reason".to_owned())),
    }
}

/// Which members of a committee do not answer clients, and why.
pub async fn unreached(committee: &Committee) -> Vec<(ReplicaId, String)> {
    let (chain, from) = (committee.chain(), committee.epoch());
    let reached = addresses(committee);
    let mut asking = JoinSet::new();
    let is_reached = |id: &ReplicaId| reached.iter().any(|(reached, _)| reached == id);
    let unread = committee.replicas().filter(|id| !is_reached(id));
    let mut missing: Vec<_> =
        unread.map(|id| (id, "its contact cannot be read".to_owned())).collect();
    for (replica, address) in reached {
        asking.spawn(async move {
            let request = Request::Handovers { id: 1, from };
            (replica, request_of(replica, address, chain, &request).await)
        });
    }
    while let Some(Ok((replica, answer))) = asking.join_next().await {
        missing.extend(answer.err().map(|error| (replica, error.to_string())));
    }
    missing.sort_unstable_by_key(|(id, _)| *id);
    missing
}
