//! The key generation that a change of members needs where they sign with a threshold key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::message::Generating;
use quorate_core::ledger::change::{self, SignedChange};
use quorate_core::ledger::generation::{Generation, Plan, Refusal, Standing};
use quorate_node::client::change::ChangeError;
use quorate_node::client::generation::{self, Begin};
use serde_json::{Value, json};

use super::{Known, carry_out};
use crate::failure::Failure;

/// How long it is waited until all next members have their shares. People are told what for.
pub(super) const GENERATED_WITHIN: Duration = Duration::from_secs(300);
/// How often a change is submitted again, since a dealing or a complaint came in between.
pub(super) const LOOKS_AGAIN: usize = 5;
/// How long it is waited for the encryption keys of members that are behind for a moment.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What members said, one by one.
type Said = Vec<(ReplicaId, Result<Generating, String>)>;

fn said(known: &Known, change: Option<&SignedChange>) -> Said {
    let change = change.map(|signed| &signed.change);
    known.runtime.block_on(generation::told(known.chain.committee(), change))
}

/// The generation that is to begin for a change; `None` if it needs none, or one is under way that
/// is not to be begun anew.
///
/// # Errors
/// The next members that tell no encryption key, and why.
pub(super) fn asked(
    known: &Known,
    change: &SignedChange,
) -> Result<Option<Begin>, Vec<(ReplicaId, String)>> {
    let current = known.chain.committee();
    if !generation::is_needed(&change.change, current) {
        return Ok(None);
    }
    let said = said(known, Some(change));
    let goes_on = generation::under_way(&change.change, current, &said).is_some();
    if goes_on && !known.begin_anew {
        return Ok(None);
    }
    generation::plan(&change.change, &said).map(Some)
}

