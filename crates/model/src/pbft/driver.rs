//! The model with production's replicas beside it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quorate_core::protocols::pbft::Authentication;
use stateright::{Model, Property};

use super::real::{Difference, Real};
use super::{Bound, Chooser, State, Step};

/// The model of a [bound](Bound), each step of which production's replicas take as well.
#[derive(Clone, Debug)]
pub struct Driver {
    /// How much is explored.
    pub bound: Bound,
    /// How replicas know who says what.
    pub authentication: Authentication,
    /// How new views are chosen.
    pub chooser: Arc<Chooser>,
}

/// A state of the model, and the replicas of one way to it.
#[derive(Clone, Debug)]
pub struct Driven {
    /// What the model says.
    pub state: State,
    /// What production does.
    pub real: Real,
}

impl Hash for Driven {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.real.differs, &self.state).hash(hasher);
    }
}

impl PartialEq for Driven {
    fn eq(&self, other: &Self) -> bool {
        (self.real.differs, &self.state) == (other.real.differs, &other.state)
    }
}

impl Model for Driver {
    type State = Driven;
    type Action = Step;

    fn init_states(&self) -> Vec<Driven> {
        vec![Driven { state: State::first(), real: Real::new(self.authentication) }]
    }

    fn actions(&self, driven: &Driven, steps: &mut Vec<Step>) {
        if !driven.state.is_broken() && driven.real.differs.is_none() {
            steps.extend(driven.state.steps(&self.bound));
        }
    }

    fn next_state(&self, driven: &Driven, step: Step) -> Option<Driven> {
        if !driven.real.follows(&driven.state, &step) {
            return None;
        }
        let Driven { mut state, mut real } = driven.clone();
        let renaming = state.take(&step, &self.bound, &self.chooser);
        real.take(&driven.state, &step, &state, &renaming);
        Some(Driven { state, real })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("agreement", |_, driven: &Driven| !driven.state.conflict),
            Property::always("views begin as in the model", |_, driven: &Driven| {
                driven.real.differs != Some(Difference::Entering)
            }),
            Property::always("what does not follow is refused", |_, driven: &Driven| {
                driven.real.differs != Some(Difference::Refusing)
            }),
            Property::always("commits are learnt as in the model", |_, driven: &Driven| {
                driven.real.differs != Some(Difference::Learning)
            }),
            Property::always("views are given up as in the model", |_, driven: &Driven| {
                driven.real.differs != Some(Difference::Leaving)
            }),
            Property::always("P and Q are those of the model", |_, driven: &Driven| {
                driven.real.differs != Some(Difference::Sets)
            }),
            Property::always("commits are those of the model", |_, driven: &Driven| {
                driven.real.differs != Some(Difference::Commits)
            }),
            Property::sometimes("a block is committed", |_, driven: &Driven| {
                driven.state.committed[0] != 0
            }),
        ]
    }
}
