//! The pacemaker by itself: which view, when to give up, whom to join.

use quorate_sim as cluster;

use cluster::adversary::Liar;
use cluster::keys::{CHAIN, committee};
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc};
use quorate_core::protocols::hotstuff::pacemaker::{
    Consequence, ENOUGH, End, Kind, Pacemaker, Timing, Waits,
};
use quorate_core::{Duration, Epoch, ReplicaId, Time, View};

const N: usize = 7;

fn pacemaker() -> Pacemaker {
    Pacemaker::new(&committee(N), Kind::TimeoutCertificates, Timing::default(), 3)
}

fn genesis() -> Qc {
    Qc::genesis(Block::genesis(CHAIN, Epoch(0)).id())
}

fn liar(id: usize) -> Liar {
    Liar { id, domain: Domain::new(committee(N), 1), to: 0 }
}

/// The leader of the view behind `certified`, and that of the next, which collects its votes.
fn leaders(certified: u64) -> [ReplicaId; 2] {
    [1, 2].map(|ahead| ReplicaId(((certified + ahead) % N as u64) as u16))
}

fn enter(pacemaker: &mut Pacemaker, now: u64, certified: u64) -> bool {
    pacemaker.certified(Time(now), View(certified), End::Certified, leaders(certified))
}

fn time_out(pacemaker: &mut Pacemaker, id: usize, view: u64, own: u64) -> Consequence {
    let time_out = liar(id).time_out(View(view), &genesis());
    pacemaker.time_out(time_out, genesis(), View(own))
}

#[test]
fn views_are_jumped_to_and_never_left_backwards() {
    let mut pacemaker = pacemaker();
    assert!(enter(&mut pacemaker, 0, 0));
    assert!(enter(&mut pacemaker, 0, 500));
    assert_eq!(pacemaker.view(), View(501));
    assert!(!enter(&mut pacemaker, 0, 499));
    assert_eq!(pacemaker.view(), View(501));
}

#[test]
fn f_plus_one_time_outs_are_joined_at_the_lowest_of_them() {
    let mut pacemaker = pacemaker();
    enter(&mut pacemaker, 0, 4);
    assert_eq!(time_out(&mut pacemaker, 1, 9_000, 0), Consequence::None);
    assert_eq!(time_out(&mut pacemaker, 2, 8, 0), Consequence::None);
    // Two liars and one correct replica: the third highest is witnessed by a correct one.
    assert_eq!(time_out(&mut pacemaker, 3, 7, 0), Consequence::Join(View(7)));
    assert_eq!(time_out(&mut pacemaker, 4, 6, 7), Consequence::None, "given up already");
    assert_eq!(time_out(&mut pacemaker, 1, 5, 0), Consequence::None, "an older one counts not");
}

#[test]
fn q_time_outs_of_one_view_make_a_certificate_and_those_of_several_do_not() {
    let mut pacemaker = pacemaker();
    enter(&mut pacemaker, 0, 4);
    for id in 0..4 {
        assert!(!matches!(time_out(&mut pacemaker, id, 5, 6), Consequence::Certificate(_)));
    }
    assert_eq!(time_out(&mut pacemaker, 4, 6, 6), Consequence::None);
    match time_out(&mut pacemaker, 5, 5, 6) {
        Consequence::Certificate(time_outs) => {
            assert_eq!(time_outs.len(), 5);
            assert!(time_outs.iter().all(|(time_out, _)| time_out.view == View(5)));
        }
        other => panic!("no certificate: {other:?}"),
    }
}

#[test]
fn who_is_just_late_is_told_nothing_and_who_stays_behind_is() {
    let mut pacemaker = pacemaker();
    enter(&mut pacemaker, 0, 9);
    pacemaker.set_busy(Time(0), true);
    let late = |view| liar(2).time_out(View(view), &genesis());
    assert!(pacemaker.is_behind(&late(5), &genesis()), "five views behind");
    assert!(!pacemaker.is_behind(&late(9), &genesis()), "on its way when the view ended");
    assert!(pacemaker.is_behind(&late(9), &genesis()), "it says so again");
    pacemaker.expired(Time(1));
    let late = liar(3).time_out(View(9), &genesis());
    assert!(pacemaker.is_behind(&late, &genesis()), "too late to have been on its way");
    enter(&mut pacemaker, 0, 10);
    pacemaker.set_busy(Time(0), false);
    let late = liar(3).time_out(View(10), &genesis());
    assert!(pacemaker.is_behind(&late, &genesis()), "no time-out of this replica will help it");
}

