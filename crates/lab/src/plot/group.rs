//! Which rows belong together.

use crate::experiment::{Estimate, Plan, Point, Row, Settings};

/// Settings with their rows.
pub(super) struct Group<'a> {
    /// Of which it is: the values of the axes it was made by.
    pub(super) label: String,
    pub(super) settings: Vec<&'a Settings>,
}

/// The settings of a plan by the values of `axes`, in the plan's order.
pub(super) fn by<'a>(settings: &[&'a Settings], axes: &[String]) -> Vec<Group<'a>> {
    let mut groups: Vec<(Vec<Option<String>>, Group<'a>)> = Vec::new();
    for one in settings {
        let values: Vec<Option<String>> = axes.iter().map(|axis| one.point.text(axis)).collect();
        match groups.iter_mut().find(|(known, _)| *known == values) {
            Some((_, group)) => group.settings.push(one),
            None => {
                let label = label(&one.point, axes);
                groups.push((values, Group { label, settings: vec![one] }));
            }
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The values of some axes, in words.
pub(super) fn label(point: &Point, axes: &[String]) -> String {
    let parts: Vec<String> = axes.iter().filter_map(|axis| word(point, axis)).collect();
    parts.join(", ")
}

fn word(point: &Point, axis: &str) -> Option<String> {
    let text = point.text(axis)?;
    if axis == "adversary" {
        let Some(schedule) = &point.adversary.0.0 else { return Some("no attack".to_owned()) };
        let names: Vec<&str> = schedule.parts().map(|(name, _)| name).collect();
        return Some(names.join(" and "));
    }
    if axis == "kill" && text == "none" {
        return Some("no kill".to_owned());
    }
    let name = axis.rsplit('.').next().unwrap_or(axis).replace('_', " ");
    let bare = text.parse::<f64>().is_ok() || text == "true" || text == "false";
    let named = bare || matches!(axis, "payload" | "rate" | "kill" | "durability" | "send_to");
    Some(if named { format!("{name} {text}") } else { text })
}

/// The axes of which a plan has more than one value, but for some.
pub(super) fn varying(plan: &Plan, but: &[String]) -> Vec<String> {
    plan.varying().into_iter().filter(|axis| !but.contains(axis)).collect()
}

/// Those of `axes` of which some settings have more than one value.
pub(super) fn varying_among(settings: &[&Settings], axes: Vec<String>) -> Vec<String> {
    let mut axes = axes;
    axes.retain(|axis| {
        let mut values = settings.iter().map(|one| one.point.text(axis));
        let first = values.next();
        values.any(|value| Some(value) != first)
    });
    axes
}

/// The rows of some settings that have figures.
pub(super) fn rows<'a>(rows: &'a [Row], settings: &[&Settings]) -> Vec<&'a Row> {
    let fits = |row: &&Row| row.figures.is_some() && settings.contains(&&row.settings);
    rows.iter().filter(fits).collect()
}

/// A figure of some rows.
pub(super) fn estimate(rows: &[&Row], name: &str) -> Option<Estimate> {
    let values: Vec<f64> =
        rows.iter().filter_map(|row| row.figures.as_ref()?.number(name)).collect();
    Estimate::of(&values)
}
