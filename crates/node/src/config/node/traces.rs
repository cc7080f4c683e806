//! The table `tracing`: traces of commands.

use std::path::PathBuf;

use crate::config::finding::Finding;
use crate::config::home::Home;
use crate::config::quantity::Endpoint;
use crate::config::schema::{Field, Kind, Preset, Settings};
use crate::traces::{self, Trust};

/// Traces of commands, for a collector.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// The collector; none: nothing is traced.
    pub otlp: Option<Endpoint>,
    /// The authorities that the collector's certificate is of (PEM), if it is asked over TLS; none:
    /// those that the system trusts.
    pub otlp_ca: Option<PathBuf>,
    /// Which share of clients' frames is traced.
    pub sample: f64,
}

pub(super) const OTLP: Field = Field {
    key: "tracing.otlp",
    kind: Kind::Endpoint,
    preset: Preset::Absent,
    comment: "An OpenTelemetry collector, which takes OTLP over HTTP (JSON, at /v1/traces). With\n\
              https:// over TLS, otherwise in the clear: best one on this machine. Usually port 4318.",
};

pub(super) const CA: Field = Field {
    key: "tracing.otlp_ca",
    kind: Kind::Path,
    preset: Preset::Absent,
    comment: "Authorities that the collector's certificate is of (PEM), of a collector with https://.\n\
              Default: those that the system trusts.",
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
    pub(super) fn from_settings(settings: &Settings, home: &Home) -> Option<Self> {
        let otlp = settings.text("tracing.otlp").and_then(|text| text.parse().ok());
        let otlp_ca = settings.path("tracing.otlp_ca").map(|path| home.resolve(&path));
        Some(Self { otlp, otlp_ca, sample: settings.ratio("tracing.sample")? })
    }

    /// Where traces go, if they go anywhere.
    #[must_use]
    pub fn settings(&self) -> Option<traces::Settings> {
        let Endpoint { address: collector, tls } = self.otlp.clone()?;
        let trust = self.otlp_ca.clone().map_or(Trust::System, Trust::File);
        Some(traces::Settings { collector, trust: tls.then_some(trust), sample: self.sample })
    }
}

/// Authorities are for a collector over TLS.
pub(super) fn check(tracing: &Tracing, settings: &Settings, findings: &mut Vec<Finding>) {
    let has_tls = tracing.otlp.as_ref().is_some_and(|otlp| otlp.tls);
    if tracing.otlp_ca.is_some() && !has_tls {
        findings.push(Finding::new(
            "`tracing.otlp_ca` is set, and `tracing.otlp` is no collector over TLS",
            settings.source("tracing.otlp_ca"),
            "write tracing.otlp = \"https://HOST:PORT\", or leave tracing.otlp_ca out",
        ));
    }
}
