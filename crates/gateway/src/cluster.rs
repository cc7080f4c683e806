//! The gateway's cluster: one replicated session that all its connections share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::client::{ClientError, NotExecuted, Packed, Unknown};
use quorate_core::planted;
use quorate_node::client::Client;
use tokio::sync::oneshot;

use super::{Cluster, ClusterError, FrameLimits, Submission};

/// How read-only commands are answered. Linearizable both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// By a [read index](Client::read): without being ordered. What cannot be answered so in time
    /// is ordered.
    Index,
    /// Ordered, like writes.
    #[default]
    Ordered,
}

/// A client session as the gateway's cluster. Each submission has an outcome within a time that is
/// given, and all replies that connections have not taken yet have one limit.
#[derive(Debug)]
pub struct SharedSession {
    client: Client,
    give_up_after: Duration,
    frame: FrameLimits,
    replies: Arc<Unsent>,
    unanswered: Arc<Unanswered>,
    reads: Reads,
    doubt: Arc<Doubt>,
}

impl SharedSession {
    /// A session by `client`. A submission without an answer after `give_up_after` is given up, and
    /// `frame` is what the cluster takes in at a time. At most `max_reply_bytes` of replies wait to
    /// be sent.
    #[must_use]
    pub fn new(
        client: Client,
        give_up_after: Duration,
        frame: FrameLimits,
        max_reply_bytes: usize,
    ) -> Self {
        let replies = Arc::new(Unsent { bytes: AtomicUsize::new(0), max_bytes: max_reply_bytes });
        let (unanswered, reads, doubt) = (Arc::default(), Reads::default(), Arc::default());
        Self { client, give_up_after, frame, replies, unanswered, reads, doubt }
    }

    /// The same with reads that are answered so.
    #[must_use]
    pub fn reading(self, reads: Reads) -> Self {
        Self { reads, ..self }
    }

    /// Orders a batch that arrives now, and sends its replies.
    fn order(&self) -> impl FnOnce(&Client, Packed, Replied) + Send + 'static {
        let (replies, doubt) = (Arc::clone(&self.replies), Arc::clone(&self.doubt));
        let (unanswered, waited) = (Arc::clone(&self.unanswered), self.give_up_after);
        let arrived = Instant::now();
        move |client, batch, replied| {
            let patience = waited.saturating_sub(arrived.elapsed());
            let patience = planted!("gateway-waits-for-ever", None, Some(patience));
            let place = doubt.begin();
            client.submit_then(batch, patience, move |result| {
                match &result {
                    Ok(_) => doubt.answered(place),
                    Err(ClientError::Ambiguous(_)) => doubt.arises(),
                    Err(_) => {}
                }
                if let Err(error) = result {
                    unanswered.note(error, waited);
                }
                let result = result.map_err(cluster_error);
                // The connection may be gone.
                let _ = replied.send(result.and_then(|packed| replies.take_in(&packed)));
            });
        }
    }

    /// What is sent to be answered by `answered`.
    fn submission(&self, answered: oneshot::Receiver<Result<Packed, ClusterError>>) -> Submission {
        // The session goes on for as long as something is under way.
        let keep_alive = self.client.clone();
        Box::pin(async move {
            let replies = answered.await.unwrap_or(Err(ClusterError::Unknown));
            drop(keep_alive);
            Ok(replies?.iter().collect())
        })
    }
}

/// Where the replies to a batch go.
type Replied = oneshot::Sender<Result<Packed, ClusterError>>;

impl Cluster for SharedSession {
    fn submit(&self, commands: Vec<Bytes>) -> Submission {
        let (sender, receiver) = oneshot::channel();
        match Packed::commands(commands) {
            // It takes its place in the session here, before anything is awaited.
            Ok(batch) => self.order()(&self.client, batch, sender),
            Err(_) => drop(sender.send(Err(ClusterError::DoesNotFit))),
        }
        self.submission(receiver)
    }

    fn reads_by_index(&self) -> bool {
        self.reads == Reads::Index
    }

