//! What changes of the members may cost a replica.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_app::ordering::Ordering;
use quorate_core::base::crypto::{
    Check, ClientSigner as _, PublicKey, ShareKeys, Signature, Signer as _,
};
use quorate_core::base::membership::{
    Governance, MAX_REPLICAS, Member, Opening, ReplicaKey, Rules,
};
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::Request;
use quorate_core::ledger::change::{Change, NextShares, SignedChange};
use quorate_core::ledger::directive::{Directive, Order, SignedDirective};
use quorate_core::ledger::execution::Execution;
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::generation::{Dealer, Plan, Step};
use quorate_core::ledger::sessions::Limits;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, Sequence, SessionId, View};
use quorate_crypto::SecretKey;
use quorate_crypto::bls::threshold;
use quorate_crypto::bls::threshold::generation::{DecryptionKey, Round};
use quorate_transport::{ConnectionId, Event};

use super::requests::{CHAIN, Stage, stage_of};
use crate::replica::changes::{Approved, CHANGE_SIGNATURES_A_SECOND, MOST_CHANGE_SIGNATURES};
use crate::replica::desk::Work as _;

fn key(number: u8) -> SecretKey {
    SecretKey::from_seed(&[number; 32])
}

fn administrator(number: u8) -> SecretKey {
    key(100 + number)
}

/// Four members that three administrators govern, two of whom must sign.
fn committee() -> Committee {
    let members = (0..4).map(|id| Some(Member::new(ReplicaKey::from(key(id).public_key().0))));
    let administrators = (0..3).map(|number| administrator(number).public_key()).collect();
    let governance = Governance { administrators, approvals: 2 };
    let opening = Opening { after: CHAIN, height: Height(0) };
    Committee::with_members(CHAIN, Epoch(0), opening, members.collect(), governance).unwrap()
}

/// A change that two administrators and all members signed.
fn change() -> SignedChange {
    change_that_adds(key(9))
}

fn change_that_adds(learner: SecretKey) -> SignedChange {
    let committee = committee();
    let mut members = committee.members().to_vec();
    let learner = Member::new(ReplicaKey::from(learner.public_key().0));
    members.push(Some(Member { weight: 0, ..learner }));
    let (governance, rules) = (committee.governance().clone(), committee.rules());
    let change = Change { ends: Epoch(0), members, governance, rules };
    let approval = change.approval(&CHAIN);
    let approved = |key: SecretKey| (key.public_key(), key.sign(&approval));
    let approvals = (0..2).map(administrator).map(approved).collect();
    let readiness = change.readiness(&CHAIN);
    let ready = (0..4).map(|id| (ReplicaId(id.into()), key(id).sign(&readiness))).collect();
    SignedChange { change, approvals, ready, shares: None }
}

/// As many members as there can be say that they are ready, and nobody signed.
fn forged_words() -> Vec<(ReplicaId, Signature)> {
    (0..256).map(|id| (ReplicaId(id % 4), Signature::from([7; 64]))).collect()
}

/// A client's frame with this change.
fn frame(change: &SignedChange, number: u64) -> Event {
    frame_of(&change.to_command(), number)
}

fn frame_of(command: &[u8], number: u64) -> Event {
    frame_by(&key(200), command, number)
}

fn frame_by(client: &SecretKey, command: &[u8], number: u64) -> Event {
    let sign = |statement: &_| client.sign(statement);
    let (session, first) = (SessionId(5), Sequence(number));
    let commands = [command];
    let frame = Frame::build(client.public_key(), session, first, commands, &CHAIN, sign).unwrap();
    Event::Frame(Request::Submit { relay: false, frame: frame.into() }.to_bytes().into())
}

/// What comes of events of one new connection: how much is handed on, and how many signatures are
/// verified for it.
async fn outcome(events: Vec<Event>) -> (usize, usize) {
    let Stage { mut stage, sender, queues, checked, .. } = stage_of(&key(50), committee()).await;
    let mut passed = 0;
    for event in events {
        sender.try_send((ConnectionId(1), event), 0).unwrap();
        while !stage.single_turn().unwrap() {}
        passed += queues.clients.try_iter().map(|batch| batch.doings.len()).sum::<usize>();
    }
    (passed, checked.load(Relaxed))
}

