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
//! | others have dealt | it takes the dealings from blocks that it executes, asks members, or reads its log |
//! | a share for it does not fit | it has a complaint ordered, which disqualifies the dealer |
//! | enough dealers qualify | it writes its share, and is ready for the change |
//!
//! Steps are ordered like commands of any client: in a session of the member's own key.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::{PublicKey, ShareKeys, Signer as _};
use quorate_core::base::membership::{ReplicaKey, Rules};
use quorate_core::client::message::{Request, Response};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::generation::{Generation, Plan, Standing, Step, dealing_digest};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};
use quorate_crypto::ConsensusKey;
use quorate_crypto::bls::threshold::generation::{
    self as arithmetic, Complaint, DecryptionKey, Failed, Outcome, Round,
};

use crate::client::change::carried_out;
use crate::client::succession::{Following, addresses, request_of};
use crate::config::Cluster;
use crate::replica::Past;
use crate::replica::epochs::Epochs;
use crate::replica::generating::{Board, Prepared, Seen};
use crate::replica::keyring::{Keyring, SHARE_REMEDY, Tended};

/// How long after a step that could not be done it is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked whether a generation's blocks are over.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// What was dealt is looked at when nothing came for so long: each look costs arithmetic.
const COMES_TO_REST: Duration = Duration::from_millis(50);

/// What to do about a generation that is under way, and that no key comes of here.
const BEGIN_ANEW: &str = "begin it anew (the same change with --begin-anew)";

/// A member's part in key generations.
pub(crate) struct Part {
    pub cluster: Arc<Cluster>,
    pub following: Following,
    pub epochs: Arc<Epochs>,
    pub board: Arc<Board>,
    pub past: Past,
    pub searched: Mutex<Searched>,
}

/// The dealers that the log was searched for, in the generation of this epoch and serial. What the
/// state knows of is not in later blocks either.
#[derive(Debug, Default)]
pub(crate) struct Searched {
    of: (Epoch, u64),
    dealers: BTreeSet<ReplicaId>,
    /// The block that could not be read, where these were looked for.
    stopped: Option<(BTreeSet<ReplicaId>, Height)>,
}

