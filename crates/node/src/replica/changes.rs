//! Changes of the members, and directives on clients, on their way in: what their signatures may
//! cost. What is said of changes here is said of directives, too; members give no word on those.
//!
//! A change may carry hundreds of signatures, and anybody may send one. So they are verified in an
//! order in which a stranger cannot have many of them verified:
//!
//! 1. whoever signed as an administrator must be one, by name, and of a change enough must have
//!    signed, which costs nothing to see;
//! 2. the client's signature and those of the administrators are verified one by one, up to the
//!    first that does not hold. That one is the client's own fault, as with any frame
//!    ([`standing`](super::standing));
//! 3. only then the members' words are verified: administrators stand for them.
//!
//! A stranger may send a change again that administrators did sign. So approvals and words that
//! have held are [remembered](Approved): such a change costs its sender's signature, as any frame
//! does. Those that are not known have an allowance together ([`CHANGE_SIGNATURES_A_SECOND`]);
//! beyond it a client hears that the replica is busy.
//!
//! Steps of key generations have the same allowance. Members alone send such as are looked at
//! (`Members::expects`). A member that signed one whose proof does not hold lies, and is not
//! listened to any more in that generation. Sound steps may be sent in sessions in which they are
//! never carried out, so few of each member are verified ([`Steps`]). So no member uses the
//! allowance up.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::base::crypto::{Check, PublicKey, Scheme};
use quorate_core::base::membership::{MAX_REPLICAS, Rules};
use quorate_core::base::wire::Decode as _;
use quorate_core::client::message::Refusal;
use quorate_core::ledger::change::SignedChange;
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::generation::Step;
use quorate_core::protocols::protocol::Types;
use quorate_core::{Digest, Epoch, planted};

use quorate_transport::ConnectionId;

use super::inbox::FromClient;
use super::requests::{Claimed, Requests};
use super::settled::Allowance;

/// Signatures under changes that are verified a second: a few hundredths of a core.
pub(super) const CHANGE_SIGNATURES_A_SECOND: u32 = 1024;
/// Signatures that may be verified at once: those of the largest change with shares, whose words
/// weigh 11 for each member, or of the beginning of the largest key generation.
pub(super) const MOST_CHANGE_SIGNATURES: u32 = 16 * MAX_REPLICAS as u32;
/// How many that held are remembered: those of some ten of the largest changes.
const REMEMBERED: usize = 4096;

/// How many different dealings of one member are verified in a generation. A correct one makes one.
const MOST_DEALINGS: usize = 2;

/// Why a change is not looked at.
const STRANGER: &str = "it is not signed by administrators alone, each of them once";
const ANOTHER_EPOCH: &str = "it is a change of another epoch: make it anew";
const BUSY: &str = "it is busy with other changes; try again";
const FORGED: &str = "the signature of an administrator does not hold";
const UNREADABLE: &str = "the change cannot be read";

/// What signatures under changes cost, and which have held.
#[derive(Debug)]
pub(super) struct Approved {
    allowance: Allowance,
    /// At most [`REMEMBERED`]: the same as in `oldest_first`.
    held: HashSet<Check>,
    oldest_first: VecDeque<Check>,
    heard: Heard,
}

/// What was verified of members' steps, in the generation of this epoch and serial.
#[derive(Debug, Default)]
struct Heard {
    of: (Epoch, u64),
    /// By key. Only steps that are expected get here, so each key is one of a dealer of the
    /// generation under way: there are no more of them than members.
    by: BTreeMap<PublicKey, Steps>,
}

/// The steps of one member.
#[derive(Debug, Default)]
struct Steps {
    /// Those whose proofs held: at most [`MOST_DEALINGS`].
    dealings: BTreeSet<Digest>,
    /// The same: at most as many as there are dealers.
    complaints: BTreeSet<Digest>,
    /// It signed one whose proofs do not hold.
    lied: bool,
}

/// What a member's step may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// Its proofs.
    Proofs,
    /// Its sender's signature alone: the proofs of the same step have held.
    Signature,
    /// Nothing.
    Nothing,
}

impl Heard {
    fn of(&mut self, step: &Step, key: &PublicKey) -> &mut Steps {
        let of = (step.plan().ends, step.plan().serial);
        if self.of != of {
            *self = Self { of, by: BTreeMap::new() };
        }
        self.by.entry(*key).or_default()
    }

    fn worth(&mut self, step: &Step, key: &PublicKey) -> Worth {
        let dealers = step.plan().dealers.len();
        let steps = self.of(step, key);
        let (held, most) = match step {
            Step::Complain { .. } => (&steps.complaints, dealers),
            _ => (&steps.dealings, MOST_DEALINGS),
        };
        if steps.lied {
            Worth::Nothing
        } else if held.contains(&digest_of(step)) {
            Worth::Signature
        } else if planted!("sound-steps-unbounded", true, held.len() < most) {
            Worth::Proofs
        } else {
            Worth::Nothing
        }
    }

