//! Key generations through the ledger: who may deal, what disqualifies, and which change may bring
//! the key. Cryptography is `quorate-crypto`'s: here every check holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use quorate_core::base::crypto::{Check, PublicKey, ShareKeys, Signature};
use quorate_core::base::membership::{
    Committee, CommitteeError, Governance, Member, Opening, ReplicaKey, Rules,
};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::ledger::change::{Change, NextShares, Refusal as ChangeRefusal, SignedChange};
use quorate_core::ledger::execution::Execution;
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::generation::{
    Dealer, Generation, Generations, MAX_DEALING_BYTES, MAX_OPEN_BLOCKS, Plan, Refusal, Standing,
    Step,
};
use quorate_core::ledger::sessions::Limits;
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

use crate::clients::{ADMINISTRATOR, told};
use crate::fixtures::*;

const OLD: Rules = Rules { core: Rules::QUOTAS, application: 1 };
const NEW: Rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
/// For how many blocks the generations here are open.
const OPEN: u32 = 20;

fn of(id: u16, weight: u16) -> Member {
    Member { weight, ..Member::new(ReplicaKey::from([id as u8 + 1; 32])) }
}

/// The public shares of members, of which a quorum signs; `mark` tells keys apart.
fn shares(ids: &[u16], quorum: usize, mark: u8) -> ShareKeys {
    let keys = ids.iter().map(|id| (ReplicaId(*id), [mark + *id as u8; 96])).collect();
    ShareKeys::new(quorum, keys).expect("ascending")
}

/// Four members that count and a learner, with two of three administrators.
fn members_under(rules: Rules) -> Committee {
    let members = (0..5).map(|id| Some(of(id, u16::from(id < 4)))).collect();
    let administrators = (0..3).map(|at| key(ADMINISTRATOR + at)).collect();
    let governance = Governance { administrators, approvals: 2 };
    let opening = Opening { after: CHAIN, height: Height(0) };
    let committee = Committee::with_members(CHAIN, Epoch(0), opening, members, governance);
    committee.expect("a committee").under(rules)
}

/// The same, who sign with a threshold key.
fn committee() -> Committee {
    members_under(NEW).with_shares(shares(&[0, 1, 2, 3], 3, 100)).expect("one share for each")
}

/// The change that promotes the learner and leaves all else as it is.
fn change() -> Change {
    let mut members = committee().members().to_vec();
    members[4] = Some(of(4, 1));
    Change { ends: Epoch(0), members, governance: committee().governance().clone(), rules: NEW }
}

fn plan(serial: u64) -> Plan {
    let dealer = |id: u16| {
        // Each plan has encryption keys of its own.
        let encryption = [id as u8 + 60 + 10 * serial as u8; 32];
        Dealer { id: ReplicaId(id), key: PublicKey([id as u8 + 1; 32]), encryption }
    };
    let (ends, change) = (Epoch(0), change().digest());
    Plan { ends, serial, change, open_blocks: OPEN, dealers: (0..5).map(dealer).collect() }
}

fn approvals(count: u8) -> Vec<(PublicKey, Signature)> {
    (0..count).map(|at| (key(ADMINISTRATOR + at), Signature::NONE)).collect()
}

fn begin(serial: u64) -> Step {
    begin_by(plan(serial), approvals(2))
}

fn begin_by(plan: Plan, approvals: Vec<(PublicKey, Signature)>) -> Step {
    let proofs = plan.dealers.iter().map(|dealer| [dealer.id.0 as u8; 64]).collect();
    Step::Begin { plan, proofs, approvals }
}

fn dealing_of(dealer: u16) -> Bytes {
    Bytes::from(vec![dealer as u8; 40])
}

fn deal(serial: u64, dealer: u16, dealing: Bytes) -> Step {
    let signature = Signature::NONE;
    Step::Deal { plan: plan(serial), dealer: ReplicaId(dealer), dealing, signature }
}

fn complain(serial: u64, dealer: u16, dealing: Bytes, recipient: u16) -> Step {
    let (dealer, recipient) = (ReplicaId(dealer), ReplicaId(recipient));
    Step::Complain { plan: plan(serial), dealer, dealing, recipient, evidence: [7; 96] }
}

/// The client whose step it is.
fn sender_of(step: &Step) -> u8 {
    match step {
        Step::Begin { .. } => ADMINISTRATOR,
        Step::Deal { dealer: member, .. } | Step::Complain { recipient: member, .. } => {
            client_of(*member)
        }
    }
}

/// The client whose key is the own one of a member.
fn client_of(member: ReplicaId) -> u8 {
    member.0 as u8 + 1
}

/// A state in which the administrator has session 1, and the sessions of all, with the numbers of
/// their next commands.
struct Ledger {
    state: Execution<Journal>,
    sessions: BTreeMap<u8, (u64, u64)>,
}

impl Ledger {
    /// The members have the sessions behind it.
    fn of(committee: &Committee) -> Self {
        let mut ledger = Self::bare(committee);
        let members = (0..5).map(|id| client_of(ReplicaId(id)));
        let opens: Vec<_> = members.clone().map(|client| open(client, 1)).collect();
        outcomes(&mut ledger.state, &opens);
        ledger.sessions.extend(members.zip(2..).map(|(client, session)| (client, (session, 1))));
        ledger
    }

