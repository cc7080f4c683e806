//! What a member does while a threshold key is generated: it deals, looks at what others dealt, and
//! comes to its share.
//!
//! All of it follows from the executed state and from the key that the member made for this
//! generation ([`shares`](crate::replica::shares)). So a member that was killed at any instant does
//! the rest when it runs again: it makes the same dealing, the same complaints and the same share.
//!
//! | what the state says | what the member does |
//! |---|---|
//! | it is a dealer, and has not dealt | it has its dealing ordered |
//! | others have dealt | it takes the dealings from blocks that it executes, or asks members |
//! | a share for it does not fit | it has a complaint ordered, which disqualifies the dealer |
//! | enough dealers qualify | it writes its share, and is ready for the change |
//!
//! Steps are ordered like commands of any client: in a session of the member's own key.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::{PublicKey, ShareKeys, Signer as _};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::client::message::{Request, Response};
use quorate_core::ledger::generation::{Generation, Plan, Standing, Step};
use quorate_core::{Committee, Digest, Epoch, ReplicaId};
use quorate_crypto::ConsensusKey;
use quorate_crypto::bls::threshold::generation::{
    self as arithmetic, Complaint, DecryptionKey, Outcome, Round,
};

use crate::client::change::carried_out;
use crate::client::succession::{Following, addresses, request_of};
use crate::config::Cluster;
use crate::replica::epochs::Epochs;
use crate::replica::generating::{Board, Prepared, Seen};
use crate::replica::keyring::{Keyring, SHARE_REMEDY, Tended};

/// How long after a step that could not be done it is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked whether a generation's blocks are over.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// What was dealt is looked at when nothing came for so long: each look costs arithmetic.
const COMES_TO_REST: Duration = Duration::from_millis(50);

/// A member's part in key generations.
pub(crate) struct Part {
    pub cluster: Arc<Cluster>,
    pub following: Following,
    pub epochs: Arc<Epochs>,
    pub board: Arc<Board>,
}

/// What a member waits for.
#[derive(Debug)]
struct Wait {
    what: String,
    next: Next,
}

/// When a member looks again, if nothing changes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// When the generation's blocks are over.
    Rest,
    /// Soon: something is to be tried again, though the state stays as it is.
    Again,
    /// Never: no key comes of this generation.
    Over,
}

impl Wait {
    fn for_others(what: impl Into<String>) -> Self {
        Self { what: what.into(), next: Next::Rest }
    }

    fn to_try_again(what: impl Into<String>) -> Self {
        Self { what: what.into(), next: Next::Again }
    }

    fn in_vain(what: impl Into<String>) -> Self {
        Self { what: what.into(), next: Next::Over }
    }
}

/// The place of a dealer, and its key.
type Own = Option<(usize, Arc<DecryptionKey>)>;

/// Takes part for as long as the replica runs, and sees to the files of its shares.
pub(crate) async fn run(part: Part) {
    let keyring = Arc::clone(part.board.keyring());
    tokio::join!(takes_part(part), tends(keyring));
}

