//! One run of a checker, and how it is told.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

/// What a checker found.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was checked.
    pub name: String,
    /// Different states.
    pub states: usize,
    /// Steps that led to a state, new or known.
    pub steps: usize,
    /// The longest of the shortest ways to a state, in steps.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// The first violation: the property, and the steps to it.
    pub violation: Option<(&'static str, Vec<String>)>,
    /// What was to happen somewhere and did not.
    pub missing: Vec<&'static str>,
}

impl Run {
    /// Whether all held, and, if it is to be `deep`, everything that was to be seen was.
    #[must_use]
    pub fn holds(&self, deep: bool) -> bool {
        self.violation.is_none() && (self.missing.is_empty() || !deep)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        let Self { name, states, depth, .. } = self;
        write!(f, "{name:<68} {states:>8} states  depth {depth:>3}  {seconds:>6.1} s  ")?;
        match &self.violation {
            Some((property, steps)) => write!(f, "{property}: broken in {} steps", steps.len())?,
            None => write!(f, "holds")?,
        }
        if self.violation.is_none() {
            for missing in &self.missing {
                write!(f, "; never seen: {missing}")?;
            }
        }
        Ok(())
    }
}

/// Goes through all states of `model`, breadth first, until a property is violated.
pub fn run<M>(name: &str, model: M, threads: usize) -> Run
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Clone + PartialEq + fmt::Debug + Send + Sync + 'static,
    M::Action: fmt::Debug + Clone + PartialEq + Send + Sync + 'static,
{
    let began = Instant::now();
    let checker = model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let mut violation = None;
    let mut missing = Vec::new();
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        match (property.expectation, found) {
            (stateright::Expectation::Sometimes, None) => missing.push(property.name),
            (stateright::Expectation::Sometimes, Some(_)) | (_, None) => {}
            (_, Some(path)) => {
                let steps = path.into_actions().iter().map(|step| format!("{step:?}")).collect();
                violation = Some((property.name, steps));
            }
        }
    }
    Run {
        name: name.to_owned(),
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        took: began.elapsed(),
        violation,
        missing,
    }
}