    fn bare(committee: &Committee) -> Self {
        let mut state = state(Limits::default()).governed_by(committee);
        assert_eq!(outcomes(&mut state, &[open(ADMINISTRATOR, 1)]), [opened(1, 1)]);
        Self { state, sessions: BTreeMap::from([(ADMINISTRATOR, (1, 1))]) }
    }

    fn new() -> Self {
        Self::of(&committee())
    }

    fn frame(&mut self, client: u8, command: Vec<u8>) -> SharedFrame {
        let (session, number) = self.sessions.get_mut(&client).expect("it has a session");
        *number += 1;
        signed_frame(client, *session, *number - 1, &[command], 0)
    }

    fn order_by(&mut self, client: u8, command: Vec<u8>) -> Result<u64, String> {
        let frame = self.frame(client, command);
        told(&outcomes(&mut self.state, &[frame])[0])
    }

    fn order(&mut self, command: Vec<u8>) -> Result<u64, String> {
        self.order_by(ADMINISTRATOR, command)
    }

    /// In the session of the one whose step it is.
    fn step(&mut self, step: &Step) -> Result<u64, String> {
        self.order_by(sender_of(step), step.to_command())
    }

    fn refused(&mut self, step: &Step) -> String {
        self.step(step).expect_err("it was to be refused")
    }

    /// All deal what is theirs.
    fn dealt(mut self, dealers: std::ops::Range<u16>) -> Self {
        assert_eq!(self.step(&begin(1)), Ok(1));
        for dealer in dealers {
            let dealt = self.step(&deal(1, dealer, dealing_of(dealer)));
            assert_eq!(dealt, Ok(u64::from(dealer) + 1));
        }
        self
    }

    fn generation(&self) -> &Generation {
        self.state.members().generations().current().expect("one is under way")
    }

    fn standing(&self) -> Standing {
        self.generation().standing(self.state.height().next())
    }

    /// The change, with the generation as it stands, for which all are ready.
    fn change(&self) -> SignedChange {
        let all = || (0..5).map(|id| (ReplicaId(id), Signature::NONE)).collect();
        let keys = shares(&[0, 1, 2, 3, 4], 4, 150);
        let generation = self.generation().digest();
        let shares = Some(Box::new(NextShares { generation, keys, possessions: all() }));
        SignedChange { change: change(), approvals: approvals(2), ready: all(), shares }
    }

    fn idle(&mut self, blocks: u32) {
        for _ in 0..blocks {
            outcomes(&mut self.state, &[]);
        }
    }
}

fn text(refusal: Refusal) -> String {
    refusal.to_string()
}

#[test]
fn members_deal_through_the_ledger_and_the_change_brings_the_key() {
    let mut ledger = Ledger::new();
    let before = ledger.state.summary().members;
    assert_eq!(before, committee().digest());
    ledger = ledger.dealt(0..3);
    assert_eq!(ledger.standing(), Standing::Dealing);
    let few = ledger.change().to_command();
    let too_few = Refusal::TooFew { qualified: 3, needed: 4 };
    assert_eq!(ledger.order(few), Err(text(too_few)));
    for dealer in 3..5 {
        ledger.step(&deal(1, dealer, dealing_of(dealer))).unwrap();
    }
    assert_eq!(ledger.standing(), Standing::Enough);
    assert_ne!(ledger.state.summary().members, before, "the root covers what was dealt");
    let change = ledger.change();
    assert_eq!(ledger.order(change.to_command()), Ok(1));
    let next = ledger.state.members().sealed().expect("the epoch is sealed").clone();
    let shares = change.shares.expect("it brings shares").keys;
    assert_eq!(next.shares().map(|shares| (**shares).clone()), Some(shares));
    // The end of the epoch names the next members and their key, and nothing else.
    assert_eq!(ledger.state.summary().members, next.digest());
    assert_ne!(
        next.digest(),
        next.clone().with_shares(self::shares(&[0, 1, 2, 3, 4], 4, 9)).expect("as many").digest()
    );
    let late = Refusal::UnderWay(Epoch(1));
    assert_eq!(ledger.refused(&begin(1)), text(late));
    let genesis = Digest::of("test block", b"genesis of epoch 1");
    ledger.state.open_epoch(genesis).unwrap();
    assert!(ledger.state.members().generations().is_empty(), "each epoch has its own");
}

#[test]
fn a_first_dealing_counts_and_nobody_deals_for_another_round() {
    let mut ledger = Ledger::new();
    assert_eq!(ledger.refused(&deal(1, 0, dealing_of(0))), text(Refusal::None));
    ledger = ledger.dealt(0..1);
    for dealing in [dealing_of(0), dealing_of(9)] {
        let again = Refusal::Dealt(ReplicaId(0));
        assert_eq!(ledger.refused(&deal(1, 0, dealing)), text(again));
    }
    let mut other = plan(1);
    other.dealers[2].encryption = [99; 32];
    let (dealer, dealing) = (ReplicaId(1), dealing_of(1));
    let step = Step::Deal { plan: other, dealer, dealing, signature: Signature::NONE };
    assert_eq!(ledger.refused(&step), text(Refusal::Other(1)));
    // Administrators may begin anew, and what was dealt before is of no use.
    assert_eq!(ledger.step(&begin(2)), Ok(2));
    assert!(ledger.generation().dealt().is_empty());
    assert_eq!(ledger.refused(&deal(1, 1, dealing_of(1))), text(Refusal::Other(2)));
    let replayed = Refusal::Serial { found: 1, next: 3 };
    assert_eq!(ledger.refused(&begin(1)), text(replayed));
}

