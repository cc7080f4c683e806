//! What two readings of a cluster show: the picture of `quorate top`, without a terminal.

use std::time::Instant;

use serde_json::{Value, json};

use crate::output::table;

/// Blocks that a replica may be behind the highest before it is told.
const BEHIND: u64 = 100;

/// What one replica answered.
pub struct Reading {
    /// Its number or address.
    pub name: String,
    /// When it was asked.
    pub at: Instant,
    /// Its `/status`, or why there is none.
    pub answer: Result<Value, String>,
}

/// How a line is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// As the others.
    Plain,
    /// Less important.
    Faint,
    /// All is well.
    Good,
    /// Somebody should act.
    Warning,
    /// Something does not serve.
    Critical,
}

/// A line of the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How it is meant.
    pub mood: Mood,
    /// What it says.
    pub text: String,
}

/// One thing that is wrong, and who says so.
#[derive(Clone, Debug, PartialEq)]
struct Trouble {
    level: String,
    what: String,
    remedy: String,
    of: Vec<String>,
}

/// A replica, as it is between two readings.
struct Replica {
    name: String,
    state: String,
    status: Option<Value>,
    commands_per_s: f64,
    timeouts: u64,
    busiest: String,
}

/// The cluster.
pub struct Picture {
    replicas: Vec<Replica>,
    troubles: Vec<Trouble>,
}

impl Picture {
    /// What `now` shows, and what changed since `before`.
    pub fn of(before: &[Reading], now: &[Reading]) -> Self {
        let replicas =
            before.iter().zip(now).map(|(before, now)| Replica::of(before, now)).collect();
        let mut picture = Self { replicas, troubles: Vec::new() };
        picture.troubles = picture.find_troubles(now);
        picture
    }

    fn statuses(&self) -> impl Iterator<Item = &Value> {
        self.replicas.iter().filter_map(|one| one.status.as_ref())
    }

    fn highest(&self) -> u64 {
        self.statuses().map(|status| number(status, "committed_height")).max().unwrap_or(0)
    }

    fn find_troubles(&self, now: &[Reading]) -> Vec<Trouble> {
        let mut troubles: Vec<Trouble> = Vec::new();
        let mut tell = |of: &str, level: &str, what: String, remedy: &str| match troubles
            .iter_mut()
            .find(|one| one.what == what && one.level == level)
        {
            Some(known) => known.of.push(of.to_owned()),
            None => troubles.push(Trouble {
                level: level.to_owned(),
                what,
                remedy: remedy.to_owned(),
                of: vec![of.to_owned()],
            }),
        };
        let highest = self.highest();
        for reading in now {
            match &reading.answer {
                Err(error) => {
                    let remedy = "start it, or mend the way to its HTTP port";
                    tell(&reading.name, "critical", format!("unreachable: {error}"), remedy);
                }
                Ok(status) => {
                    for warning in status["warnings"].as_array().into_iter().flatten() {
                        let text = |name: &str| warning[name].as_str().unwrap_or_default();
                        tell(&reading.name, text("level"), text("what").to_owned(), text("remedy"));
                    }
                    let behind = highest - number(status, "committed_height");
                    if behind > BEHIND {
                        let what = format!("{behind} blocks behind the highest replica");
                        let remedy = "if it does not catch up, look at its disk and network";
                        tell(&reading.name, "warning", what, remedy);
                    }
                }
            }
        }
        let rank = |one: &Trouble| match one.level.as_str() {
            "critical" => 0,
            "warning" => 1,
            _ => 2,
        };
        troubles.sort_by_key(rank);
        troubles
    }

    /// The picture, line by line.
    pub fn lines(&self) -> Vec<Line> {
        let line = |mood, text: String| Line { mood, text };
        let mut lines = vec![line(Mood::Plain, self.head()), line(Mood::Plain, self.figures())];
        lines.push(line(Mood::Plain, String::new()));
        for (at, text) in self.table().lines().enumerate() {
            let replica = at.checked_sub(1).and_then(|at| self.replicas.get(at));
            let mood = match replica.map(|one| &one.status) {
                None => Mood::Faint,
                Some(None) => Mood::Critical,
                Some(Some(status)) if status["ready"] != true => Mood::Warning,
                Some(Some(_)) => Mood::Plain,
            };
            lines.push(line(mood, text.to_owned()));
        }
        lines.push(line(Mood::Plain, String::new()));
        if self.troubles.is_empty() {
            lines.push(line(Mood::Good, "nothing is wrong that a replica can see".to_owned()));
        }
        for trouble in &self.troubles {
            let mood = match trouble.level.as_str() {
                "critical" => Mood::Critical,
                "warning" => Mood::Warning,
                _ => Mood::Faint,
            };
            let plural = if trouble.of.len() == 1 { "" } else { "s" };
            let of = trouble.of.join(", ");
            let text = format!("{}: replica{plural} {of}: {}", trouble.level, trouble.what);
            lines.push(line(mood, text));
            lines.push(line(Mood::Faint, format!("    {}", trouble.remedy)));
        }
        lines
    }

