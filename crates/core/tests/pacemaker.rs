//! The pacemaker by itself: which view, when to give up, whom to join.

mod cluster;

use cluster::adversary::Liar;
use cluster::keys::{CHAIN, committee};
use quorate_core::block::Block;
use quorate_core::certificate::Qc;
use quorate_core::leader::Election;
use quorate_core::pacemaker::{Consequence, Pacemaker, Timing};
use quorate_core::{Duration, Epoch, Time, View};

const N: usize = 7;

fn pacemaker() -> Pacemaker {
    Pacemaker::new(&committee(N), Election::RoundRobin, Timing::default(), 3)
}

fn genesis() -> Qc {
    Qc::genesis(Block::genesis(CHAIN, Epoch(0)).id())
}

fn time_out(pacemaker: &mut Pacemaker, id: usize, view: u64, own: u64) -> Consequence {
    let time_out = Liar { id, replicas: N, to: 0 }.time_out(View(view), View(0));
    pacemaker.time_out(time_out, genesis(), View(own))
}

#[test]
fn views_are_jumped_to_and_never_left_backwards() {
    let mut pacemaker = pacemaker();
    assert!(pacemaker.certified(Time(0), View(0)));
    assert!(pacemaker.certified(Time(0), View(500)));
    assert_eq!(pacemaker.view(), View(501));
    assert!(!pacemaker.certified(Time(0), View(499)));
    assert_eq!(pacemaker.view(), View(501));
}

#[test]
fn f_plus_one_time_outs_are_joined_at_the_lowest_of_them() {
    let mut pacemaker = pacemaker();
    pacemaker.certified(Time(0), View(4));
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
    pacemaker.certified(Time(0), View(4));
    for id in 0..4 {
        assert!(!matches!(time_out(&mut pacemaker, id, 5, 6), Consequence::Certificate(_)));
    }
    assert_eq!(time_out(&mut pacemaker, 4, 6, 6), Consequence::None);
    match time_out(&mut pacemaker, 5, 5, 6) {
        Consequence::Certificate(tc) => {
            assert_eq!((tc.view(), tc.signers().count()), (View(5), 5));
        }
        other => panic!("no certificate: {other:?}"),
    }
}

#[test]
fn who_is_just_late_is_told_nothing_and_who_stays_behind_is() {
    let mut pacemaker = pacemaker();
    pacemaker.certified(Time(0), View(9));
    let late = |view| Liar { id: 2, replicas: N, to: 0 }.time_out(View(view), View(0));
    assert!(pacemaker.is_behind(&late(5), &genesis()), "five views behind");
    assert!(!pacemaker.is_behind(&late(9), &genesis()), "on its way when the view ended");
    assert!(pacemaker.is_behind(&late(9), &genesis()), "it says so again");
}

#[test]
fn the_timer_runs_only_while_there_is_work() {
    let mut pacemaker = pacemaker();
    assert_eq!(pacemaker.deadline(), None);
    pacemaker.certified(Time(5), View(3));
    assert_eq!(pacemaker.deadline(), None);
    pacemaker.set_busy(Time(10), true);
    let due = pacemaker.deadline().expect("busy");
    pacemaker.set_busy(Time(1_000), true);
    assert_eq!(pacemaker.deadline(), Some(due), "work that goes on does not put it off");
    pacemaker.committed(View(4));
    pacemaker.certified(Time(2_000), View(4));
    assert_eq!(pacemaker.deadline(), Some(Time(2_000).after(Duration::from_millis(250))));
    pacemaker.set_busy(Time(3_000), false);
    assert_eq!(pacemaker.deadline(), None);
}

/// How long a pacemaker with work waits in `view`.
fn wait_in(pacemaker: &mut Pacemaker, view: u64) -> Duration {
    pacemaker.certified(Time(0), View(view - 1));
    pacemaker.committed(View(view - 1));
    pacemaker.arm(Time(0));
    pacemaker.deadline().expect("armed").since(Time(0))
}

#[test]
fn a_leader_that_failed_is_waited_for_less_until_it_leads() {
    let base = Timing::default().base();
    let n = N as u64;
    let mut pacemaker = pacemaker();
    // Replica 3 leads view 3, and collects the votes of view 2.
    pacemaker.blame(View(3), false);
    assert_eq!(wait_in(&mut pacemaker, n + 2), base / 5, "it is to collect");
    assert_eq!(wait_in(&mut pacemaker, n + 3), base / 5, "it is to lead");
    assert_eq!(wait_in(&mut pacemaker, n + 4), base, "another leads");
    pacemaker.praise(View(n + 3));
    assert_eq!(wait_in(&mut pacemaker, 2 * n + 3), base, "it has led");
}

#[test]
fn the_collector_is_blamed_for_a_view_that_was_voted_in() {
    let base = Timing::default().base();
    let n = N as u64;
    let mut pacemaker = pacemaker();
    pacemaker.blame(View(2), true);
    assert_eq!(wait_in(&mut pacemaker, n + 2), base / 5, "before replica 3's view");
    assert_eq!(wait_in(&mut pacemaker, n + 4), base, "replica 2 is not to blame");
}

#[test]
fn every_64th_time_a_failed_leader_gets_the_full_wait() {
    let base = Timing::default().base();
    let mut pacemaker = pacemaker();
    for failure in 1..=128u64 {
        pacemaker.blame(View(3), false);
        let wait = wait_in(&mut pacemaker, failure * N as u64 + 3);
        let second_chance = failure.is_multiple_of(64);
        assert_eq!(wait, if second_chance { base } else { base / 5 }, "after {failure} failures");
    }
}

#[test]
fn no_wait_is_shortened_where_more_than_f_leaders_failed() {
    let base = Timing::default().base();
    let n = N as u64;
    let mut pacemaker = pacemaker();
    for leader in 1..=3 {
        pacemaker.blame(View(leader), false);
    }
    assert_eq!(wait_in(&mut pacemaker, n + 1), base);
}
