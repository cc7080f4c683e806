//! What is drawn of a study's results, as its file says it.

use serde::Deserialize;

/// A chart.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// What kind of picture.
    pub kind: ChartKind,
    /// What it is called. Default: made of what it shows.
    pub title: Option<String>,
    /// What is on the vertical axis: a figure of a run, for `over-time` one of an interval.
    pub y: Option<String>,
    /// What is on the horizontal axis of a `curve`: an axis of the study or a figure.
    pub x: Option<String>,
    /// Axes whose values have a line (or a bar) of their own colour.
    #[serde(default)]
    pub by: Vec<String>,
    /// Axes whose values have a picture of their own.
    #[serde(default)]
    pub panels: Vec<String>,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub logarithmic: bool,
}

/// Kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// A figure of each interval, over the time of a run; mean of the repeats and its range.
    OverTime,
    /// One figure against another, or against an axis.
    Curve,
    /// A figure as bars, one a permutation.
    Bars,
    /// Which share of the commands had at most which latency.
    CumulativeLatency,
    /// How many commands had which latency when, of the first repeat.
    HeatMap,
}