#[tokio::test]
async fn a_change_that_administrators_signed_has_all_its_signatures_verified() {
    // The client's, two approvals, four members.
    assert_eq!(outcome(vec![frame(&change(), 1)]).await, (1, 7));
    let mut unready = change();
    unready.ready[2].1 = Signature::from([7; 64]);
    assert_eq!(outcome(vec![frame(&unready, 1)]).await, (0, 7));
}

#[tokio::test]
async fn a_stranger_has_next_to_nothing_verified() {
    // Somebody signs who is no administrator, or one signs twice: it costs nothing to see that.
    let mut strange = change();
    strange.ready = forged_words();
    strange.approvals[1].0 = key(77).public_key();
    assert_eq!(outcome(vec![frame(&strange, 1)]).await, (0, 0));
    strange.approvals[1] = strange.approvals[0];
    assert_eq!(outcome(vec![frame(&strange, 1)]).await, (0, 0));
    // Somebody signs in an administrator's name: the client's own signature, and the first of
    // these.
    let mut forged = change();
    forged.ready = forged_words();
    forged.approvals[0].1 = Signature::from([7; 64]);
    assert_eq!(outcome(vec![frame(&forged, 1)]).await, (0, 2));
}

/// A directive on clients, signed by two administrators.
fn directive() -> SignedDirective {
    let directive = Directive { serial: 1, order: Order::Revoke(key(7).public_key()) };
    let approval = directive.approval(&CHAIN);
    let approved = |key: SecretKey| (key.public_key(), key.sign(&approval));
    let approvals = (0..2).map(administrator).map(approved).collect();
    SignedDirective { directive, approvals }
}

#[tokio::test]
async fn a_directive_costs_a_stranger_as_little_as_a_change() {
    let of = |directive: &SignedDirective| vec![frame_of(&directive.to_command(), 1)];
    // The client's, and two approvals.
    assert_eq!(outcome(of(&directive())).await, (1, 3));
    let mut strange = directive();
    strange.approvals[1].0 = key(77).public_key();
    assert_eq!(outcome(of(&strange)).await, (0, 0));
    strange.approvals[1] = strange.approvals[0];
    assert_eq!(outcome(of(&strange)).await, (0, 0));
    let mut forged = directive();
    forged.approvals[0].1 = Signature::from([7; 64]);
    assert_eq!(outcome(of(&forged)).await, (0, 2));
    // What somebody signed for another order is no approval of this one.
    let mut other = directive();
    other.directive.serial = 2;
    assert_eq!(outcome(of(&other)).await, (0, 2));
}

#[tokio::test]
async fn changes_are_within_an_allowance() {
    // Six signatures of each but the client's.
    const ALLOWED: usize = MOST_CHANGE_SIGNATURES as usize / 6;
    let another = |number: u64| {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        frame(&change_that_adds(SecretKey::from_seed(&seed)), number)
    };
    let (passed, checks) = outcome((1..=700).map(another).collect()).await;
    assert_eq!((passed, checks), (ALLOWED, 7 * ALLOWED));
}

/// Anybody may repeat what administrators signed, and must not keep them from being heard by it.
#[tokio::test]
async fn a_change_that_is_sent_again_costs_its_sender_s_signature_and_no_allowance() {
    let again = (1..=1000).map(|number| frame(&change(), number));
    let another = frame(&change_that_adds(key(10)), 1001);
    let (passed, checks) = outcome(again.chain([another]).collect()).await;
    assert_eq!((passed, checks), (1001, 1001 + 6 + 6));
}

#[tokio::test]
async fn a_member_s_word_is_asked_for_by_administrators_alone() {
    let ask = |change: &SignedChange| {
        let change = Bytes::from(change.to_bytes());
        vec![Event::Frame(Request::Ready { id: 1, change }.to_bytes().into())]
    };
    assert_eq!(outcome(ask(&change())).await, (1, 2));
    let mut forged = change();
    forged.approvals[0].1 = Signature::from([7; 64]);
    assert_eq!(outcome(ask(&forged)).await, (0, 1));
    forged.approvals[1].0 = key(77).public_key();
    assert_eq!(outcome(ask(&forged)).await, (0, 0));
    // One that was made for another epoch, and that everybody may know by now.
    let mut old = change();
    old.change.ends = Epoch(7);
    assert_eq!(outcome(ask(&old)).await, (0, 0));
}