#[test]
fn a_dealer_that_cheated_is_named_and_its_dealing_does_not_count() {
    let mut ledger = Ledger::new().dealt(0..4);
    assert_eq!(ledger.standing(), Standing::Enough);
    let stale = ledger.change().to_command();
    let not_dealt = |dealer| text(Refusal::NotDealt(ReplicaId(dealer)));
    assert_eq!(ledger.refused(&complain(1, 4, dealing_of(4), 1)), not_dealt(4));
    assert_eq!(ledger.refused(&complain(1, 2, dealing_of(9), 1)), not_dealt(2));
    assert_eq!(ledger.step(&complain(1, 2, dealing_of(2), 1)), Ok(1));
    let twice = Refusal::Disqualified(ReplicaId(2));
    assert_eq!(ledger.refused(&complain(1, 2, dealing_of(2), 3)), text(twice));
    assert_eq!(ledger.refused(&deal(1, 2, dealing_of(9))), text(Refusal::Dealt(ReplicaId(2))));
    let shown = ledger.generation().disqualified().iter().collect::<Vec<_>>();
    assert_eq!(shown, [(&ReplicaId(2), &ReplicaId(1))]);
    assert_eq!(ledger.standing(), Standing::Dealing);
    // Whoever was ready for the key with the cheat in it is not for the one without.
    assert_eq!(ledger.order(stale), Err(text(Refusal::Stale)));
    ledger.step(&deal(1, 4, dealing_of(4))).unwrap();
    assert!(ledger.generation().qualified().eq([0, 1, 3, 4].map(ReplicaId)));
    let change = ledger.change().to_command();
    assert_eq!(ledger.order(change), Ok(1));
}

#[test]
fn a_generation_ends_when_its_blocks_are_over_and_may_be_begun_again() {
    let mut ledger = Ledger::new().dealt(0..4);
    let begun = Height(ledger.state.height().0 - 4);
    assert_eq!(ledger.generation().open_to(), Height(begun.0 + u64::from(OPEN)));
    ledger.idle(OPEN - 5);
    assert_eq!(ledger.state.height().next(), ledger.generation().open_to());
    assert_eq!(ledger.standing(), Standing::Enough);
    assert!(ledger.step(&deal(1, 4, dealing_of(4))).is_ok(), "the last block counts");
    assert_eq!(ledger.standing(), Standing::Expired);
    let expired = || text(Refusal::Expired(Height(begun.0 + u64::from(OPEN))));
    assert_eq!(ledger.refused(&complain(1, 0, dealing_of(0), 1)), expired());
    let change = ledger.change().to_command();
    assert_eq!(ledger.order(change), Err(expired()));
    assert_eq!(ledger.step(&begin(2)), Ok(2));
    assert_eq!(ledger.standing(), Standing::Dealing);
}

#[test]
fn with_two_cheats_among_five_no_key_can_come_of_it() {
    let mut ledger = Ledger::new().dealt(0..5);
    ledger.step(&complain(1, 0, dealing_of(0), 1)).unwrap();
    assert_eq!(ledger.standing(), Standing::Enough, "a quorum is four");
    ledger.step(&complain(1, 1, dealing_of(1), 0)).unwrap();
    assert_eq!(ledger.standing(), Standing::Cheated);
}

#[test]
fn plans_that_make_no_key_are_refused() {
    let mut ledger = Ledger::new();
    let mut refused = |alter: &dyn Fn(&mut Plan)| {
        let mut plan = plan(1);
        alter(&mut plan);
        ledger.refused(&begin_by(plan, approvals(2)))
    };
    let most = MAX_OPEN_BLOCKS;
    assert_eq!(refused(&|plan| plan.dealers.truncate(3)), text(Refusal::Dealers(3)));
    let newcomer = ReplicaId(5);
    assert_eq!(refused(&|it| it.dealers[4].id = newcomer), text(Refusal::NotMember(newcomer)));
    assert_eq!(refused(&|it| it.dealers[1].key = it.dealers[0].key), text(Refusal::SharedKey));
    let shared = |it: &mut Plan| it.dealers[1].encryption = it.dealers[0].encryption;
    assert_eq!(refused(&shared), text(Refusal::SharedKey));
    for found in [0, MAX_OPEN_BLOCKS + 1] {
        let blocks = Refusal::OpenBlocks { found, most };
        assert_eq!(refused(&|plan| plan.open_blocks = found), text(blocks));
    }
    let (found, current) = (Epoch(1), Epoch(0));
    assert_eq!(refused(&|plan| plan.ends = Epoch(1)), text(Refusal::Epoch { found, current }));
    let step = begin_by(plan(1), approvals(1));
    assert_eq!(ledger.refused(&step), text(Refusal::NotApproved { found: 1, needed: 2 }));
    // It is alone in its frame, or nobody has verified it.
    let pair = [begin(1).to_command(), b"x".to_vec()];
    let frame = signed_frame(1, 2, 1, &pair, 0);
    let outcomes = outcomes(&mut ledger.state, &[open(1, 1), frame]);
    assert!(format!("{:?}", outcomes[1]).contains("only command of its frame"));
    assert!(ledger.state.members().generations().is_empty());
}

