//! Key generations through the ledger: who may deal, what disqualifies, and which change may bring
//! the key. Cryptography is `quorate-crypto`'s: here every check holds.

mod formats;

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