/// The same committee, whose members sign with a threshold key.
pub(super) fn committee_with_shares() -> Committee {
    let dealt = threshold::deal(4, 3).unwrap();
    let keys = dealt.shares.iter().map(|share| share.public_key());
    let keys = (0..4).map(ReplicaId).zip(keys).collect();
    let rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
    committee().under(rules).with_shares(ShareKeys::new(3, keys).unwrap()).unwrap()
}

/// A change with shares, and words by shares, that somebody made up.
fn made_up(change: SignedChange) -> SignedChange {
    let keys = (**committee_with_shares().shares().unwrap()).clone();
    let possessions = vec![(ReplicaId(0), Signature::from([7; 64]))];
    let shares = NextShares { generation: Digest([1; 32]), keys, possessions };
    let rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
    let change = SignedChange { change: Change { rules, ..change.change }, ..change };
    SignedChange { shares: Some(Box::new(shares)), ..change }
}

/// If such a frame came into a mempool, all would refuse the proposal that has it, and take its
/// honest leader for a liar. What the executed state does not expect costs nothing, either: proofs
/// cost hundreds of signatures.
#[tokio::test]
async fn made_up_shares_and_steps_are_refused_at_the_door_and_nothing_of_them_is_verified() {
    let committee = committee_with_shares();
    let bare =
        |change: SignedChange| SignedChange { approvals: Vec::new(), ready: Vec::new(), ..change };
    let dealers: Vec<_> = (0..4)
        .map(|id| Dealer {
            id: ReplicaId(id.into()),
            key: key(id).public_key(),
            encryption: [id + 1; 32],
        })
        .collect();
    let (ends, change_of) = (Epoch(0), change().change.digest());
    let plan = Plan { ends, serial: 1, change: change_of, open_blocks: 100, dealers };
    let dealing = Bytes::from_static(b"no dealing");
    let signature = key(0).sign(&plan.dealing(&CHAIN, ReplicaId(0), &dealing));
    let step = Step::Deal { plan, dealer: ReplicaId(0), dealing, signature };
    for command in
        [made_up(bare(change())).to_command(), made_up(change()).to_command(), step.to_command()]
    {
        let staged = stage_of(&key(50), committee.clone()).await;
        let Stage { mut stage, sender, queues, checked, .. } = staged;
        let state = Execution::new(Ordering::default(), Limits::default(), CHAIN).unwrap();
        let state = state.governed_by(&committee);
        stage.generating.note(&state, &[]);
        sender.try_send((ConnectionId(1), frame_of(&command, 1)), 0).unwrap();
        while !stage.single_turn().unwrap() {}
        assert!(queues.clients.try_iter().all(|batch| batch.doings.is_empty()));
        assert_eq!(checked.load(SeqCst), 0);
    }
}

/// The plan of a generation in which four members deal, and its beginning.
pub(super) fn beginning() -> (Plan, Step) {
    let dealers = (0..4).map(|id: u8| {
        let encryption = DecryptionKey::from_seed(&[id + 1; 32]).public_key().to_bytes();
        Dealer { id: ReplicaId(id.into()), key: key(id).public_key(), encryption }
    });
    let (ends, change, dealers) = (Epoch(0), change().change.digest(), dealers.collect());
    let plan = Plan { ends, serial: 1, change, open_blocks: 100, dealers };
    let approved = |key: SecretKey| (key.public_key(), Signature::NONE);
    let approvals = (0..2).map(administrator).map(approved).collect();
    let begin = Step::Begin { plan: plan.clone(), proofs: vec![[0; 64]; 4], approvals };
    (plan, begin)
}

/// The members deal in a generation: the stage of one, which has executed the beginning and what
/// member 0 dealt.
struct Dealt {
    stage: Stage,
    plan: Plan,
    dealing: Bytes,
}

