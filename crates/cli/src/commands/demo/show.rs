//! What happens in a demonstration, whoever watches.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quorate_lab::counting::{Counting, CountingError, Interval, Verdict};
use quorate_lab::local::LocalCluster;
use quorate_node::config::LeaderName;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::screen::Key;

/// How often figures are taken.
const FIGURES_EVERY: Duration = Duration::from_secs(1);
/// How long a killed leader stays down at least, so that throughput without it is seen, and it has
/// something to catch up with.
const DOWN_AT_LEAST: Duration = Duration::from_secs(3);
/// Messages that are kept for the screen.
const NEWS: usize = 6;

type Error = Box<dyn std::error::Error>;

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// How long the load ran.
    pub seconds: f64,
    /// The leader that was killed last.
    pub killed: Option<usize>,
    /// Commands a second before the planned kill.
    pub before: Option<f64>,
    /// Commands a second from the planned kill to the restart.
    pub down: Option<f64>,
    /// From a kill to the answer to a command submitted right then (the last kill).
    pub recovery: Option<Duration>,
    /// From the start of a restarted replica to its having all that the others had when it was
    /// up (the last restart).
    pub catch_up: Option<Duration>,
}

/// The figures of the last second.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Of the load.
    pub interval: Interval,
    /// Blocks committed a second.
    pub blocks: f64,
    /// What each replica says, if it answers.
    pub statuses: Vec<Option<Value>>,
    /// Increments acknowledged since the beginning.
    pub total: u64,
    /// Counts the seconds.
    pub turn: u64,
}

/// How far the planned kill is.
enum Plan {
    /// Not yet, or none planned.
    Waiting,
    /// The leader is down.
    Down(Instant),
    /// It was restarted.
    Done,
}

/// A replica that was restarted and is catching up.
struct CatchingUp {
    id: usize,
    since: Instant,
    height: u64,
}

/// What was acknowledged in some of the time.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    acknowledged: u64,
    seconds: f64,
}

impl Tally {
    fn rate(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.acknowledged as f64 / self.seconds)
    }
}

/// A demonstration.
pub struct Show {
    cluster: LocalCluster,
    counting: Counting,
    runtime: Runtime,
    began: Instant,
    length: Option<Duration>,
    plan: Plan,
    quit: bool,
    probe: Option<Receiver<Result<Duration, CountingError>>>,
    catching_up: Option<CatchingUp>,
    figures: Figures,
    figures_taken: Instant,
    height: u64,
    before: Tally,
    down: Tally,
    news: Vec<String>,
    outcome: Outcome,
}

