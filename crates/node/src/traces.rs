//! Traces of commands, for an OpenTelemetry collector: an option of `node.toml` (`[tracing]`).
//!
//! The unit is a client's frame: it is signed, ordered and executed as one. Each replica tells what
//! became of a frame *here*, as one span `command` and a child of it for each stage. The spans of
//! all replicas are one trace, and no byte of it goes between replicas or comes from a client: the
//! identity of the frame, which all of them compute, gives
//!
//! - whether it is sampled: eight bytes of the identity against the share that is to be sampled, so
//!   that replicas with the same share choose the same frames;
//! - the trace's id: its first 16 bytes;
//! - each span's id: of the frame, the replica and the span's name. So a replica knows the id of
//!   another's span: its own `command` is a child of the proposer's, where blocks name their
//!   proposer, and the proposer's is the root.
//!
//! | span | from | to |
//! |---|---|---|
//! | `command` | its arrival from the client, or else from another replica | the answer |
//! | `receive` | its arrival, as one of a batch | decoded and hashed |
//! | `verify` | then | its signature is checked, as one of a batch |
//! | `order` | the deciding thread has it | its block is committed |
//! | `persist` | the log is written | the records are durable that the vote for its block, or the block, waited for |
//! | `execute` | its block is executed, among others that were committed with it | then |
//! | `reply` | then | the answer is handed to the client's connections |
//!
//! `receive` and `verify` are of the client's own copy: a replica that only other replicas gave the
//! frame has none. A client can choose frames that are sampled, so nothing here may cost much: a
//! replica follows [`FOLLOWED`] frames at once, spans wait in a queue of [`WAITING`], and what
//! finds no place is dropped and counted (`quorate_trace_spans_dropped_total`). Nothing waits for
//! the collector. Without the option there is one look at an empty field in each place.

mod otlp;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use quorate_core::ledger::frame::FrameId;
use quorate_core::{Digest, ReplicaId};

use crate::config::HostPort;
use crate::http::Asker;
use crate::http::access::AccessError;
use crate::replica::metrics::Metrics;
use crate::replica::{StartError, spawn_low};

/// Frames that a replica follows at once.
pub const FOLLOWED: usize = 128;
/// Spans that wait for the thread that sends them.
pub const WAITING: usize = 4096;

/// The name of a replica's own span of a frame.
pub const COMMAND: &str = "command";

/// Where traces go, and how many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The collector, which takes OTLP over HTTP.
    pub collector: HostPort,
    /// Over TLS: whose certificates are believed; `None`: it is asked in the clear.
    pub trust: Option<Trust>,
    /// Which share of all frames is traced, from 0 to 1.
    pub sample: f64,
}

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those of authorities that the system trusts.
    System,
    /// Those of the authorities in this file (PEM).
    File(PathBuf),
}

impl Settings {
    /// What asks the collector.
    fn asker(&self) -> Result<Asker, AccessError> {
        match &self.trust {
            None => Ok(Asker::default()),
            Some(Trust::System) => Asker::default().trusting_system(),
            Some(Trust::File(authorities)) => Asker::default().trusting(authorities),
        }
    }
}

/// Whose spans they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The chain.
    pub chain: Digest,
    /// The replica.
    pub replica: ReplicaId,
}

/// The id of a span.
pub type SpanId = [u8; 8];

/// Something that was done with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The frame.
    pub frame: FrameId,
    /// What was done.
    pub name: &'static str,
    /// The span that it is a part of; `None` for the root of the trace.
    pub parent: Option<SpanId>,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
    /// What else is known, by its name.
    pub attributes: Vec<(&'static str, u64)>,
}

/// What a replica tells of the frames that are sampled.
#[derive(Debug)]
pub struct Traces {
    replica: ReplicaId,
    /// Frames below are sampled.
    below: u128,
    queue: SyncSender<Span>,
    metrics: Arc<Metrics>,
}