/// Its owner may have lost it meanwhile, and the log keeps all that was encrypted to it.
#[test]
fn an_encryption_key_is_for_one_plan() {
    let mut ledger = Ledger::new().dealt(0..2);
    let mut again = plan(2);
    again.dealers[3].encryption = plan(1).dealers[1].encryption;
    let refused = ledger.refused(&begin_by(again, approvals(2)));
    assert_eq!(refused, text(Refusal::FormerKey(ReplicaId(3))));
    assert_eq!(ledger.generation().plan(), &plan(1), "the former one goes on");
    assert_eq!(ledger.step(&begin(2)), Ok(2));
}

/// Or strangers have replicas compute as much as replicas would for the members.
#[test]
fn a_member_deals_and_complains_in_a_frame_of_its_own_key() {
    let mut ledger = Ledger::new().dealt(0..1);
    let stranger = || Err(text(Refusal::Stranger));
    let second = (deal(1, 1, dealing_of(1)), 2);
    let first_complaint = (complain(1, 0, dealing_of(0), 1), 1);
    for (step, count) in [second, first_complaint] {
        assert_eq!(ledger.order(step.to_command()), stranger());
        let another = client_of(ReplicaId(0));
        assert_eq!(ledger.order_by(another, step.to_command()), stranger());
        assert_eq!(ledger.step(&step), Ok(count));
    }
}

/// A leader has all others verify what its block rests on.
#[test]
fn no_correct_member_passes_on_what_its_epoch_could_not_begin() {
    let current = committee();
    let is_malformed = |step: &Step| step.is_malformed(&current);
    assert!(!is_malformed(&begin(1)) && !is_malformed(&begin(9)), "it may come too late");
    let mut strangers = approvals(2);
    strangers[1].0 = key(9);
    assert!(is_malformed(&begin_by(plan(1), strangers)));
    let mut large = plan(1);
    large.dealers.push(Dealer { id: ReplicaId(5), ..large.dealers[4] });
    assert!(is_malformed(&begin_by(large, approvals(2))), "more dealers than members");
    let later = Plan { ends: Epoch(1), ..plan(1) };
    assert!(is_malformed(&begin_by(later, approvals(2))));
    assert!(!is_malformed(&deal(1, 0, dealing_of(0))));
}

#[test]
fn frames_weigh_what_they_rest_on_beside_their_clients_signatures() {
    let weight = |command: Vec<u8>, rules| signed_frame(1, 1, 1, &[command], 0).proofs(rules);
    assert_eq!(weight(begin(1).to_command(), NEW), 2 + 5 * 4);
    assert_eq!(weight(begin(1).to_command(), OLD), 0, "a command like any other");
    assert!(weight(deal(1, 0, dealing_of(0)).to_command(), NEW) > 30);
    assert_eq!(weight(b"x".to_vec(), NEW), 0);
    let change = Ledger::new().dealt(0..5).change();
    assert_eq!(weight(change.to_command(), NEW), 2 + 5 + 5 * 10);
}