    fn read(&self, commands: Vec<Bytes>) -> Submission {
        let Ok(batch) = Packed::commands(&commands) else { return self.submit(commands) };
        if self.reads == Reads::Ordered || self.doubt.is_open() {
            return self.submit(commands);
        }
        let (sender, receiver) = oneshot::channel();
        let (client, questions) = (self.client.clone(), batch.clone());
        let (order, replies) = (self.order(), Arc::clone(&self.replies));
        // Half of the time is left to order it.
        let patience = Some(self.give_up_after / 2);
        self.client.read_then(questions, patience, move |result| match result {
            Ok(answers) => drop(sender.send(replies.take_in(&answers))),
            Err(error) => {
                tracing::debug!(%error, "a read is ordered");
                order(&client, batch, sender);
            }
        });
        self.submission(receiver)
    }

    fn frame_limits(&self) -> FrameLimits {
        self.frame
    }
}

/// Whether a command of an unknown outcome may yet be executed. Whoever was told of it looks what
/// has become of it: a read that is not ordered could come before it. So all reads are ordered
/// behind it, until something is answered that was submitted after the outcome was told.
#[derive(Debug, Default)]
struct Doubt(Mutex<(u64, Option<u64>)>);

impl Doubt {
    /// Something is about to be submitted. Returns its number.
    fn begin(&self) -> u64 {
        let (begun, _) = &mut *self.lock();
        *begun += 1;
        *begun
    }

    /// What has begun so far may yet be executed.
    fn arises(&self) {
        let (begun, since) = &mut *self.lock();
        *since = Some(*begun);
    }

    /// The replicas have come to what has this number, and to all that was submitted before.
    fn answered(&self, number: u64) {
        let (_, since) = &mut *self.lock();
        since.take_if(|begun| number > *begun);
    }

