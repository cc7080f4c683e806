use bytes::Bytes;
use quorate_core::base::types::{Duration, ReplicaId, Sequence, SessionId};
use quorate_core::client::message::{Outcome, Refusal, Rejection};
use quorate_core::client::{Input, Packed, Route};

use crate::script::{MILLISECOND, Script, executed, opened, rejected, submit};

#[test]
fn a_session_is_opened_by_f_plus_1_replicas_that_agree() {
    let mut script = Script::new(|_| {});
    script.inputs([submit(1, &["a"]), Input::Connected(ReplicaId(0))]);
    script.expect("r0: open 10 relay");
    for replica in 1..4 {
        script.input(Input::Connected(ReplicaId(replica)));
    }
    script.expect("r1: open 10 relay\n r2: open 10 relay\n r3: open 10");
    script.say(3, opened(10, 66));
    script.say(3, opened(10, 66));
    script.say(0, opened(10, 5));
    script.say(1, opened(9, 5));
    script.say(2, opened(10, 0));
    script.expect("");
    script.say(1, opened(10, 5));
    script.expect("opened s5\n all: s5 #1+1");
}

#[test]
fn all_that_waits_goes_in_one_frame_and_nothing_waits_for_a_frame_to_fill() {
    let mut script = Script::opened(|config| config.window = 2);
    script.inputs([submit(1, &["a", "b"]), submit(2, &["c"])]);
    script.expect("all: s5 #1+3");
    script.input(submit(3, &["d"]));
    script.expect("all: s5 #4+1");
    script.input(submit(4, &["e"]));
    script.input(submit(5, &["f"]));
    script.expect("");
    script.say(0, executed(5, 1, &["A", "B", "C"]));
    script.expect("");
    script.say(1, executed(5, 1, &["A", "B", "C"]));
    script.expect("1 done: A B\n 2 done: C\n all: s5 #5+2");
    script.say(2, executed(5, 1, &["A", "B", "C"]));
    script.say(2, executed(5, 4, &["D"]));
    script.say(2, executed(5, 5, &["E", "F"]));
    script.say(3, executed(5, 5, &["E", "F"]));
    script.expect("4 done: E\n 5 done: F");
    script.say(3, executed(5, 4, &["D"]));
    script.expect("3 done: D");
}

#[test]
fn frames_are_limited_but_batches_are_never_split() {
    let mut script = Script::opened(|config| {
        config.frame_commands = 3;
        config.frame_bytes = 30;
    });
    script.inputs([
        submit(1, &["a", "b"]),
        submit(2, &["c", "d"]),
        submit(3, &["e", "f", "g", "h"]),
        submit(4, &["twenty-four bytes of it."]),
        submit(5, &["x"]),
    ]);
    script.expect("all: s5 #1+2\n all: s5 #3+2\n all: s5 #5+4\n all: s5 #9+1\n all: s5 #10+1");
    let four = executed(5, 5, &["E", "F", "G", "H"]);
    script.say(0, four.clone());
    script.say(3, four);
    script.expect("3 done: E F G H");
}

#[test]
fn votes_of_one_replica_count_once_and_the_last_one_counts() {
    let mut script = Script::opened(|_| {});
    script.input(submit(1, &["a"]));
    script.expect("all: s5 #1+1");
    for _ in 0..3 {
        script.say(3, executed(5, 1, &["lie"]));
    }
    script.say(0, executed(5, 1, &["A"]));
    script.say(0, executed(5, 1, &["lie"]));
    script.expect("1 done: lie");

    script.input(submit(2, &["b"]));
    script.say(0, executed(5, 2, &["old"]));
    script.say(0, executed(5, 2, &["B"]));
    script.say(1, executed(5, 2, &["old"]));
    script.say(9, executed(5, 2, &["B"]));
    script.say(2, executed(5, 2, &["B", "B"]));
    script.say(2, executed(6, 2, &["B"]));
    script.expect("all: s5 #2+1");
    script.say(1, executed(5, 2, &["B"]));
    script.expect("2 done: B");
}

