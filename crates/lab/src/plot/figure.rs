//! What figures are called, and where they are in a row.

use crate::experiment::Figures;

/// What an axis of a picture says: name and unit.
pub(super) fn label(name: &str) -> String {
    let known = match name {
        "goodput" => "goodput (commands/s)",
        "goodput_before" => "goodput before the attack (commands/s)",
        "goodput_under" => "goodput under attack (commands/s)",
        "goodput_after" => "goodput after the attack (commands/s)",
        "throughput" => "throughput offered (commands/s)",
        "mean_ms" => "mean latency (ms)",
        "deviation_ms" => "deviation of the latency (ms)",
        "p50_ms" => "median latency (ms)",
        "p90_ms" => "90th percentile of the latency (ms)",
        "p99_ms" => "99th percentile of the latency (ms)",
        "p999_ms" => "99.9th percentile of the latency (ms)",
        "max_ms" => "longest latency (ms)",
        "memory_mib" => "memory of the largest replica (MiB)",
        "disk_mib" => "disk of the largest replica (MiB)",
        "replica_us" => "processor time of a replica (µs/command)",
        "generator_us" => "processor time of the load (µs/command)",
        "stage_us" => "time in the stages, all threads, waiting included (µs/command)",
        "commands_per_block" => "commands in a block",
        "views_per_second" => "views (1/s)",
        "timeouts_per_second" => "time-outs of all replicas (1/s)",
        "failed_view_ms" => "cost of a failed view beside its time-out (ms)",
        "timeouts_total" => "time-outs of all replicas (1/s)",
        "committed_commands_total" => "committed (commands/s)",
        "batch" => "batch (commands)",
        "payload" => "payload (bytes)",
        "rate" => "rate (commands/s)",
        "frame" => "frame (commands)",
        "replicas" | "clients" | "outstanding" | "cores" | "liars" => name,
        other => return other.replace('_', " "),
    };
    known.to_owned()
}

/// A figure of each interval of a run: the middle of the interval, in seconds, and the value;
/// `None` where nothing was answered that has a latency. A number of replicas that is a total
/// becomes its growth a second. A last interval of less than half the usual length is left out: a
/// few milliseconds say nothing of a second.
pub(super) fn over_time(figures: &Figures, name: &str) -> Vec<(f64, Option<f64>)> {
    let of_interval = |one: &crate::load::Interval| match name {
        "goodput" => Some(one.commands as f64 / one.seconds.max(f64::MIN_POSITIVE)),
        // Without an answer there is no latency, which is not one of 0.
        _ if !one.has_latencies() => None,
        "p50_ms" => Some(one.p50_ms),
        "p90_ms" => Some(one.p90_ms),
        "p99_ms" => Some(one.p99_ms),
        _ => Some(one.max_ms),
    };
    if matches!(name, "goodput" | "p50_ms" | "p90_ms" | "p99_ms" | "max_ms") {
        let half = half_of_usual(figures.series.iter().map(|one| one.seconds));
        let whole = figures.series.iter().filter(|one| one.seconds >= half);
        return whole.map(|one| (one.at + one.seconds / 2.0, of_interval(one))).collect();
    }
    let Some(values) = figures.samples.values.get(name) else { return Vec::new() };
    let samples: Vec<(f64, f64)> =
        figures.samples.at.iter().copied().zip(values.iter().copied()).collect();
    if !name.ends_with("_total") {
        return samples.into_iter().map(|(at, value)| (at, Some(value))).collect();
    }
    let half = half_of_usual(samples.windows(2).map(|pair| pair[1].0 - pair[0].0));
    let growth = |pair: &[(f64, f64)]| {
        let [(from, before), (to, after)] = pair else { return None };
        let whole = to > from && to - from >= half;
        whole.then(|| ((from + to) / 2.0, Some((after - before) / (to - from))))
    };
    samples.windows(2).filter_map(growth).collect()
}

/// Half of the length that most intervals have: the middle one of all.
fn half_of_usual(lengths: impl Iterator<Item = f64>) -> f64 {
    let mut lengths: Vec<f64> = lengths.collect();
    lengths.sort_by(f64::total_cmp);
    lengths.get(lengths.len() / 2).map_or(0.0, |usual| usual / 2.0)
}
