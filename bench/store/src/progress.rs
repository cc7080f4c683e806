//! How far a run is, and how long the rest will take.

use crate::process::Passed;
use crate::rows::{Settings, Step};
use std::time::Duration;

/// Items a second that loading is taken for until it is known.
const LOADED_PER_SECOND: f64 = 150_000.0;

pub struct Progress {
    items: u64,
    seconds: f64,
    left: Vec<(String, Step)>,
    steps: usize,
    /// Of loads so far: items and seconds.
    loads: (f64, f64),
    /// Of other steps so far: how many, and what they took beyond what was planned.
    beyond: (f64, f64),
}

impl Progress {
    pub fn new(settings: &Settings) -> Progress {
        Progress {
            items: settings.items,
            seconds: settings.seconds,
            steps: 0,
            left: Vec::new(),
            loads: (0.0, 0.0),
            beyond: (0.0, 0.0),
        }
    }

    /// What there is to do.
    pub fn begin_with(&mut self, left: Vec<(String, Step)>) {
        (self.steps, self.left) = (left.len(), left);
        eprintln!("{} steps, about {}", self.steps, self.rest(0));
    }

    pub fn begin(&self, engine: &str, step: &Step) {
        let number = self.steps - self.left.len() + 1;
        eprintln!("[{number}/{}] {engine}: {step}; {} left", self.steps, self.rest(0));
    }

    /// A part of a load is done.
    pub fn loaded(&mut self, engine: &str, items: u64, passed: &Passed) {
        let part = (self.items / 100).max(1) as f64;
        self.loads.0 += part;
        self.loads.1 += passed.seconds;
        if items * 10 / self.items != (items - part as u64) * 10 / self.items {
            let percent = 100 * items / self.items;
            let rate = part / passed.seconds.max(f64::MIN_POSITIVE);
            eprintln!(
                "  {engine}: {percent} % loaded, {rate:.0} items/s; {} left",
                self.rest(items)
            );
        }
    }

    pub fn end(&mut self, engine: &str, step: &Step, took: Duration) {
        let done = self.left.iter().position(|(one, left)| one == engine && left == step);
        if let Some(done) = done {
            self.left.remove(done);
        }
        if *step != Step::Load {
            self.beyond.0 += 1.0;
            self.beyond.1 += took.as_secs_f64() - self.planned(step);
        }
    }

    /// Nothing more of an engine.
    pub fn give_up(&mut self, engine: &str) {
        self.left.retain(|(one, _)| one != engine);
    }

    fn planned(&self, step: &Step) -> f64 {
        match step {
            Step::Cell(_) => self.seconds * 1.5,
            _ => self.seconds.max(3.0),
        }
    }

    fn rest(&self, loaded: u64) -> String {
        let rate = if self.loads.1 > 1.0 { self.loads.0 / self.loads.1 } else { LOADED_PER_SECOND };
        let beyond = if self.beyond.0 > 0.0 { self.beyond.1 / self.beyond.0 } else { 2.0 };
        let seconds: f64 = self
            .left
            .iter()
            .map(|(_, step)| match step {
                Step::Load => self.items as f64 / rate,
                _ => self.planned(step) + beyond.max(0.0),
            })
            .sum();
        duration(Duration::from_secs_f64((seconds - loaded as f64 / rate).max(0.0)))
    }
}

/// Hours, minutes and seconds.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {:02} s", seconds % 60),
        (hours, minutes) => format!("{hours} h {minutes:02} min"),
    }
}
