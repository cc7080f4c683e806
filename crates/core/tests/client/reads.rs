//! Reads by an index: what the index is worth against liars, and how rounds are shared.
//!
//! n = 4, f = 1, q = 3. Replicas are played by the tests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quorate_core::base::membership::{faults, quorum};
use quorate_core::base::types::{Duration, Epoch, Height, ReplicaId, Time};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::Packed;
use quorate_core::client::message::{MAX_READS, Request, Response, Unproven};
use quorate_core::client::read_index::Voters;
use quorate_core::client::reads::{Input, Output, ReadError, ReadId, Reads};
use quorate_core::replica::reads::{self, Read};

fn packed(texts: &[&str]) -> Packed {
    Packed::commands(texts).expect("they fit")
}

/// The machine, and what it wants done.
struct Client {
    reads: Reads,
    now: Time,
    outputs: Vec<Output>,
}

impl Client {
    fn new(replicas: usize) -> Self {
        let reads = Reads::new(Voters::equal(replicas));
        Self { reads, now: Time(0), outputs: Vec::new() }
    }

    fn step(&mut self, input: Input) {
        self.reads.step(self.now, input, &mut self.outputs);
    }

    fn read(&mut self, id: ReadId, texts: &[&str]) {
        self.step(Input::Read { id, questions: packed(texts), give_up: None });
    }

    fn hear(&mut self, from: u16, response: Response) {
        self.step(Input::Response { from: ReplicaId(from), response });
    }

    fn index(&mut self, from: u16, id: u64, height: u64) {
        self.hear(from, Response::ReadIndex { id, index: Height(height) });
    }

    fn answer(&mut self, from: u16, id: u64, texts: &[&str]) {
        self.hear(from, Response::Reads { id, answers: packed(texts) });
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
        self.step(Input::Timeout);
    }

    /// What was sent since the last call: rounds asked for, and reads at an index.
    fn sent(&mut self) -> (Vec<u64>, Vec<(u16, u64, u64)>) {
        let (mut rounds, mut reads) = (Vec::new(), Vec::new());
        self.outputs.retain(|output| {
            match output {
                Output::Send { to: None, request: Request::ReadIndex { id, .. } } => {
                    rounds.push(*id);
                }
                Output::Send { to: Some(to), request: Request::ReadAt { id, index, .. } } => {
                    reads.push((to.0, *id, index.0));
                }
                Output::Send { .. } => {}
                Output::Done { .. } | Output::Look => return true,
            }
            false
        });
        (rounds, reads)
    }

    /// What was done since the last call.
    fn done(&mut self) -> Vec<(ReadId, Result<Vec<String>, ReadError>)> {
        let text = |bytes: bytes::Bytes| String::from_utf8_lossy(&bytes).into_owned();
        let done =
            std::mem::take(&mut self.outputs).into_iter().filter_map(|output| match output {
                Output::Done { id, result } => {
                    Some((id, result.map(|answers| answers.iter().map(text).collect())))
                }
                _ => None,
            });
        done.collect()
    }
}

fn ok(texts: &[&str]) -> Result<Vec<String>, ReadError> {
    Ok(texts.iter().map(|text| (*text).to_owned()).collect())
}

#[test]
fn a_read_is_answered_by_two_alike_at_the_index_of_three() {
    let mut client = Client::new(4);
    client.read(7, &["a", "b"]);
    assert_eq!(client.sent(), (vec![1], vec![]));
    client.index(0, 1, 5);
    client.index(1, 1, 4);
    assert_eq!(client.sent(), (vec![], vec![]), "two may both be behind");
    client.index(2, 1, 6);
    let (_, asked) = client.sent();
    assert_eq!(asked.len(), 2, "f + 1 are enough if they answer alike: {asked:?}");
    assert!(asked.iter().all(|(_, round, index)| (*round, *index) == (1, 6)), "{asked:?}");
    client.answer(asked[0].0, 1, &["1", "2"]);
    assert_eq!(client.done(), vec![], "one may lie");
    client.answer(asked[1].0, 1, &["1", "2"]);
    assert_eq!(client.done(), vec![(7, ok(&["1", "2"]))]);
    assert_eq!(client.reads.deadline(), None);
}

