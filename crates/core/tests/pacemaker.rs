//! The pacemaker by itself: which view, when to give up, whom to join.

use quorate_sim as cluster;

use cluster::adversary::Liar;
use cluster::keys::{CHAIN, committee};
use quorate_core::block::Block;
use quorate_core::certificate::Domain;
use quorate_core::certificate::Qc;
use quorate_core::pacemaker::{Consequence, Kind, Pacemaker, Timing};
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

/// The leaders of the view behind `certified` and the next, in turn.
fn leaders(certified: u64) -> [ReplicaId; 2] {
    [1, 2].map(|ahead| ReplicaId(((certified + ahead) % N as u64) as u16))
}

fn enter(pacemaker: &mut Pacemaker, now: u64, certified: u64) -> bool {
    pacemaker.certified(Time(now), View(certified), leaders(certified))
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
    let late = |view| liar(2).time_out(View(view), &genesis());
    assert!(pacemaker.is_behind(&late(5), &genesis()), "five views behind");
    assert!(!pacemaker.is_behind(&late(9), &genesis()), "on its way when the view ended");
    assert!(pacemaker.is_behind(&late(9), &genesis()), "it says so again");
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

/// How long a pacemaker with work waits in `view`.
fn wait_in(pacemaker: &mut Pacemaker, view: u64) -> Duration {
    enter(pacemaker, 0, view - 1);
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
    pacemaker.blame(ReplicaId(3));
    assert_eq!(wait_in(&mut pacemaker, n + 2), base / 5, "it is to collect");
    assert_eq!(wait_in(&mut pacemaker, n + 3), base / 5, "it is to lead");
    assert_eq!(wait_in(&mut pacemaker, n + 4), base, "another leads");
    pacemaker.praise(ReplicaId(3));
    assert_eq!(wait_in(&mut pacemaker, 2 * n + 3), base, "it has led");
}

#[test]
fn every_64th_time_a_failed_leader_gets_the_full_wait() {
    let base = Timing::default().base();
    let mut pacemaker = pacemaker();
    for failure in 1..=128u64 {
        pacemaker.blame(ReplicaId(3));
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
        pacemaker.blame(ReplicaId(leader));
    }
    assert_eq!(wait_in(&mut pacemaker, n + 1), base);
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