/// Tries again and again what could not be done with files: a share that could not be read is used
/// as soon as it can, and nothing former stays for longer than it must. It says so once.
async fn tends(keyring: Arc<Keyring>) {
    let (mut lacks, mut keeps) = (String::new(), String::new());
    loop {
        let ring = Arc::clone(&keyring);
        let tended = tokio::task::spawn_blocking(move || ring.tend()).await;
        let Tended { share, erased } = tended.unwrap_or_default();
        match share {
            Some(Ok(())) => {
                tracing::info!("its share of the threshold key is in use from now on");
                lacks.clear();
            }
            Some(Err(error)) if lacks != error.to_string() => {
                lacks = error.to_string();
                tracing::error!("this replica has no share in use: {lacks}. {SHARE_REMEDY}");
            }
            _ => {}
        }
        match erased {
            Some(Ok(())) => {
                tracing::info!("the shares of former epochs are erased");
                keeps.clear();
            }
            Some(Err(error)) if keeps != error.to_string() => {
                keeps = error.to_string();
                tracing::warn!(
                    "shares of former epochs could not be erased: {keeps}; see to the folder of the keys: \
                     it is tried again each second"
                );
            }
            _ => {}
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn takes_part(part: Part) {
    loop {
        let next = part.look().await;
        let tries_again = async {
            match next {
                Next::Again => tokio::time::sleep(AGAIN_AFTER).await,
                Next::Rest => part.runs_out().await,
                Next::Over => std::future::pending().await,
            }
        };
        tokio::select! {
            () = part.board.changed() => tokio::time::sleep(COMES_TO_REST).await,
            () = tries_again => {}
        }
    }
}

impl Part {
    /// Waits until the blocks of the generation under way are over.
    async fn runs_out(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let seen = self.board.seen();
            let generation = seen.as_ref().and_then(|seen| seen.generations.current());
            let next = self.board.height().next();
            if generation.is_some_and(|it| it.standing(next) == Standing::Expired) {
                return;
            }
        }
    }

    /// Does what is to be done. Returns when to look again.
    async fn look(&self) -> Next {
        let Some(Seen { committee, generations, .. }) = self.board.seen() else {
            return Next::Over;
        };
        let Some(generation) = generations.current() else { return Next::Over };
        let taken = self.take_part(&committee, generation).await;
        let serial = generation.plan().serial;
        match taken {
            Ok(prepared) => {
                self.board.prepare(prepared);
                tracing::info!("key generation {serial}: its share is on disk");
                Next::Rest
            }
            Err(Wait { what, next }) => {
                tracing::info!("key generation {serial}: {what}");
                self.board.wait_for(what);
                next
            }
        }
    }

    async fn take_part(
        &self,
        committee: &Committee,
        generation: &Generation,
    ) -> Result<Prepared, Wait> {
        let (plan, chain) = (generation.plan(), committee.chain());
        match generation.standing(self.board.height().next()) {
            Standing::Expired => {
                let height = generation.open_to();
                self.wipe_before(plan.ends, plan.serial.saturating_add(1));
                return Err(Wait::in_vain(format!(
                    "it was open up to height {height}, and is over: begin another one"
                )));
            }
            Standing::Cheated => {
                self.wipe_before(plan.ends, plan.serial.saturating_add(1));
                let what = "so many dealers cheated that no key comes of it: begin another one";
                return Err(Wait::in_vain(what));
            }
            Standing::Dealing | Standing::Enough => {}
        }
        let round = round_of(plan, &chain)?;
        let own = self.own(plan)?;
        if let Some((place, key)) = &own {
            self.deal(generation, &chain, &round, (*place, key)).await?;
        }
        self.fetch(committee, generation).await?;
        let (qualified, needed) = (generation.qualified().count(), plan.quorum());
        if qualified < needed {
            let missing = listed(missing(generation));
            return Err(Wait::for_others(format!(
                "{qualified} dealers qualify, and {needed} must; it waits for what {missing} deal"
            )));
        }
        let dealings = generation
            .qualified()
            .filter_map(|id| Some((plan.place(id)?, self.board.dealing(id)?)));
        let (dealings, with) = (dealings.collect::<Vec<_>>(), own.clone());
        let derived = blocking(move || derive(round, with, &dealings)).await??;
        let Derived { complaints, outcome, share } = derived;
        if !complaints.is_empty() {
            return Err(self.complain(plan, &complaints).await);
        }
        let keys = plan.dealers.iter().map(|dealer| dealer.id).zip(outcome.members).collect();
        let keys = ShareKeys::new(plan.quorum(), keys)
            .ok_or_else(|| Wait::for_others("its dealers make no key: begin another one"))?;
        if let Some(share) = share {
            let kept = self.board.keyring().shares().keep_share(plan.ends.next(), &share);
            kept.map_err(|error| Wait::to_try_again(format!("its share is not kept: {error}")))?;
        }
        Ok(Prepared { generation: generation.digest(), keys })
    }

    /// Its place and its key, if it is a dealer. Keys of earlier generations are erased.
    fn own(&self, plan: &Plan) -> Result<Own, Wait> {
        let files = self.board.keyring().shares();
        self.wipe_before(plan.ends, plan.serial);
        let Some(place) = plan.place(self.board.me()) else { return Ok(None) };
        let public = &plan.dealers[place].encryption;
        let key = files.decryption(plan.ends, plan.serial, public);
        let key = key.map_err(|it| Wait::to_try_again(format!("its key cannot be read: {it}")))?;
        let key = key.ok_or_else(|| {
            Wait::for_others(
                "it was begun with an encryption key that this replica does not have: begin another \
                 one",
            )
        })?;
        Ok(Some((place, Arc::new(key))))
    }

    /// Erases the keys of generations that are over.
    fn wipe_before(&self, epoch: Epoch, serial: u64) {
        let wiped = self.board.keyring().shares().wipe_generations_before(epoch, serial);
        if let Err(error) = wiped {
            tracing::warn!(
                "the key of an earlier key generation could not be erased: {error}; see to the folder \
                 of the keys"
            );
        }
    }

    /// Has its dealing ordered, if it was not.
    async fn deal(
        &self,
        generation: &Generation,
        chain: &Digest,
        round: &Round,
        (place, key): (usize, &Arc<DecryptionKey>),
    ) -> Result<(), Wait> {
        let (plan, me) = (generation.plan(), self.board.me());
        let has_dealt = generation.dealt().contains_key(&me);
        if has_dealt && self.board.dealing(me).is_some() {
            return Ok(());
        }
        let (round, key) = (round.clone(), Arc::clone(key));
        let dealing = blocking(move || round.deal(place, key.seed())).await?;
        let dealing = Bytes::from(dealing.unwrap_or_default());
        if has_dealt {
            self.board.keep_dealing(me, dealing);
            return Ok(());
        }
        let signer = self.signer(&plan.dealers[place].key)?;
        let signature = signer.sign(&plan.dealing(chain, me, &dealing));
        let step = Step::Deal { plan: plan.clone(), dealer: me, dealing, signature };
        self.order(&step, &plan.dealers[place].key).await?;
        Err(Wait::to_try_again("its dealing was ordered"))
    }

    /// Has complaints ordered.
    async fn complain(&self, plan: &Plan, complaints: &[Complaint]) -> Wait {
        let mut named = Vec::new();
        for complaint in complaints {
            let dealers = [complaint.dealer, complaint.recipient].map(|at| plan.dealers.get(at));
            let [Some(dealer), Some(recipient)] = dealers else { continue };
            let Some(dealing) = self.board.dealing(dealer.id) else { continue };
            tracing::warn!(
                "replica {} dealt this one a share that does not fit: it is shown to all",
                dealer.id
            );
            let step = Step::Complain {
                plan: plan.clone(),
                dealer: dealer.id,
                dealing,
                recipient: recipient.id,
                evidence: complaint.evidence,
            };
            if let Err(wait) = self.order(&step, &recipient.key).await {
                return wait;
            }
            named.push(dealer.id);
        }
        Wait::to_try_again(format!("it complained of {}", listed(named.into_iter())))
    }

    /// Asks for what qualified dealers dealt that is not here: them first, and then the others.
    async fn fetch(&self, committee: &Committee, generation: &Generation) -> Result<(), Wait> {
        let lacking: Vec<ReplicaId> =
            generation.qualified().filter(|id| self.board.dealing(*id).is_none()).collect();
        let mut members = addresses(committee);
        members.retain(|(id, _)| *id != self.board.me());
        for dealer in lacking {
            members.sort_by_key(|(id, _)| (*id != dealer, *id));
            let mut found = false;
            for (replica, address) in &members {
                let request = Request::Dealing { id: 1, dealer };
                let asked = request_of(*replica, address.clone(), committee.chain(), &request);
                if let Ok(Response::Dealing { dealing, .. }) = asked.await {
                    found = self.board.keep_dealing(dealer, dealing);
                }
                if found {
                    break;
                }
            }
            if !found {
                let what = format!("no member that it reaches tells what replica {dealer} dealt");
                return Err(Wait::to_try_again(what));
            }
        }
        Ok(())
    }

    fn signer(&self, key: &PublicKey) -> Result<quorate_crypto::SecretKey, Wait> {
        self.board.keyring().own_key(&ReplicaKey::from(key.0)).ok_or_else(|| {
            Wait::for_others("it was begun with another key of this replica than it has")
        })
    }

    /// Has a step ordered, in a session of this key.
    async fn order(&self, step: &Step, key: &PublicKey) -> Result<(), Wait> {
        let signer = Arc::new(self.signer(key)?);
        let mut chain = self.following.begin();
        // They were verified before they were written down here.
        while let Ok(true) = chain.take(self.epochs.handovers(chain.committee().epoch())) {}
        let ordered = carried_out(step.to_command(), &self.cluster, &chain, signer);
        tokio::pin!(ordered);
        loop {
            tokio::select! {
                done = &mut ordered => {
                    let failed = |error| format!("its step could not be ordered: {error}");
                    return done.map(drop).map_err(|error| Wait::to_try_again(failed(error)));
                }
                () = self.board.changed() => {
                    if !self.is_wanted(step) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether a step is still to be ordered. Another member may have complained of the dealer.
    fn is_wanted(&self, step: &Step) -> bool {
        let Some(Seen { generations, .. }) = self.board.seen() else { return false };
        let current = generations.current().filter(|it| it.plan() == step.plan());
        current.is_some_and(|generation| match step {
            Step::Deal { dealer, .. } => !generation.dealt().contains_key(dealer),
            Step::Complain { dealer, .. } => !generation.disqualified().contains_key(dealer),
            Step::Begin { .. } => false,
        })
    }
}

/// What follows from dealings.
struct Derived {
    /// If there are any, nothing else counts yet.
    complaints: Vec<Complaint>,
    outcome: Outcome,
    /// Of a dealer.
    share: Option<ConsensusKey>,
}

fn derive(round: Round, own: Own, dealings: &[(usize, Bytes)]) -> Result<Derived, Wait> {
    let begin_another = |what: String| Wait::for_others(format!("{what}: begin another one"));
    let mut taken = arithmetic::Generation::new(round);
    for (dealer, dealing) in dealings {
        let fault = taken.take_dealing(*dealer, dealing);
        fault.map_err(|fault| begin_another(format!("the dealing at place {dealer} {fault}")))?;
    }
    let outcome = taken.outcome().map_err(|failed| begin_another(failed.to_string()))?;
    let Some((place, key)) = own else {
        return Ok(Derived { complaints: Vec::new(), outcome, share: None });
    };
    let complaints =
        taken.complaints(place, &key).map_err(|error| begin_another(error.to_string()))?;
    if !complaints.is_empty() {
        return Ok(Derived { complaints, outcome, share: None });
    }
    let share = taken.share(place, &key).map_err(|error| begin_another(error.to_string()))?;
    Ok(Derived { complaints, outcome, share: Some(ConsensusKey::dealt(share)) })
}

fn round_of(plan: &Plan, chain: &Digest) -> Result<Round, Wait> {
    let round = plan.round(chain);
    Round::new(round.context.0, &round.keys, round.quorum)
        .map_err(|error| Wait::for_others(format!("{error}: begin another one")))
}

/// Arithmetic, off the threads that move connections.
async fn blocking<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Wait> {
    let done = tokio::task::spawn_blocking(compute).await;
    done.map_err(|error| Wait::to_try_again(format!("its arithmetic failed: {error}")))
}

/// The dealers that have not dealt.
fn missing(generation: &Generation) -> impl Iterator<Item = ReplicaId> {
    let dealers = generation.plan().dealers.iter().map(|dealer| dealer.id);
    dealers.filter(|id| !generation.dealt().contains_key(id))
}

fn listed(ids: impl Iterator<Item = ReplicaId>) -> String {
    let ids: Vec<String> = ids.map(|id| format!("replica {id}")).collect();
    if ids.is_empty() { "nobody".to_owned() } else { ids.join(", ") }
}

#[cfg(test)]
mod tests {
    use quorate_core::base::crypto::ClientSigner as _;
    use quorate_core::ledger::generation::Dealer;
    use quorate_crypto::SecretKey;

    use super::*;
    use crate::replica::shares::{ShareFiles, ShareKey};

    const CHAIN: Digest = Digest([9; 32]);

    fn files(folder: &std::path::Path, id: u16) -> ShareFiles {
        ShareFiles::beside(&folder.join(format!("{id}-consensus.key")))
    }

    fn plan_of(folder: &std::path::Path) -> Plan {
        let dealers = (0..4).map(|id| Dealer {
            id: ReplicaId(id),
            key: SecretKey::from_seed(&[id as u8 + 1; 32]).public_key(),
            encryption: files(folder, id).offered(Epoch(3), 1).unwrap().public_key().to_bytes(),
        });
        let (ends, change) = (Epoch(3), Digest([1; 32]));
        Plan { ends, serial: 1, change, open_blocks: 10, dealers: dealers.collect() }
    }

    /// The key of a member, as it finds it on disk.
    fn own(folder: &std::path::Path, plan: &Plan, id: u16) -> Own {
        let public = &plan.dealers[usize::from(id)].encryption;
        let key = files(folder, id).decryption(plan.ends, plan.serial, public).unwrap().unwrap();
        Some((usize::from(id), Arc::new(key)))
    }

    fn dealing(folder: &std::path::Path, plan: &Plan, id: u16) -> (usize, Bytes) {
        let (place, key) = own(folder, plan, id).unwrap();
        let round = round_of(plan, &CHAIN).ok().unwrap();
        (place, round.deal(place, key.seed()).unwrap().into())
    }

    /// At each instant, the process ends and begins again with what is on disk.
    #[test]
    fn a_member_that_was_killed_at_any_instant_deals_the_same_and_comes_to_the_same_share() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        // Killed when its key was made: asked again, it offers the same.
        let plan = plan_of(folder);
        assert_eq!(plan_of(folder), plan);
        // Killed before or behind its dealing: it deals the same.
        let dealings: Vec<_> = (0..4).map(|id| dealing(folder, &plan, id)).collect();
        assert_eq!(dealing(folder, &plan, 2), dealings[2]);
        // Killed as it works out its share, with a draft of the file, with the file, and behind it.
        let derive = || {
            let round = round_of(&plan, &CHAIN).ok().unwrap();
            super::derive(round, own(folder, &plan, 2), &dealings).ok().unwrap()
        };
        let first = derive();
        assert!(first.complaints.is_empty());
        let share = first.share.unwrap();
        let key: ShareKey = share.public_key().try_into().unwrap();
        assert_eq!(first.outcome.members[2], key);
        for draft in [true, false] {
            if draft {
                let left = folder.join("2-consensus.key.share.4.0011223344556677.draft-1");
                std::fs::write(left, "half of a sh").unwrap();
            }
            let again = derive();
            assert_eq!(again.outcome, first.outcome);
            let again = again.share.unwrap();
            assert_eq!(again.to_bytes(), share.to_bytes());
            files(folder, 2).keep_share(plan.ends.next(), &again).unwrap();
            let found = files(folder, 2).share(&key).unwrap().unwrap();
            assert_eq!(found.to_bytes(), share.to_bytes());
        }
    }

    /// What a dealer gave another member is shown by that member alone, and the others make a key
    /// without it.
    #[test]
    fn a_share_that_does_not_fit_is_complained_of_and_no_share_comes_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let plan = plan_of(folder);
        let mut dealings: Vec<_> = (0..4).map(|id| dealing(folder, &plan, id)).collect();
        let round = round_of(&plan, &CHAIN).ok().unwrap();
        dealings[3].1 = round.deal_wrongly(3, &[7; 32], &[0]).unwrap().into();
        let derive = |id, dealings: &[_]| {
            let round = round_of(&plan, &CHAIN).ok().unwrap();
            super::derive(round, own(folder, &plan, id), dealings).ok().unwrap()
        };
        let victim = derive(0, &dealings);
        assert!(victim.share.is_none());
        assert_eq!(victim.complaints.iter().map(|it| it.dealer).collect::<Vec<_>>(), [3]);
        assert!(derive(1, &dealings).share.is_some());
        // It is disqualified: the rest is a key.
        let rest = derive(0, &dealings[..3]);
        assert!(rest.complaints.is_empty() && rest.share.is_some());
        // Whoever learns, and has no share, comes to the same keys.
        let learner = super::derive(round, None, &dealings[..3]).ok().unwrap();
        assert_eq!(learner.outcome, rest.outcome);
    }
}