/// What a search of the log found, and the block that could not be read, if there was one.
struct Found {
    dealings: Vec<(ReplicaId, Bytes)>,
    unread: Option<(Height, io::Error)>,
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
        self.board.forget_offers_before(committee.epoch(), generations.next_serial());
        let Some(generation) = generations.current() else {
            // What came of a former one, which may have come late, is of no use.
            self.board.rest();
            return Next::Over;
        };
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
                "{qualified} dealers qualify, and {needed} must; it waits for dealings of {missing}"
            )));
        }
        let dealings = generation
            .qualified()
            .filter_map(|id| Some((plan.place(id)?, self.board.dealing(id)?)));
        let (dealings, with) = (dealings.collect::<Vec<_>>(), own.clone());
        let of = plan.clone();
        let derived = blocking(move || derive(&of, &chain, with, &dealings)).await??;
        let (outcome, share) = match derived {
            Derived::Complaints(complaints) => return Err(self.complain(plan, &complaints).await),
            Derived::Key { outcome, share } => (outcome, share),
        };
        let keys = plan.dealers.iter().map(|dealer| dealer.id).zip(outcome.members).collect();
        let keys = ShareKeys::new(plan.quorum(), keys)
            .ok_or_else(|| Wait::for_others(format!("its dealers make no key: {BEGIN_ANEW}")))?;
        if let Some(share) = share.clone() {
            let (keyring, epoch) = (Arc::clone(self.board.keyring()), plan.ends.next());
            let kept = blocking(move || keyring.shares().keep_share(epoch, &share)).await?;
            kept.map_err(|error| Wait::to_try_again(format!("its share is not kept: {error}")))?;
        }
        Ok(Prepared { generation: generation.digest(), keys, share })
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
            Wait::for_others(format!(
                "it was begun with an encryption key that this replica does not have: {BEGIN_ANEW}"
            ))
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

    /// Gets what qualified dealers dealt that is not here: from the own log, or from the dealers
    /// and then the other members.
    async fn fetch(&self, committee: &Committee, generation: &Generation) -> Result<(), Wait> {
        let is_lacking = |id: &ReplicaId| self.board.dealing(*id).is_none();
        let lacking: BTreeSet<ReplicaId> = generation.qualified().filter(is_lacking).collect();
        let searched = self.search_log(committee.rules(), generation, lacking.clone()).await?;
        for dealer in lacking.iter().filter(|dealer| is_lacking(dealer)) {
            if self.ask_for(committee, *dealer).await {
                continue;
            }
            return Err(Wait::to_try_again(match searched {
                Ok(()) => format!(
                    "no member that it reaches tells what replica {dealer} dealt; if none comes back \
                     that has it, {BEGIN_ANEW}"
                ),
                Err(error) => format!(
                    "its log, which may have what replica {dealer} dealt, cannot be read: {error}; \
                     see to its disk"
                ),
            }));
        }
        Ok(())
    }

    /// Asks members for what one dealt. Whether it is here now.
    async fn ask_for(&self, committee: &Committee, dealer: ReplicaId) -> bool {
        let mut members = addresses(committee);
        members.retain(|(id, _)| *id != self.board.me());
        members.sort_by_key(|(id, _)| (*id != dealer, *id));
        for (replica, address) in members {
            let request = Request::Dealing { id: 1, dealer };
            let asked = request_of(replica, address, committee.chain(), &request);
            if let Ok(Response::Dealing { dealing, .. }) = asked.await
                && self.board.keep_dealing(dealer, dealing)
            {
                return true;
            }
        }
        false
    }

    /// Takes from the own log what these dealers dealt. It is searched once for each of them.
    async fn search_log(
        &self,
        rules: Rules,
        generation: &Generation,
        mut lacking: BTreeSet<ReplicaId>,
    ) -> Result<io::Result<()>, Wait> {
        let of = (generation.plan().ends, generation.plan().serial);
        let searched = || self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if searched().of != of {
            *searched() = Searched { of, ..Searched::default() };
        }
        lacking.retain(|dealer| !searched().dealers.contains(dealer));
        if lacking.is_empty() {
            return Ok(Ok(()));
        }
        let (past, generation, to) =
            (Arc::clone(&self.past), generation.clone(), self.board.height());
        // Below the block that could not be read the same ones are not looked for again.
        let stopped = searched().stopped.take().filter(|(wanted, _)| lacking.is_subset(wanted));
        let from = stopped.map_or(generation.begun(), |(_, height)| height);
        let wanted = lacking.clone();
        let search = move || dealt_in_blocks(&*past, &generation, rules, (from, to), wanted);
        let Found { dealings, unread } = blocking(search).await?;
        for (dealer, dealing) in dealings {
            lacking.remove(&dealer);
            self.board.keep_dealing(dealer, dealing);
        }
        let Some((height, error)) = unread else {
            searched().dealers.append(&mut lacking);
            return Ok(Ok(()));
        };
        searched().stopped = Some((lacking, height));
        Ok(Err(error))
    }

    fn signer(&self, key: &PublicKey) -> Result<quorate_crypto::SecretKey, Wait> {
        self.board.keyring().own_key(&ReplicaKey::from(key.0)).ok_or_else(|| {
            Wait::for_others(format!(
                "it was begun with another key of this replica than it has: {BEGIN_ANEW}"
            ))
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

/// What these dealers dealt in a generation, as blocks of these heights hold it: up to one that
/// cannot be read, which may hold what is looked for.
fn dealt_in_blocks(
    past: &dyn Fn(Height) -> io::Result<Vec<SharedFrame>>,
    generation: &Generation,
    rules: Rules,
    (mut height, to): (Height, Height),
    mut lacking: BTreeSet<ReplicaId>,
) -> Found {
    let mut dealings = Vec::new();
    while height <= to && !lacking.is_empty() {
        let frames = match past(height) {
            Ok(frames) => frames,
            Err(error) => return Found { dealings, unread: Some((height, error)) },
        };
        for frame in frames {
            let Some(Ok(Step::Deal { dealer, dealing, .. })) = frame.step(rules) else { continue };
            let counts = generation.dealt().get(&dealer) == Some(&dealing_digest(&dealing));
            if counts && lacking.remove(&dealer) {
                dealings.push((dealer, dealing));
            }
        }
        height = height.next();
    }
    Found { dealings, unread: None }
}

/// What follows from dealings.
enum Derived {
    /// There are shares that do not fit. Nothing else counts yet.
    Complaints(Vec<Complaint>),
    /// A key, with the share of a dealer.
    Key { outcome: Outcome, share: Option<Arc<ConsensusKey>> },
}

fn derive(
    plan: &Plan,
    chain: &Digest,
    own: Own,
    dealings: &[(usize, Bytes)],
) -> Result<Derived, Wait> {
    let begin_another = |what: String| Wait::for_others(format!("{what}: {BEGIN_ANEW}"));
    let mut taken = arithmetic::Generation::new(round_of(plan, chain)?);
    for (dealer, dealing) in dealings {
        let fault = taken.take_dealing(*dealer, dealing);
        fault.map_err(|fault| begin_another(format!("the dealing at place {dealer} {fault}")))?;
    }
    // A dealer that chose its commitments by those of others makes no key possible. Its shares do
    // not fit then, so it is out once somebody complained.
    let complaints = match &own {
        Some((place, key)) => taken.complaints(*place, key),
        None => Ok(Vec::new()),
    };
    let complaints = complaints.map_err(|error| begin_another(error.to_string()))?;
    if !complaints.is_empty() {
        return Ok(Derived::Complaints(complaints));
    }
    let outcome = taken.outcome().map_err(|failed| match failed {
        Failed::OwnShare(place) => Wait::for_others(format!(
            "by what is shown so far, {} dealt so that its own share is nothing. Unless somebody \
             complains within a minute it lies: replace it (`quorate member replace`)",
            plan.dealers.get(place).map_or_else(String::new, |it| format!("replica {}", it.id)),
        )),
        failed => begin_another(failed.to_string()),
    })?;
    let share = own.map(|(place, key)| taken.share(place, &key)).transpose();
    let share = share.map_err(|error| begin_another(error.to_string()))?;
    let share = share.map(|share| Arc::new(ConsensusKey::dealt(share)));
    Ok(Derived::Key { outcome, share })
}

fn round_of(plan: &Plan, chain: &Digest) -> Result<Round, Wait> {
    let round = plan.round(chain);
    Round::new(round.context.0, &round.keys, round.quorum)
        .map_err(|error| Wait::for_others(format!("{error}: {BEGIN_ANEW}")))
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
mod tests;
