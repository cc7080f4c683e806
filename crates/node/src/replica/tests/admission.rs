//! Who comes past the door, and what those cost who do not.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quorate_app::ordering;
use quorate_core::base::crypto::{ClientSigner as _, PublicKey, Signature, Signer as _};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{self, Outcome, Refusal, Rejection, Request, Response};
use quorate_core::ledger::clients::{Admission as Policy, Clients};
use quorate_core::ledger::directive::{Directive, Order, SignedDirective};
use quorate_core::ledger::execution::Execution;
use quorate_core::ledger::frame::{Frame, Unnamed};
use quorate_core::ledger::sessions::Limits;
use quorate_core::{Committee, Digest, Epoch, Height, Sequence, SessionId, View};
use quorate_crypto::SecretKey;
use quorate_transport::{ConnectionId, Event};

use super::changes::{beginning, committee_with_shares};
use super::requests::{CHAIN, Stage, stage_of};
use crate::replica::admission::Admission;
use crate::replica::desk::Work as _;
use crate::replica::epochs::Epochs;
use crate::replica::refusals::{PROVEN, UNPROVEN};

fn key(number: u8) -> SecretKey {
    SecretKey::from_seed(&[number; 32])
}

fn public(number: u8) -> PublicKey {
    key(number).public_key()
}

/// Four members and an administrator.
fn committee() -> Committee {
    let members = (0..4).map(|id| Some(Member::new(ReplicaKey::from(public(id).0))));
    let governance = Governance { administrators: vec![public(100)], approvals: 1 };
    let opening = Opening { after: CHAIN, height: Height(0) };
    Committee::with_members(CHAIN, Epoch(0), opening, members.collect(), governance).unwrap()
}

/// Publishes a list, as the state behind a genesis has it.
fn publish(epochs: &Epochs, clients: Clients) {
    let application = ordering::Ordering::new();
    let state = Execution::new(application, Limits::default(), Digest([1; 32])).unwrap();
    epochs.clients.note(state.serving(Arc::new(clients)).sessions());
}

/// The list after these orders.
fn ordered(policy: Policy, keys: &[u8], orders: &[Order]) -> Clients {
    let mut clients = Clients::first(policy, keys.iter().map(|at| public(*at))).unwrap();
    for order in orders {
        let directive = Directive { serial: clients.next_serial(), order: order.clone() };
        let approval = key(100).sign(&directive.approval(&CHAIN));
        let signed = SignedDirective { directive, approvals: vec![(public(100), approval)] };
        clients = signed.judge(&committee(), &clients).unwrap();
    }
    clients
}

/// A client's frame of one command.
fn frame(client: u8, session: u64, number: u64) -> Frame {
    let (client, commands) = (key(client), [&b"x"[..]]);
    let (session, first) = (SessionId(session), Sequence(number));
    let sign = |statement: &_| client.sign(statement);
    Frame::build(client.public_key(), session, first, commands, &CHAIN, sign).unwrap()
}

fn event(frame: Frame) -> Event {
    Event::Frame(Request::Submit { relay: false, frame: frame.into() }.to_bytes().into())
}

/// How many of the frames are handed on, and how many signatures are verified for them.
fn outcome(stage: &mut Stage, frames: Vec<Frame>) -> (usize, usize) {
    outcome_over(stage, ConnectionId(1), frames)
}

/// The same of frames that come over this connection.
fn outcome_over(stage: &mut Stage, from: ConnectionId, frames: Vec<Frame>) -> (usize, usize) {
    let (mut passed, before) = (0, stage.checked.load(Ordering::Relaxed));
    for frame in frames {
        stage.sender.try_send((from, event(frame)), 0).unwrap();
        while !stage.stage.single_turn().unwrap() {}
        passed += stage.queues.clients.try_iter().map(|batch| batch.doings.len()).sum::<usize>();
    }
    (passed, stage.checked.load(Ordering::Relaxed) - before)
}

#[tokio::test]
async fn frames_of_those_who_are_not_admitted_cost_no_verification() {
    let mut stage = stage_of(&key(50), committee()).await;
    assert_eq!(outcome(&mut stage, vec![frame(1, 5, 1), frame(2, 6, 1)]), (2, 2));
    publish(&stage.epochs, ordered(Policy::Listed, &[1], &[Order::Revoke(public(3))]));
    assert_eq!(outcome(&mut stage, vec![frame(1, 5, 2)]), (1, 1), "it is listed");
    let strangers = (1..=20).map(|number| frame(2, 6, number)).collect();
    assert_eq!(outcome(&mut stage, strangers), (0, 0));
    assert_eq!(outcome(&mut stage, vec![frame(3, 7, 1)]), (0, 0));
    assert_eq!(outcome(&mut stage, vec![frame(100, 8, 1)]), (1, 1), "the state judges it");
    let refused = stage.metrics.refused();
    let of = |reason| refused.get(reason).copied();
    assert_eq!((of("client_not_listed"), of("client_revoked")), (Some(20), Some(1)));
}