#[test]
fn silence_is_answered_with_the_same_bytes_to_all_and_more_patience() {
    let mut script = Script::opened(|config| {
        config.retry_least = Duration::from_millis(100);
        config.retry_most = Duration::from_millis(300);
    });
    script.input(submit(1, &["a"]));
    script.expect("all: s5 #1+1");
    script.wait(99);
    script.expect("");
    // No more than a quarter is added to spread the retries.
    script.wait(26);
    script.expect("all: s5 #1+1");
    script.wait(199);
    script.expect("");
    script.wait(51);
    script.expect("all: s5 #1+1");
    script.wait(299);
    script.expect("");
    script.wait(76);
    script.expect("all: s5 #1+1");
    let deadline = script.session.deadline().unwrap();
    assert!(deadline.0 <= script.now().0 + 375 * MILLISECOND);
    script.say(0, executed(5, 1, &["A"]));
    script.say(1, executed(5, 1, &["A"]));
    script.expect("1 done: A");
    assert_eq!(script.session.deadline(), None);
}

#[test]
fn one_replica_is_asked_to_pass_frames_on_until_it_is_silent() {
    let mut script = Script::opened(|config| config.route = Route::One { first: ReplicaId(3) });
    script.input(submit(1, &["a"]));
    script.input(submit(2, &["b"]));
    script.expect("r3: s5 #1+1 relay\n r3: s5 #2+1 relay");
    script.wait(700);
    script.expect("all: s5 #1+1\n all: s5 #2+1");
    script.input(submit(3, &["c"]));
    script.expect("r0: s5 #3+1 relay");
    script.refuse(0, 5, 3, Refusal::Busy);
    script.expect("all: s5 #3+1");
    script.input(submit(4, &["d"]));
    script.expect("r1: s5 #4+1 relay");
    script.input(Input::Disconnected(ReplicaId(1)));
    script.expect("all: s5 #4+1 relay");
    script.input(submit(5, &["e"]));
    script.expect("r2: s5 #5+1 relay");
    script.input(Input::Connected(ReplicaId(1)));
    script.expect("r1: open 10\n r1: s5 #1+1\n r1: s5 #2+1\n r1: s5 #3+1\n r1: s5 #4+1");
}

#[test]
fn a_new_connection_is_told_what_it_may_answer() {
    let mut script = Script::opened(|_| {});
    script.input(submit(1, &["a"]));
    script.input(Input::Disconnected(ReplicaId(2)));
    script.input(submit(2, &["b"]));
    script.expect("all: s5 #1+1\n all: s5 #2+1 relay");
    script.input(Input::Connected(ReplicaId(2)));
    script.expect("r2: open 10\n r2: s5 #1+1\n r2: s5 #2+1");
}

#[test]
fn nothing_is_numbered_while_nobody_is_there() {
    let mut script = Script::opened(|_| {});
    for replica in 0..4 {
        script.input(Input::Disconnected(ReplicaId(replica)));
    }
    let give_up = Some(script.now().after(Duration::from_millis(50)));
    let batch = Packed::commands(["a"]).unwrap();
    script.inputs([Input::Submit { id: 1, batch, give_up }, submit(2, &["b"])]);
    script.wait(50);
    script.expect("1 failed: Retryable(TimeUp)");
    script.input(Input::Connected(ReplicaId(1)));
    script.expect("r1: open 10 relay\n all: s5 #1+1 relay");
}

#[test]
fn busy_replicas_are_left_alone_if_a_correct_one_says_so() {
    let mut script = Script::opened(|config| {
        config.window = 4;
        config.retry_least = Duration::from_millis(400);
    });
    script.input(submit(1, &["a"]));
    script.expect("all: s5 #1+1");
    for _ in 0..5 {
        script.refuse(3, 5, 1, Refusal::Busy);
    }
    script.input(submit(2, &["b"]));
    script.expect("all: s5 #2+1");
    script.refuse(1, 5, 1, Refusal::Busy);
    // The window is two frames now.
    script.input(submit(3, &["c"]));
    script.expect("");
    script.wait(399);
    script.expect("all: s5 #1+1");
    for first in [1, 2] {
        script.say(0, executed(5, first, &["X"]));
        script.say(1, executed(5, first, &["X"]));
    }
    script.expect("1 done: X\n all: s5 #3+1\n 2 done: X");
    // Two frames answered: the window has grown to three.
    for id in 4..8 {
        script.input(submit(id, &["y"]));
    }
    script.expect("all: s5 #4+1\n all: s5 #5+1");
}