#[test]
fn a_read_shares_the_next_round_and_joins_none_that_has_begun() {
    let mut client = Client::new(4);
    client.read(1, &["a"]);
    client.index(0, 1, 0);
    // The replicas that have answered knew nothing of what was answered to others since.
    client.read(2, &["b"]);
    client.read(3, &["c"]);
    assert_eq!(client.sent(), (vec![1], vec![]));
    client.index(1, 1, 0);
    client.index(2, 1, 0);
    let (rounds, asked) = client.sent();
    assert_eq!(rounds, vec![2], "what came meanwhile begins together, after the first index");
    for (replica, ..) in asked {
        client.answer(replica, 1, &["1"]);
    }
    assert_eq!(client.done(), vec![(1, ok(&["1"]))]);
    (0..3).for_each(|replica| client.index(replica, 2, 9));
    let (_, asked) = client.sent();
    assert!(asked.iter().all(|(_, round, index)| (*round, *index) == (2, 9)), "{asked:?}");
    for (replica, ..) in asked {
        client.answer(replica, 2, &["2", "3"]);
    }
    assert_eq!(client.done(), vec![(2, ok(&["2"])), (3, ok(&["3"]))]);
}

#[test]
fn a_height_that_is_too_great_is_left_out_when_all_others_have_answered() {
    let mut client = Client::new(4);
    client.read(1, &["a"]);
    client.index(3, 1, 1_000_000);
    client.index(0, 1, 5);
    client.index(1, 1, 5);
    let (_, asked) = client.sent();
    assert!(asked.iter().all(|(.., index)| *index == 1_000_000), "it may be the only one to know");
    client.index(2, 1, 4);
    let (_, again) = client.sent();
    assert!(!again.is_empty() && again.iter().all(|(.., index)| *index == 5), "{again:?}");
}

#[test]
fn others_are_asked_where_answers_differ_and_then_there_is_one_more_round() {
    let mut client = Client::new(4);
    client.read(1, &["a"]);
    for round in 1..=2 {
        (0..4).for_each(|replica| client.index(replica, round, 5));
        let mut texts = ["w", "x", "y", "z"].into_iter();
        for _ in 0..2 {
            let (_, asked) = client.sent();
            assert_eq!(asked.len(), 2, "round {round}");
            for (replica, ..) in asked {
                client.answer(replica, round, &[texts.next().expect("four replicas")]);
            }
        }
    }
    assert_eq!(client.done(), vec![(1, Err(ReadError::Unequal))]);
}

#[test]
fn a_liar_that_answers_twice_or_unasked_has_one_voice() {
    let mut client = Client::new(4);
    client.read(1, &["a"]);
    (0..3).for_each(|replica| client.index(replica, 1, 5));
    let (_, asked) = client.sent();
    let liar = asked[0].0;
    client.answer(liar, 1, &["lie"]);
    client.answer(liar, 1, &["lie"]);
    let unasked = (0..4).find(|id| asked.iter().all(|(to, ..)| to != id)).expect("two are not");
    client.answer(unasked, 1, &["lie"]);
    client.answer(9, 1, &["lie"]);
    assert_eq!(client.done(), vec![]);
}

#[test]
fn answers_of_two_states_are_not_put_together() {
    let mut client = Client::new(4);
    client.read(1, &["a", "b"]);
    (0..4).for_each(|replica| client.index(replica, 1, 5));
    // Each question has f + 1 equal answers after three of them, and both together have not: "b" of
    // the older state would be read after "a" of the newer one.
    let answers = [["new", "new"], ["new", "old"], ["older", "old"], ["new", "old"]];
    let mut answers = answers.into_iter();
    for _ in 0..2 {
        let (_, asked) = client.sent();
        for ((replica, ..), texts) in asked.into_iter().zip(&mut answers) {
            assert_eq!(client.outputs, vec![]);
            client.answer(replica, 1, &texts);
        }
    }
    assert_eq!(client.done(), vec![(1, ok(&["new", "old"]))]);
}