/// The members need no entry in the list to deal. Where the door knew the list alone, no dealing
/// would ever be ordered.
#[tokio::test]
async fn members_that_are_to_deal_come_in_where_clients_are_listed() {
    let committee = committee_with_shares();
    let mut stage = stage_of(&key(50), committee.clone()).await;
    let nobody = Arc::new(Clients::first(Policy::Listed, []).unwrap());
    let state = Execution::new(ordering::Ordering::new(), Limits::default(), CHAIN).unwrap();
    let mut state = state.governed_by(&committee).serving(nobody);
    stage.epochs.clients.note(state.sessions());
    assert_eq!(outcome(&mut stage, vec![frame(2, 6, 1)]), (0, 0));
    // An administrator begins a generation.
    let unsigned = |_: &_| Signature::NONE;
    let open = Frame::open(public(100), 1, &CHAIN, unsigned);
    let begin = beginning().1.to_command();
    let (session, first) = (SessionId(1), Sequence(1));
    let begin = Frame::build(public(100), session, first, [&begin[..]], &CHAIN, unsigned).unwrap();
    for (height, frame) in (1..).zip([open, begin]) {
        let id = Digest([height as u8; 32]);
        state.execute(Height(height), View(height), id, &[frame.into()]).unwrap();
    }
    assert!(state.members().generations().current().is_some());
    stage.epochs.clients.note(state.sessions());
    assert_eq!(outcome(&mut stage, vec![frame(2, 6, 1)]), (1, 1), "member 2 is to deal");
    assert_eq!(outcome(&mut stage, vec![frame(9, 7, 1)]), (0, 0), "nobody else comes in");
}

/// What is said of a frame is what the state would say for ever, or that the replica is not ready:
/// it may be behind.
#[test]
fn a_replica_that_may_be_behind_rejects_no_frame_for_good() {
    let epochs = Arc::new(Epochs::new(committee()));
    publish(&epochs, ordered(Policy::Open, &[], &[Order::Revoke(public(1))]));
    let door = Admission::new(epochs);
    let answer = |frame: Frame| {
        let message::Decoded::Submit { frame, .. } =
            message::Decoded::from_bytes(match event(frame) {
                Event::Frame(bytes) => bytes,
                _ => unreachable!("it is a frame"),
            })
            .unwrap()
        else {
            panic!("it is a frame")
        };
        let frame: Unnamed = frame;
        door.refuses(&frame).map(|reason| door.answer(&frame, reason))
    };
    let reason = Rejection::Revoked;
    let open = Frame::open(public(1), 7, &CHAIN, |statement| key(1).sign(statement));
    let (session, first) = (SessionId(0), Sequence(7));
    let rejected = Response::Outcome(Outcome::Rejected { session, first, reason });
    assert_eq!(answer(open), Some(rejected));
    // The first session has not been opened here.
    let (session, first) = (SessionId(1), Sequence(3));
    let unready = Response::Refused { session, first, reason: Refusal::Unavailable };
    assert_eq!(answer(frame(1, 1, 3)), Some(unready));
    assert_eq!(answer(frame(2, 1, 3)), None);
}

fn limited(rate: u32) -> Clients {
    let grant = quorate_core::ledger::clients::Grant {
        commands_per_second: NonZeroU32::new(rate),
        ..Default::default()
    };
    ordered(Policy::Open, &[], &[Order::Allow(public(1), grant)])
}

#[test]
fn a_bucket_holds_a_second_s_worth_and_may_be_in_debt() {
    let epochs = Arc::new(Epochs::new(committee()));
    publish(&epochs, limited(10));
    let mut door = Admission::new(Arc::clone(&epochs));
    let (client, begin) = (public(1), Instant::now());
    let at = |millis| begin + Duration::from_millis(millis);
    assert!(door.pay(&client, 4, at(0)));
    assert!(door.pay(&client, 16, at(0)), "there are tokens left, and it takes more");
    assert!(door.is_beyond_rate(&client, at(0)));
    assert!(!door.pay(&client, 1, at(1_099)), "it owes ten, and has earned less than eleven");
    assert!(!door.is_beyond_rate(&client, at(1_100)));
    assert!(door.pay(&client, 1, at(1_100)));
    assert!(!door.pay(&client, 1, at(1_100)));
    // However long it was silent.
    assert!((0..10).all(|_| door.pay(&client, 1, at(60_000))));
    assert!(!door.pay(&client, 1, at(60_000)));
    // Others are not its business.
    assert!((0..100).all(|_| door.pay(&public(2), 1_000, at(60_000))));
    // Another rate begins anew.
    publish(&epochs, limited(20));
    door.look();
    assert!((0..20).all(|_| door.pay(&client, 1, at(60_000))));
    assert!(!door.pay(&client, 1, at(60_000)));
}

