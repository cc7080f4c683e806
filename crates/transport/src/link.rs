//! One connection at work: a single task that reads and writes, so that neither direction costs
//! a hand-over between tasks.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep};

use super::budget::Meter;
use super::carrier::Stream;
use super::counters::{Counters, add, count};
use super::framing::{FrameReader, FrameWriter};
use super::handshake::Established;
use super::inbound::Inbound;
use super::outbox::{Outbox, Taken};
use super::{Limits, Wake};

/// What is read before frames are handed on.
const READ_BYTES: usize = 128 << 10;
/// Frames of clients from this length on are read only when there is room for all of them.
const LONG_FRAME_BYTES: usize = 256 << 10;
/// A connection that waits for room so long has somebody else give way, if anybody has to.
const PRESS_EVERY: Duration = Duration::from_millis(250);
/// Time for the last bytes and the farewell of a connection that is closed on purpose.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other side hung up, or the network did.
    Closed,
    /// It announced too long a frame.
    Oversized,
    /// No whole frame for too long.
    Idle,
    /// It does not read: the queue overflowed, or nothing could be written for too long.
    Slow,
    /// A newer connection took over.
    Replaced,
    /// Closed from here, everything sent.
    Finished,
}

/// What one poll wrote.
#[derive(Default)]
struct Load {
    frames: u64,
    /// Frames that waited.
    waiting: u64,
    wrote: bool,
}

pub(super) struct Link<S> {
    stream: S,
    reader: FrameReader,
    writer: FrameWriter,
    outbox: Arc<Outbox>,
    /// Which of the outbox's connections this is.
    number: u64,
    counters: Arc<Counters>,
    idle: Duration,
    /// Whether to let go of an other side that takes nothing for as long as `idle`. One that is
    /// alive but busy is better kept among replicas: it pings while it does not read.
    lets_go: bool,
    tick: Interval,
    /// Received, not yet handed on.
    frames: VecDeque<Bytes>,
    /// Counts what was received and is not handed on yet.
    meter: Meter,
    /// Whether there is room for the long frame that is being read.
    is_admitted: bool,
    /// It waits for that room.
    waits: Option<Pin<Box<Sleep>>>,
    /// What to end with once `frames` is handed on.
    end: Option<End>,
    last_frame: Instant,
    /// Since when the socket takes nothing.
    blocked: Option<Instant>,
    /// The socket takes nothing any more; there may be something left to read.
    deaf: bool,
    /// Whether anything was written since the last tick.
    wrote: bool,
}