/// Whoever sends proofs that hold has replicas compute for them. So they look at the state first.
#[test]
fn a_step_is_worth_its_proofs_only_if_it_could_be_carried_out() {
    let mut ledger = Ledger::new();
    let expects_of = |ledger: &Ledger, client: u8, command: &[u8]| {
        let frame = signed_frame(client, 1, 1, &[command.to_vec()], 0);
        ledger.state.members().expects(&frame, ledger.state.height())
    };
    let expects = |ledger: &Ledger, command: &[u8]| expects_of(ledger, ADMINISTRATOR, command);
    let of = |ledger: &Ledger, step: &Step| expects_of(ledger, sender_of(step), &step.to_command());
    let (dealt, second) = (deal(1, 0, dealing_of(0)), deal(1, 1, dealing_of(1)));
    assert!(of(&ledger, &begin(1)) && !of(&ledger, &begin(2)));
    assert!(!of(&ledger, &begin_by(plan(1), approvals(1))), "too few administrators");
    let mut strangers = approvals(2);
    strangers.push((key(9), Signature::NONE));
    assert!(!of(&ledger, &begin_by(plan(1), strangers)), "a stranger signed as well");
    assert!(!of(&ledger, &dealt), "nobody has begun it");
    ledger = ledger.dealt(0..1);
    assert!(!of(&ledger, &dealt), "it has dealt");
    assert!(of(&ledger, &second));
    assert!(!of(&ledger, &deal(2, 1, dealing_of(1))), "a plan that somebody made up");
    assert!(of(&ledger, &complain(1, 0, dealing_of(0), 1)));
    assert!(!of(&ledger, &complain(1, 0, dealing_of(3), 1)), "nobody dealt that");
    // Anybody may make up a dealing or a complaint, and not in a frame that a member signed.
    for strange in [&second, &complain(1, 0, dealing_of(0), 1)] {
        assert!(!expects(&ledger, &strange.to_command()), "an administrator deals for no member");
        assert!(!expects_of(&ledger, client_of(ReplicaId(2)), &strange.to_command()));
    }
    for dealer in 1..5 {
        ledger.step(&deal(1, dealer, dealing_of(dealer))).unwrap();
    }
    let change = ledger.change();
    assert!(expects(&ledger, &change.to_command()));
    let mut unapproved = change.clone();
    unapproved.approvals.clear();
    let mut other = change.clone();
    other.shares.as_mut().unwrap().generation = GENESIS;
    for change in [unapproved, other] {
        assert!(!expects(&ledger, &change.to_command()));
    }
    // What rests on no proofs is verified as ever.
    let without = SignedChange { shares: None, ..change.clone() };
    assert!(expects(&ledger, &without.to_command()) && expects(&ledger, b"a command"));
    assert_eq!(ledger.order(change.to_command()), Ok(1));
    assert!(!of(&ledger, &begin(2)), "the epoch is sealed");
    // Elsewhere nothing more than signatures is verified, so all is.
    let own = Ledger::of(&members_under(NEW));
    assert!(of(&own, &dealt));
}

#[test]
fn proofs_weigh_what_they_cost_and_are_not_remembered() {
    let of = |step: &Step| step.checks(&CHAIN);
    let weights = |step: &Step| of(step).iter().map(Check::weight).collect::<Vec<_>>();
    assert_eq!(weights(&begin(1))[..3], [1, 1, 4]);
    let [signature, dealing] = weights(&deal(1, 2, dealing_of(2)))[..] else { panic!("two") };
    let [complaint] = weights(&complain(1, 2, dealing_of(2), 3))[..] else { panic!("one") };
    assert!(signature == 1 && dealing > 30 && complaint > dealing);
    let mut large = plan(1);
    let more = (5..100).map(|id: u16| Dealer { id: ReplicaId(id), ..large.dealers[0] });
    large.dealers.extend(more.collect::<Vec<_>>());
    let (dealing, signature) = (dealing_of(2), Signature::NONE);
    let step = Step::Deal { plan: large, dealer: ReplicaId(2), dealing, signature };
    assert!(weights(&step)[1] > 250, "it commits to 67 points");
    let kept = |check: &Check| check.may_be_kept();
    assert!(of(&begin(1))[..2].iter().all(kept));
    assert!(!of(&begin(1))[2..].iter().any(kept));
    assert!(!of(&complain(1, 2, dealing_of(2), 3)).iter().any(kept));
    let possession = Ledger::new().dealt(0..5).change().checks(&CHAIN).pop().unwrap();
    assert!(matches!(possession, Check::Joined { .. }) && !possession.may_be_kept());
}

/// Where clients are listed, the members need no grant to deal, and can do nothing else.
#[test]
fn members_that_are_to_deal_may_have_a_session() {
    use quorate_core::ledger::clients::{Admission, Clients};
    let mut ledger = Ledger::bare(&committee());
    let nobody = Arc::new(Clients::first(Admission::Listed, []).expect("it is short"));
    ledger.state = ledger.state.serving(nobody);
    let dealer = 4 + 1;
    let refused = |ledger: &mut Ledger| outcomes(&mut ledger.state, &[open(dealer, 1)]);
    let before = refused(&mut ledger);
    assert!(format!("{before:?}").contains("Rejected"), "{before:?}");
    assert_eq!(ledger.step(&begin(1)), Ok(1));
    assert_eq!(refused(&mut ledger), [opened(1, 2)]);
    let step = deal(1, 4, dealing_of(4)).to_command();
    let dealt = signed_frame(dealer, 2, 1, &[step], 0);
    assert_eq!(told(&outcomes(&mut ledger.state, &[dealt])[0]), Ok(1));
    assert!(ledger.state.sessions().dealers().contains(&key(dealer)), "the door knows it");
    let command = signed_frame(dealer, 2, 2, &[b"x".to_vec()], 0);
    let told = outcomes(&mut ledger.state, &[command]);
    assert!(format!("{told:?}").contains("Rejected"), "{told:?}");
    // A replica that takes the state over knows it, too.
    let (chunks, root) = (chunks_of(&ledger.state.snapshot()), ledger.state.state_root());
    let mut chunks = chunks.into_iter();
    let restored = Execution::restore(Journal::default(), Limits::default(), &mut chunks, root);
    let mut restored = restored.expect("an honest snapshot");
    let last = 3 + 1;
    let opened =
        [outcomes(&mut restored, &[open(last, 1)]), outcomes(&mut ledger.state, &[open(last, 1)])];
    assert_eq!(opened[0], opened[1]);
    assert_eq!(restored.state_root(), ledger.state.state_root());
}

