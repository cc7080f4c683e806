//! Every setting that a study does not vary, and what its variants are, as a table.

use std::fmt::Write as _;

use quorate_netem::topology::{Clients, Description};

use super::group;
use super::page::escaped;
use crate::experiment::{AXES, Plan, Settings};

/// Writes the table: those that are the same in every run, and those that only tell variants apart.
pub(super) fn table(html: &mut String, plan: &Plan) {
    html.push_str("<h2>Settings</h2>\n<p>The same in every run, or as said:</p>\n<table>\n");
    for (name, value) in fixed(plan) {
        // Writing to a string does not fail.
        let _ = writeln!(html, "<tr><td>{}</td><td>{}</td></tr>", escaped(&name), escaped(&value));
    }
    html.push_str("</table>\n");
}

/// Each setting that has no column of its own in the table of figures, and its value.
fn fixed(plan: &Plan) -> Vec<(String, String)> {
    let varying = plan.varying();
    let keys = plan.settings.iter().flat_map(|settings| settings.point.set.keys());
    let mut keys: Vec<&str> = keys.map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    let names = AXES.iter().copied().filter(|axis| *axis != "variant").chain(keys);
    let mut rows: Vec<(String, String)> = names
        .filter(|name| varying.iter().all(|axis| axis != name))
        .map(|name| (name.to_owned(), by_variant(plan, |one| group::shown(&one.point, name))))
        .collect();
    let described = |one: &Settings| one.network.as_ref().map(described);
    if plan.settings.iter().any(|one| one.network.is_some()) {
        rows.push(("network, described".to_owned(), by_variant(plan, described)));
    }
    if plan.settings.iter().any(|one| one.point.adversary.0.0.is_some()) {
        let settle = format!("{:?}", plan.measuring.settle);
        rows.push(("settle (from the start of the processes)".to_owned(), settle));
    }
    if !plan.measuring.numbers.is_empty() {
        rows.push(("numbers sampled".to_owned(), plan.measuring.numbers.join(", ")));
    }
    rows
}

/// What a description of a network says: nothing of what it leaves out.
fn described(network: &Description) -> String {
    let mut parts = Vec::new();
    parts.extend(network.preset.as_ref().map(|preset| format!("preset {preset}")));
    if let Some(places) = &network.rtt_ms {
        let row = |row: &Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
        let rows: Vec<String> = places.iter().map(row).collect();
        parts.push(format!("round trips of {} ms", rows.join(" | ")));
    }
    parts.extend(network.link.as_ref().map(|link| format!("links {link}")));
    match &network.clients {
        Some(Clients::Place(place)) => parts.push(format!("clients at place {place}")),
        Some(Clients::Near(_)) => parts.push("clients near every replica".to_owned()),
        None => {}
    }
    for one in &network.between {
        let (from, to, link) = (&one.from, &one.to, &one.link);
        parts.push(match one.both {
            true => format!("between {from} and {to} {link}"),
            false => format!("from {from} to {to} {link}"),
        });
    }
    parts.join(", ")
}

/// One value, or each with the variants that have it.
fn by_variant(plan: &Plan, of: impl Fn(&Settings) -> Option<String>) -> String {
    let mut values: Vec<(String, Vec<&str>)> = Vec::new();
    for settings in &plan.settings {
        let value = of(settings).unwrap_or_else(|| "not set".to_owned());
        let variant = settings.point.variant.as_str();
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, variants)) if variants.contains(&variant) => {}
            Some((_, variants)) => variants.push(variant),
            None => values.push((value, vec![variant])),
        }
    }
    match values.as_slice() {
        [(value, _)] => value.clone(),
        _ => {
            let parts = values.iter().map(|(value, of)| format!("{value} (“{}”)", of.join("”, “")));
            parts.collect::<Vec<_>>().join("; ")
        }
    }
}
