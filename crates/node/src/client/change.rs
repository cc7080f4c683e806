//! Changing the members of a cluster: what an administrator asks for becomes a change, members say
//! that they are ready for it, and a client submits it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner, Signer as _};
use quorate_core::base::membership::{self, Governance, Rules};
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::{Program, Request, Response, ShareWord};
use quorate_core::client::{ClientError, SessionConfig};
use quorate_core::ledger::change::{Change, NextShares, Refusal, SignedChange};
use quorate_core::ledger::execution::CHANGED;
use quorate_core::{Committee, ReplicaId};
use quorate_crypto::SecretKey;
use tokio::task::JoinSet;

use super::succession::{Chain, Unreached, address, addresses, request_of};
use super::{Authenticity, Client, ClientConfig, generation};
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
/// words. Returns who is not, and why.
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
    let mut shared = Vec::new();
    while let Some(Ok((replica, answer))) = asking.join_next().await {
        match answer {
            Ok(Response::Ready { signature, .. }) => change.ready.push((replica, signature)),
            Ok(Response::ReadyWithShares { word, .. }) => shared.push((replica, *word)),
            Ok(Response::NotReady { reason, .. }) => {
                missing.push((replica, String::from_utf8_lossy(&reason).into_owned()));
            }
            Ok(_) => missing.push((replica, "it answers something else".to_owned())),
            Err(error) => missing.push((replica, error.to_string())),
        }
    }
    missing.extend(take_shared(change, shared));
    change.ready.sort_unstable_by_key(|(id, _)| *id);
    missing.sort_unstable_by_key(|(id, _)| *id);
    missing
}

/// Takes the words of members that came to a threshold key: those of most that came to the same.
/// Returns the others.
fn take_shared(
    change: &mut SignedChange,
    mut words: Vec<(ReplicaId, ShareWord)>,
) -> Vec<(ReplicaId, String)> {
    words.sort_by_key(|(id, word)| (word.generation, word.keys.digest(), *id));
    let same = |one: &(_, ShareWord), next: &(_, ShareWord)| {
        one.1.generation == next.1.generation && one.1.keys == next.1.keys
    };
    let most = words.chunk_by(same).max_by_key(|same| same.len()).unwrap_or_default();
    let Some((_, first)) = most.first() else {
        change.shares = None;
        return Vec::new();
    };
    let (generation, keys) = (first.generation, first.keys.clone());
    // Words without shares are for another change.
    let plain = std::mem::take(&mut change.ready).into_iter().map(|(id, _)| id);
    let others =
        words.iter().filter(|(_, word)| word.generation != generation || word.keys != keys);
    let others = others.map(|(id, _)| *id).chain(plain);
    let others = others.map(|id| (id, "it sees the key generation otherwise".to_owned())).collect();
    change.ready = most.iter().map(|(id, word)| (*id, word.ready)).collect();
    let dealt = most.iter().filter(|(id, _)| keys.key(*id).is_some());
    let mut possessions: Vec<_> = dealt.map(|(id, word)| (*id, word.possession)).collect();
    possessions.sort_unstable_by_key(|(id, _)| *id);
    change.shares = Some(Box::new(NextShares { generation, keys, possessions }));
    others
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
        () = generation::moves_on(change, chain) => return Err(ChangeError::Stale),
    }
    let next = change.change.ends.next();
    let begins = async {
        loop {
            chain.catch_up().await?;
            if chain.committee().epoch() >= next {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let begun = tokio::time::timeout(BEGINS_WITHIN, begins).await;
    begun.unwrap_or(Err(ChangeError::NotBegun(next.0)))
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