/// Only a cluster that began with a threshold key has any use for these rules.
#[test]
fn rules_of_threshold_keys_are_offered_to_those_that_have_one() {
    let own = members_under(Rules::FIRST);
    assert_eq!(own.offers(NEW), OLD);
    assert_eq!(own.offers(Rules::FIRST), Rules::FIRST);
    assert_eq!(committee().offers(NEW), NEW);
    let later = Rules { core: Rules::GENERATED_KEYS + 1, application: 1 };
    assert_eq!(own.offers(later), later, "later rules are for all");
    assert_eq!(members_under(NEW).offers(NEW), NEW, "rules never go down");
}

#[test]
fn a_change_needs_the_key_of_all_its_members_and_no_other() {
    let mut ledger = Ledger::new().dealt(0..5);
    let good = ledger.change();
    let current = committee();
    let judge = |signed: &SignedChange| signed.judge(&current, current.opening()).map(|_| ());
    assert_eq!(judge(&good), Ok(()));
    // Without a key the former shares, of other members, would sign on.
    let without = SignedChange { shares: None, ..good.clone() };
    assert_eq!(judge(&without), Err(ChangeRefusal::NoShares));
    let mut silent = good.clone();
    silent.shares.as_mut().unwrap().possessions.remove(3);
    let missing = vec![ReplicaId(3)];
    let not_possessed = ChangeRefusal::NotPossessed { missing };
    assert_eq!(judge(&silent), Err(not_possessed.clone()), "a share that nobody proved");
    let mut silent = good.clone();
    silent.ready.remove(3);
    assert_eq!(judge(&silent), Err(not_possessed), "a quorum is not enough");
    let mut heavier = good.clone();
    heavier.change.members[2].as_mut().unwrap().weight = 2;
    let unequal = CommitteeError::UnequalWeights(ReplicaId(0), ReplicaId(2));
    assert_eq!(judge(&heavier), Err(unequal.into()));
    assert!(heavier.approved(&current, current.opening()).is_err(), "it is said before they deal");
    let mut fewer = good.clone();
    fewer.shares.as_mut().unwrap().keys = shares(&[0, 1, 2, 3], 3, 150);
    assert!(matches!(judge(&fewer), Err(ChangeRefusal::Committee(CommitteeError::Shares { .. }))));
    // The key was generated for this change, by these members.
    let mut other = good.clone();
    other.change.governance.approvals = 3;
    assert_eq!(ledger.order(other.to_command()), Err(text(Refusal::OtherChange)));
    let mut moved = good.clone();
    moved.change.members[4].as_mut().unwrap().key = ReplicaKey::from([77; 32]);
    assert_eq!(ledger.order(moved.to_command()), Err(text(Refusal::OtherChange)));
    assert_eq!(ledger.order(good.to_command()), Ok(1));
}

#[test]
fn a_fresh_key_alone_is_a_change() {
    let current = committee();
    let (members, governance) = (current.members().to_vec(), current.governance().clone());
    let change = Change { ends: Epoch(0), members, governance, rules: NEW };
    let (approvals, ready) = (approvals(2), Vec::new());
    let mut signed = SignedChange { change, approvals, ready, shares: None };
    assert_eq!(signed.approved(&current, current.opening()), Err(ChangeRefusal::Same));
    let (keys, possessions) = (shares(&[0, 1, 2, 3], 3, 150), Vec::new());
    signed.shares = Some(Box::new(NextShares { generation: GENESIS, keys, possessions }));
    assert!(signed.approved(&current, current.opening()).is_ok());
}

/// Of four members one is dead. No key can be generated without it, and it must not stand in the
/// way of its own removal.
#[test]
fn members_that_stay_keep_their_key_with_the_word_of_a_quorum() {
    let current = committee();
    let (mut members, governance) = (current.members().to_vec(), current.governance().clone());
    members.push(Some(of(5, 0)));
    let change = Change { ends: Epoch(0), members, governance, rules: NEW };
    let ready = [0, 1, 2].map(|id| (ReplicaId(id), Signature::NONE)).to_vec();
    let mut signed = SignedChange { change, approvals: approvals(2), ready, shares: None };
    let next = signed.judge(&current, current.opening()).unwrap();
    assert_eq!((next.shares(), next.epoch()), (current.shares(), Epoch(1)));
    signed.ready.pop();
    let few = signed.judge(&current, current.opening());
    assert!(matches!(few, Err(ChangeRefusal::NotReady { .. })), "{few:?}");
    // Other members, or another key of one, need a fresh key.
    let mut other = signed.clone();
    other.change.members[2].as_mut().unwrap().key = ReplicaKey::from([88; 32]);
    assert_eq!(other.judge(&current, current.opening()), Err(ChangeRefusal::NoShares));
}

