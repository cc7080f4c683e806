//! The table `tracing`: traces of commands.

use crate::config::quantity::HostPort;
use crate::config::schema::{Field, Kind, Preset, Settings};
use crate::traces;

/// Traces of commands, for a collector.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// The collector; none: nothing is traced.
    pub otlp: Option<HostPort>,
    /// Which share of clients' frames is traced.
    pub sample: f64,
}

pub(super) const OTLP: Field = Field {
    key: "tracing.otlp",
    kind: Kind::Peer,
    preset: Preset::Absent,
    comment: "An OpenTelemetry collector, which takes OTLP over HTTP (JSON, at /v1/traces), in the\n\
              clear: best one on this machine. Usually port 4318.",
};

pub(super) const SAMPLE: Field = Field {
    key: "tracing.sample",
    kind: Kind::Ratio { min: 0.0, max: 1.0 },
    preset: Preset::Is("0.001"),
    comment: "Which share of clients' frames is traced. Replicas with the same share trace the same\n\
              frames.",
};

impl Tracing {
    /// What settings without a gap say.
    pub(super) fn from_settings(settings: &Settings) -> Option<Self> {
        let otlp = settings.address("tracing.otlp");
        Some(Self { otlp, sample: settings.ratio("tracing.sample")? })
    }

    /// Where traces go, if they go anywhere.
    #[must_use]
    pub fn settings(&self) -> Option<traces::Settings> {
        let collector = self.otlp.clone()?;
        Some(traces::Settings { collector, sample: self.sample })
    }
}
