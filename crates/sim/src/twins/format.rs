//! Files of scenarios: this project's format (described in `docs/twins.md`), and the one of the
//! framework paper, which is read as well. Nothing in a file is believed.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::scenario::{Groups, MAX_SLOTS, MAX_VIEWS, Phase, Scenario, Shape, ViewScript};

/// What a file says it is.
pub const FORMAT: &str = "quorate-twins";
/// The version of the format that is read and written.
pub const VERSION: u64 = 1;
/// The longest file that is read.
pub const MAX_BYTES: u64 = 256 << 20;

/// What is wrong with a file: where in it, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}; {remedy}")]
pub struct FormatError {
    /// A line and column, or the path of a field.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Who takes part.
    pub shape: Shape,
    /// Views before the script.
    pub prefix: Option<u64>,
    /// The protocol that the scenarios made fail, if the file says so.
    pub protocol: Option<String>,
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
}

/// The first lines of a file: everything but the scenarios.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Who takes part.
    pub shape: Shape,
    /// Groups in a view, at most.
    pub partitions: usize,
    /// Views in a scenario, at most.
    pub views: usize,
    /// Views before the script, if that is to be said.
    pub prefix: Option<u64>,
    /// The protocol that the scenarios make fail, and how.
    pub failure: Option<(String, String)>,
}

/// A file with these scenarios, each beside its number if it has one.
#[must_use]
pub fn write(head: &Head, scenarios: &[(Option<u128>, Scenario)]) -> String {
    let mut fields = json!({
        "format": FORMAT,
        "version": VERSION,
        "replicas": head.shape.replicas(),
        "twins": head.shape.twins(),
        "partitions": head.partitions,
        "views": head.views,
    });
    if let Some(prefix) = head.prefix {
        fields["prefix"] = json!(prefix);
    }
    if let Some((protocol, violation)) = &head.failure {
        (fields["protocol"], fields["violation"]) = (json!(protocol), json!(violation));
    }
    let mut text = fields.to_string();
    text.pop();
    text.push_str(",\"scenarios\":[");
    for (at, (number, scenario)) in scenarios.iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        text.push_str(&scenario_json(*number, scenario).to_string());
    }
    text.push_str("\n]}\n");
    text
}

fn scenario_json(number: Option<u128>, scenario: &Scenario) -> Value {
    let views: Vec<Value> =
        scenario.views.iter().map(|view| view_json(scenario.shape, view)).collect();
    match number {
        Some(number) => json!({ "number": number.to_string(), "views": views }),
        None => json!({ "views": views }),
    }
}