#[test]
fn the_timer_runs_only_while_there_is_work() {
    let mut pacemaker = pacemaker();
    assert_eq!(pacemaker.deadline(), None);
    enter(&mut pacemaker, 5, 3);
    assert_eq!(pacemaker.deadline(), None);
    pacemaker.set_busy(Time(10), true);
    let due = pacemaker.deadline().expect("busy");
    pacemaker.set_busy(Time(1_000), true);
    assert_eq!(pacemaker.deadline(), Some(due), "work that goes on does not put it off");
    pacemaker.committed(View(4));
    enter(&mut pacemaker, 2_000, 4);
    assert_eq!(pacemaker.deadline(), Some(Time(2_000).after(Duration::from_millis(250))));
    pacemaker.set_busy(Time(3_000), false);
    assert_eq!(pacemaker.deadline(), None);
}

/// A pacemaker with work, and the time it is.
struct Run {
    pacemaker: Pacemaker,
    now: Time,
    /// Whom it waits for in the view behind another.
    awaited: fn(u64) -> [ReplicaId; 2],
}

impl Run {
    fn of(timing: Timing) -> Self {
        let mut pacemaker = Pacemaker::new(&committee(N), Kind::TimeoutCertificates, timing, 3);
        pacemaker.certified(Time(0), View(0), End::Certified, leaders(0));
        pacemaker.set_busy(Time(0), true);
        Self { pacemaker, now: Time(0), awaited: leaders }
    }

    /// The view ends with a certificate after so long, and its block is committed at once.
    fn succeeds(&mut self, took: Duration) {
        self.certifies(took);
        self.pacemaker.committed(View(self.pacemaker.view().0 - 1));
    }

    fn certifies(&mut self, took: Duration) {
        self.now = self.now.after(took);
        let view = self.pacemaker.view();
        self.pacemaker.praise(leaders(view.0 - 1)[0]);
        self.pacemaker.certified(self.now, view, End::Certified, (self.awaited)(view.0));
    }

    /// The timer runs out, and q gave the view up.
    fn fails(&mut self) {
        self.now = self.pacemaker.deadline().expect("there is work");
        self.pacemaker.expired(self.now);
        self.is_given_up();
    }

    /// q gave the view up.
    fn is_given_up(&mut self) {
        let view = self.pacemaker.view();
        self.pacemaker.blame(leaders(view.0 - 1)[0]);
        self.pacemaker.certified(self.now, view, End::GivenUp, (self.awaited)(view.0));
    }

    fn wait(&self) -> Duration {
        self.pacemaker.wait()
    }

    /// All views succeed, up to the next one of `leader`.
    fn up_to(&mut self, leader: u16, took: Duration) {
        while self.pacemaker.view().0 % N as u64 != u64::from(leader) {
            self.succeeds(took);
        }
    }
}

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn each_full_wait_lost_in_a_row_doubles_the_next() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    for doublings in 0..6 {
        assert_eq!(run.wait(), base * (1 << doublings));
        run.fails();
    }
}

#[test]
fn a_success_takes_back_no_more_than_four_times_what_it_took() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    (0..5).for_each(|_| run.fails());
    assert_eq!(run.wait(), base * 32);
    // 4 · 5 = 20 times the base.
    (0..30).for_each(|_| run.succeeds(base * 5));
    assert_eq!(run.wait(), base * 32, "16 would be too short");
    (0..60).for_each(|_| run.succeeds(base * 19 / 10));
    assert_eq!(run.wait(), base * 8);
    (0..60).for_each(|_| run.succeeds(base / 5));
    assert_eq!(run.wait(), base);
}

#[test]
fn one_quick_view_does_not_make_the_others_forget_what_they_take() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    (0..4).for_each(|_| run.fails());
    for _ in 0..5 {
        (0..N).for_each(|_| run.succeeds(base * 3));
        run.succeeds(SHORT);
        assert_eq!(run.wait(), base * 16);
    }
}

/// Two liars of seven dawdle up to the end of their waits, and one in three views is lost.
#[test]
fn leaders_that_use_up_their_waits_do_not_hold_them_up() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    for round in 0..30 {
        for leader in 0..N as u16 {
            run.up_to(leader, SHORT);
            match (leader, (round + u32::from(leader)) % 3) {
                (2 | 5, 0) => run.fails(),
                (2 | 5, _) => run.succeeds(run.wait() * 9 / 10),
                _ => run.succeeds(SHORT),
            }
        }
    }
    run.up_to(1, SHORT);
    assert_eq!(run.wait(), base);
}

/// Leaders in turn need a short and a long wait: more than f of the long ones.
#[test]
fn waits_grow_without_a_commit_whatever_is_certified() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    let needed = base * 20;
    for _ in 0..60 {
        if run.pacemaker.view().0.is_multiple_of(2) && run.wait() < needed {
            run.fails();
        } else {
            run.certifies(SHORT);
        }
    }
    assert!(run.wait() >= needed);
}