    fn held(&mut self, step: &Step, key: &PublicKey) {
        let steps = self.of(step, key);
        let held = match step {
            Step::Complain { .. } => &mut steps.complaints,
            _ => &mut steps.dealings,
        };
        held.insert(digest_of(step));
    }

    fn lied(&mut self, step: &Step, key: &PublicKey) {
        if let Some(member) = step.member() {
            tracing::warn!(
                "replica {member} signed a step of key generation {} whose proof does not hold: it \
                 lies, or is broken. It is not listened to again in that generation",
                step.plan().serial
            );
        }
        self.of(step, key).lied = true;
    }
}

fn digest_of(step: &Step) -> Digest {
    Digest::of("quorate step that held", &step.to_command())
}

/// What is wrong with a change or a step.
enum Fault {
    /// Its client's signature.
    Frame,
    /// Something else that it rests on.
    Rest,
}

impl Approved {
    /// Nothing is known yet.
    pub fn new(now: Instant) -> Self {
        Self {
            allowance: Allowance::of(CHANGE_SIGNATURES_A_SECOND, MOST_CHANGE_SIGNATURES, now),
            held: HashSet::new(),
            oldest_first: VecDeque::new(),
            heard: Heard::default(),
        }
    }

    /// Whether those of `checks` that are not known may be verified.
    pub(super) fn has(&mut self, checks: &[Check], now: Instant) -> bool {
        let unknown = checks.iter().filter(|check| !self.held.contains(check));
        self.allowance.has(unknown.map(Check::weight).sum(), now)
    }

    /// So much of the allowance is spent, as far as it goes.
    pub(super) fn spend(&mut self, weight: usize, now: Instant) {
        self.allowance.take(weight, now);
    }

    /// Whether all of `checks` hold. Those that are not known count for the allowance.
    fn hold(&mut self, checks: &[Check], scheme: &dyn Scheme, now: Instant) -> bool {
        let unknown: Vec<Check> =
            checks.iter().filter(|check| !self.held.contains(check)).cloned().collect();
        self.spend(unknown.iter().map(Check::weight).sum(), now);
        let hold = scheme.verify(&unknown).iter().all(|holds| *holds);
        if hold {
            unknown.into_iter().for_each(|check| self.remember(check));
        }
        hold
    }

    /// The same, one by one, up to the first that does not hold: no other is counted.
    fn hold_in_turn(&mut self, checks: &[Check], scheme: &dyn Scheme, now: Instant) -> bool {
        checks.iter().all(|check| self.hold(std::slice::from_ref(check), scheme, now))
    }

    fn remember(&mut self, check: Check) {
        if !check.may_be_kept() {
            return;
        }
        if self.oldest_first.len() == REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.held.remove(&oldest);
        }
        if self.held.insert(check.clone()) {
            self.oldest_first.push_back(check);
        }
    }
}