impl Dealt {
    async fn new() -> Self {
        let committee = committee_with_shares();
        let (plan, begin) = beginning();
        let (dealer, dealing) = (ReplicaId(0), Bytes::from_static(b"dealt"));
        let (signature, step) = (Signature::NONE, (plan.clone(), dealing.clone()));
        let deal = Step::Deal { plan: step.0, dealer, dealing: step.1, signature };
        let mut state = Execution::new(Ordering::default(), Limits::default(), CHAIN)
            .unwrap()
            .governed_by(&committee);
        let frame = |session, first, commands: &[Vec<u8>]| {
            let commands = commands.iter().map(|it| &it[..]);
            let (session, first) = (SessionId(session), Sequence(first));
            let by = key(0).public_key();
            let unsigned = |_: &_| Signature::NONE;
            SharedFrame::from(Frame::build(by, session, first, commands, &CHAIN, unsigned).unwrap())
        };
        let steps = [begin.to_command(), deal.to_command()].map(|step| vec![step]);
        let blocks = [frame(0, 1, &[]), frame(1, 1, &steps[0]), frame(1, 2, &steps[1])];
        for (height, frame) in (1..).zip(blocks) {
            let id = Digest([height as u8; 32]);
            state.execute(Height(height), View(height), id, &[frame]).unwrap();
        }
        let generation = state.members().generations().current().unwrap();
        assert_eq!(generation.dealt().len(), 1);
        let stage = stage_of(&key(50), committee).await;
        stage.stage.generating.note(&state, &[]);
        Self { stage, plan, dealing }
    }

    /// A complaint of member 1 whose evidence is noise.
    fn forged(&self, noise: u8) -> Vec<u8> {
        let (plan, dealing) = (self.plan.clone(), self.dealing.clone());
        let (dealer, recipient) = (ReplicaId(0), ReplicaId(1));
        let evidence = [noise; 96];
        Step::Complain { plan, dealer, dealing, recipient, evidence }.to_command()
    }

    /// A dealing of member 1 that holds, and its signature.
    fn sound(&self, seed: u8) -> Vec<u8> {
        let (plan, dealer) = (self.plan.clone(), ReplicaId(1));
        let round = plan.round(&CHAIN);
        let round = Round::new(round.context.0, &round.keys, round.quorum).unwrap();
        let dealing = Bytes::from(round.deal(1, &[seed; 32]).unwrap());
        let signature = key(1).sign(&plan.dealing(&CHAIN, dealer, &dealing));
        Step::Deal { plan, dealer, dealing, signature }.to_command()
    }

    /// How many checks are made for a command in a frame of this key, over a connection, and how
    /// many frames get past the door.
    fn sends(&mut self, from: u64, event: Event) -> (usize, usize) {
        let before = self.stage.checked.load(SeqCst);
        self.stage.sender.try_send((ConnectionId(from), event), 0).unwrap();
        while !self.stage.stage.single_turn().unwrap() {}
        let passed = self.stage.queues.clients.try_iter().map(|batch| batch.doings.len()).sum();
        (self.stage.checked.load(SeqCst) - before, passed)
    }

    /// The same of a command that does not get past it.
    fn checks(&mut self, from: u64, client: &SecretKey, command: &[u8]) -> usize {
        let (checks, passed) = self.sends(from, frame_by(client, command, 1));
        assert_eq!(passed, 0);
        checks
    }
}

/// The plan and the dealings are known to all, and noise is no evidence. Strangers could spend what
/// all changes, steps and directives may cost.
#[tokio::test]
async fn a_complaint_costs_nothing_unless_the_member_whose_it_is_sends_it() {
    let mut dealt = Dealt::new().await;
    let command = dealt.forged(1);
    for (connection, client) in [(1, key(200)), (2, key(0)), (3, administrator(0))] {
        assert_eq!(dealt.checks(connection, &client, &command), 0);
    }
}

/// Else one member that lies could spend it.
#[tokio::test]
async fn a_member_whose_signed_complaint_is_false_is_not_listened_to_again() {
    let mut dealt = Dealt::new().await;
    // Somebody may send it with a signature that is none of hers.
    let event = frame_by(&key(1), &dealt.forged(1), 1);
    let Event::Frame(bytes) = event else { unreachable!("it is a frame") };
    let mut bytes = bytes.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    dealt.stage.sender.try_send((ConnectionId(7), Event::Frame(bytes.into())), 0).unwrap();
    while !dealt.stage.stage.single_turn().unwrap() {}
    assert_eq!(dealt.stage.checked.load(SeqCst), 1);
    let first = dealt.forged(1);
    assert_eq!(dealt.checks(1, &key(1), &first), 2, "her own signature, and the evidence");
    for noise in 2..10 {
        let another = dealt.forged(noise);
        assert_eq!(dealt.checks(noise.into(), &key(1), &another), 0);
    }
}