    fn is_open(&self) -> bool {
        planted!("reads-do-not-doubt", false, self.lock().1.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Option<u64>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often it is logged that the cluster does not answer.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// What was given up without an answer.
#[derive(Debug, Default)]
struct Unanswered {
    /// When that was logged last, and how many submissions were given up since.
    said: Mutex<(Option<Instant>, u64)>,
}

impl Unanswered {
    fn note(&self, error: ClientError, waited: Duration) {
        let of_time = matches!(
            error,
            ClientError::Retryable(NotExecuted::TimeUp) | ClientError::Ambiguous(Unknown::TimeUp)
        );
        if !of_time {
            return;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.1 += 1;
        if said.0.is_none_or(|last| last.elapsed() >= SAY_EVERY) {
            let count = said.1;
            *said = (Some(Instant::now()), 0);
            tracing::warn!(
                "the cluster did not answer within {waited:?} ({count} times since this was said \
                 last): see with quorate status that n - f replicas run and reach each other"
            );
        }
    }
}

/// Replies that connections have not taken yet, all together.
#[derive(Debug)]
struct Unsent {
    bytes: AtomicUsize,
    max_bytes: usize,
}

impl Unsent {
    /// Counts replies until the last of them is dropped; refuses what there is no room for.
    fn take_in(self: &Arc<Self>, replies: &Packed) -> Result<Packed, ClusterError> {
        let bytes = replies.body().len();
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let counted = Counted { body: replies.body().clone(), among: Arc::clone(self) };
        if before.saturating_add(bytes) > self.max_bytes {
            // The commands were executed; only the answer is lost.
            return Err(ClusterError::Unknown);
        }
        let body = Bytes::from_owner(counted);
        Packed::parse(body, replies.len()).ok_or(ClusterError::Unknown)
    }
}

/// Bytes that are counted among the unsent for as long as they are held.
struct Counted {
    body: Bytes,
    among: Arc<Unsent>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = planted!("replies-counted-for-ever", 0, self.body.len());
        self.among.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What Redis clients are told. "Not executed" is said of errors that are certain of it, and no
/// other.
fn cluster_error(error: ClientError) -> ClusterError {
    match error {
        ClientError::Retryable(NotExecuted::Backlog | NotExecuted::NoRoomForSession) => {
            ClusterError::Busy
        }
        ClientError::Retryable(NotExecuted::DoesNotFit) => ClusterError::DoesNotFit,
        ClientError::Retryable(NotExecuted::TimeUp | NotExecuted::Closed) => {
            ClusterError::Unavailable
        }
        ClientError::Fatal(_) => ClusterError::TurnedDown,
        ClientError::Ambiguous(_) => {
            planted!("ambiguous-as-unavailable", ClusterError::Unavailable, ClusterError::Unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::client::Fatal;
    use quorate_core::client::message::{Refusal, Rejection};

    use super::*;

    /// The class of an error: may the command be sent again, by this gateway?
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Class {
        Retryable,
        Fatal,
        Ambiguous,
    }

    fn class_told(told: ClusterError) -> Class {
        match told {
            ClusterError::Busy | ClusterError::Unavailable | ClusterError::DoesNotFit => {
                Class::Retryable
            }
            ClusterError::TurnedDown => Class::Fatal,
            ClusterError::Unknown => Class::Ambiguous,
        }
    }

    #[test]
    fn no_error_of_the_client_changes_its_class_on_the_way() {
        use ClusterError::{Busy, DoesNotFit, TurnedDown, Unavailable};
        let retryable = [
            (NotExecuted::Backlog, Busy),
            (NotExecuted::NoRoomForSession, Busy),
            (NotExecuted::DoesNotFit, DoesNotFit),
            (NotExecuted::TimeUp, Unavailable),
            (NotExecuted::Closed, Unavailable),
        ];
        let fatal = [
            Fatal::Refused(Refusal::TooLarge),
            Fatal::Rejected(Rejection::ForeignSession),
            Fatal::Superseded { by: 7 },
        ];
        let ambiguous = [
            Unknown::TimeUp,
            Unknown::SessionEnded,
            Unknown::ReplyForgotten,
            Unknown::Malformed,
            Unknown::Closed,
        ];
        let errors: Vec<(ClientError, ClusterError, Class)> = retryable
            .into_iter()
            .map(|(error, told)| (error.into(), told, Class::Retryable))
            .chain(fatal.map(|error| (error.into(), TurnedDown, Class::Fatal)))
            .chain(ambiguous.map(|error| (error.into(), ClusterError::Unknown, Class::Ambiguous)))
            .collect();
        for (error, expected, class) in errors {
            let told = cluster_error(error);
            assert_eq!((told, class_told(told)), (expected, class), "{error:?}");
            // The words are what applications see.
            let is_certain = told.to_string().contains("not executed");
            assert_eq!(is_certain, class != Class::Ambiguous, "{told}");
            assert_eq!(told.to_string().contains("send it again"), told == Busy, "{told}");
        }
    }

    #[test]
    fn a_doubt_ends_by_an_answer_to_what_was_submitted_after_it_arose() {
        let doubt = Doubt::default();
        let (lost, beside) = (doubt.begin(), doubt.begin());
        assert!(!doubt.is_open());
        doubt.arises();
        // The replicas may have come to this one first: the order of two tasks is not known here.
        doubt.answered(beside);
        assert!(doubt.is_open());
        doubt.answered(lost);
        assert!(doubt.is_open());
        let later = doubt.begin();
        doubt.answered(later);
        assert!(!doubt.is_open());
    }

    #[test]
    fn replies_are_counted_until_they_are_dropped_and_refused_beyond_the_limit() {
        let unsent = Arc::new(Unsent { bytes: AtomicUsize::new(0), max_bytes: 100 });
        let replies = Packed::commands([[1; 40], [2; 40]]).expect("they fit");
        let held: Vec<Bytes> = unsent.take_in(&replies).expect("room").iter().collect();
        assert_eq!(unsent.bytes.load(Ordering::Relaxed), 88);
        assert_eq!(unsent.take_in(&replies), Err(ClusterError::Unknown));
        assert_eq!(unsent.bytes.load(Ordering::Relaxed), 88);
        let last = held.into_iter().next_back();
        assert_eq!(unsent.bytes.load(Ordering::Relaxed), 88);
        drop(last);
        assert_eq!(unsent.bytes.load(Ordering::Relaxed), 0);
        assert!(unsent.take_in(&replies).is_ok());
        assert_eq!(unsent.bytes.load(Ordering::Relaxed), 0);
    }
}
