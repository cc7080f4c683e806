//! Which rows belong together.

use std::cmp::Ordering;

use crate::experiment::{Estimate, Plan, Point, Row, Settings};

/// Settings with their rows.
pub(super) struct Group<'a> {
    /// Of which it is: the values of the axes it was made by, as people read them.
    pub(super) label: String,
    /// The same as a part of a file's name: without thousands separated.
    pub(super) name: String,
    pub(super) settings: Vec<&'a Settings>,
}

/// The settings of a plan by the values of `axes`: by size where all are numbers, and in the plan's
/// order where they are words.
pub(super) fn by<'a>(settings: &[&'a Settings], axes: &[String]) -> Vec<Group<'a>> {
    let mut groups: Vec<(Vec<Option<String>>, Group<'a>)> = Vec::new();
    for one in settings {
        let values: Vec<Option<String>> = axes.iter().map(|axis| one.point.text(axis)).collect();
        match groups.iter_mut().find(|(known, _)| *known == values) {
            Some((_, group)) => group.settings.push(one),
            None => {
                let (label, name) = (label(&one.point, axes), name(&one.point, axes));
                groups.push((values, Group { label, name, settings: vec![one] }));
            }
        }
    }
    let places: Vec<Vec<f64>> =
        axes.iter().enumerate().map(|(index, axis)| places(&groups, index, axis)).collect();
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by(|a, b| {
        let differ = places.iter().map(|of_axis| of_axis[*a].total_cmp(&of_axis[*b]));
        differ.fold(Ordering::Equal, Ordering::then)
    });
    let mut groups: Vec<Option<Group<'a>>> =
        groups.into_iter().map(|(_, group)| Some(group)).collect();
    order.into_iter().filter_map(|index| groups[index].take()).collect()
}

/// Where each group belongs by one axis: its number, or the first group with the same word.
fn places(groups: &[(Vec<Option<String>>, Group<'_>)], index: usize, axis: &str) -> Vec<f64> {
    let number = |(_, group): &(_, Group<'_>)| group.settings.first()?.point.number(axis);
    let numbers: Option<Vec<f64>> = groups.iter().map(number).collect();
    let first = |(values, _): &(Vec<Option<String>>, _)| {
        let same = |(others, _): &(Vec<Option<String>>, _)| others[index] == values[index];
        groups.iter().position(same).unwrap_or(0) as f64
    };
    numbers.unwrap_or_else(|| groups.iter().map(first).collect())
}

/// The values of some axes, in words.
pub(super) fn label(point: &Point, axes: &[String]) -> String {
    let parts: Vec<String> = axes.iter().filter_map(|axis| word(point, axis, shown)).collect();
    parts.join(", ")
}

/// The values of some axes as a part of a file's name, which stays the same however numbers are
/// shown.
pub(super) fn name(point: &Point, axes: &[String]) -> String {
    let parts: Vec<String> =
        axes.iter().filter_map(|axis| word(point, axis, Point::text)).collect();
    parts.join(", ")
}

fn word(point: &Point, axis: &str, of: fn(&Point, &str) -> Option<String>) -> Option<String> {
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
    let value = of(point, axis)?;
    Some(if named { format!("{name} {value}") } else { value })
}

/// The value of an axis as it is shown: whole numbers with thousands separated, and a word where 0
/// is none.
pub(super) fn shown(point: &Point, axis: &str) -> Option<String> {
    let text = point.text(axis)?;
    let is_usual = match axis {
        "frame" | "outstanding" | "cores" => text == "0",
        "liars" => text == "0" && point.adversary.0.0.is_some(),
        _ => false,
    };
    if is_usual {
        return Some("usual".to_owned());
    }
    let whole = text.parse::<f64>().ok().filter(|value| value.fract() == 0.0);
    Some(whole.map_or(text, quorate_plot::number))
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