#[test]
fn a_view_that_others_ended_early_was_no_full_wait() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    run.now = run.now.after(base / 3);
    run.is_given_up();
    assert_eq!(run.wait(), base);
    run.now = run.now.after(base * 2 / 3);
    run.is_given_up();
    assert_eq!(run.wait(), base * 2, "a moment before the own timer");
}

#[test]
fn a_view_that_others_gave_up_is_no_success() {
    let waits = Waits::default();
    let mut run = Run::of(Timing::Adaptive(waits));
    for _ in 0..2 * ENOUGH {
        run.now = run.now.after(SHORT);
        run.is_given_up();
    }
    assert_eq!(run.wait(), waits.base);
}

#[test]
fn a_leader_that_failed_twice_is_waited_for_less_until_it_leads() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    for failure in 0..2 {
        run.up_to(2, SHORT);
        assert_eq!(run.wait(), base, "it is to collect, after {failure} failures");
        run.succeeds(SHORT);
        assert_eq!(run.wait(), base, "it is to lead, after {failure} failures");
        run.fails();
        run.succeeds(SHORT);
    }
    run.up_to(2, SHORT);
    assert_eq!(run.wait(), base / 5, "it is to collect");
    run.succeeds(SHORT);
    assert_eq!(run.wait(), base / 5, "it is to lead");
    run.succeeds(SHORT);
    assert_eq!(run.wait(), base, "another leads");
    run.up_to(3, SHORT);
    assert_eq!(run.wait(), base, "it has led");
}

#[test]
fn a_shortened_wait_that_is_lost_lengthens_none() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    for _ in 0..3 {
        run.up_to(3, SHORT);
        run.fails();
        run.succeeds(SHORT);
    }
    run.up_to(3, SHORT);
    assert_eq!(run.wait(), base / 5);
    run.fails();
    assert_eq!(run.wait(), base);
}

#[test]
fn no_wait_is_shorter_than_two_views() {
    let base = Timing::default().base();
    let took = base / 5;
    let mut run = Run::of(Timing::default());
    for _ in 0..2 {
        run.up_to(3, took);
        run.fails();
        run.succeeds(took);
    }
    run.up_to(3, took);
    assert_eq!(run.wait(), took * 2);
}

#[test]
fn a_failed_leader_gets_the_full_wait_at_doubling_gaps() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    for failures in 0..=192u64 {
        run.up_to(3, SHORT);
        let full = matches!(failures, 0 | 1 | 4 | 8 | 16 | 32 | 64 | 128 | 192);
        assert_eq!(run.wait(), if full { base } else { base / 5 }, "after {failures} failures");
        run.fails();
        run.succeeds(SHORT);
    }
}

/// What views take where nobody dawdles.
const USUAL: Duration = Duration::from_millis(20);

/// Votes are broadcast: the leader alone is waited for.
fn leader_alone(certified: u64) -> [ReplicaId; 2] {
    [leaders(certified)[0]; 2]
}

impl Run {
    /// Two rotations of usual views, with votes that are broadcast.
    fn broadcast() -> Self {
        let mut run = Self { awaited: leader_alone, ..Self::of(Timing::default()) };
        (0..2).for_each(|_| run.rotation(&[], 1));
        run
    }

    /// A rotation in which the views of those in `late` take `times` as long.
    fn rotation(&mut self, late: &[u64], times: u32) {
        for _ in 0..N {
            let leader = self.pacemaker.view().0 % N as u64;
            let factor = if late.contains(&leader) { times } else { 1 };
            self.succeeds(USUAL * factor);
        }
    }
}

/// Replica 3 takes three times as long as the others, and loses none of its views.
#[test]
fn who_is_late_is_waited_for_as_long_as_a_view_may_take() {
    let base = Timing::default().base();
    let mut run = Run::broadcast();
    for rotation in 0..8 {
        run.up_to(3, USUAL);
        assert_eq!(run.wait(), base, "after {rotation} rotations");
        run.rotation(&[3], 3);
    }
    run.up_to(3, USUAL);
    assert_eq!(run.wait(), USUAL * 2);
    run.fails();
    assert_eq!(run.wait(), base, "another leads, and that wait was no full one");
    // It makes up for it.
    for rotation in 0..8 {
        run.up_to(3, USUAL);
        assert_eq!(run.wait(), USUAL * 2, "after {rotation} more");
        run.succeeds(USUAL);
    }
    run.up_to(3, USUAL);
    assert_eq!(run.wait(), base);
}

#[test]
fn a_slow_view_now_and_then_is_made_up_for() {
    let base = Timing::default().base();
    let mut run = Run::broadcast();
    for rotation in 0..60 {
        run.up_to(3, USUAL);
        assert_eq!(run.wait(), base, "after {rotation}");
        run.rotation(&[3], if rotation % 4 == 0 { 4 } else { 1 });
    }
}

