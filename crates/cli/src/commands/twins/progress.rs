//! How far a campaign has come, in a file: written whole every few seconds, so that a campaign that
//! is killed goes on from there.

use std::path::{Path, PathBuf};

use quorate_sim::twins::campaign::{Failed, MAX_FAILURES, Progress};
use quorate_sim::twins::{Totals, Violation};
use serde_json::{Map, Value, json};

use super::files;
use crate::failure::Failure;

const FORMAT: &str = "quorate-twins-progress";
const VERSION: u64 = 1;
/// The longest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// The file.
pub struct ProgressFile {
    path: PathBuf,
    campaign: String,
    /// By protocol: what came of it so far.
    protocols: Map<String, Value>,
}

impl ProgressFile {
    /// Opens the file of a campaign, or begins one.
    pub fn open(path: &Path, campaign: &str) -> Result<Self, Failure> {
        let begin =
            |protocols| Self { path: path.to_owned(), campaign: campaign.to_owned(), protocols };
        let length = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(begin(Map::new()));
            }
            Err(error) => return Err(Failure::io(error, path, "name another file")),
            Ok(metadata) => metadata.len(),
        };
        let remedy = "name another file with --progress, or delete this one to begin anew";
        if length > MAX_BYTES {
            let what = format!("{length} bytes are more than a progress file may have");
            return Err(files::refused(path, what, remedy));
        }
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::io(error, path, remedy))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| files::refused(path, error.to_string(), remedy))?;
        if value["format"] != FORMAT || value["version"] != VERSION {
            let what = format!("it is no {FORMAT} of version {VERSION}");
            return Err(files::refused(path, what, remedy));
        }
        if value["campaign"] != campaign {
            let what = format!("it is of another campaign: {}", value["campaign"]);
            return Err(files::refused(path, what, remedy));
        }
        let protocols = value["protocols"].as_object().cloned().unwrap_or_default();
        for (name, value) in &protocols {
            if read_progress(value).is_none() {
                let what = format!("protocols.{name} is not what was written");
                return Err(files::refused(path, what, remedy));
            }
        }
        Ok(begin(protocols))
    }

    /// How far a protocol has come.
    pub fn of(&self, protocol: &str) -> Progress {
        self.protocols.get(protocol).and_then(read_progress).unwrap_or_default()
    }

    /// Writes how far a protocol has come.
    pub fn save(&mut self, protocol: &str, progress: &Progress) -> Result<(), Failure> {
        self.protocols.insert(protocol.to_owned(), totals_json(progress));
        let value = json!({
            "format": FORMAT,
            "version": VERSION,
            "campaign": self.campaign,
            "protocols": self.protocols,
        });
        files::write(&self.path, &format!("{value:#}\n"))
    }
}

/// What came of a protocol's campaign.
pub fn totals_json(progress: &Progress) -> Value {
    let totals = &progress.totals;
    let failures: Vec<Value> = progress
        .failed
        .iter()
        .map(|failed| {
            let Violation { oracle, what } = &failed.violation;
            json!({ "place": failed.place.to_string(), "oracle": oracle, "what": what })
        })
        .collect();
    json!({
        "scenarios": totals.scenarios.to_string(),
        "committed": totals.committed,
        "forked": totals.forked,
        "equivocated": totals.equivocated,
        "noticed": totals.noticed,
        "failed": totals.failed,
        "longest_suffix": totals.longest_suffix,
        "delivered": totals.delivered,
        "failures": failures,
    })
}

fn read_progress(value: &Value) -> Option<Progress> {
    let number = |field: &str| value.get(field)?.as_u64();
    let totals = Totals {
        scenarios: value.get("scenarios")?.as_str()?.parse().ok()?,
        committed: number("committed")?,
        forked: number("forked")?,
        equivocated: number("equivocated")?,
        noticed: number("noticed")?,
        failed: number("failed")?,
        longest_suffix: number("longest_suffix")?,
        delivered: number("delivered")?,
    };
    let failures = value.get("failures")?.as_array()?;
    let failed = |failure: &Value| {
        let oracle = failure.get("oracle")?.as_str()?.to_owned();
        let what = failure.get("what")?.as_str()?.to_owned();
        let place = failure.get("place")?.as_str()?.parse().ok()?;
        Some(Failed { place, violation: Violation { oracle, what } })
    };
    let failed: Option<Vec<Failed>> = failures.iter().take(MAX_FAILURES).map(failed).collect();
    Some(Progress { totals, failed: failed? })
}