impl Traces {
    /// Starts the thread that sends spans. It ends when nobody has this any more.
    ///
    /// # Errors
    /// The system gave no thread, or there are no authorities to believe.
    pub fn start(
        settings: &Settings,
        source: Source,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<Self>, StartError> {
        let asker = settings.asker().map_err(StartError::Collector)?;
        let (queue, spans) = sync_channel(WAITING);
        let (collector, counted) = (settings.collector.to_string(), Arc::clone(metrics));
        let to = move || otlp::send_all(&spans, (&asker, &collector), source, &counted);
        spawn_low("traces", to)?;
        Ok(Arc::new(Self::of(settings.sample, source.replica, queue, metrics)))
    }

    fn of(
        sample: f64,
        replica: ReplicaId,
        queue: SyncSender<Span>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let below = (sample.clamp(0.0, 1.0) * 2_f64.powi(64)) as u128;
        Self { replica, below, queue, metrics: Arc::clone(metrics) }
    }

    /// Whether a frame is traced: by all replicas with the same share, or by none.
    #[must_use]
    pub fn samples(&self, frame: &FrameId) -> bool {
        let share = u64::from_be_bytes(std::array::from_fn(|at| frame.0[16 + at]));
        u128::from(share) < self.below
    }

    /// The id of this replica's own span of a frame.
    #[must_use]
    pub fn command(&self, frame: &FrameId) -> SpanId {
        span_id(frame, self.replica, COMMAND)
    }

    /// The id of the span that this replica's own is a part of, where `proposer` proposed the
    /// frame's block.
    #[must_use]
    pub fn above(&self, frame: &FrameId, proposer: Option<ReplicaId>) -> Option<SpanId> {
        let other = proposer.filter(|proposer| *proposer != self.replica)?;
        Some(span_id(frame, other, COMMAND))
    }

    /// Tells a span, or drops it if too many wait.
    pub fn tell(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.metrics.trace_spans_dropped_total.add(1);
        }
    }

    /// A frame is not followed to its end: there was no place for it.
    pub fn lost(&self) {
        self.metrics.trace_spans_dropped_total.add(1);
    }
}

/// The id of a trace: zeros are none, and no digest begins with so many.
fn trace_id(frame: &FrameId) -> [u8; 16] {
    std::array::from_fn(|at| frame.0[at])
}

/// The id of what a replica did with a frame.
#[must_use]
pub fn span_id(frame: &FrameId, replica: ReplicaId, name: &str) -> SpanId {
    let bytes = [&frame.0[..], &replica.0.to_le_bytes(), name.as_bytes()].concat();
    let digest = Digest::of("quorate span", &bytes);
    std::array::from_fn(|at| digest.0[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64) -> FrameId {
        Digest::of("test frame", &number.to_le_bytes())
    }

    fn traces(sample: f64, replica: u16, room: usize) -> (Traces, std::sync::mpsc::Receiver<Span>) {
        let (queue, spans) = sync_channel(room);
        (Traces::of(sample, ReplicaId(replica), queue, &Arc::default()), spans)
    }

    #[test]
    fn all_replicas_sample_the_same_frames() {
        let ((one, _one), (other, _other)) = (traces(0.25, 0, 1), traces(0.25, 3, 1));
        let sampled = (0..4000).filter(|number| one.samples(&frame(*number))).count();
        assert!((900..1100).contains(&sampled), "{sampled} of 4000");
        assert!(
            (0..4000)
                .all(|number| { one.samples(&frame(number)) == other.samples(&frame(number)) })
        );
        let ((all, _all), (none, _none)) = (traces(1.0, 0, 1), traces(0.0, 0, 1));
        assert!(all.samples(&Digest([0xff; 32])) && !none.samples(&Digest([0; 32])));
    }

    #[test]
    fn ids_follow_from_the_frame_and_the_proposers_span_is_the_root() {
        let (one, _one) = traces(1.0, 1, 1);
        let (two, _two) = traces(1.0, 2, 1);
        let frame = frame(1);
        assert_eq!(one.above(&frame, Some(ReplicaId(2))), Some(two.command(&frame)));
        assert_eq!(two.above(&frame, Some(ReplicaId(2))), None);
        assert_eq!(two.above(&frame, None), None, "nobody knows who proposed it");
        assert_ne!(one.command(&frame), two.command(&frame));
        assert_ne!(span_id(&frame, ReplicaId(1), "order"), one.command(&frame));
    }

    /// Nobody takes spans any more: the replica goes on, and says how many were lost.
    #[test]
    fn a_full_queue_holds_nobody_up() {
        let (traces, spans) = traces(1.0, 0, 2);
        let now = Instant::now();
        let (name, parent, attributes) = (COMMAND, None, Vec::new());
        let span = Span { frame: frame(1), name, parent, begin: now, end: now, attributes };
        (0..5).for_each(|_| traces.tell(span.clone()));
        assert_eq!(traces.metrics.trace_spans_dropped_total.get(), 3);
        assert_eq!(spans.try_iter().count(), 2);
        drop(spans);
        traces.tell(span);
        assert_eq!(traces.metrics.trace_spans_dropped_total.get(), 4);
    }
}