/// Where most replicas are far from each other, views take long, and it is nobody's fault.
#[test]
fn nobody_is_late_where_more_than_f_are() {
    let base = Timing::default().base();
    let mut run = Run::broadcast();
    for _ in 0..40 {
        run.rotation(&[2, 3, 4], 5);
        run.up_to(3, USUAL);
        assert_eq!(run.wait(), base);
    }
}

/// Where votes go to the next leader, what a view takes is the concern of two.
#[test]
fn nobody_is_late_where_another_one_collects() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    (0..2).for_each(|_| run.rotation(&[], 1));
    for _ in 0..40 {
        run.rotation(&[3], 5);
        run.up_to(3, USUAL);
        assert_eq!(run.wait(), base);
    }
}

#[test]
fn no_wait_is_shortened_where_more_than_f_leaders_failed() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    for leader in 1..=3 {
        (0..2).for_each(|_| run.pacemaker.blame(ReplicaId(leader)));
    }
    run.pacemaker.certified(Time(0), View(7), End::Certified, leaders(7));
    assert_eq!(run.wait(), base);
}

#[test]
fn no_wait_is_shortened_where_more_views_were_lost_than_leaders_can_be_dead() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    run.up_to(3, SHORT);
    (0..2).for_each(|_| run.pacemaker.blame(ReplicaId(3)));
    run.pacemaker.certified(run.now, View(701), End::Certified, leaders(701));
    run.pacemaker.committed(View(701));
    for _ in 0..N {
        run.fails();
    }
    run.pacemaker.committed(View(708));
    run.pacemaker.praise(ReplicaId(2));
    assert_eq!(leaders(run.pacemaker.view().0 - 1)[0], ReplicaId(2), "whose votes 3 collects");
    assert!(run.wait() >= base * 32, "{:?}", run.wait());
}

#[test]
fn a_time_out_is_sent_again_at_doubling_pauses() {
    let base = Timing::default().base();
    let mut run = Run::of(Timing::default());
    for doublings in [0, 0, 1, 2, 3, 4] {
        let due = run.pacemaker.deadline().expect("there is work");
        assert_eq!(due.since(run.now), base * (1 << doublings));
        run.now = due;
        run.pacemaker.expired(due);
    }
    run.is_given_up();
    assert_eq!(run.wait(), base * 2, "one view was lost, however often that was said");
}

#[test]
fn a_time_out_is_sent_again_to_those_who_have_not_sent_theirs_or_have_sent_it_again() {
    let ids = |ids: &[u16]| ids.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
    let mut pacemaker = pacemaker();
    enter(&mut pacemaker, 0, 4);
    time_out(&mut pacemaker, 1, 5, 5);
    time_out(&mut pacemaker, 2, 4, 5);
    time_out(&mut pacemaker, 3, 6, 6);
    assert_eq!(pacemaker.unheard(View(5)), ids(&[0, 2, 4, 5, 6]));
    time_out(&mut pacemaker, 1, 5, 5);
    assert_eq!(pacemaker.unheard(View(5)), ids(&[0, 1, 2, 4, 5, 6]));
    assert_eq!(pacemaker.unheard(View(5)), ids(&[0, 2, 4, 5, 6]));
}

#[test]
fn each_kind_is_found_by_its_name() {
    for (name, kind) in Kind::NAMES {
        assert_eq!(kind.name(), name);
        let pacemaker = Pacemaker::new(&committee(N), kind, Timing::default(), 3);
        assert_eq!(pacemaker.kind(), kind);
        let collects = pacemaker.collector(View(4)).is_some();
        assert_eq!(collects, kind == Kind::Linear);
    }
    assert_eq!(Kind::default().name(), "timeout-certificates");
}

#[test]
fn time_outs_of_strangers_and_of_views_that_are_over_count_for_nothing() {
    let mut pacemaker = pacemaker();
    enter(&mut pacemaker, 0, 4);
    for stranger in [N, 200] {
        assert_eq!(time_out(&mut pacemaker, stranger, 5, 0), Consequence::None);
        let late = liar(stranger).time_out(View(1), &genesis());
        assert!(!pacemaker.is_behind(&late, &genesis()));
    }
    for id in 0..N {
        assert_eq!(time_out(&mut pacemaker, id, 4, 0), Consequence::None, "view 4 is over");
    }
    for id in 0..2 {
        assert_eq!(time_out(&mut pacemaker, id, 5, 0), Consequence::None);
    }
    assert_eq!(time_out(&mut pacemaker, 2, 5, 0), Consequence::Join(View(5)));
}