impl<T: Types> Requests<T> {
    /// Whether the approvals of an encoded change hold.
    pub(super) fn look_at_change(
        &mut self,
        connection: ConnectionId,
        change: &Bytes,
        now: Instant,
    ) -> Result<(), &'static str> {
        if self.standings.is_ended(connection) {
            return Err(STRANGER);
        }
        let change = SignedChange::from_bytes(change.clone()).map_err(|_| UNREADABLE)?;
        let committee = self.epochs.committee();
        if change.change.ends != committee.epoch() {
            return Err(ANOTHER_EPOCH);
        }
        if !change.is_of_administrators(&committee) {
            return Err(STRANGER);
        }
        let checks = change.approval_checks(&self.chain);
        if !self.approved.has(&checks, now) {
            return Err(BUSY);
        }
        // What is forged costs what was verified of it, and who sent it its standing: else
        // strangers could use the allowance up, and nobody could change the members.
        if !self.approved.hold_in_turn(&checks, &*self.scheme, now) {
            self.is_forged(connection);
            return Err(FORGED);
        }
        Ok(())
    }

    /// Verifies the changes among `claimed`, and returns the rest.
    pub(super) fn settle_changes(
        &mut self,
        arrived: Instant,
        claimed: Vec<Claimed>,
        ready: &mut Vec<FromClient>,
    ) -> Vec<Claimed> {
        // One that cannot be read, or has no signatures, costs what any frame does.
        let every = self.epochs.committee().verified_under(Rules::EVERY_FORMAT);
        let is_change = |one: &Claimed| rests_on_more(one.claim.unverified(), every);
        if !self.epochs.is_governed() || !claimed.iter().any(is_change) {
            return claimed;
        }
        let (changes, rest): (Vec<_>, Vec<_>) = claimed.into_iter().partition(is_change);
        for Claimed { connection, claim, relay, .. } in changes {
            let frame = Arc::clone(claim.unverified());
            if self.standings.is_ended(connection) {
                continue;
            }
            let step = member_step(&frame, every);
            // Others may be ahead, or behind: nobody is to blame for what is not expected here.
            let worth = match (&step, self.generating.expects(&frame)) {
                (_, false) => Worth::Nothing,
                (None, true) => Worth::Proofs,
                (Some(step), true) => self.approved.heard.worth(step, &frame.key()),
            };
            if worth == Worth::Nothing {
                self.metrics.refuse("client_step_unexpected");
                self.refuse(connection, frame.session(), frame.first(), Refusal::Busy);
                continue;
            }
            let claim = Arc::clone(&frame).claim_with_approvals(&self.chain, every);
            let Some(approvals) = self.approvals_of(&frame) else {
                self.is_bad(connection, &frame);
                continue;
            };
            let (own, others) = claim.checks().split_at(1.min(claim.checks().len()));
            let others = if worth == Worth::Signature { &[] } else { others };
            if !self.approved.has(others, arrived) {
                self.metrics.refuse("client_change_beyond_allowance");
                self.refuse(connection, frame.session(), frame.first(), Refusal::Busy);
                continue;
            }
            if let Err(fault) = self.change_holds(own, approvals, others, arrived) {
                if let (Fault::Rest, Some(step)) = (fault, step)
                    && planted!("forgers-of-steps-heard-again", false, true)
                {
                    self.approved.heard.lied(&step, &frame.key());
                }
                self.is_bad(connection, &frame);
                continue;
            }
            if let Some(step) = &step {
                self.approved.heard.held(step, &frame.key());
            }
            self.standings.good(connection, frame.key());
            let verdicts = vec![true; claim.checks().len()];
            let settled = claim.settle(&verdicts);
            ready.extend(settled.map(|frame| FromClient::Frame {
                connection,
                frame,
                relay,
                arrived,
            }));
        }
        rest
    }

    /// How many administrators signed a change or a directive; `None` if others are among them, or
    /// too few for anybody to look at the words of members.
    fn approvals_of(&self, frame: &SharedFrame) -> Option<usize> {
        let committee = self.epochs.committee();
        let every = committee.verified_under(Rules::EVERY_FORMAT);
        let (is_theirs, approvals) = match (frame.change(every), frame.directive(every)) {
            (Some(Ok(change)), _) => {
                let is_without_words = change.ready.is_empty() && change.shares.is_none();
                let is_approved = change.is_approved(&committee) || is_without_words;
                (is_approved && change.is_of_administrators(&committee), change.approvals.len())
            }
            (_, Some(Ok(directive))) => {
                (directive.is_of_administrators(&committee), directive.approvals.len())
            }
            _ => match frame.step(every)?.ok()? {
                Step::Begin { approvals, .. } if approvals.is_empty() => return None,
                step => (step.is_of_administrators(&committee), step.signatures()),
            },
        };
        is_theirs.then_some(approvals)
    }

    /// Whether all signatures of a change hold: the client's own, the approvals in turn, and the
    /// members' words only behind them.
    fn change_holds(
        &mut self,
        own: &[Check],
        approvals: usize,
        others: &[Check],
        now: Instant,
    ) -> Result<(), Fault> {
        let (approvals, words) = others.split_at(approvals.min(others.len()));
        let scheme = &*self.scheme;
        if !scheme.verify(own).iter().all(|holds| *holds) {
            return Err(Fault::Frame);
        }
        let hold = self.approved.hold_in_turn(approvals, scheme, now)
            && self.approved.hold(words, scheme, now);
        if hold { Ok(()) } else { Err(Fault::Rest) }
    }
}

/// The dealing or complaint that a frame is, if it is one.
fn member_step(frame: &SharedFrame, every: Rules) -> Option<Step> {
    let step = frame.step(every)?.ok()?;
    (!matches!(step, Step::Begin { .. })).then_some(step)
}

/// Whether a frame is a change, a directive or a step of a key generation with signatures besides
/// its client's. What is a directive only by later rules counts: when it is ordered, those may be
/// the rules.
fn rests_on_more(frame: &SharedFrame, every: Rules) -> bool {
    match (frame.change(every), frame.directive(every), frame.step(every)) {
        (Some(Ok(change)), ..) => {
            let is_signed = !change.approvals.is_empty() || !change.ready.is_empty();
            is_signed || change.shares.is_some()
        }
        (_, Some(Ok(directive)), _) => !directive.approvals.is_empty(),
        (.., Some(Ok(_))) => true,
        _ => false,
    }
}