#[tokio::test]
async fn a_client_beyond_its_rate_is_told_to_come_later_and_nobody_else_is() {
    let mut stage = stage_of(&key(50), committee()).await;
    publish(&stage.epochs, limited(1));
    let flood: Vec<Frame> = (1..=100).map(|number| frame(1, 5, number)).collect();
    let (passed, _) = outcome(&mut stage, flood);
    let refused = stage.metrics.refused().get("client_beyond_rate").copied().unwrap_or_default();
    assert_eq!(passed as u64 + refused, 100);
    assert!(refused > 0, "it sent a hundred commands at once, and may send one a second");
    let others = (1..=100).map(|number| frame(2, 6, number)).collect();
    assert_eq!(outcome(&mut stage, others), (100, 100));
}

/// Anybody can write another's key into a frame.
#[tokio::test]
async fn forged_frames_use_up_nobody_s_rate() {
    let mut stage = stage_of(&key(50), committee()).await;
    publish(&stage.epochs, limited(1));
    let forged = |number| {
        let (session, first) = (SessionId(5), Sequence(number));
        let sign = |statement: &_| key(2).sign(statement);
        Frame::build(public(1), session, first, [&b"x"[..]], &CHAIN, sign).unwrap()
    };
    assert_eq!(outcome(&mut stage, vec![forged(1), forged(2)]), (0, 2));
    assert_eq!(outcome(&mut stage, vec![frame(1, 5, 1)]), (1, 1));
}

/// Decided frames are there for everybody to pull. Sending them again uses up an allowance, and not
/// their client's rate.
#[tokio::test]
async fn frames_that_are_sent_again_use_up_nobody_s_rate() {
    let mut stage = stage_of(&key(50), committee()).await;
    publish(&stage.epochs, limited(1));
    stage.settled.note(&[frame(1, 5, 5000).into()], |_| Some(Sequence(5001)));
    let old = (1..=100).map(|number| frame(1, 5, number)).collect();
    assert_eq!(outcome_over(&mut stage, ConnectionId(2), old), (100, 100));
    assert_eq!(outcome(&mut stage, vec![frame(1, 5, 5001)]), (1, 1));
}

/// So many frames of a client, beyond its rate, come over a connection. How many of these refusals
/// are answered.
fn answered(stage: &mut Stage, from: ConnectionId, frames: u64) -> u64 {
    let of = |stage: &Stage, reason| stage.metrics.refused().get(reason).copied().unwrap_or(0);
    let count = |stage: &Stage| (of(stage, "client_beyond_rate"), of(stage, "client_unanswered"));
    let (refused, unanswered) = count(stage);
    let passed = outcome_over(stage, from, vec![frame(1, 5, 2); frames as usize]);
    let (refused, unanswered) = (count(stage).0 - refused, count(stage).1 - unanswered);
    assert_eq!((passed, refused), ((0, 0), frames), "it owes tokens of a quarter of an hour");
    refused - unanswered
}

/// The list of a client that has used up its tokens for longer than this test may take.
async fn used_up() -> Stage {
    let mut stage = stage_of(&key(50), committee()).await;
    publish(&stage.epochs, limited(1));
    let commands = vec![&b"x"[..]; 1000];
    let sign = |statement: &_| key(1).sign(statement);
    let frame = Frame::build(public(1), SessionId(5), Sequence(1), commands, &CHAIN, sign);
    assert_eq!(outcome(&mut stage, vec![frame.unwrap()]), (1, 1));
    stage
}

/// What it earns back while the test runs is answered as well, so an allowance is a lower bound.
const MANY: u64 = 20_000;

#[tokio::test]
async fn a_client_that_goes_on_gets_no_answers_and_others_do() {
    let mut stage = used_up().await;
    let answers = answered(&mut stage, ConnectionId(1), MANY);
    assert!((u64::from(PROVEN.at_once)..MANY).contains(&answers), "{answers} of {MANY}");
    let others = (1..=100).map(|number| frame(2, 6, number)).collect();
    assert_eq!(outcome_over(&mut stage, ConnectionId(2), others), (100, 100));
}

/// Anybody can write another's key into a frame, or send again what its holder signed once: the
/// connection pays.
#[tokio::test]
async fn forged_frames_use_up_nobody_s_allowance() {
    let mut stage = used_up().await;
    let (forger, repeater) = (ConnectionId(2), ConnectionId(3));
    stage.stage.standings.good(repeater, public(1));
    for (stranger, allowance) in [(forger, UNPROVEN), (repeater, PROVEN)] {
        let answers = answered(&mut stage, stranger, MANY);
        assert!((u64::from(allowance.at_once)..MANY).contains(&answers), "{answers} of {MANY}");
        assert_eq!(answered(&mut stage, ConnectionId(1), 100), 100);
    }
}