#[test]
fn a_frame_that_can_never_execute_ends_the_session_from_there_on() {
    let mut script = Script::opened(|config| config.window = 3);
    for id in 1..5 {
        script.input(submit(id, &["x"]));
    }
    script.expect("all: s5 #1+1\n all: s5 #2+1\n all: s5 #3+1");
    script.refuse(3, 5, 2, Refusal::TooLarge);
    script.refuse(2, 5, 2, Refusal::BadSignature);
    script.expect("");
    script.refuse(2, 5, 2, Refusal::TooLarge);
    script.expect(
        "2 failed: Fatal(Refused(TooLarge))
         3 failed: Fatal(Refused(TooLarge))
         4 failed: Fatal(Refused(TooLarge))
         ended: Refused(TooLarge)",
    );
    script.input(submit(5, &["x"]));
    script.expect("5 failed: Fatal(Refused(TooLarge))");
    script.say(0, executed(5, 1, &["X"]));
    script.say(1, executed(5, 1, &["X"]));
    script.expect("1 done: X");
}

#[test]
fn an_expired_session_leaves_what_was_sent_unknown_and_the_rest_goes_on() {
    let mut script = Script::opened(|config| config.window = 2);
    for id in 1..4 {
        script.input(submit(id, &["x"]));
    }
    script.expect("all: s5 #1+1\n all: s5 #2+1");
    script.say(0, rejected(5, 2, Rejection::UnknownSession));
    script.say(1, rejected(5, 1, Rejection::UnknownSession));
    script.expect("");
    script.say(2, rejected(5, 2, Rejection::UnknownSession));
    script.expect(
        "1 failed: Ambiguous(SessionEnded)
         2 failed: Ambiguous(SessionEnded)
         all: open 11",
    );
    script.say(0, opened(10, 5));
    script.say(1, opened(10, 5));
    script.expect("");
    script.say(0, opened(11, 6));
    script.say(1, opened(11, 6));
    script.expect("opened s6\n all: s6 #1+1");
    script.say(0, executed(5, 1, &["old"]));
    script.say(1, executed(5, 1, &["old"]));
    script.expect("");
}

/// What was sent may have been executed before; what was not sent never will be.
#[test]
fn a_client_that_loses_its_rights_ends_and_says_why() {
    let mut script = Script::opened(|config| config.window = 2);
    for id in 1..4 {
        script.input(submit(id, &["x"]));
    }
    script.expect("all: s5 #1+1\n all: s5 #2+1");
    script.say(0, rejected(5, 2, Rejection::Revoked));
    script.say(1, rejected(5, 2, Rejection::NotListed));
    script.expect("");
    script.say(2, rejected(5, 2, Rejection::Revoked));
    script.expect(
        "1 failed: Ambiguous(RightsLost(Revoked))
         2 failed: Ambiguous(RightsLost(Revoked))
         3 failed: Fatal(Rejected(Revoked))
         ended: Rejected(Revoked)",
    );
    script.input(submit(4, &["x"]));
    script.expect("4 failed: Fatal(Rejected(Revoked))");
}

#[test]
fn what_opens_no_session() {
    let mut script = Script::new(|_| {});
    script.input(Input::Connected(ReplicaId(0)));
    script.input(submit(1, &["x"]));
    script.expect("r0: open 10 relay");
    script.say(0, rejected(0, 10, Rejection::TooManySessions));
    script.say(1, rejected(0, 10, Rejection::TooManySessions));
    script.expect("1 failed: Retryable(NoRoomForSession)");
    script.input(submit(2, &["x"]));
    script.expect("");
    // Twice a second: each time brings it nearer.
    script.wait(500);
    script.expect("all: open 11 relay");
    script.say(0, opened(12, 7));
    script.say(1, opened(10, 6));
    script.say(3, opened(10, 6));
    script.expect("");
    script.say(2, opened(12, 7));
    script.expect("2 failed: Fatal(Superseded { by: 12 })\n ended: Superseded { by: 12 }");
    assert_eq!(script.session.deadline(), None);
}

