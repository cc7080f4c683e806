//! Studies: one file says what is tried, every permutation is run on a fresh cluster of processes,
//! and what came out is kept so that it can be gone on with, counted and drawn.
//!
//! [`Study`] is the file, [`Plan`] the runs it asks for, [`Laboratory`] runs them.

mod attack;
mod axes;
mod chart;
mod clients;
mod confine;
mod context;
mod file;
mod keep;
mod laboratory;
mod network;
mod plan;
mod results;
mod row;
mod sampling;
mod statistics;
mod study;
#[cfg(test)]
mod tests;
mod trial;
mod value;

pub use attack::Under;
pub use axes::{AXES, Grid, Plain, Point};
pub use chart::{Chart, ChartKind};
pub use clients::{Counted, load_arguments};
pub use context::Context;
pub use keep::{KeepError, keep};
pub use laboratory::{
    Laboratory, LaboratoryError, Outcome, Progress, RUNS, STUDY, Site, read, write_tables,
};
pub use network::{NetworkName, read_network};
pub use plan::Plan;
pub use results::{Lines, ResultsError, runs_csv, series_csv};
pub use row::{Figures, Row, Samples, Settings};
pub use statistics::Estimate;
pub use study::{Measure, Measuring, Quick, Source, SourceNumber, Study, Variant};
pub use trial::{TrialError, of_clients, run_once};
pub use value::{
    ArrivalName, Attack, Kill, Many, Name, Named, NoKill, PopularityName, Rate, SendTo, Size, Span,
    WorkloadName, Written,
};