#[test]
fn silent_replicas_are_asked_again_others_instead_of_them_and_all_is_bounded_in_time() {
    let mut client = Client::new(4);
    client.read(1, &["a"]);
    client.wait(60);
    let again = client.outputs.iter().filter(|output| {
        matches!(output, Output::Send { to: Some(_), request: Request::ReadIndex { .. } })
    });
    assert_eq!(again.count(), 4);
    client.sent();
    (0..3).for_each(|replica| client.index(replica, 1, 5));
    assert_eq!(client.sent().1.len(), 2);
    client.wait(60);
    assert_eq!(client.sent().1.len(), 2, "the two others");
    client.wait(2_000);
    assert_eq!(client.sent(), (vec![2], vec![]), "a second round");
    client.wait(100);
    client.wait(2_000);
    client.wait(2_000);
    assert_eq!(client.done(), vec![(1, Err(ReadError::TooFew))]);
    assert_eq!(client.reads.deadline(), None);
}

#[test]
fn who_refuses_is_not_waited_for() {
    for (reason, error) in
        [(Unproven::Epoch, ReadError::Members), (Unproven::Forgotten, ReadError::NoIndex)]
    {
        let mut client = Client::new(4);
        client.read(1, &["a"]);
        client.hear(0, Response::Unproven { id: 1, reason });
        assert_eq!(client.done(), vec![], "three may still answer");
        client.hear(1, Response::Unproven { id: 1, reason });
        assert_eq!(client.done(), vec![(1, Err(error))]);
    }
    let mut client = Client::new(4);
    client.read(1, &["a"]);
    client.hear(0, Response::Unproven { id: 1, reason: Unproven::Epoch });
    assert!(client.outputs.contains(&Output::Look), "the members may be others");
}

#[test]
fn a_read_that_f_plus_1_replicas_leave_off_at_is_given_up_at_once_and_others_are_not() {
    let mut client = Client::new(4);
    for (id, question) in [(1, "a"), (2, "short"), (3, "long"), (4, "short")] {
        client.read(id, &[question]);
    }
    (0..3).for_each(|replica| client.index(replica, 1, 5));
    client.sent();
    // What came meanwhile shares the second round.
    (0..3).for_each(|replica| client.index(replica, 2, 5));
    for (replica, ..) in client.sent().1 {
        client.answer(replica, 2, &["1"]);
    }
    assert_eq!(client.done(), vec![(2, ok(&["1"])), (3, Err(ReadError::TooLong))]);
}

#[test]
fn who_does_not_answer_is_asked_after_the_others_in_later_rounds() {
    let (mut client, mut waits) = (Client::new(4), 0);
    for round in 1..=8 {
        client.read(round, &["a"]);
        (0..4).for_each(|replica| client.index(replica, round, 5));
        let mut asked = client.sent().1;
        assert_eq!(asked.len(), 2);
        if asked.iter().any(|(replica, ..)| *replica == 0) {
            waits += 1;
            client.wait(60);
            asked.extend(client.sent().1);
        }
        for (replica, ..) in asked.into_iter().filter(|(replica, ..)| *replica != 0) {
            client.answer(replica, round, &["1"]);
        }
        assert_eq!(client.done(), vec![(round, ok(&["1"]))]);
    }
    assert_eq!(waits, 1);
}

#[test]
fn other_members_are_asked_anew() {
    let mut client = Client::new(4);
    client.read(1, &["a"]);
    client.index(0, 1, 5);
    client.index(1, 1, 5);
    let (now, mut voters) = (client.now, Voters::equal(4));
    voters.epoch = Epoch(1);
    client.reads.change_members(now, voters, &mut client.outputs);
    let epochs: Vec<_> = client
        .outputs
        .iter()
        .filter_map(|output| match output {
            Output::Send { request: Request::ReadIndex { id, epoch }, .. } => Some((*id, epoch.0)),
            _ => None,
        })
        .collect();
    assert_eq!(epochs, [(1, 0), (2, 1)]);
    client.sent();
    client.index(2, 1, 5);
    assert_eq!(client.sent(), (vec![], vec![]), "what the old members said counts no more");
}

#[test]
fn a_liar_that_changes_its_word_has_the_questions_sent_once_more_at_most() {
    let mut client = Client::new(4);
    client.read(1, &["a"]);
    client.index(0, 1, 5);
    client.index(1, 1, 5);
    client.index(3, 1, 1_000);
    assert_eq!(client.sent().1.len(), 2);
    for height in [999, 998, 997, 6] {
        client.index(3, 1, height);
        assert_eq!(client.sent(), (vec![], vec![]), "its first word stands");
    }
    client.index(2, 1, 5);
    assert!(client.sent().1.iter().all(|(.., index)| *index == 5));
}