impl<S: Stream> Link<S> {
    /// Takes `outbox` over from any older connection.
    pub(super) fn new(
        established: Established<S>,
        outbox: Arc<Outbox>,
        limits: &Limits,
        counters: Arc<Counters>,
    ) -> Self {
        let number = outbox.connect();
        let mut tick = tokio::time::interval(limits.ping_every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        count(&counters.opened);
        let Established { stream, reader, .. } = established;
        Self {
            stream,
            reader,
            writer: FrameWriter::default(),
            outbox,
            number,
            counters,
            idle: limits.idle,
            lets_go: false,
            tick,
            frames: VecDeque::new(),
            meter: Meter::default(),
            is_admitted: false,
            waits: None,
            end: None,
            last_frame: Instant::now(),
            blocked: None,
            deaf: false,
            wrote: false,
        }
    }

    /// Lets go of an other side that does not read.
    pub(super) fn letting_go(mut self) -> Self {
        self.lets_go = true;
        self
    }

    /// Has `meter` count what was received and is not handed on yet.
    pub(super) fn metered(mut self, meter: Meter) -> Self {
        self.meter = meter;
        self
    }

    /// Moves frames both ways until the connection ends; received ones go to `inbound` as `tag`
    /// makes of them.
    pub(super) async fn run<T>(
        mut self,
        inbound: &Inbound<T>,
        wake: &Wake,
        tag: impl Fn(Bytes) -> T,
    ) -> End {
        // What came right behind the hello.
        self.end = self.parse().err();
        let end = loop {
            if let Err(end) = self.deliver(inbound, wake, &tag).await {
                break end;
            }
            if let Err(end) = poll_fn(|cx| self.poll_turn(cx, true)).await {
                break end;
            }
        };
        match end {
            End::Oversized => count(&self.counters.oversized_frame),
            End::Idle => count(&self.counters.idle),
            End::Slow => count(&self.counters.slow_client),
            End::Replaced => count(&self.counters.replaced),
            End::Closed | End::Finished => {}
        }
        count(&self.counters.closed);
        add(&self.counters.dropped_outbound, self.outbox.disconnect(self.number));
        if end == End::Finished {
            // Whether the farewell arrives changes nothing.
            let _ = tokio::time::timeout(FAREWELL, self.part()).await;
        }
        end
    }

    /// For an owner that polls the connection: writes, and reads the next frame.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, End>> {
        if self.frames.is_empty() && self.end.is_none() {
            // What came right behind the hello.
            self.end = self.parse().err();
        }
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Poll::Ready(Ok(frame));
            }
            ready!(self.poll_turn(cx, true))?;
        }
    }

    /// Ends the stream and waits for the other side to do so. A socket dropped with something
    /// unread would take back what was sent last.
    async fn part(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        loop {
            match self.stream.fill_buf().await?.len() {
                0 => return Ok(()),
                count => Pin::new(&mut self.stream).consume(count),
            }
        }
    }

    /// Hands received frames on. While there is no room this goes on writing, but not reading.
    async fn deliver<T>(
        &mut self,
        inbound: &Inbound<T>,
        wake: &Wake,
        tag: &impl Fn(Bytes) -> T,
    ) -> Result<(), End> {
        if self.frames.is_empty() {
            return Ok(());
        }
        while let Some(frame) = self.frames.pop_front() {
            let bytes = frame.len();
            match inbound.try_send(tag(frame), bytes) {
                Ok(()) => {}
                Err(TrySendError::Closed(_)) => return Err(End::Finished),
                Err(TrySendError::Full(message)) => {
                    wake();
                    // Room for many at once, so that neither side is woken for each message.
                    let following = self.frames.iter().map(Bytes::len);
                    let (others, all_bytes) = inbound.together(bytes, following);
                    tokio::select! {
                        places = inbound.reserve(1 + others, all_bytes) => {
                            let Some(mut places) = places else { return Err(End::Finished) };
                            places.put(message, bytes);
                            for frame in self.frames.drain(..others) {
                                let bytes = frame.len();
                                places.put(tag(frame), bytes);
                            }
                        }
                        Err(end) = poll_fn(|cx| self.poll_turn(cx, false)) => return Err(end),
                    }
                    // The silence was ours.
                    self.last_frame = Instant::now();
                }
            }
        }
        wake();
        self.weigh();
        Ok(())
    }

    fn weigh(&mut self) {
        let frames: usize = self.frames.iter().map(Bytes::len).sum();
        self.meter.set(frames + self.reader.held());
    }

    /// Writes what is to be written and, if asked to, reads. Ready when there are frames to hand
    /// on, or the end.
    fn poll_turn(&mut self, cx: &mut Context<'_>, read: bool) -> Poll<Result<(), End>> {
        if let Some(end) = self.end {
            return Poll::Ready(Err(end));
        }
        while self.tick.poll_tick(cx).is_ready() {
            self.on_tick(read && self.waits.is_none())?;
        }
        self.poll_write(cx)?;
        if !read {
            return Poll::Pending;
        }
        let began = std::time::Instant::now();
        let mut bytes = 0;
        let polled = self.poll_read(cx, &mut bytes);
        if bytes > 0 {
            // Nothing is kept from poll to poll while reading: what is there came now.
            let frames = self.frames.len() as u64;
            self.counters.receive.visit(began.elapsed(), frames, frames);
        }
        polled
    }

    fn on_tick(&mut self, reading: bool) -> Result<(), End> {
        if reading && self.last_frame.elapsed() > self.idle {
            return Err(End::Idle);
        }
        if self.lets_go && self.blocked.is_some_and(|since| since.elapsed() > self.idle) {
            return Err(End::Slow);
        }
        if !self.wrote && self.writer.is_empty() {
            self.writer.push(Bytes::new());
        }
        self.wrote = false;
        Ok(())
    }

    /// Writes until nothing is left or the socket takes no more.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        let began = std::time::Instant::now();
        let mut taken = Load::default();
        let result = self.write_all(cx, &mut taken);
        // A poll that finds nothing to write is no visit; one that goes on with what another took is.
        if taken.wrote || taken.frames > 0 {
            self.counters.send.visit(began.elapsed(), taken.frames, taken.waiting);
        }
        result
    }

    fn write_all(&mut self, cx: &mut Context<'_>, load: &mut Load) -> Result<(), End> {
        while !self.deaf {
            if self.writer.is_empty() {
                match self.outbox.take(self.number, &mut self.writer, cx.waker()) {
                    Taken::Some { frames, bytes, left } => {
                        add(&self.counters.frames_out, frames);
                        add(&self.counters.bytes_out, bytes);
                        load.frames += frames;
                        load.waiting = load.waiting.max(frames + left);
                    }
                    Taken::Nothing => return self.poll_flush(cx).map(|_| ()),
                    Taken::Finished if self.poll_flush(cx)? => return Err(End::Finished),
                    Taken::Finished => return Ok(()),
                    Taken::Overflowed => return Err(End::Slow),
                    Taken::Replaced => return Err(End::Replaced),
                }
            }
            let (stage, large) = self.writer.parts();
            match Pin::new(&mut self.stream).poll_write_parts(cx, stage, large) {
                Poll::Ready(Ok(0) | Err(_)) => self.deaf = true,
                Poll::Ready(Ok(count)) => {
                    self.writer.advance(count);
                    load.wrote = true;
                    self.wrote = true;
                    self.blocked = None;
                }
                Poll::Pending => {
                    self.blocked.get_or_insert_with(Instant::now);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether everything has gone to the socket.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Ok(())) => {
                self.blocked = None;
                Ok(true)
            }
            Poll::Ready(Err(_)) => {
                self.deaf = true;
                Ok(false)
            }
            Poll::Pending => {
                self.blocked.get_or_insert_with(Instant::now);
                Ok(false)
            }
        }
    }

    /// Reads until nothing is left or enough is there to be handed on; `bytes` says how much it was.
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut usize) -> Poll<Result<(), End>> {
        while (self.frames.is_empty() || *bytes < READ_BYTES) && self.poll_room(cx) {
            let result = match Pin::new(&mut self.stream).poll_fill_buf(cx) {
                Poll::Pending => break,
                Poll::Ready(Err(_) | Ok([])) => Err(End::Closed),
                Poll::Ready(Ok(chunk)) => {
                    let count = chunk.len();
                    self.reader.extend(chunk);
                    Pin::new(&mut self.stream).consume(count);
                    *bytes += count;
                    self.parse()
                }
            };
            if let Err(end) = result {
                self.end = Some(end);
                if self.frames.is_empty() {
                    return Poll::Ready(Err(end));
                }
                break;
            }
        }
        self.weigh();
        if self.frames.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Whether there is room to read on. While there is none, the other side is pushed back.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> bool {
        let announced = self.reader.announced().filter(|bytes| *bytes >= LONG_FRAME_BYTES);
        let Some(bytes) = announced.filter(|_| !self.is_admitted) else { return true };
        if self.meter.poll_admit(bytes, cx.waker()) {
            self.is_admitted = true;
            if self.waits.take().is_some() {
                // The silence was ours.
                self.last_frame = Instant::now();
            }
            return true;
        }
        let counters = &self.counters;
        let wait = self.waits.get_or_insert_with(|| {
            count(&counters.waited_for_room);
            Box::pin(tokio::time::sleep(PRESS_EVERY))
        });
        while wait.as_mut().poll(cx).is_ready() {
            self.meter.press();
            wait.as_mut().reset(Instant::now() + PRESS_EVERY);
        }
        false
    }

    /// Takes whole frames out of what was read.
    fn parse(&mut self) -> Result<(), End> {
        let (mut frames, mut bytes, mut any) = (0, 0, false);
        let result = loop {
            match self.reader.next() {
                Ok(Some(frame)) => {
                    any = true;
                    if !frame.is_empty() {
                        frames += 1;
                        bytes += frame.len() as u64;
                        self.frames.push_back(frame);
                    }
                }
                Ok(None) => break Ok(()),
                Err(_) => break Err(End::Oversized),
            }
        };
        if any {
            if std::mem::take(&mut self.is_admitted) {
                self.weigh();
                self.meter.release();
            }
            self.last_frame = Instant::now();
            add(&self.counters.frames_in, frames);
            add(&self.counters.bytes_in, bytes);
        }
        result
    }
}
