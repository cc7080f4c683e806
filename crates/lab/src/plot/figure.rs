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
        "stage_us" => "time of the deciding thread (µs/command)",
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

/// A figure of each interval of a run: the middle of the interval, in seconds, and the value. A
/// number of replicas that is a total becomes its growth a second.
pub(super) fn over_time(figures: &Figures, name: &str) -> Vec<(f64, f64)> {
    let of_interval = |one: &crate::load::Interval| {
        Some(match name {
            "goodput" => one.commands as f64 / one.seconds.max(f64::MIN_POSITIVE),
            // Without an answer there is no latency, which is not one of 0.
            _ if !one.has_latencies() => return None,
            "p50_ms" => one.p50_ms,
            "p90_ms" => one.p90_ms,
            "p99_ms" => one.p99_ms,
            "max_ms" => one.max_ms,
            _ => return None,
        })
    };
    let series = figures.series.iter();
    let points: Vec<(f64, f64)> =
        series.filter_map(|one| Some((one.at + one.seconds / 2.0, of_interval(one)?))).collect();
    if !points.is_empty() {
        return points;
    }
    let Some(values) = figures.samples.values.get(name) else { return Vec::new() };
    let samples: Vec<(f64, f64)> =
        figures.samples.at.iter().copied().zip(values.iter().copied()).collect();
    if !name.ends_with("_total") {
        return samples;
    }
    let growth = |pair: &[(f64, f64)]| {
        let [(from, before), (to, after)] = pair else { return None };
        (to > from).then(|| ((from + to) / 2.0, (after - before) / (to - from)))
    };
    samples.windows(2).filter_map(growth).collect()
}
