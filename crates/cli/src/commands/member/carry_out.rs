//! What changes the members, or prepares that.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use quorate_core::ledger::change::{Refusal, SignedChange};
use quorate_core::{Committee, ReplicaId};
use quorate_crypto::SecretKey;
use quorate_node::client::change::{self, ChangeError, Edit};
use quorate_node::config::{Finding, Place};
use serde_json::json;

use super::{Known, shown};
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
    let mut change = planned(known, edits)?;
    sign(known, &mut change, administrators);
    submitted(known, change, administrators)?;
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
    let mut change = planned(known, std::slice::from_ref(&newcomer))?;
    sign(known, &mut change, administrators);
    submitted(known, change, administrators)?;
    let began = Instant::now();
    let mut change = planned(known, &[Edit::Promote(new_id), Edit::Remove(id)])?;
    sign(known, &mut change, administrators);
    loop {
        let current = known.chain.committee().clone();
        let missing = known.runtime.block_on(change::gather(&mut change, &current));
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
    submitted(known, change, administrators)?;
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
    let mut change = planned(known, edits)?;
    sign(known, &mut change, administrators);
    let before = known.chain.committee().clone();
    let members = change.change.members.clone();
    let after = before.next(before.opening(), members, change.change.governance.clone());
    let after = after.map_err(|error| refused(known, &error.into()))?.under(change.change.rules);
    let approved = change.approved(&before, before.opening());
    // Members give no word before enough administrators have signed.
    let missing = match &approved {
        Ok(_) => known.runtime.block_on(change::gather(&mut change, &before)),
        Err(_) => Vec::new(),
    };
    if let Err(refusal) = approved
        && !matches!(refusal, Refusal::NotApproved { .. })
    {
        return Err(refused(known, &refusal));
    }
    if let Some(out) = out {
        write_new(out, &SignedChange { ready: Vec::new(), ..change.clone() })?;
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
    let mut change = known.read(file)?;
    let current = known.chain.committee().clone();
    // What is signed is shown first, and must make sense.
    let members = change.change.members.clone();
    let after = current.next(current.opening(), members, change.change.governance.clone());
    let after = after.map_err(|error| refused(known, &error.into()))?.under(change.change.rules);
    if change.change.ends != current.epoch() {
        let (found, current) = (change.change.ends, current.epoch());
        return Err(refused(known, &Refusal::Epoch { found, current }));
    }
    sign(known, &mut change, administrators);
    let new = file.with_extension("new");
    let written = std::fs::write(&new, change.to_command());
    let written = written.and_then(|()| std::fs::rename(&new, file));
    written.map_err(|error| Failure::io(error, file, "see to the folder"))?;
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
    let mut change = known.read(file)?;
    sign(known, &mut change, administrators);
    submitted(known, change, administrators)?;
    told(known, format)
}

/// The change that edits make, not signed by anybody.
fn planned(known: &Known, edits: &[Edit]) -> Result<SignedChange, Failure> {
    let change = change::plan(known.chain.committee(), edits)
        .map_err(|error| known.failed(&error, "correct what is asked for, and try again"))?;
    Ok(SignedChange { change, approvals: Vec::new(), ready: Vec::new(), shares: None })
}

fn sign(known: &Known, change: &mut SignedChange, administrators: &[SecretKey]) {
    administrators.iter().for_each(|key| change::approve(change, known.chain.committee(), key));
}

/// Has the next members give their words. A member at work may be behind for a moment: while it
/// takes more words, all are asked again. Returns who is not ready, and why.
fn gathered(
    known: &Known,
    change: &mut SignedChange,
    current: &Committee,
) -> Vec<(ReplicaId, String)> {
    let began = Instant::now();
    loop {
        let missing = known.runtime.block_on(change::gather(change, current));
        let judged = change.judge(current, current.opening());
        let are_few = matches!(
            judged,
            Err(Refusal::NotReady { .. }
                | Refusal::NotReadyForRules { .. }
                | Refusal::NotTheirs { .. })
        );
        if !are_few || began.elapsed() > READY_WITHIN {
            return missing;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Has the members give their words, submits, and waits for the epoch.
fn submitted(
    known: &mut Known,
    mut change: SignedChange,
    administrators: &[SecretKey],
) -> Result<(), Failure> {
    let current = known.chain.committee().clone();
    if let Err(refusal) = change.approved(&current, current.opening()) {
        return Err(refused(known, &refusal));
    }
    if !change.is_of_administrators(&current) {
        let what = "somebody signed who is no administrator of this epoch".to_owned();
        let remedy = "name the key files of administrators alone (--administrator)";
        return Err(known.failed(&what, remedy));
    }
    for (id, why) in gathered(known, &mut change, &current) {
        eprintln!("warning: replica {id} is not ready: {why}");
    }
    let client = known.client_of(administrators)?;
    let done = change::submit(&change, &known.cluster, &mut known.chain, client);
    let done = known.runtime.block_on(done);
    done.map_err(|error| match error {
        ChangeError::Refused(refusal) => refused(known, &refusal),
        ChangeError::RefusedThere(_) => known.failed(&error, "the members are as they were"),
        ChangeError::Client(_) => {
            known.failed(&error, "look whether it was made (`quorate member status`), or try again")
        }
        ChangeError::NotBegun(_) | ChangeError::Unreached(_) => {
            known.failed(&error, "see that a quorum of the old members and of the new ones run")
        }
    })
}

fn refused(known: &Known, refusal: &Refusal) -> Failure {
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

fn write_new(file: &Path, change: &SignedChange) -> Result<(), Failure> {
    write_command(file, &change.to_command())
}

/// Writes a command down that others are to sign.
pub(in crate::commands) fn write_command(file: &Path, command: &[u8]) -> Result<(), Failure> {
    let written =
        std::fs::File::create_new(file).and_then(|mut created| created.write_all(command));
    written.map_err(|error| Failure::io(error, file, "name a file that is not there yet"))
}