/// The same, as soon as all members are there.
pub(super) fn planned(known: &Known, change: &SignedChange) -> Result<Option<Begin>, Failure> {
    let current = known.chain.committee();
    if !generation::is_needed(&change.change, current) {
        return Ok(None);
    }
    // What may not be made needs no key.
    match change.approved(current, current.opening()) {
        Ok(_) | Err(change::Refusal::NoShares | change::Refusal::NotApproved { .. }) => {}
        Err(refusal) => return Err(carry_out::refused(known, &refusal)),
    }
    let began = Instant::now();
    loop {
        let missing = match asked(known, change) {
            Ok(begin) => return Ok(begin),
            Err(missing) => missing,
        };
        if began.elapsed() > TOLD_WITHIN {
            let named: Vec<String> =
                missing.iter().map(|(id, why)| format!("replica {id}: {why}")).collect();
            let what = format!("no threshold key can be generated: {}", named.join("; "));
            let remedy = "all next members that count take part: see that these run and have caught up; \
                          a member that does not come back is replaced (`quorate member replace`)";
            return Err(known.failed(&what, remedy));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Begins a generation for a change, if none is under way, or this one was planned later.
pub(super) fn begun(
    known: &Known,
    change: &SignedChange,
    begin: Option<Begin>,
    client: &Arc<dyn ClientSigner>,
) -> Result<(), Failure> {
    let said = said(known, Some(change));
    let under_way = generation::under_way(&change.change, known.chain.committee(), &said);
    let is_later = |begin: &Begin, plan: &Plan| begin.plan.serial > plan.serial;
    if under_way.is_some_and(|plan| !begin.as_ref().is_some_and(|begin| is_later(begin, &plan))) {
        return Ok(());
    }
    let Some(begin) = begin else {
        let what = "the file brings no key generation, and the one of its change is over";
        return Err(known.failed(&what, "plan the change anew (`quorate member plan --out`)"));
    };
    let done = generation::begin(&begin, &known.cluster, &known.chain, Arc::clone(client));
    known.runtime.block_on(done).map_err(|error| {
        let remedy = "see `quorate member status`, and give the command again; a change in a file is \
                      planned anew";
        known.failed(&format!("the key generation was not begun: {error}"), remedy)
    })
}

/// Whether no key comes any more of the generation that was begun for a change.
pub(super) fn has_failed(known: &Known, change: &SignedChange) -> bool {
    let said = said(known, None);
    let failed = generation::newest(&said).is_some_and(|(told, generation)| {
        let standing = generation.standing(told.height.next());
        generation.plan().change == change.change.digest()
            && matches!(standing, Standing::Cheated | Standing::Expired)
    });
    failed && generation::under_way(&change.change, known.chain.committee(), &said).is_none()
}

/// Whether a change was refused since the generation stands otherwise by now.
pub(super) fn is_stale(done: &Result<(), ChangeError>) -> bool {
    match done {
        Err(ChangeError::Stale) => true,
        Err(ChangeError::RefusedThere(why)) => *why == Refusal::Stale.to_string(),
        _ => false,
    }
}

/// What `quorate member status` tells of key generations.
pub(super) struct Told {
    said: Said,
}

impl Told {
    /// Asks the members; `None` where they have no threshold key.
    pub(super) fn of(known: &Known) -> Option<Self> {
        known.chain.committee().shares()?;
        Some(Self { said: said(known, None) })
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        let Some((told, generation)) = generation::newest(&self.said) else {
            return "no key generation is under way\n".to_owned();
        };
        let dealers = &generation.plan().dealers;
        let (dealt, all) = (generation.dealt().len(), dealers.len());
        let mut text = format!(
            "key generation {}: {}; {dealt} of {all} have dealt, {} must qualify\n",
            generation.plan().serial,
            standing(told, generation),
            generation.plan().quorum(),
        );
        for (dealer, by) in generation.disqualified() {
            text.push_str(&format!(
                "replica {dealer} is disqualified: it dealt replica {by} a share that does not fit\n"
            ));
        }
        for (id, why) in self.waiting(generation) {
            text.push_str(&format!("replica {id} waits: {why}\n"));
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let Some((told, generation)) = generation::newest(&self.said) else { return Value::Null };
        let disqualified = generation.disqualified().iter();
        let waiting = self.waiting(generation);
        json!({
            "serial": generation.plan().serial,
            "standing": standing(told, generation),
            "dealers": generation.plan().dealers.iter().map(|it| it.id.0).collect::<Vec<_>>(),
            "dealt": generation.dealt().keys().map(|id| id.0).collect::<Vec<_>>(),
            "disqualified": disqualified
                .map(|(dealer, by)| json!({ "replica": dealer.0, "shown_by": by.0 }))
                .collect::<Vec<_>>(),
            "must_qualify": generation.plan().quorum(),
            "open_blocks": generation.open_to().0.saturating_sub(told.height.0),
            "waiting": waiting.iter()
                .map(|(id, why)| json!({ "replica": id.0, "why": why }))
                .collect::<Vec<_>>(),
        })
    }

    /// The dealers that have no share yet, and why.
    fn waiting(&self, generation: &Generation) -> Vec<(ReplicaId, String)> {
        let why = |told: &Result<Generating, String>| match told {
            Err(why) => Some(why.clone()),
            Ok(told) if told.current.is_none() => Some("it has not caught up".to_owned()),
            Ok(told) => {
                let why = String::from_utf8_lossy(&told.waits_for).into_owned();
                (!why.is_empty()).then_some(why)
            }
        };
        let is_dealer = |id: &ReplicaId| generation.plan().place(*id).is_some();
        let dealers = self.said.iter().filter(|(id, _)| is_dealer(id));
        dealers.filter_map(|(id, told)| Some((*id, why(told)?))).collect()
    }
}

fn standing(told: &Generating, generation: &Generation) -> String {
    let left = generation.open_to().0.saturating_sub(told.height.0);
    match generation.standing(told.height.next()) {
        Standing::Dealing => format!("it waits for dealings, and fails in {left} blocks"),
        Standing::Enough => format!("its key is made, and may be used for {left} more blocks"),
        Standing::Cheated => "failed: so many cheated that no key comes of it".to_owned(),
        Standing::Expired => "failed: its blocks are over".to_owned(),
    }
}