    /// The same as text.
    pub fn text(&self) -> String {
        self.lines().into_iter().map(|line| line.text.trim_end().to_owned() + "\n").collect()
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let replica = |one: &Replica| {
            json!({
                "replica": one.name,
                "state": one.state,
                "commands_per_s": one.commands_per_s,
                "timeouts": one.timeouts,
                "busiest": one.busiest,
                "status": one.status,
            })
        };
        let trouble = |one: &Trouble| {
            let Trouble { level, what, remedy, of } = one;
            json!({ "level": level, "what": what, "remedy": remedy, "replicas": of })
        };
        json!({
            "replicas": self.replicas.iter().map(replica).collect::<Vec<_>>(),
            "warnings": self.troubles.iter().map(trouble).collect::<Vec<_>>(),
        })
    }

    fn head(&self) -> String {
        let Some(status) = self.statuses().next() else {
            return format!("quorate top   none of {} replicas answers", self.replicas.len());
        };
        let text = |name: &str| status[name].as_str().unwrap_or_default();
        let ready = self.statuses().filter(|status| status["ready"] == true).count();
        format!(
            "chain {}   {}, {}   {ready} of {} replicas ready",
            text("chain"),
            text("protocol"),
            text("application"),
            number(status, "replicas"),
        )
    }

    /// Every replica executes every command: the fastest says what the cluster does. Each answers
    /// the clients connected to it, so that the slowest says what a client may wait.
    fn figures(&self) -> String {
        let commands = self.replicas.iter().map(|one| one.commands_per_s).fold(0.0, f64::max);
        let worst = |name: &str| {
            let of = |status: &Value| status["last_seconds"][name].as_f64();
            let worst = self
                .statuses()
                .filter_map(of)
                .fold(None, |worst: Option<f64>, ms| Some(worst.map_or(ms, |worst| worst.max(ms))));
            worst.map_or("–".to_owned(), |ms| format!("{ms:.1} ms"))
        };
        format!(
            "{commands:.0} commands/s   answered within p50 {}, p99 {}   height {}",
            worst("p50_ms"),
            worst("p99_ms"),
            self.highest()
        )
    }

    fn table(&self) -> String {
        let head = [
            "REPLICA", "STATE", "VIEW", "LEADER", "HEIGHT", "BEHIND", "CMDS/S", "WAITING", "PEERS",
            "CLIENTS", "TIMEOUTS", "LOG MIB", "BUSIEST",
        ];
        let highest = self.highest();
        let rows: Vec<_> = self.replicas.iter().map(|one| one.row(highest)).collect();
        table(head, &rows)
    }
}

impl Replica {
    fn of(before: &Reading, now: &Reading) -> Self {
        let mut replica = Self {
            name: now.name.clone(),
            state: "unreachable".to_owned(),
            status: None,
            commands_per_s: 0.0,
            timeouts: 0,
            busiest: String::new(),
        };
        let Ok(status) = &now.answer else { return replica };
        replica.state = state(status);
        replica.status = Some(status.clone());
        // A process that was started in between counts from nothing.
        let Ok(old) = &before.answer else { return replica };
        if old["process"] != status["process"] {
            return replica;
        }
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64().max(0.001);
        let grown = |name: &str| {
            number(&status["numbers"], name).saturating_sub(number(&old["numbers"], name))
        };
        replica.commands_per_s = grown("committed_commands_total") as f64 / seconds;
        replica.timeouts = grown("timeouts_total");
        replica.busiest = busiest(&old["stage_seconds"], &status["stage_seconds"], seconds);
        replica
    }

    fn row(&self, highest: u64) -> [String; 13] {
        let mut row = [const { String::new() }; 13];
        row[0].clone_from(&self.name);
        row[1].clone_from(&self.state);
        let Some(status) = &self.status else { return row };
        let height = number(status, "committed_height");
        row[2] = number(status, "view").to_string();
        row[3] = number(status, "leader").to_string();
        row[4] = height.to_string();
        row[5] = (highest - height).to_string();
        row[6] = format!("{:.0}", self.commands_per_s);
        row[7] = number(&status["mempool"], "frames").to_string();
        row[8] = status["peers"].as_array().map_or(0, Vec::len).to_string();
        row[9] = number(status, "clients").to_string();
        row[10] = self.timeouts.to_string();
        row[11] = (number(status, "log_bytes") >> 20).to_string();
        row[12].clone_from(&self.busiest);
        row
    }
}