#[test]
fn a_liar_that_speaks_of_other_members_has_them_looked_for_once_a_round() {
    let mut client = Client::new(4);
    let looks = |client: &mut Client, id| {
        client.hear(3, Response::Unproven { id, reason: Unproven::Epoch });
        let looks = client.outputs.iter().filter(|output| **output == Output::Look).count();
        client.outputs.clear();
        looks
    };
    assert_eq!(looks(&mut client, 0), 0, "nothing was asked");
    client.read(1, &["a"]);
    assert_eq!(looks(&mut client, 9), 0, "there is no such round");
    assert_eq!(looks(&mut client, 1), 1);
    assert_eq!(looks(&mut client, 1), 0);
}

#[test]
fn a_read_has_no_more_time_than_it_was_given_wherever_it_is() {
    let mut client = Client::new(4);
    let until = |millis| Some(Time(0).after(Duration::from_millis(millis)));
    let reads = [(1, 100), (2, 10), (3, 20)];
    for (id, millis) in reads {
        let give_up = until(millis);
        client.step(Input::Read { id, questions: packed(&["a"]), give_up });
    }
    // The first one asks for its index; the others wait behind it.
    assert_eq!(client.reads.deadline(), until(10));
    client.wait(10);
    assert_eq!(client.done(), vec![(2, Err(ReadError::TooFew))]);
    client.wait(10);
    assert_eq!(client.done(), vec![(3, Err(ReadError::TooFew))]);
    (0..3).for_each(|replica| client.index(replica, 1, 5));
    client.wait(80);
    assert_eq!(client.done(), vec![(1, Err(ReadError::TooFew))], "nobody answers it");
    assert_eq!(client.reads.deadline(), None);
}

#[test]
fn what_waits_behind_a_round_without_a_quorum_is_given_up_with_it() {
    let mut client = Client::new(4);
    (1..=3).for_each(|id| client.read(id, &["a"]));
    client.wait(2_000);
    let failed = [1, 2, 3].map(|id| (id, Err(ReadError::TooFew)));
    assert_eq!(client.done(), failed);
    assert_eq!(client.reads.deadline(), None);
}

#[test]
fn what_does_not_fit_is_refused_and_what_was_taken_ends_with_the_client() {
    let mut client = Client::new(4);
    client.read(1, &["a"; MAX_READS + 1]);
    client.read(2, &[&"a".repeat(2 << 20)]);
    let errors = [1, 2].map(|id| (id, Err(ReadError::DoesNotFit)));
    assert_eq!(client.done(), errors);
    client.read(3, &["a"]);
    client.read(4, &["a"]);
    client.reads.close(&mut client.outputs);
    assert_eq!(client.done(), [3, 4].map(|id| (id, Err(ReadError::Closed))));
}

#[test]
fn reads_wait_at_a_replica_for_the_state_and_not_for_ever() {
    let read = |client: u64, id, index| {
        let (epoch, index) = (Epoch(0), Height(index));
        Read { client, id, epoch, index, questions: packed(&["a"]) }
    };
    let late = Time(0).after(reads::PATIENCE);
    let mut waiting = reads::Reads::default();
    let mut take =
        |now, fresh, height| waiting.take_in(now, fresh, |_, index| Ok(index <= Height(height)));
    let due = take(Time(0), vec![read(1, 5, 5), read(1, 7, 7)], 5);
    assert_eq!(due, vec![(read(1, 5, 5), Ok(()))], "the other waits");
    assert_eq!(take(Time(1), vec![], 6), vec![]);
    assert_eq!(take(late, vec![], 6), vec![(read(1, 7, 7), Err(Unproven::Late))]);
    // A client has a part of the room.
    let many = (0..reads::MAX_WAITING_OF_ONE as u64).map(|id| read(1, id, 9)).collect();
    assert_eq!(take(late, many, 6), vec![]);
    assert_eq!(take(late, vec![read(1, 99, 9)], 6), vec![(read(1, 99, 9), Err(Unproven::Busy))]);
    assert_eq!(take(late, vec![read(1, 0, 8)], 6), vec![], "in place of the one with that id");
    assert_eq!(waiting.deadline(), Some(late.after(reads::PATIENCE)));
    assert_eq!(waiting.len(), reads::MAX_WAITING_OF_ONE);
    waiting.forget(1);
    assert_eq!(waiting.deadline(), None);
}

