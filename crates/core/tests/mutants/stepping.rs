//! A pacemaker that steps: whatever certificate it is shown, it enters the next view only. A
//! replica that was cut off for a while then enters every view that the others have left, one for
//! each message; the real one enters the last of them at once.

use std::cell::RefCell;
use std::collections::BTreeMap;

use quorate_core::protocols::hotstuff::certificate::Tc;
use quorate_core::protocols::hotstuff::pacemaker::{End, Kind, Pacemaker, Timing};
use quorate_core::protocols::hotstuff::rules::Chained;
use quorate_core::protocols::hotstuff::{HotStuff, Message, Types};
use quorate_core::protocols::protocol::{Input, Ledger, Protocol};
use quorate_core::{Duration, ReplicaId, Time, View};

use crate::cluster::keys::committee;
use crate::cluster::mutant::{Fx, Mutation, believed};
use crate::script::{Bug, play};

thread_local! {
    /// By view: the certificate that ended it. What a peer would have to keep for those who step.
    static ENDED: RefCell<BTreeMap<View, Message>> = const { RefCell::new(BTreeMap::new()) };
}

fn ends(message: &Message) -> View {
    let of = |tc: &Option<Tc>| tc.as_ref().map(Tc::view).unwrap_or_default();
    match message {
        Message::Proposal { block, tc } => block.justify.view().max(of(tc)),
        Message::TimeOut { high_qc, high_tc, .. } | Message::Advance { high_qc, high_tc, .. } => {
            high_qc.view().max(of(high_tc))
        }
        Message::Certificate(qc) | Message::NewView { high_qc: qc, .. } => qc.view(),
        Message::Vote(_) => View(0),
    }
}

/// No bug: it writes down by which certificates its views end.
struct Archives;

impl Mutation for Archives {
    fn step(
        &mut self,
        driver: &mut HotStuff,
        now: Time,
        input: Input<Types>,
        ledger: &mut dyn Ledger,
    ) -> Fx {
        if let Input::Message { message, .. } = &input
            && let Message::Proposal { block, tc } = message.get()
        {
            for high_tc in [None, tc.clone()] {
                let (high_qc, decided) = (block.justify.clone(), None);
                let ended = Message::Advance { high_qc, high_tc, decided, is_answer: false };
                ENDED.with_borrow_mut(|all| all.insert(ends(&ended), ended));
            }
        }
        driver.step(now, input, ledger)
    }
}

/// Enters the next view when it hears of any later one.
struct Steps;

impl Mutation for Steps {
    fn step(
        &mut self,
        driver: &mut HotStuff,
        now: Time,
        input: Input<Types>,
        ledger: &mut dyn Ledger,
    ) -> Fx {
        let Input::Message { from, message } = &input else {
            return driver.step(now, input, ledger);
        };
        let view = driver.status().view;
        if ends(message) <= view {
            return driver.step(now, input, ledger);
        }
        let ended = ENDED.with_borrow(|all| all.get(&view).cloned());
        let step = ended.and_then(|ended| believed(driver, *from, ended));
        match step {
            Some(message) => driver.step(now, Input::Message { from: *from, message }, ledger),
            None => Fx::default(),
        }
    }
}

fn mutation(id: usize) -> Option<Box<dyn Mutation>> {
    if id == 0 { Some(Box::new(Steps)) } else { Some(Box::new(Archives)) }
}

#[test]
fn a_replica_that_steps_enters_every_view_it_missed() {
    let stepping = play("stepping", &Bug { mutation, ..Bug::none(&Chained) });
    let jumping = play("jumping", &Bug::none(&Chained));
    jumping.repeats(&stepping);
    assert!(stepping.says("r0: view 8") && jumping.says("r0: view 8"));
    assert_eq!(stepping.count("r0 enters view"), 11);
    assert_eq!(jumping.count("r0 enters view"), 1);
}

/// Whose pacemaker enters a view when it is shown a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enters {
    Next,
    Last,
}

/// What it took a pacemaker to be in the view of the others again.
#[derive(Debug, PartialEq, Eq)]
struct Return {
    entered: u64,
    /// Times that it gave up on a view, and was told by the others where they are.
    told: u64,
    waited: Duration,
}

/// A replica was cut off for `gap` views. Whenever it gives up on a view the others show it their
/// last certificate, and in that time they move on by `pace` views. `None`: it never comes to them.
fn back_after(gap: u64, pace: u64, enters: Enters) -> Option<Return> {
    let mut pacemaker =
        Pacemaker::new(&committee(4), Kind::TimeoutCertificates, Timing::default(), 3);
    let (start, mut now, mut others) = (View(10), Time(0), View(10 + gap));
    let mut back = Return { entered: 0, told: 0, waited: Duration::ZERO };
    pacemaker.certified(now, View(start.0 - 1), End::Certified, [ReplicaId(0); 2]);
    pacemaker.committed(View(start.0 - 1));
    pacemaker.set_busy(now, true);
    while pacemaker.view() < others {
        now = pacemaker.deadline()?;
        let given_up = pacemaker.expired(now);
        back.told += 1;
        let shown = View(others.0 - 1);
        let certified = if enters == Enters::Next { given_up } else { shown };
        let enters = pacemaker.certified(now, certified, End::Certified, [ReplicaId(0); 2]);
        back.entered += u64::from(enters);
        others = others.plus(pace);
        if back.told > 2 * gap {
            return None;
        }
    }
    back.waited = now.since(Time(0));
    Some(back)
}

#[test]
fn stepping_costs_a_time_out_for_each_view_missed_and_jumping_one_at_all() {
    let base = Timing::default().base();
    for gap in [1, 10, 100, 1_000] {
        let jump = back_after(gap, 0, Enters::Last);
        assert_eq!(jump, Some(Return { entered: 1, told: 1, waited: base }), "{gap} views");
        let steps = back_after(gap, 0, Enters::Next).expect("the others stand still");
        assert_eq!((steps.entered, steps.told), (gap, gap));
        // Each wait is lost, so that the next is longer.
        assert!(steps.waited >= base * gap as u32);
    }
    // While the others move on by a view in that time it never comes to them.
    assert_eq!(back_after(100, 1, Enters::Next), None);
    assert!(back_after(100, 0, Enters::Next).is_some());
}