/// In a word; the reason stands among the warnings.
fn state(status: &Value) -> String {
    let flag = |name: &str| status[name] == true;
    let word = match () {
        () if flag("rejoining") => "rejoining",
        () if !flag("ready") => "not ready",
        () if flag("abstaining") => "abstaining",
        () if status["details"]["in_fallback"] == 1 => "in the fallback",
        () => "ready",
    };
    word.to_owned()
}

/// The stage with most time, in hundredths of one thread's.
fn busiest(before: &Value, now: &Value, seconds: f64) -> String {
    let shares = now.as_object().into_iter().flatten().map(|(name, spent)| {
        let spent = spent.as_f64().unwrap_or(0.0) - before[name].as_f64().unwrap_or(0.0);
        (name, spent / seconds)
    });
    let most = shares.max_by(|(_, one), (_, other)| one.total_cmp(other));
    most.filter(|(_, share)| *share >= 0.005)
        .map_or(String::new(), |(name, share)| format!("{name} {:.0} %", share * 100.0))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str, at: Instant, answer: Result<Value, &str>) -> Reading {
        Reading { name: name.to_owned(), at, answer: answer.map_err(str::to_owned) }
    }

    fn status(height: u64, commands: u64, decide: f64, warnings: Value) -> Value {
        json!({
            "chain": "demo", "protocol": "hotstuff-two-chain", "application": "kv", "replicas": 4,
            "process": 7, "ready": true, "view": height + 2, "leader": 1,
            "committed_height": height, "mempool": { "frames": 3 }, "peers": [1, 2, 3], "clients": 5,
            "log_bytes": 3 << 20, "numbers": { "committed_commands_total": commands },
            "stage_seconds": { "decide": decide, "verify": 0.1 }, "warnings": warnings,
            "last_seconds": { "p50_ms": 4.0, "p99_ms": 9.5 },
        })
    }

    #[test]
    fn rates_are_of_the_time_between_two_readings() {
        let began = Instant::now();
        let later = began + std::time::Duration::from_secs(2);
        let before = [reading("0", began, Ok(status(10, 100, 1.0, json!([]))))];
        let now = [reading("0", later, Ok(status(30, 2100, 1.8, json!([]))))];
        let text = Picture::of(&before, &now).text();
        assert!(
            text.contains("1000 commands/s   answered within p50 4.0 ms, p99 9.5 ms   height 30"),
            "{text}"
        );
        assert!(text.contains("decide 40 %"), "{text}");
        assert!(text.contains("nothing is wrong"), "{text}");
    }

    #[test]
    fn what_several_replicas_say_is_told_once_and_the_worst_first() {
        let at = Instant::now();
        let slow =
            json!([{ "name": "slow-disk", "level": "warning", "what": "slow", "remedy": "look" }]);
        let readings = || {
            [
                reading("0", at, Ok(status(500, 1, 0.0, slow.clone()))),
                reading("1", at, Ok(status(399, 1, 0.0, slow.clone()))),
                reading("2", at, Err("no route")),
            ]
        };
        let picture = Picture::of(&readings(), &readings());
        let lines: Vec<_> = picture.lines().into_iter().map(|line| line.text).collect();
        let told: Vec<_> = lines.iter().filter(|line| line.contains("replica")).skip(1).collect();
        assert_eq!(
            told,
            [
                "critical: replica 2: unreachable: no route",
                "warning: replicas 0, 1: slow",
                "warning: replica 1: 101 blocks behind the highest replica",
            ]
        );
    }

    #[test]
    fn a_replica_in_the_fallback_of_its_protocol_says_so() {
        let at = Instant::now();
        let told = |in_fallback: u64| {
            let mut status = status(10, 100, 1.0, json!([]));
            status["details"] = json!({ "in_fallback": in_fallback });
            let reading = || [reading("0", at, Ok(status.clone()))];
            Picture::of(&reading(), &reading()).text().contains("in the fallback")
        };
        assert!(told(1) && !told(0));
    }

    #[test]
    fn a_new_process_has_no_rate_yet() {
        let at = Instant::now();
        let mut old = status(10, 100, 1.0, json!([]));
        old["process"] = json!(6);
        let picture = Picture::of(
            &[reading("0", at, Ok(old))],
            &[reading("0", at, Ok(status(30, 2100, 1.8, json!([]))))],
        );
        assert!(picture.text().contains("0 commands/s"));
    }
}