/// Strangers name heights that no state comes to, as many as find room.
#[test]
fn reads_of_strangers_keep_nobody_out_at_a_replica() {
    let read = |client: u64, id, index| {
        let (epoch, index) = (Epoch(0), Height(index));
        Read { client, id, epoch, index, questions: packed(&["a"]) }
    };
    let mut waiting = reads::Reads::default();
    let mut take = |fresh| waiting.take_in(Time(0), fresh, |_, index| Ok(index <= Height(6)));
    let lines = reads::MAX_WAITING / reads::MAX_WAITING_OF_ONE;
    for client in 0..lines as u64 {
        let line = (0..reads::MAX_WAITING_OF_ONE as u64).map(|id| read(client, id, u64::MAX));
        assert_eq!(take(line.collect()), vec![]);
    }
    assert_eq!(take(vec![read(99, 1, 6)]), vec![(read(99, 1, 6), Ok(()))], "it takes no place");
    let out = take(vec![read(99, 2, 7)]);
    assert!(matches!(&out[..], [(left_out, Err(Unproven::Busy))] if left_out.client != 99));
    // Among reads of one height it is the longest line that gives way.
    let mut waiting = reads::Reads::default();
    let mut take = |fresh| waiting.take_in(Time(0), fresh, |_, _| Ok(false));
    for client in 0..lines as u64 {
        take((0..reads::MAX_WAITING_OF_ONE as u64).map(|id| read(client, id, 7)).collect());
    }
    let out = take(vec![read(99, 1, 7)]);
    assert!(matches!(&out[..], [(left_out, Err(Unproven::Busy))] if left_out.client != 99));
}

#[test]
fn messages_are_what_they_were_and_others_are_refused() {
    let (epoch, index, questions) = (Epoch(3), Height(9), packed(&["a", "b"]));
    let requests = [
        Request::ReadIndex { id: 1, epoch },
        Request::ReadAt { id: 2, epoch, index, questions: questions.clone() },
    ];
    for request in requests {
        assert_eq!(Request::from_bytes(request.to_bytes().into()), Ok(request));
    }
    let responses = [
        Response::ReadIndex { id: 1, index },
        Response::Reads { id: 2, answers: questions.clone() },
    ];
    for response in responses {
        assert_eq!(Response::from_bytes(response.to_bytes().into()), Ok(response));
    }
    // A count that is not that of the strings.
    let mut bytes = Response::Reads { id: 2, answers: questions }.to_bytes();
    for count in [0, 1, 3, u32::MAX] {
        bytes[9..13].copy_from_slice(&count.to_le_bytes());
        assert!(Response::from_bytes(bytes.clone().into()).is_err(), "{count}");
    }
}

proptest! {
    /// Whoever answers, in whatever order, and whatever liars say: the index covers a height that f
    /// + 1 correct replicas know, and no height above all that correct ones say once they answered.
    #[test]
    fn the_index_covers_what_was_answered(
        n in 1usize..14,
        known in 1u64..100,
        order in proptest::collection::vec((any::<u16>(), any::<u64>()), 14),
    ) {
        let f = faults(n);
        let voters = Voters::equal(n);
        let mut replicas: Vec<usize> = (0..n).collect();
        replicas.sort_by_key(|id| order[*id].0);
        // The first f by id lie; the f + 1 after them know, the others are behind.
        let says = |id: usize| match id {
            id if id < f => order[id].1,
            id if id < 2 * f + 1 => known + order[id].1 % 3,
            id => order[id].1 % known,
        };
        let highest = (f..n).map(says).max().unwrap_or_default();
        let mut said = BTreeMap::new();
        for id in replicas {
            said.insert(ReplicaId(id as u16), Height(says(id)));
            let index = voters.index(&said);
            prop_assert_eq!(index.is_some(), said.len() >= quorum(n));
            if let Some(index) = index {
                prop_assert!(index >= Height(known), "{:?} of {:?}", index, said);
            }
        }
        prop_assert!(voters.index(&said) <= Some(Height(highest)));
    }
}