/// Where members sign with their own keys, nobody has anything verified that only a threshold key
/// needs, and no stranger keeps blocks empty with it.
#[test]
fn what_only_a_threshold_key_needs_costs_nothing_elsewhere() {
    let (own, joint) = (members_under(NEW), committee());
    assert_eq!(own.verified_under(NEW), OLD);
    assert_eq!(joint.verified_under(NEW), NEW);
    assert_eq!(own.verified_under(OLD), OLD);
    let signed = Ledger::new().dealt(0..5).change();
    assert!(signed.may_seal(&joint) && !signed.may_seal(&own));
    // Without shares it may only if the members that count stay.
    let without = SignedChange { shares: None, ..signed.clone() };
    assert!(!without.may_seal(&joint) && without.may_seal(&own));
    let mut learners = without;
    learners.change.members[4] = None;
    assert!(learners.may_seal(&joint));
    let frame = signed_frame(1, 1, 1, &[signed.to_command()], 0);
    let checks = frame.claim_with_approvals(&CHAIN, own.verified_under(NEW)).checks().len();
    assert_eq!(checks, 1, "the client's");
}

#[test]
fn where_members_sign_with_their_own_keys_none_is_generated() {
    let own = members_under(NEW);
    let mut ledger = Ledger::of(&own);
    assert_eq!(ledger.refused(&begin(1)), text(Refusal::NoThresholdKey));
    let signed = Ledger::new().dealt(0..5).change();
    let judged = signed.judge(&own, own.opening()).map(|_| ());
    assert_eq!(judged, Err(ChangeRefusal::NoThresholdKey));
}

/// The words of release 0.1.0. Replies are a part of the state, so that not one letter may differ
/// before the rules are switched on.
const UNKNOWN: &str = "the change cannot be read: invalid format tag: this program reads changes \
                       of format 2";

#[test]
fn before_their_rules_a_step_is_a_command_and_a_change_with_shares_cannot_be_read() {
    let signed = Ledger::new().dealt(0..5).change();
    let mut ledger = Ledger::of(&members_under(OLD));
    let frame = ledger.frame(ADMINISTRATOR, begin(1).to_command());
    outcomes(&mut ledger.state, &[frame]);
    assert_eq!(ledger.state.application().commands, [begin(1).to_command()]);
    assert_eq!(ledger.order(signed.to_command()), Err(UNKNOWN.to_owned()));
    assert!(ledger.state.members().sealed().is_none());
    let refused = members_under(OLD).with_shares(shares(&[0, 1, 2, 3], 3, 1));
    assert_eq!(refused, Err(CommitteeError::NoSharesYet(OLD)));
    // What members and states are written as has not changed.
    let old = members_under(OLD);
    assert_eq!(old.to_bytes().len() + 1, members_under(NEW).to_bytes().len());
    assert_eq!(ledger.state.summary().members, old.digest());
}

/// Signatures and proofs are verified before a block is voted for, so programs must agree on which.
#[test]
fn a_frame_rests_on_what_its_rules_know() {
    let checks = |step: &Step, rules| {
        let frame = signed_frame(1, 1, 1, &[step.to_command()], 0);
        Arc::<Frame>::clone(&frame).claim_with_approvals(&CHAIN, rules).checks().to_vec()
    };
    let (dealt, shown) = (deal(1, 2, dealing_of(2)), complain(1, 2, dealing_of(2), 3));
    for step in [&begin(1), &dealt, &shown] {
        assert_eq!(checks(step, OLD).len(), 1, "the client's");
    }
    // Two administrators', and one proof of each encryption key.
    let begun = checks(&begin(1), NEW);
    assert_eq!(begun.len(), 1 + 2 + 5);
    let dealer = plan(1).dealers[4];
    let context = dealer.possession(&CHAIN, Epoch(0), 1);
    let proof = Check::EncryptionKey { context, key: dealer.encryption, proof: [4; 64] };
    assert_eq!(begun.last(), Some(&proof));
    let elsewhere = [
        dealer.possession(&GENESIS, Epoch(0), 1),
        dealer.possession(&CHAIN, Epoch(1), 1),
        dealer.possession(&CHAIN, Epoch(0), 2),
        Dealer { id: ReplicaId(3), ..dealer }.possession(&CHAIN, Epoch(0), 1),
    ];
    assert!(elsewhere.iter().all(|other| *other != context), "a proof serves one plan alone");
    let [_, signed, proved] = &checks(&dealt, NEW)[..] else { panic!("three checks") };
    let statement = plan(1).dealing(&CHAIN, ReplicaId(2), &dealing_of(2));
    let (key, signature) = (plan(1).dealers[2].key, Signature::NONE);
    assert_eq!(*signed, Check::Client { key, statement, signature });
    let round = Arc::new(plan(1).round(&CHAIN));
    let (dealer, dealing) = (2, dealing_of(2));
    assert_eq!(*proved, Check::Dealing { round: round.clone(), dealer, dealing: dealing.clone() });
    let (recipient, evidence) = (3, [7; 96]);
    let shown = checks(&shown, NEW).pop();
    assert_eq!(shown, Some(Check::Complaint { round, dealer, dealing, recipient, evidence }));
    // The signature covers dealer, dealing, round and chain.
    let other = plan(2).dealing(&CHAIN, ReplicaId(2), &dealing_of(2));
    let of_other = plan(1).dealing(&CHAIN, ReplicaId(3), &dealing_of(2));
    let on_other = plan(1).dealing(&GENESIS, ReplicaId(2), &dealing_of(2));
    assert!([other, of_other, on_other].iter().all(|it| *it != statement));
}

