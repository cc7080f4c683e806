//! A smaller scenario that fails as well: fewer views, fewer partitions.

use super::run::{Plan, run};
use super::scenario::{Groups, Scenario};
use super::watch::Violation;

/// Makes a failing scenario smaller for as long as it violates the same oracle: drops views, puts
/// groups together, makes groups the same throughout a view, and unblocks. What comes back cannot
/// be made smaller by any one of these. `None` if the scenario does not fail.
#[must_use]
pub fn shrink(plan: &Plan, scenario: &Scenario) -> Option<(Scenario, Violation)> {
    let mut violation = run(plan, scenario).violation?;
    let mut smallest = scenario.clone();
    loop {
        let fails = |smaller: &Scenario| {
            run(plan, smaller).violation.filter(|other| other.oracle == violation.oracle)
        };
        let found = smaller(&smallest)
            .into_iter()
            .find_map(|smaller| fails(&smaller).map(|violation| (smaller, violation)));
        match found {
            Some(found) => (smallest, violation) = found,
            None => return Some((smallest, violation)),
        }
    }
}

/// What is a step smaller, the smallest first.
fn smaller(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let views = 0..scenario.views.len();
    if scenario.views.len() > 1 {
        for view in views.clone().rev() {
            let mut without = scenario.clone();
            without.views.remove(view);
            all.push(without);
        }
    }
    for at in views {
        let view = &scenario.views[at];
        let mut change = |groups: [Groups; 3], blocked: Vec<(u8, u8)>| {
            if (groups, &blocked) != (view.groups, &view.blocked) {
                let mut changed = scenario.clone();
                (changed.views[at].groups, changed.views[at].blocked) = (groups, blocked);
                all.push(changed);
            }
        };
        change([Groups::TOGETHER; 3], Vec::new());
        change([view.groups[0]; 3], view.blocked.clone());
        change(view.groups, Vec::new());
        let slots = scenario.shape.slots();
        for phase in 0..3 {
            for merged in 1..view.groups[phase].count() as u8 {
                let fewer = |groups: &Groups| {
                    let into = |group: u8| if group == merged { 0 } else { group };
                    Groups::new(slots, |slot| into(groups.of(slot)))
                };
                if view.is_steady() {
                    change([fewer(&view.groups[0]); 3], view.blocked.clone());
                } else {
                    let mut groups = view.groups;
                    groups[phase] = fewer(&groups[phase]);
                    change(groups, view.blocked.clone());
                }
            }
        }
    }
    all
}
