//! A row of results.

use serde::Serialize;

use crate::experiment::{Figures, Settings};

/// What a load found, as parts of what it found on a healthy cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Commands a second.
    pub goodput: f64,
    /// The median latency.
    pub p50: f64,
}

impl Ratio {
    pub(super) fn of(figures: &Figures, healthy: &Figures) -> Self {
        Self { goodput: figures.goodput / healthy.goodput, p50: figures.p50_ms / healthy.p50_ms }
    }
}

/// What came out, and with what it was measured. What does not belong to a row is absent.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is measured.
    pub name: &'static str,
    /// With what.
    pub settings: Settings,
    /// Cores of the machine that replicas, clients and measuring share.
    pub cores: usize,
    /// What a load found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Beside the row of the same load with all replicas alive and honest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_healthy: Option<Ratio>,
    /// Share of one core that an idle replica takes, in percent, mean of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_percent: Option<f64>,
    /// Every kill's recovery, in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recoveries_ms: Vec<f64>,
    /// Every restart's catching up, in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub catch_ups_ms: Vec<f64>,
}

impl Row {
    pub(super) fn new(name: &'static str, settings: Settings) -> Self {
        Self {
            name,
            settings,
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            figures: None,
            against_healthy: None,
            processor_percent: None,
            recoveries_ms: Vec::new(),
            catch_ups_ms: Vec::new(),
        }
    }
}