#[test]
fn what_members_join_is_checked_by_the_shares_of_their_epoch() {
    use quorate_core::base::crypto::{Kind, Share, Statement};
    let committee = committee();
    let of = |epoch, kind| {
        let statement = Statement::new(&CHAIN, Epoch(epoch), 1, kind, View(3), 1, &GENESIS);
        let (signer, signature) = (ReplicaId(2), Signature::NONE);
        Check::Replica(Share { signer, statement, signature })
    };
    for kind in [Kind::Vote, Kind::TimeOut] {
        let check = of(0, kind);
        let keys = Arc::clone(committee.shares().unwrap());
        let joined = Check::Joined { keys, check: Box::new(check.clone()) };
        assert_eq!(committee.by_key(check.clone()), joined);
        assert_eq!(committee.by_key(of(1, kind)), of(1, kind), "another epoch's");
        assert_eq!(joined.epoch(), Some(Epoch(0)));
    }
    let own = committee.by_key(of(0, Kind::Testimony));
    assert!(matches!(own, Check::Client { key, .. } if key.0 == [3; 32]), "{own:?}");
}

#[test]
fn a_state_is_restored_with_its_generation() {
    let mut ledger = Ledger::new().dealt(0..4);
    ledger.step(&complain(1, 1, dealing_of(1), 0)).unwrap();
    let (chunks, root) = (chunks_of(&ledger.state.snapshot()), ledger.state.state_root());
    let restore = |chunks: Vec<Bytes>| {
        let mut chunks = chunks.into_iter();
        Execution::restore(Journal::default(), Limits::default(), &mut chunks, root)
    };
    let restored = restore(chunks.clone()).expect("an honest snapshot");
    assert_eq!(restored.members(), ledger.state.members());
    // The disqualified dealer is gone from a forged one.
    let mut forged = chunks;
    let mut header = forged[0].to_vec();
    let kept = header.len() - 8;
    header.truncate(kept);
    header.extend_from_slice(&0u32.to_le_bytes());
    forged[0] = header.into();
    assert!(restore(forged).is_err());
}

#[test]
fn the_largest_step_fits_a_frame() {
    let dealers = (0..256).map(|id: u16| Dealer {
        id: ReplicaId(id),
        key: PublicKey([id as u8; 32]),
        encryption: [id as u8; 32],
    });
    let plan = Plan { dealers: dealers.collect(), ..plan(1) };
    let (dealing, signature) = (vec![1; MAX_DEALING_BYTES].into(), Signature::from([1; 64]));
    let step = Step::Deal { plan, dealer: ReplicaId(255), dealing, signature };
    let command = step.to_command();
    assert!(command.len() < 64 << 10, "{} bytes", command.len());
    assert_eq!(Step::of_command(&command), Ok(step));
}

fn some_step() -> impl Strategy<Value = Step> {
    let (serial, id) = (1..4u64, || 0..5u16);
    prop_oneof![
        1 => serial.clone().prop_map(begin),
        6 => (serial.clone(), id(), id()).prop_map(|(it, who, what)| deal(it, who, dealing_of(what))),
        3 => (serial, id(), id(), id())
            .prop_map(|(it, who, what, by)| complain(it, who, dealing_of(what), by)),
    ]
}

proptest! {
    /// Whatever steps are ordered: what is dealt is never taken back, nobody qualifies that
    /// cheated, and the state has one encoding.
    #[test]
    fn a_generation_only_grows(steps in prop::collection::vec(some_step(), 0..40)) {
        let mut now = Generations::default();
        for (height, step) in steps.iter().enumerate() {
            prop_assert_eq!(&Step::of_command(&step.to_command()).unwrap(), step);
            let Ok((after, _)) = now.after(step, &committee(), Height(height as u64)) else { continue };
            prop_assert_ne!(&after, &now);
            let (before, generation) = (now.current(), after.current().unwrap());
            let same = before.filter(|it| it.plan() == generation.plan());
            if let Some(before) = same {
                prop_assert!(before.dealt().iter().all(|it| generation.dealt().get(it.0) == Some(it.1)));
                let (old, new) = (before.disqualified(), generation.disqualified());
                prop_assert!(old.keys().all(|id| new.contains_key(id)));
            }
            prop_assert!(generation.qualified().all(|id| !generation.disqualified().contains_key(&id)));
            let read = Generations::from_bytes(after.to_bytes().into());
            prop_assert_eq!(read.as_ref(), Ok(&after));
            now = after;
        }
    }

    #[test]
    fn nobody_falls_over_what_is_no_step(mut bytes in prop::collection::vec(any::<u8>(), 0..400), good: bool) {
        if good {
            let step = deal(1, 2, dealing_of(2)).to_command();
            let at = bytes.len() % step.len();
            bytes = [&step[..at], &bytes[..]].concat();
        }
        drop(Step::of_command(&[b"quorate generation 1", &bytes[..]].concat()));
        drop(Step::of_command(&bytes));
        drop(SignedChange::of_command(&[b"quorate change 3", &bytes[..]].concat()));
        drop(Generations::from_bytes(bytes.into()));
    }
}
