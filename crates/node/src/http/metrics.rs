//! The numbers of a replica as Prometheus reads them.
//!
//! Every label takes its values from a fixed list in this program: reasons, kinds of messages,
//! stages, a protocol's numbers. Nothing that a peer or a client sends becomes a label.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use quorate_transport::measure::Measure;

use super::warnings::Kind;
use super::{Facts, VERSION};

/// What the text is.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Numbers that are published under another name and unit than they are counted in.
const NANOSECONDS_SUFFIX: &str = "_nanoseconds_total";
/// Transport counters that say how much went through; the others say what went wrong.
const TRAFFIC: [&str; 6] = ["opened", "closed", "frames_in", "bytes_in", "frames_out", "bytes_out"];

/// The text.
pub(super) fn text(facts: &Arc<Facts>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("quorate");
    registry.register_collector(Box::new(Snapshot(Arc::clone(facts))));
    let mut text = String::with_capacity(16 << 10);
    encode(&mut text, &registry)?;
    Ok(text)
}

struct Snapshot(Arc<Facts>);

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the numbers of replica {}", self.0.replica)
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let facts = &self.0;
        for (name, help, value) in facts.metrics.numbers() {
            number(&mut encoder, name, help.trim().trim_end_matches('.'), value)?;
        }
        gauge(
            &mut encoder,
            "ready",
            "Whether commands would be ordered",
            u64::from(facts.not_ready().is_none()),
        )?;
        gauge(
            &mut encoder,
            "application_busy_seconds",
            "For how long the deciding thread has waited for the application",
            facts.metrics.watch.busy_seconds(),
        )?;
        gauge(
            &mut encoder,
            "replicas",
            "Replicas of the committee",
            facts.epochs.committee().replicas().count() as u64,
        )?;
        let labels = [
            ("version", VERSION),
            ("protocol", facts.cluster.protocol.name()),
            ("chain", facts.cluster.chain.as_str()),
        ];
        let mut family =
            encoder.encode_descriptor("build_info", "What runs here", None, MetricType::Gauge)?;
        ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
        let help = "A number that only this protocol has, since the start or now";
        let details = facts.metrics.details().into_iter();
        labelled_gauge(&mut encoder, "protocol_detail", help, "name", details)?;
        warnings(&mut encoder, facts)?;
        stages(&mut encoder, facts)?;
        traffic(&mut encoder, facts)
    }
}

/// What is wrong, by the names of docs/operations.md: 1 while it is.
fn warnings(encoder: &mut DescriptorEncoder<'_>, facts: &Facts) -> Result<(), fmt::Error> {
    let found = facts.warnings();
    let is_found = |kind: &Kind| u64::from(found.iter().any(|one| one.kind == *kind));
    let values = Kind::ALL.iter().map(|kind| (kind.name(), is_found(kind)));
    let help = "Whether this is wrong with the replica, as /status says it";
    labelled_gauge(encoder, "warning", help, "name", values)
}

/// The stages of the pipeline, as `/profile` and `quorate profile` name them.
fn stages(encoder: &mut DescriptorEncoder<'_>, facts: &Facts) -> Result<(), fmt::Error> {
    type Of = fn(&Measure) -> f64;
    let counters: [(&str, &str, Option<&Unit>, Of); 4] = [
        ("stage", "Time that threads were in a stage", Some(&Unit::Seconds), |stage| {
            seconds(stage.visits.sum_ns())
        }),
        ("stage_visits", "Stretches of this time", None, |stage| stage.visits.count() as f64),
        ("stage_items", "Items that a stage dealt with", None, |stage| stage.items() as f64),
        (
            "stage_waiting",
            "Lengths of the queue that visits found, added up: by stage_visits, the mean",
            None,
            |stage| stage.waiting() as f64,
        ),
    ];
    for (name, help, unit, of) in counters {
        let values = facts.metrics.stages().map(|(stage, measure, _)| (stage, of(measure)));
        labelled(encoder, name, help, unit, "stage", values)?;
    }
    let help = "The longest queue that a visit found";
    let longest = facts.metrics.stages().map(|(name, stage, _)| (name, stage.longest()));
    labelled_gauge(encoder, "stage_longest_queue", help, "stage", longest)?;
    let help = "Threads that may be in a stage at once";
    let threads = facts.metrics.stages().map(|(name, _, threads)| (name, threads));
    labelled_gauge(encoder, "stage_threads", help, "stage", threads)
}

/// What went over the network, and what was turned away.
fn traffic(encoder: &mut DescriptorEncoder<'_>, facts: &Facts) -> Result<(), fmt::Error> {
    let refused = facts.metrics.refused();
    labelled(
        encoder,
        "refused",
        "Messages and frames refused",
        None,
        "reason",
        refused.iter().map(|(reason, count)| (*reason, *count as f64)),
    )?;
    let sent = facts.metrics.sent_by_kind();
    labelled(
        encoder,
        "sent_messages",
        "Messages sent to peers",
        None,
        "kind",
        sent.iter().map(|(kind, (count, _))| (*kind, *count as f64)),
    )?;
    labelled(
        encoder,
        "sent",
        "Bytes sent to peers",
        Some(&Unit::Bytes),
        "kind",
        sent.iter().map(|(kind, (_, bytes))| (*kind, *bytes as f64)),
    )?;
    let transport = facts.counters.all();
    for (name, value) in transport.iter().filter(|(name, _)| TRAFFIC.contains(name)) {
        let name = format!("transport_{name}");
        counter(encoder, &name, "What the transport carried", None, *value as f64)?;
    }
    let troubles = transport.iter().filter(|(name, _)| !TRAFFIC.contains(name));
    labelled(
        encoder,
        "transport_refused",
        "What the transport refused, dropped or closed",
        None,
        "reason",
        troubles.map(|(name, count)| (*name, *count as f64)),
    )
}

/// A number under its own name: a counter if it ends in `_total`, in seconds if it is a time.
fn number(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    if let Some(stem) = name.strip_suffix(NANOSECONDS_SUFFIX) {
        return counter(encoder, stem, "Time in them", Some(&Unit::Seconds), seconds(value));
    }
    match name.strip_suffix("_total") {
        Some(stem) => counter(encoder, stem, help, None, value as f64),
        None => gauge(encoder, name, help, value),
    }
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> Result<(), fmt::Error> {
    ConstCounter::new(value).encode(encoder.encode_descriptor(
        name,
        help,
        unit,
        MetricType::Counter,
    )?)
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn labelled<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    label: &str,
    values: impl Iterator<Item = (&'a str, f64)>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    for (which, value) in values {
        ConstCounter::new(value).encode(family.encode_family(&[(label, which)])?)?;
    }
    Ok(())
}

fn labelled_gauge<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: impl Iterator<Item = (&'a str, u64)>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (which, value) in values {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(family.encode_family(&[(label, which)])?)?;
    }
    Ok(())
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