/// A clock that was set back gives an incarnation below that of the session before. The number of
/// that one is f + 1 replicas' word; and who was superseded once open does not take over.
#[test]
fn a_session_that_takes_over_asks_above_the_one_that_is_open() {
    let mut script = Script::new(|config| config.takes_over = true);
    script.input(Input::Connected(ReplicaId(0)));
    script.input(submit(1, &["x"]));
    script.expect("r0: open 10 relay");
    script.say(0, opened(u64::MAX - 1, 9));
    script.say(1, opened(500, 7));
    script.expect("");
    script.say(2, opened(500, 7));
    script.expect("all: open 501 relay");
    script.say(1, opened(501, 8));
    script.say(2, opened(501, 8));
    script.expect("opened s8\n all: s8 #1+1 relay");
    script.say(1, rejected(8, 1, Rejection::UnknownSession));
    script.say(2, rejected(8, 1, Rejection::UnknownSession));
    script.expect("1 failed: Ambiguous(SessionEnded)\n all: open 502 relay");
    script.say(1, opened(600, 9));
    script.say(2, opened(600, 9));
    script.expect("ended: Superseded { by: 600 }");
}

#[test]
fn a_frame_beyond_the_window_keeps_its_numbers_and_comes_again() {
    let mut script = Script::opened(|config| config.window = 2);
    script.input(submit(1, &["x"]));
    script.say(0, rejected(5, 1, Rejection::BeyondWindow));
    script.say(1, rejected(5, 1, Rejection::BeyondWindow));
    script.expect("all: s5 #1+1");
    script.wait(400);
    script.expect("all: s5 #1+1");
    script.say(0, executed(5, 1, &["X"]));
    script.say(1, executed(5, 1, &["X"]));
    script.expect("1 done: X");
}

#[test]
fn a_caller_that_gives_up_does_not_stop_what_comes_after() {
    let mut script = Script::opened(|_| {});
    let give_up = Some(script.now().after(Duration::from_millis(50)));
    let batch = Packed::commands(["a"]).unwrap();
    script.inputs([Input::Submit { id: 1, batch, give_up }, submit(2, &["b"])]);
    assert_eq!(script.session.deadline(), give_up);
    script.wait(50);
    script.expect("all: s5 #1+2\n 1 failed: Ambiguous(TimeUp)");
    script.wait(600);
    script.expect("all: s5 #1+2");
    script.say(2, executed(5, 1, &["A", "B"]));
    script.say(3, executed(5, 1, &["A", "B"]));
    script.expect("2 done: B");
}

#[test]
fn forgotten_and_malformed_replies() {
    let mut script = Script::opened(|_| {});
    script.input(submit(1, &["a"]));
    script.input(submit(2, &["b"]));
    script.say(2, rejected(5, 1, Rejection::AnswerForgotten));
    script.say(3, rejected(5, 1, Rejection::AnswerForgotten));
    let replies = Bytes::from_static(b"\xff\xff\xff\xff");
    let malformed =
        Outcome::Executed { session: SessionId(5), first: Sequence(2), count: 1, replies };
    script.say(0, malformed.clone());
    script.say(1, malformed);
    script.expect(
        "all: s5 #1+1
         all: s5 #2+1
         1 failed: Ambiguous(ReplyForgotten)
         2 failed: Ambiguous(Malformed)",
    );
}

#[test]
fn too_much_is_turned_down_before_it_is_sent() {
    let mut script = Script::new(|config| config.waiting_bytes = 10);
    script.input(submit(1, &["12"]));
    script.input(submit(2, &["1"]));
    script.input(Input::Submit { id: 3, batch: Packed::default(), give_up: None });
    script.expect("2 failed: Retryable(Backlog)\n 3 failed: Retryable(DoesNotFit)");
    let mut outputs = Vec::new();
    script.session.close(&mut outputs);
    assert_eq!(outputs.len(), 1);
}

#[test]
fn replies_may_be_known_from_a_later_command_on() {
    let mut script = Script::opened(|_| {});
    script.inputs([submit(1, &["a"]), submit(2, &["b", "c"]), submit(3, &["d"])]);
    script.say(2, executed(5, 1, &["A", "B", "C", "D"]));
    script.say(0, executed(5, 3, &["C", "D"]));
    script.say(1, executed(5, 3, &["C"]));
    script.say(1, executed(5, 0, &["?", "A", "B", "C", "D"]));
    script.expect("all: s5 #1+4");
    script.say(1, executed(5, 3, &["C", "D"]));
    script.expect(
        "1 failed: Ambiguous(ReplyForgotten)
         2 failed: Ambiguous(ReplyForgotten)
         3 done: D",
    );
}