impl Show {
    /// Of a cluster under load, for so long; until told if `None`.
    pub fn new(
        cluster: LocalCluster,
        counting: Counting,
        runtime: Runtime,
        length: Option<Duration>,
    ) -> Self {
        let now = Instant::now();
        Self {
            height: cluster.height(),
            cluster,
            counting,
            runtime,
            began: now,
            length,
            plan: Plan::Waiting,
            quit: false,
            probe: None,
            catching_up: None,
            figures: Figures::default(),
            figures_taken: now,
            before: Tally::default(),
            down: Tally::default(),
            news: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// Whether it has come to its end.
    pub fn is_over(&self) -> bool {
        let planned = self.length.is_some_and(|length| {
            let settled = self.probe.is_none() && self.catching_up.is_none();
            self.began.elapsed() >= length && matches!(self.plan, Plan::Done) && settled
        });
        self.quit || planned
    }

    /// The figures of the last second.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The latest news, oldest first.
    pub fn news(&self) -> &[String] {
        &self.news
    }

    /// How long it has been running.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How many replicas are meant to run, of how many.
    pub fn up(&self) -> (usize, usize) {
        (self.cluster.up().count(), self.cluster.size())
    }

    fn tell(&mut self, what: String) {
        self.news.push(format!("{:5.1} s  {what}", self.began.elapsed().as_secs_f64()));
        if self.news.len() > NEWS {
            self.news.remove(0);
        }
    }

    /// Does what was asked for.
    pub fn obey(&mut self, keys: &[Key]) -> Result<(), Error> {
        for key in keys {
            match key {
                Key::Kill => {
                    self.kill_leader();
                }
                Key::Restart => self.restart_all()?,
                Key::Quit => self.quit = true,
            }
        }
        Ok(())
    }

    /// Kills the leader, if one is known and up.
    fn kill_leader(&mut self) -> bool {
        let Some(leader) = self.cluster.leader() else { return false };
        self.cluster.kill(leader);
        let (sender, receiver) = channel();
        let probe = {
            let _entered = self.runtime.enter();
            self.counting.probe()
        };
        self.runtime.spawn(async move {
            // Nobody waits for it any more if the demonstration has ended.
            let _ = sender.send(probe.await);
        });
        self.probe = Some(receiver);
        self.outcome.killed = Some(leader);
        self.tell(format!("killed replica {leader}, the leader (SIGKILL)"));
        let faults = quorate_core::base::membership::faults(self.cluster.size());
        let (up, size) = self.up();
        if size - up > faults {
            self.tell(format!("{} of {size} are down: nothing is committed until r", size - up));
        }
        true
    }

    fn restart_all(&mut self) -> Result<(), Error> {
        let down: Vec<_> =
            (0..self.cluster.size()).filter(|id| !self.cluster.up().any(|up| up == *id)).collect();
        for id in down {
            let since = Instant::now();
            self.cluster.restart(id)?;
            self.tell(format!("restarted replica {id}"));
            let height = self.cluster.height();
            self.catching_up = Some(CatchingUp { id, since, height });
        }
        Ok(())
    }

    /// One step further: the plan, what is waited for, the figures.
    pub fn go_on(&mut self) -> Result<(), Error> {
        let half_way = self.length.is_some_and(|length| self.began.elapsed() >= length / 2);
        if half_way && matches!(self.plan, Plan::Waiting) {
            self.take_figures();
            if self.kill_leader() {
                self.plan = Plan::Down(Instant::now());
            }
        }
        // Without the leader that is fixed nothing is answered.
        let fixed = self.cluster.cluster().leader == LeaderName::Fixed;
        if let Plan::Down(since) = self.plan
            && (self.probe.is_none() || fixed)
            && since.elapsed() >= DOWN_AT_LEAST
        {
            self.take_figures();
            self.restart_all()?;
            self.plan = Plan::Done;
        }
        self.look_for_answers()?;
        for (id, how, log) in self.cluster.ended() {
            self.tell(format!("replica {id} {how}; see {}", log.display()));
        }
        if self.figures_taken.elapsed() >= FIGURES_EVERY {
            self.take_figures();
        }
        Ok(())
    }

    fn look_for_answers(&mut self) -> Result<(), Error> {
        if let Some(answer) = self.probe.as_ref().and_then(|probe| probe.try_recv().ok()) {
            let recovery = answer?;
            self.probe = None;
            self.outcome.recovery = Some(recovery);
            self.tell(format!(
                "commits again {:.0} ms after the kill",
                recovery.as_secs_f64() * 1e3
            ));
        }
        if let Some(CatchingUp { id, since, height }) = self.catching_up {
            let reached =
                self.cluster.status(id).and_then(|status| status["executed_height"].as_u64());
            if reached.is_some_and(|reached| reached >= height) {
                let took = since.elapsed();
                self.catching_up = None;
                self.outcome.catch_up = Some(took);
                self.tell(format!("replica {id} caught up in {:.0} ms", took.as_secs_f64() * 1e3));
            }
        }
        Ok(())
    }

    fn take_figures(&mut self) {
        self.figures_taken = Instant::now();
        let interval = self.counting.interval();
        let (up, size) = self.up();
        let tally = match self.plan {
            Plan::Waiting if up == size => Some(&mut self.before),
            Plan::Down(_) => Some(&mut self.down),
            _ => None,
        };
        if let Some(tally) = tally {
            tally.acknowledged += interval.acknowledged;
            tally.seconds += interval.seconds;
        }
        let statuses: Vec<_> = (0..self.cluster.size()).map(|id| self.cluster.status(id)).collect();
        let heights =
            statuses.iter().flatten().filter_map(|status| status["committed_height"].as_u64());
        let height = heights.max().unwrap_or(self.height);
        self.figures = Figures {
            blocks: height.saturating_sub(self.height) as f64 / interval.seconds,
            total: self.figures.total + interval.acknowledged,
            turn: self.figures.turn + 1,
            interval,
            statuses,
        };
        self.height = height;
    }

    /// Ends the load, reads everything back through the cluster, and stops it.
    pub fn end(mut self, patience: Duration) -> Result<(Outcome, Verdict), Error> {
        // What is down is needed to answer for everything.
        self.restart_all()?;
        (self.outcome.before, self.outcome.down) = (self.before.rate(), self.down.rate());
        self.outcome.seconds = self.began.elapsed().as_secs_f64();
        let verdict = self.runtime.block_on(self.counting.end(patience))?;
        self.cluster.stop();
        Ok((self.outcome, verdict))
    }
}
