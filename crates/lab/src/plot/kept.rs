//! What is kept of a study's results: no more than its pictures are drawn from.

use super::charts::{MOST_MAPS, draws_heat_maps};
use super::group;
use crate::experiment::{Plan, Row, Study};

/// The rows without what no picture of the study shows. That is the latencies of each interval of a
/// run that has no heat map: by far the most of a row. All pictures and tables are the same.
#[must_use]
pub fn kept(study: &Study, plan: &Plan, rows: &[Row]) -> Vec<Row> {
    let mut kept = rows.to_vec();
    let mapped: Vec<(usize, u32)> = match draws_heat_maps(study, plan) {
        true => plan
            .settings
            .iter()
            .enumerate()
            .filter_map(|(index, settings)| {
                let first =
                    group::rows(rows, &[settings]).into_iter().map(|row| row.repeat).min()?;
                Some((index, first))
            })
            .take(MOST_MAPS)
            .collect(),
        false => Vec::new(),
    };
    for row in &mut kept {
        let is_mapped = mapped.iter().any(|(index, repeat)| {
            *repeat == row.repeat && plan.settings.get(*index) == Some(&row.settings)
        });
        if let Some(figures) = row.figures.as_mut().filter(|_| !is_mapped) {
            figures.latencies_over_time = Vec::new();
        }
    }
    kept
}