fn view_json(shape: Shape, view: &ViewScript) -> Value {
    let name = |slot: usize| shape.name(slot);
    let lists = |groups: &Groups| -> Vec<Vec<String>> {
        let lists = groups.lists(shape.slots()).into_iter();
        lists.map(|slots| slots.into_iter().map(name).collect()).collect()
    };
    let mut fields = json!({ "leader": view.leader });
    if view.is_steady() {
        fields["groups"] = json!(lists(&view.groups[0]));
    } else {
        for phase in Phase::ALL {
            fields["phases"][phase.name()] = json!(lists(&view.groups[phase as usize]));
        }
    }
    if !view.blocked.is_empty() {
        let pairs = view.blocked.iter();
        let pairs = pairs.map(|(from, to)| [name(usize::from(*from)), name(usize::from(*to))]);
        fields["blocked"] = json!(pairs.collect::<Vec<_>>());
    }
    fields
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnFile {
    format: String,
    version: u64,
    replicas: u64,
    twins: u64,
    partitions: u64,
    views: u64,
    prefix: Option<u64>,
    protocol: Option<String>,
    #[expect(dead_code, reason = "for those who read the file")]
    violation: Option<String>,
    scenarios: Vec<OwnScenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnScenario {
    #[expect(dead_code, reason = "for those who read the file")]
    number: Option<String>,
    views: Vec<OwnView>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnView {
    leader: u64,
    groups: Option<Vec<Vec<String>>>,
    phases: Option<OwnPhases>,
    #[serde(default)]
    blocked: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnPhases {
    proposal: Vec<Vec<String>>,
    vote: Vec<Vec<String>>,
    view_change: Vec<Vec<String>>,
}

/// What tells the two apart.
#[derive(Deserialize)]
struct Probe {
    num_nodes: Option<IgnoredAny>,
}

/// The framework paper's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperFile {
    num_nodes: u64,
    num_twins: u64,
    partitions: u64,
    views: u64,
    #[serde(default)]
    #[expect(dead_code, reason = "how long its executor runs: here the protocol's timers say")]
    ticks: u64,
    #[serde(default)]
    #[expect(dead_code, reason = "how the file was made")]
    shuffle: bool,
    #[serde(default)]
    #[expect(dead_code, reason = "how the file was made")]
    seed: i64,
    scenarios: Vec<Vec<PaperView>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperView {
    leader: u64,
    partitions: Vec<Vec<PaperNode>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(non_snake_case, reason = "the names in the file")]
struct PaperNode {
    ReplicaID: u64,
    TwinID: u64,
}

/// Reads a file in either format.
///
/// # Errors
/// [`FormatError`] names the place, what is wrong there, and the remedy.
pub fn read(text: &str) -> Result<Contents, FormatError> {
    let Probe { num_nodes } = serde_json::from_str(text).map_err(|error| syntax(&error))?;
    if num_nodes.is_some() {
        read_paper(&serde_json::from_str(text).map_err(|error| syntax(&error))?)
    } else {
        read_own(&serde_json::from_str(text).map_err(|error| syntax(&error))?)
    }
}

fn syntax(error: &serde_json::Error) -> FormatError {
    let words = error.to_string();
    let what = words.split(" at line ").next().unwrap_or(&words).to_owned();
    FormatError {
        place: format!("line {}, column {}", error.line(), error.column()),
        what,
        remedy: "correct it by docs/twins.md, or make the file anew with `quorate twins generate`"
            .to_owned(),
    }
}

fn wrong(
    place: impl Into<String>,
    what: impl Into<String>,
    remedy: impl Into<String>,
) -> FormatError {
    FormatError { place: place.into(), what: what.into(), remedy: remedy.into() }
}

fn shape_of(replicas: u64, twins: u64, fields: [&str; 2]) -> Result<Shape, FormatError> {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Shape::new(count(replicas).min(1 << 16), count(twins).min(1 << 16)).map_err(|error| {
        let words = error.to_string();
        let (what, remedy) = words.split_once(": ").unwrap_or((&words, "use other counts"));
        wrong(fields.join(", "), what, remedy)
    })
}

fn check_counts(shape: Shape, partitions: u64, views: u64) -> Result<(), FormatError> {
    if partitions == 0 || partitions > shape.slots() as u64 {
        let what = format!("{partitions} partitions of {} slots", shape.slots());
        return Err(wrong("partitions", what, format!("use 1 to {}", shape.slots())));
    }
    if views == 0 || views > MAX_VIEWS as u64 {
        return Err(wrong("views", format!("{views} views"), format!("use 1 to {MAX_VIEWS}")));
    }
    Ok(())
}

/// Limits that a file sets itself.
#[derive(Clone, Copy)]
struct Limits {
    shape: Shape,
    partitions: usize,
    views: usize,
}

impl Limits {
    fn check_views(self, place: &str, views: usize) -> Result<(), FormatError> {
        if views == 0 || views > self.views {
            let what = format!("{views} views, and the file says at most {}", self.views);
            return Err(wrong(place, what, "script 1 view at least, or raise \"views\""));
        }
        Ok(())
    }

    /// Groups from lists of slots: each slot at most once; who is in none is alone.
    fn groups(self, place: &str, lists: &[Vec<usize>]) -> Result<Groups, FormatError> {
        if lists.len() > self.partitions {
            let what =
                format!("{} groups, and the file says at most {}", lists.len(), self.partitions);
            return Err(wrong(place, what, "use fewer, or raise \"partitions\""));
        }
        let mut group_of = [None; MAX_SLOTS];
        for (group, slots) in lists.iter().enumerate() {
            for slot in slots {
                let before = group_of[*slot].replace(group as u8);
                if before.is_some() {
                    let what = format!("{:?} is in two groups", self.shape.name(*slot));
                    return Err(wrong(place, what, "name each slot once"));
                }
            }
        }
        Ok(Groups::new(self.shape.slots(), |slot| group_of[slot].unwrap_or(128 + slot as u8)))
    }

    fn leader(self, place: &str, leader: u64) -> Result<u8, FormatError> {
        match u8::try_from(leader) {
            Ok(id) if usize::from(id) < self.shape.replicas() => Ok(id),
            _ => {
                let what = format!("there is no replica {leader}");
                let last = self.shape.replicas() - 1;
                Err(wrong(format!("{place}.leader"), what, format!("use 0 to {last}")))
            }
        }
    }
}

fn read_own(file: &OwnFile) -> Result<Contents, FormatError> {
    if file.format != FORMAT {
        let what = format!("{:?} is no format known here", file.format);
        return Err(wrong("format", what, format!("it has to be {FORMAT:?}")));
    }
    if file.version != VERSION {
        let what = format!("version {} of the format is not known here", file.version);
        return Err(wrong("version", what, format!("use version {VERSION}, or a newer quorate")));
    }
    let shape = shape_of(file.replicas, file.twins, ["replicas", "twins"])?;
    check_counts(shape, file.partitions, file.views)?;
    if file.prefix.is_some_and(|prefix| prefix > super::scenario::MAX_PREFIX as u64) {
        let most = super::scenario::MAX_PREFIX;
        return Err(wrong(
            "prefix",
            "too many views before the script",
            format!("use 0 to {most}"),
        ));
    }
    let limits = Limits { shape, partitions: file.partitions as usize, views: file.views as usize };
    let mut scenarios = Vec::with_capacity(file.scenarios.len());
    for (at, scenario) in file.scenarios.iter().enumerate() {
        limits.check_views(&format!("scenarios[{at}].views"), scenario.views.len())?;
        let mut views = Vec::with_capacity(scenario.views.len());
        for (view, script) in scenario.views.iter().enumerate() {
            views.push(own_view(limits, &format!("scenarios[{at}].views[{view}]"), script)?);
        }
        scenarios.push(Scenario { shape, views });
    }
    Ok(Contents { shape, prefix: file.prefix, protocol: file.protocol.clone(), scenarios })
}

fn own_view(limits: Limits, place: &str, view: &OwnView) -> Result<ViewScript, FormatError> {
    let shape = limits.shape;
    let slot = |place: &str, name: &String| {
        shape.slot(name).ok_or_else(|| {
            let names: Vec<String> = (0..shape.slots()).map(|slot| shape.name(slot)).collect();
            let remedy = format!("use one of {}", names.join(", "));
            wrong(place, format!("there is no slot {name:?}"), remedy)
        })
    };
    let groups = |field: &str, lists: &Vec<Vec<String>>| {
        let place = format!("{place}.{field}");
        let list = |names: &Vec<String>| -> Result<Vec<usize>, FormatError> {
            names.iter().map(|name| slot(&place, name)).collect()
        };
        limits.groups(&place, &lists.iter().map(list).collect::<Result<Vec<_>, _>>()?)
    };
    let groups = match (&view.groups, &view.phases) {
        (Some(lists), None) => [groups("groups", lists)?; 3],
        (None, Some(phases)) => [
            groups("phases.proposal", &phases.proposal)?,
            groups("phases.vote", &phases.vote)?,
            groups("phases.view_change", &phases.view_change)?,
        ],
        _ => {
            let what = "it has to have either \"groups\" or \"phases\"";
            return Err(wrong(place, what, "give the one or the other"));
        }
    };
    let most = shape.slots() * shape.slots();
    if view.blocked.len() > most {
        let place = format!("{place}.blocked");
        return Err(wrong(place, "more pairs than there are", format!("use at most {most}")));
    }
    let mut blocked = Vec::with_capacity(view.blocked.len());
    for (from, to) in &view.blocked {
        let place = format!("{place}.blocked");
        blocked.push((slot(&place, from)? as u8, slot(&place, to)? as u8));
    }
    Ok(ViewScript { leader: limits.leader(place, view.leader)?, groups, blocked })
}

/// Replicas are numbered from 1 there, and any of them may be twins: here twins come first.
fn read_paper(file: &PaperFile) -> Result<Contents, FormatError> {
    let shape = shape_of(file.num_nodes, file.num_twins, ["num_nodes", "num_twins"])?;
    check_counts(shape, file.partitions, file.views)?;
    let limits = Limits { shape, partitions: file.partitions as usize, views: file.views as usize };
    let ids = paper_ids(file, shape)?;
    let mut scenarios = Vec::with_capacity(file.scenarios.len());
    for (at, scenario) in file.scenarios.iter().enumerate() {
        limits.check_views(&format!("scenarios[{at}]"), scenario.len())?;
        let mut views = Vec::with_capacity(scenario.len());
        for (view, script) in scenario.iter().enumerate() {
            let place = format!("scenarios[{at}][{view}]");
            let slots = |nodes: &Vec<PaperNode>| -> Result<Vec<usize>, FormatError> {
                nodes.iter().map(|node| paper_slot(shape, &ids, &place, *node)).collect()
            };
            let lists: Result<Vec<_>, _> = script.partitions.iter().map(slots).collect();
            let groups = limits.groups(&format!("{place}.partitions"), &lists?)?;
            let leader = script.leader.checked_sub(1).and_then(|at| ids.get(at as usize));
            let leader = leader.ok_or_else(|| {
                let what = format!("there is no replica {}", script.leader);
                let remedy = format!("use 1 to {}", shape.replicas());
                wrong(format!("{place}.leader"), what, remedy)
            })?;
            views.push(ViewScript::steady(*leader as u8, groups));
        }
        scenarios.push(Scenario { shape, views });
    }
    Ok(Contents { shape, prefix: None, protocol: None, scenarios })
}

/// By replica there, less one: the replica here.
fn paper_ids(file: &PaperFile, shape: Shape) -> Result<Vec<usize>, FormatError> {
    let mut twins = vec![false; shape.replicas()];
    let views = file.scenarios.iter().flatten();
    for node in views.flat_map(|view| view.partitions.iter().flatten()) {
        if node.TwinID > 0
            && let Some(place) =
                node.ReplicaID.checked_sub(1).and_then(|at| twins.get_mut(at as usize))
        {
            *place = true;
        }
    }
    // Twins that no partition names are some of the others.
    for at in 0..twins.len() {
        let count = twins.iter().filter(|is_twin| **is_twin).count();
        twins[at] |= count < shape.twins();
    }
    let count = twins.iter().filter(|is_twin| **is_twin).count();
    if count > shape.twins() {
        let what =
            format!("{count} replicas have a TwinID above 0, and there are {}", shape.twins());
        return Err(wrong("num_twins", what, format!("set it to {count}")));
    }
    let (mut next_twin, mut next) = (0, shape.twins());
    let number = |is_twin: &bool| {
        let next = if *is_twin { &mut next_twin } else { &mut next };
        *next += 1;
        *next - 1
    };
    Ok(twins.iter().map(number).collect())
}

fn paper_slot(
    shape: Shape,
    ids: &[usize],
    place: &str,
    node: PaperNode,
) -> Result<usize, FormatError> {
    let id = node.ReplicaID.checked_sub(1).and_then(|at| ids.get(at as usize)).copied();
    let is_twin = id.is_some_and(|id| id < shape.twins());
    match (id, node.TwinID) {
        (Some(id), 0 | 1) if (node.TwinID == 1) == is_twin => Ok(id),
        (Some(id), 2) if is_twin => Ok(shape.replicas() + id),
        _ => {
            let what =
                format!("there is no ReplicaID {} with TwinID {}", node.ReplicaID, node.TwinID);
            let remedy = "a replica without a twin has TwinID 0, the copies of one have 1 and 2";
            Err(wrong(format!("{place}.partitions"), what, remedy))
        }
    }
}
