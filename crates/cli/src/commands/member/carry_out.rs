//! What changes the members, or prepares that.

use std::path::Path;
use std::time::{Duration, Instant};

use quorate_core::base::membership::CommitteeError;
use quorate_core::ledger::change::{Refusal, SignedChange};
use quorate_core::{Committee, ReplicaId};
use quorate_crypto::SecretKey;
use quorate_node::client::change::{self, ChangeError, Edit};
use quorate_node::client::generation::{self, Begin};
use quorate_node::config::{Finding, Place};
use quorate_node::written;
use serde_json::json;

use super::{Known, generating, shown};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// How long a newcomer may take to catch up before it takes a member's place.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(600);
/// How long it is waited for the words of members that are behind for a moment.
const READY_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Carries edits out as one change.
pub(in crate::commands) fn edits(
    known: &mut Known,
    edits: &[Edit],
    administrators: &[SecretKey],
    format: Format,
) -> Result<(), Failure> {
    let mut planned = planned(known, edits)?;
    planned.begin = generating::planned(known, &planned.change)?;
    sign(known, &mut planned, administrators);
    submitted(known, planned, administrators)?;
    told(known, format)
}

/// A newcomer takes a member's place: it learns first, and counts once it has caught up.
pub(super) fn replace(
    known: &mut Known,
    id: ReplicaId,
    newcomer: Edit,
    administrators: &[SecretKey],
    format: Format,
) -> Result<(), Failure> {
    let Edit::Add(new) = &newcomer else { return Ok(()) };
    let new_id = new.id;
    // Before anything is changed: there is such a member.
    planned(known, &[Edit::Remove(id)])?;
    let mut first = planned(known, std::slice::from_ref(&newcomer))?;
    sign(known, &mut first, administrators);
    submitted(known, first, administrators)?;
    let began = Instant::now();
    let mut planned = planned(known, &[Edit::Promote(new_id), Edit::Remove(id)])?;
    sign(known, &mut planned, administrators);
    loop {
        let current = known.chain.committee().clone();
        let change = &mut planned.change;
        let missing = match generation::is_needed(&change.change, &current) {
            true => generating::asked(known, change).err(),
            false => Some(known.runtime.block_on(change::gather(change, &current))),
        };
        let missing = missing.unwrap_or_default();
        let Some((_, why)) = missing.iter().find(|(id, _)| *id == new_id) else { break };
        if began.elapsed() > CATCHES_UP_WITHIN {
            let what = format!("replica {new_id} learns, and is not ready to count: {why}");
            let remedy = format!(
                "see to it, and go on by: quorate member change --promote {new_id} --remove {id}"
            );
            return Err(known.failed(&what, &remedy));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    // Others may be behind for a moment.
    planned.begin = generating::planned(known, &planned.change)?;
    sign(known, &mut planned, administrators);
    submitted(known, planned, administrators)?;
    told(known, format)
}

/// Shows what a change would do, and writes it down if that is asked for.
pub(in crate::commands) fn plan(
    known: &mut Known,
    edits: &[Edit],
    administrators: &[SecretKey],
    out: Option<&Path>,
    format: Format,
) -> Result<(), Failure> {
    let mut planned = planned(known, edits)?;
    let before = known.chain.committee().clone();
    // Nobody gives a word for a key that is not there.
    let needs_key = generation::is_needed(&planned.change.change, &before);
    planned.begin = generating::planned(known, &planned.change)?;
    sign(known, &mut planned, administrators);
    let Planned { mut change, begin } = planned;
    let members = change.change.members.clone();
    let after = before.next(before.opening(), members, change.change.governance.clone());
    let after = after.map_err(|error| refused(known, &error.into()))?.under(change.change.rules);
    let approved = change.approved(&before, before.opening());
    let approved = match approved {
        Err(Refusal::NoShares) if needs_key => Ok(()),
        other => other.map(drop),
    };
    // Members give no word before enough administrators have signed.
    let missing = match &approved {
        Ok(()) if !needs_key => known.runtime.block_on(change::gather(&mut change, &before)),
        _ => Vec::new(),
    };
    if let Err(refusal) = approved
        && !matches!(refusal, Refusal::NotApproved { .. })
    {
        return Err(refused(known, &refusal));
    }
    if let Some(out) = out {
        let unsaid = SignedChange { ready: Vec::new(), shares: None, ..change.clone() };
        write_command(out, &generation::to_file(&unsaid, begin.as_ref()))?;
    }
    let (signed, needed) = (change.approvals.len(), before.governance().approvals);
    match format {
        Format::Table => {
            let mut text = format!(
                "now:   {}\nafter: {}\n{}\nsigned by {signed} administrators; {needed} must\n",
                shown::summary(&before),
                shown::summary(&after),
                shown::differences(Some(&before), &after),
            );
            if needs_key {
                text.push_str("those that count generate a fresh threshold key first\n");
            }
            for (id, why) in &missing {
                text.push_str(&format!("replica {id} is not ready: {why}\n"));
            }
            if let Some(out) = out {
                text.push_str(&format!("written to {}\n", out.display()));
            }
            print(&text)
        }
        Format::Json => print_json(&json!({
            "now": shown::of(&before, |_| None),
            "after": shown::of(&after, |_| None),
            "signed": signed,
            "needed": needed,
            "generates_key": needs_key,
            "not_ready": missing.iter().map(|(id, why)| json!({ "replica": id.0, "why": why }))
                .collect::<Vec<_>>(),
        })),
    }
}

/// Adds approvals to a change in a file.
pub(super) fn approve(
    known: &mut Known,
    file: &Path,
    administrators: &[SecretKey],
    format: Format,
) -> Result<(), Failure> {
    if administrators.is_empty() {
        let what = "nobody signs".to_owned();
        let remedy = "name an administrator's key file".to_owned();
        let place = Place::Flag("--administrator".to_owned());
        return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
    }
    let mut planned = known.read(file)?;
    let change = &planned.change;
    let current = known.chain.committee().clone();
    // What is signed is shown first, and must make sense.
    let members = change.change.members.clone();
    let after = current.next(current.opening(), members, change.change.governance.clone());
    let after = after.map_err(|error| refused(known, &error.into()))?.under(change.change.rules);
    if change.change.ends != current.epoch() {
        let (found, current) = (change.change.ends, current.epoch());
        return Err(refused(known, &Refusal::Epoch { found, current }));
    }
    sign(known, &mut planned, administrators);
    let Planned { change, begin } = planned;
    let signed = generation::to_file(&change, begin.as_ref());
    written::replace(file, &signed).map_err(|finding| Failure::new(Exit::Failed, finding))?;
    let (signed, needed) = (change.approvals.len(), current.governance().approvals);
    let differs = shown::differences(Some(&current), &after);
    match format {
        Format::Table => {
            print(&format!("{differs}\nsigned by {signed} administrators; {needed} must\n"))
        }
        Format::Json => {
            print_json(&json!({ "signed": signed, "needed": needed, "changes": differs }))
        }
    }
}

/// Submits a change in a file.
pub(super) fn submit(
    known: &mut Known,
    file: &Path,
    administrators: &[SecretKey],
    format: Format,
) -> Result<(), Failure> {
    let mut planned = known.read(file)?;
    sign(known, &mut planned, administrators);
    submitted(known, planned, administrators)?;
    told(known, format)
}

/// A change, and the key generation that is to be begun for it, if one is.
pub(super) struct Planned {
    pub change: SignedChange,
    pub begin: Option<Begin>,
}

/// The change that edits make, not signed by anybody.
fn planned(known: &Known, edits: &[Edit]) -> Result<Planned, Failure> {
    let change = change::plan(known.chain.committee(), edits)
        .map_err(|error| known.failed(&error, "correct what is asked for, and try again"))?;
    let (approvals, ready) = (Vec::new(), Vec::new());
    Ok(Planned { change: SignedChange { change, approvals, ready, shares: None }, begin: None })
}

fn sign(known: &Known, planned: &mut Planned, administrators: &[SecretKey]) {
    let current = known.chain.committee();
    for key in administrators {
        change::approve(&mut planned.change, current, key);
        planned.begin.iter_mut().for_each(|begin| generation::approve(begin, current, key));
    }
}

/// Has the next members give their words. A member at work may be behind for a moment: while it
/// takes more words, all are asked again. Returns who is not ready, and why.
fn gathered(
    known: &Known,
    change: &mut SignedChange,
    current: &Committee,
) -> Vec<(ReplicaId, String)> {
    let began = Instant::now();
    let within = match generation::is_needed(&change.change, current) {
        true => generating::GENERATED_WITHIN,
        false => READY_WITHIN,
    };
    let mut last_told = Vec::new();
    loop {
        let missing = known.runtime.block_on(change::gather(change, current));
        let judged = change.judge(current, current.opening());
        let are_few = matches!(
            judged,
            Err(Refusal::NotReady { .. }
                | Refusal::NotReadyForRules { .. }
                | Refusal::NoShares
                | Refusal::NotPossessed { .. }
                | Refusal::NotTheirs { .. })
        );
        if !are_few || began.elapsed() > within {
            return missing;
        }
        if within > READY_WITHIN && generating::has_failed(known, change) {
            return missing;
        }
        if within > READY_WITHIN && missing != last_told {
            missing.iter().for_each(|(id, why)| eprintln!("waiting for replica {id}: {why}"));
            last_told = missing;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Has the members give their words, submits, and waits for the epoch.
fn submitted(
    known: &mut Known,
    planned: Planned,
    administrators: &[SecretKey],
) -> Result<(), Failure> {
    let Planned { mut change, begin } = planned;
    let current = known.chain.committee().clone();
    let needs_key = generation::is_needed(&change.change, &current);
    match change.approved(&current, current.opening()) {
        Err(Refusal::NoShares) if needs_key => {}
        approved => drop(approved.map_err(|refusal| refused(known, &refusal))?),
    }
    if !change.is_of_administrators(&current) {
        let what = "somebody signed who is no administrator of this epoch".to_owned();
        let remedy = "name the key files of administrators alone (--administrator)";
        return Err(known.failed(&what, remedy));
    }
    let client = known.client_of(administrators)?;
    if needs_key {
        generating::begun(known, &change, begin, &client)?;
    }
    for (id, why) in gathered(known, &mut change, &current) {
        eprintln!("warning: replica {id} is not ready: {why}");
    }
    let submit = |known: &mut Known, change: &SignedChange| {
        let done = change::submit(
            change,
            &known.cluster,
            &mut known.chain,
            std::sync::Arc::clone(&client),
        );
        known.runtime.block_on(done)
    };
    let mut done = submit(known, &change);
    // A dealing or a complaint came in between: the members look again.
    for _ in 0..generating::LOOKS_AGAIN {
        if !generating::is_stale(&done) {
            break;
        }
        gathered(known, &mut change, &current);
        done = submit(known, &change);
    }
    done.map_err(|error| match error {
        ChangeError::Refused(refusal) => refused(known, &refusal),
        ChangeError::RefusedThere(_) => known.failed(&error, "the members are as they were"),
        ChangeError::Stale => known.failed(
            &error,
            "see what the key generation waits for (`quorate member status`), and give the command \
             again",
        ),
        ChangeError::Client(_) => {
            known.failed(&error, "look whether it was made (`quorate member status`), or try again")
        }
        ChangeError::NotBegun(_) | ChangeError::Unreached(_) => {
            known.failed(&error, "see that a quorum of the old members and of the new ones run")
        }
    })
}

pub(super) fn refused(known: &Known, refusal: &Refusal) -> Failure {
    let remedy = match refusal {
        Refusal::NotApproved { .. } => {
            "add --administrator KEYFILE for each who must sign; if they are elsewhere, write the \
             change down with `quorate member plan --out FILE`, and have them approve it"
        }
        Refusal::NotReady { .. } => {
            "see that these run and have caught up (`quorate member status`), and try again"
        }
        Refusal::NotReadyForRules { .. } => {
            "upgrade or start these, or remove a member that does not come back, and try again; \
             `quorate upgrade status` says what each lacks"
        }
        Refusal::NotTheirs { .. } => {
            "take the file anew from the home of that member (`quorate member new-key`), and see that \
             it runs; remove or replace a member that does not come back"
        }
        Refusal::NoShares | Refusal::NotPossessed { .. } => {
            "see what the key generation waits for (`quorate member status`), and give the command again: \
             it goes on with the one under way, or begins another; with --begin-anew it begins another in \
             any case"
        }
        Refusal::Committee(CommitteeError::UnequalWeights(..)) => {
            "where members sign with a threshold key, change the weights of all that count at once, to \
             the same (`quorate member weight`)"
        }
        Refusal::Epoch { .. } => "the members have changed meanwhile: plan the change anew",
        Refusal::TooFew(_) => "keep at least four members that count",
        _ => "correct what is asked for; the members are as they were",
    };
    known.failed(refusal, remedy)
}

fn told(known: &Known, format: Format) -> Result<(), Failure> {
    let committee = known.chain.committee();
    match format {
        Format::Table => print(&format!("{}\n", shown::summary(committee))),
        Format::Json => print_json(&shown::of(committee, |_| None)),
    }
}

/// Writes a command down that others are to sign.
pub(in crate::commands) fn write_command(file: &Path, command: &[u8]) -> Result<(), Failure> {
    written::write_new(file, command).map_err(|finding| Failure::new(Exit::Failed, finding))
}
