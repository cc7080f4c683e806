//! One connection: what is read becomes submissions, and their replies are written in order.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::planted;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore, mpsc,
    watch,
};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Limits;
use super::budget::Budget;
use crate::commands::{Answer, Batch, Connection, Then, dispatch, refuse_request};
use crate::reply::{Shape, write_reply};
use crate::resp::{Requests, write};
use crate::{Cluster, ClusterError, FrameLimits, Submission};

/// A batch whose commands are longer than this is submitted before more is read into it.
const BATCH_BYTES: usize = 256 << 10;
/// A batch with longer answers of the gateway's own is handed on before more is read into it.
const LOCAL_BATCH_BYTES: usize = 64 << 10;
/// How much more of a connection's room such answers take than commands: a few bytes of a question
/// make a thousand times as many of an answer.
const LOCAL_WEIGHT: usize = 32;
/// Replies are sent when so many bytes of them have been gathered, or there are no more.
const FLUSH_BYTES: usize = 64 << 10;

/// Bytes of a request that are free: only more than that takes room from others.
const FREE_INPUT_BYTES: usize = 32 << 10;
/// How long a client may take no byte of what it is owed when the gateway is short of room.
const PRESSED_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that whoever has not said who they are may have sent of a request.
const STRANGERS_INPUT_BYTES: usize = 16 << 10;
/// How long the handshake of TLS may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection whose bytes were no request is read from after the answer.
const LINGER: Duration = Duration::from_secs(2);

/// Replies that are owed.
struct Owed {
    answers: Vec<Answer>,
    local: Vec<u8>,
    /// The replies of the cluster; `None` if there are no commands for it.
    submission: Option<Submission>,
    commands: usize,
    /// Whether the replies are one: an error takes the place of all.
    together: bool,
    /// Given back once the replies are there.
    turn: Turn,
    /// Given back once the replies are sent.
    _permit: OwnedSemaphorePermit,
    _held: [OwnedSemaphorePermit; 2],
}

/// A connection's commands take effect in the order in which they come, as in Redis. What is
/// ordered keeps that order by itself. A [read](Cluster::read) has no place in it: so it begins
/// when nothing else of the connection is under way, and nothing else begins before it is over.
enum Turn {
    /// Nothing is submitted, or the cluster orders all.
    Free,
    /// Something that is ordered: others may be beside it.
    Ordered { _turn: OwnedRwLockReadGuard<()> },
    /// A read that is not ordered.
    Read { _turn: OwnedRwLockWriteGuard<()> },
}

impl Turn {
    /// Waits until a submission may begin. Reads do not wait for what is ordered, but are ordered
    /// behind it.
    async fn begin(order: &Arc<RwLock<()>>, is_read: bool) -> Self {
        let order = || Arc::clone(order);
        if !is_read {
            return Self::Ordered { _turn: order().read_owned().await };
        }
        if let Ok(turn) = order().try_write_owned() {
            return Self::Read { _turn: turn };
        }
        match order().try_read_owned() {
            Ok(turn) => Self::Ordered { _turn: turn },
            Err(_) => Self::Read { _turn: order().write_owned().await },
        }
    }
}

/// A connection that was let in, and what it may take up.
pub(super) struct Served {
    pub connection: Connection,
    pub cluster: Arc<dyn Cluster>,
    pub limits: Limits,
    pub budget: Budget,
    pub stopped: watch::Receiver<bool>,
}

/// Serves a connection in the clear to its end.
pub(super) async fn run_plain(mut stream: TcpStream, served: Served) {
    // Replies are gathered here already. Without the option they are only slower.
    let _ = stream.set_nodelay(true);
    let (input, output) = stream.split();
    run(input, output, served).await;
}

/// Serves a connection over TLS to its end.
pub(super) async fn run_tls(stream: TcpStream, tls: Arc<ServerConfig>, served: Served) {
    let _ = stream.set_nodelay(true);
    let handshake = TlsAcceptor::from(tls).accept(stream);
    // Who does not finish it, or shows a certificate that does not hold, is let go.
    let Ok(Ok(stream)) = timeout(HANDSHAKE_WITHIN, handshake).await else { return };
    let (input, output) = tokio::io::split(stream);
    run(input, output, served).await;
}