/// Its proofs hold, in frames that are never carried out, so that it goes on being expected. Each
/// costs as much as dozens of signatures, and no change would get its turn.
#[tokio::test]
async fn a_member_that_sends_one_sound_dealing_after_the_other_has_two_of_them_verified() {
    let mut dealt = Dealt::new().await;
    let mut sends = |number: u64, seed: u8| {
        let event = frame_by(&key(1), &dealt.sound(seed), number);
        dealt.sends(1, event)
    };
    // The frame's signature, the dealing's, and its proof.
    assert_eq!(sends(1, 1), (3, 1));
    assert_eq!(sends(2, 2), (3, 1));
    for seed in 3..10 {
        assert_eq!(sends(seed.into(), seed), (0, 0));
    }
    // Its own one may come again, as often as it has to: its proof is known to hold.
    for number in 10..20 {
        assert_eq!(sends(number, 1), (1, 1));
    }
}

/// Members could never be changed again where it is more than may be verified at once.
#[tokio::test]
async fn the_largest_change_and_the_largest_beginning_are_verified() {
    let approved = |key: SecretKey| (key.public_key(), Signature::NONE);
    let everybody = || (0..Governance::MAX_ADMINISTRATORS as u8).map(key).map(approved).collect();
    let dealers = (0..MAX_REPLICAS as u16).map(|id| {
        let key = PublicKey([id as u8; 32]);
        Dealer { id: ReplicaId(id), key, encryption: [id as u8; 32] }
    });
    let (ends, change, dealers) = (Epoch(0), change().change.digest(), dealers.collect());
    let plan = Plan { ends, serial: 1, change, open_blocks: 100, dealers };
    let proofs = vec![[0; 64]; MAX_REPLICAS];
    let begin = Step::Begin { plan, proofs, approvals: everybody() };
    let signed = || (0..MAX_REPLICAS as u16).map(|id| (ReplicaId(id), Signature::NONE)).collect();
    let member = |id| Some(Member::new(ReplicaKey::from(key(id as u8).public_key().0)));
    let members = (0..MAX_REPLICAS).map(member).collect();
    let change = Change { members, ..self::change().change };
    let keys = (0..MAX_REPLICAS as u16).map(|id| (ReplicaId(id), [id as u8; 96])).collect();
    let keys = ShareKeys::new(171, keys).unwrap();
    let shares = NextShares { generation: Digest([1; 32]), keys, possessions: signed() };
    let shares = Some(Box::new(shares));
    let change = SignedChange { change, approvals: everybody(), ready: signed(), shares };
    for (checks, least) in [(begin.checks(&CHAIN), 1024), (change.checks(&CHAIN), 11 * 256)] {
        let weight: usize = checks.iter().map(Check::weight).sum();
        assert!(weight >= least, "{weight}");
        // Others have spent all that there was, and go on spending.
        let (mut now, mut spent) = (Instant::now(), Approved::new(Instant::now()));
        spent.spend(usize::MAX, now);
        assert!(!spent.has(&checks, now));
        let seconds = MOST_CHANGE_SIGNATURES / CHANGE_SIGNATURES_A_SECOND;
        for _ in 0..2 * seconds {
            now += Duration::from_secs(1);
            spent.spend(CHANGE_SIGNATURES_A_SECOND as usize / 2, now);
        }
        now += Duration::from_secs(u64::from(seconds) / 2);
        assert!(spent.has(&checks, now), "{weight}");
    }
}

/// Strangers that ask for words under forged changes are let go of, and leave the allowance to
/// those who have signatures.
#[tokio::test]
async fn forged_changes_do_not_use_up_what_genuine_ones_may_cost() {
    let ask = |change: &SignedChange| {
        let change = Bytes::from(change.to_bytes());
        Event::Frame(Request::Ready { id: 1, change }.to_bytes().into())
    };
    let mut forged = change();
    forged.approvals[0].1 = Signature::from([7; 64]);
    let flood = (0..CHANGE_SIGNATURES_A_SECOND).map(|_| ask(&forged)).collect();
    assert_eq!(outcome(flood).await, (0, 4), "the connection ends with the fourth");
}