/// Serves a connection to its end.
async fn run<I: Input, O: Output>(input: I, output: O, served: Served) {
    let Served { connection, cluster, limits, budget, stopped } = served;
    let (owing, owed) = mpsc::channel(limits.max_submissions.max(1));
    let bytes_cap = limits.max_submitted_bytes.clamp(1, Semaphore::MAX_PERMITS.min(1 << 30));
    let mut reader = Reader {
        input,
        requests: Requests::default(),
        connection,
        frame: cluster.frame_limits(),
        cluster,
        owing,
        order: Arc::default(),
        room: Arc::new(Semaphore::new(bytes_cap)),
        bytes_cap,
        limits,
        budget: budget.clone(),
        input_held: None,
        partial_since: None,
        taken_in: 0,
        broken: false,
    };
    let writer = write_all_owed(owed, output, limits, budget);
    tokio::pin!(writer);
    tokio::select! {
        // The client takes no more: what it still has to say is of no use.
        _ = &mut writer => return,
        () = reader.run(stopped) => {}
    }
    let Reader { mut input, owing, broken, .. } = reader;
    // Nothing more will be owed.
    drop(owing);
    if writer.await.is_ok() && broken {
        let _ = timeout(LINGER, discard(&mut input)).await;
    }
}

/// A client that is still sending when its connection is closed is told of a reset instead of the
/// answer. So what it sends is taken for a while, and not looked at.
async fn discard(input: &mut impl Input) {
    let mut bytes = vec![0; 16 << 10];
    while input.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

/// Where requests come from.
trait Input: AsyncRead + Unpin {}
impl<T: AsyncRead + Unpin> Input for T {}
/// Where replies go.
trait Output: AsyncWrite + Unpin {}
impl<T: AsyncWrite + Unpin> Output for T {}

struct Reader<I> {
    input: I,
    requests: Requests,
    connection: Connection,
    cluster: Arc<dyn Cluster>,
    frame: FrameLimits,
    owing: mpsc::Sender<Owed>,
    /// See [`Turn`].
    order: Arc<RwLock<()>>,
    /// Bytes that may yet be owed an answer.
    room: Arc<Semaphore>,
    bytes_cap: usize,
    limits: Limits,
    budget: Budget,
    /// Room for what has arrived of a request, and for how many bytes.
    input_held: Option<(OwnedSemaphorePermit, usize)>,
    /// Since when a request has been arriving.
    partial_since: Option<Instant>,
    /// Requests that have arrived whole.
    taken_in: u64,
    /// What was sent last is no request.
    broken: bool,
}

impl<I: Input> Reader<I> {
    /// Reads until the client, the gateway or an error ends it.
    async fn run(&mut self, mut stopped: watch::Receiver<bool>) {
        let leave = self.connection.told_to_leave();
        tokio::pin!(leave);
        loop {
            tokio::select! {
                // Another client has its place.
                () = &mut leave => return,
                // An error of the channel means that whoever could stop this is gone.
                _ = stopped.wait_for(|stopped| *stopped) => return,
                received = self.receive() => if !received {
                    return;
                },
            }
            let before = self.taken_in;
            if self.take_in().await == Then::Close {
                return;
            }
            if !self.connection.is_known() && self.requests.buffered() > STRANGERS_INPUT_BYTES {
                return;
            }
            let goes_on = self.taken_in == before;
            let since = self.partial_since.filter(|_| goes_on).unwrap_or_else(Instant::now);
            self.partial_since = self.requests.is_partial().then_some(since);
            if !self.hold_input().await {
                return;
            }
        }
    }

    /// Waits for bytes; says whether there were any.
    async fn receive(&mut self) -> bool {
        loop {
            // A client that is owed something waits with reason, and is idle only from then on.
            let is_owed = self.room.available_permits() < self.bytes_cap;
            let (limit, is_owed) = match self.partial_since {
                Some(since) => {
                    (Some(self.limits.request_timeout.saturating_sub(since.elapsed())), false)
                }
                None => (self.limits.idle_timeout, is_owed),
            };
            let reading = self.input.read_buf(self.requests.space());
            let read = match limit {
                None => reading.await,
                Some(limit) => match timeout(limit, reading).await {
                    Ok(read) => read,
                    Err(_) if is_owed => continue,
                    Err(_) => return false,
                },
            };
            return read.is_ok_and(|bytes| bytes > 0);
        }
    }

    /// Takes room for what has arrived of a large request, or gives it back; says whether there was
    /// any in time.
    async fn hold_input(&mut self) -> bool {
        let bytes = self.requests.buffered();
        if bytes <= FREE_INPUT_BYTES {
            self.input_held = None;
            return true;
        }
        // In large steps, so that a request that trickles in asks rarely.
        let wanted = bytes.next_multiple_of(8 * FREE_INPUT_BYTES);
        let has = self.input_held.as_ref().map_or(0, |(_, bytes)| *bytes);
        if wanted <= has {
            return true;
        }
        let taking = self.budget.take(wanted - has);
        let Ok(Some(more)) = timeout(self.limits.request_timeout, taking).await else {
            return false;
        };
        match &mut self.input_held {
            Some((held, bytes)) => {
                held.merge(more);
                *bytes = wanted;
            }
            None => self.input_held = Some((more, wanted)),
        }
        true
    }

    /// Takes in all complete requests.
    async fn take_in(&mut self) -> Then {
        loop {
            let (mut batch, mut commands) = (Batch::default(), 0);
            let mut more = true;
            let mut then = Then::Continue;
            while then == Then::Continue {
                match self.requests.next_request() {
                    Ok(Some(args)) => {
                        commands += 1;
                        then = dispatch(args, &mut self.connection, &mut batch);
                    }
                    Ok(None) => {
                        more = false;
                        break;
                    }
                    Err(error) => {
                        commands += u64::from(!error.ends_connection());
                        self.broken |= error.ends_connection();
                        then = refuse_request(error, &mut self.connection, &mut batch);
                    }
                }
                let full = batch.behind.is_some()
                    || batch.ends.len() >= self.frame.commands
                    || batch.encoded.len() >= BATCH_BYTES
                    || batch.local.len() >= LOCAL_BATCH_BYTES;
                if full {
                    break;
                }
            }
            self.connection.count(commands);
            self.taken_in += commands;
            let (overflow, behind) = (batch.split_overflow(self.frame.bytes), batch.behind.take());
            for batch in std::iter::once(batch).chain(overflow).chain(behind.map(|boxed| *boxed)) {
                if !batch.is_empty() && !self.submit(batch).await {
                    return Then::Close;
                }
            }
            if then == Then::Close || !more {
                return then;
            }
        }
    }

    /// Submits a batch; says whether someone is there to send the replies.
    async fn submit(&mut self, batch: Batch) -> bool {
        let Batch { answers, local, encoded, ends, writes, together, behind: _ } = batch;
        // The place among the replies is taken first: while there is none, nothing is submitted.
        let Ok(place) = self.owing.reserve().await else { return false };
        // The request has arrived, and must not wait for room that it takes up itself.
        self.input_held = None;
        // Its own room first: while it waits for that, it takes none of what all share.
        let bytes = encoded.len().saturating_add(local.len().saturating_mul(LOCAL_WEIGHT));
        let bytes = u32::try_from(bytes.min(self.bytes_cap)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room);
        let Ok(permit) = room.acquire_many_owned(bytes).await else { return false };
        let Some(held) = self.budget.take(encoded.len()).await else { return false };
        let Some(held_local) = self.budget.take_local(local.len()).await else { return false };
        let commands = ends.len();
        let turn = match commands > 0 && self.cluster.reads_by_index() {
            true => {
                let order = planted!("reads-overtake", &Arc::default(), &self.order);
                Turn::begin(order, !writes && !together).await
            }
            false => Turn::Free,
        };
        let cluster = &self.cluster;
        let submission = (commands > 0).then(|| match (cut(encoded, &ends), &turn) {
            (commands, Turn::Read { .. }) => cluster.read(commands),
            (commands, _) => cluster.submit(commands),
        });
        place.send(Owed {
            answers,
            local,
            submission,
            commands,
            together,
            turn,
            _permit: permit,
            _held: [held, held_local],
        });
        true
    }
}

/// The commands, sharing one allocation.
fn cut(encoded: Vec<u8>, ends: &[usize]) -> Vec<Bytes> {
    let mut encoded = Bytes::from(encoded);
    let mut start = 0;
    ends.iter()
        .map(|&end| {
            let length = end - start;
            start = end;
            encoded.split_to(length)
        })
        .collect()
}

async fn write_all_owed(
    mut owed: mpsc::Receiver<Owed>,
    mut output: impl Output,
    limits: Limits,
    budget: Budget,
) -> io::Result<()> {
    let mut out = Vec::with_capacity(4096);
    while let Some(owed) = owed.recv().await {
        let Owed { mut answers, local, submission, commands, together, turn, _permit, _held } =
            owed;
        let replies = match submission {
            Some(submission) => submission.await,
            None => Ok(Vec::new()),
        };
        drop(turn);
        let replies = replies.and_then(|replies| match replies.len() == commands {
            true => Ok(replies),
            // Which reply belongs to which command cannot be known.
            false => Err(ClusterError::Unknown),
        });
        let reply_bytes = replies.iter().flatten().map(Bytes::len).sum::<usize>();
        if reply_bytes > limits.max_output_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if let Err(error) = &replies
            && together
        {
            let shown = |answer: &Answer| {
                !matches!(answer, Answer::Ordered(Shape::Silent, _) | Answer::Local(0))
            };
            if answers.iter().any(shown) {
                write::error(&mut out, error.to_string());
            }
            answers.clear();
        }
        let (mut local_at, mut replies) = (0, replies.map(Vec::into_iter));
        for answer in answers {
            match answer {
                Answer::Local(bytes) => {
                    out.extend_from_slice(&local[local_at..local_at + bytes]);
                    local_at += bytes;
                }
                Answer::Ordered(shape, protocol) => match &mut replies {
                    Ok(replies) => {
                        let reply = replies.next().unwrap_or_default();
                        write_reply(&mut out, &reply, shape, protocol);
                    }
                    Err(_) if shape == Shape::Silent => {}
                    Err(error) => write::error(&mut out, error.to_string()),
                },
            }
            if out.len() >= FLUSH_BYTES {
                send(&mut output, &mut out, limits.stall_timeout, &budget).await?;
            }
        }
        send(&mut output, &mut out, limits.stall_timeout, &budget).await?;
    }
    output.shutdown().await
}

/// Sends what was gathered. The client must take something within every `patience`, or sooner if
/// the room that it takes up is wanted.
async fn send(
    output: &mut impl Output,
    out: &mut Vec<u8>,
    patience: Duration,
    budget: &Budget,
) -> io::Result<()> {
    let mut rest = &out[..];
    let step = patience.min(PRESSED_PATIENCE);
    let mut waited = Duration::ZERO;
    while !rest.is_empty() {
        match timeout(step, output.write(rest)).await {
            Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                rest = &rest[written?..];
                waited = Duration::ZERO;
            }
            Err(elapsed) => {
                waited += step;
                if waited >= patience || budget.is_short() {
                    return Err(elapsed.into());
                }
            }
        }
    }
    // TLS keeps what the socket did not take.
    timeout(patience, output.flush()).await??;
    out.clear();
    if out.capacity() > 4 * FLUSH_BYTES {
        out.shrink_to(FLUSH_BYTES);
    }
    Ok(())
}
