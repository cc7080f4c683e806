//! One established connection: a single task that reads and writes, so that neither direction costs
//! a switch between tasks.

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
use super::pause::Pause;
use super::{Limits, Wake};

/// The bytes that are read before frames are handed on.
const READ_BYTES: usize = 128 << 10;
/// From this length on, the frame of a client is read only when there is room for all of it.
const LONG_FRAME_BYTES: usize = 256 << 10;
/// After this long, a connection that waits for room asks the budget to end another one.
const PRESS_EVERY: Duration = Duration::from_millis(250);
/// The time to send the last bytes and the end of the stream, when a connection is closed on
/// purpose.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other side hung up, or the network failed.
    Closed,
    /// The other side announced too long a frame.
    Oversized,
    /// No whole frame arrived for too long.
    Idle,
    /// The other side does not read: the queue overflowed, or nothing could be written for too
    /// long.
    Slow,
    /// A newer connection replaced this one.
    Replaced,
    /// Closed by this side, with everything sent.
    Finished,
}

/// The work of one poll of the writing side.
#[derive(Default)]
struct Load {
    frames: u64,
    /// Frames that waited in the queue.
    waiting: u64,
    wrote: bool,
}

pub(super) struct Link<S> {
    stream: S,
    reader: FrameReader,
    writer: FrameWriter,
    outbox: Arc<Outbox>,
    /// The number of this connection in its outbox.
    number: u64,
    version: u16,
    counters: Arc<Counters>,
    idle: Duration,
    /// Whether to end the connection if the other side takes nothing for `idle`. Among replicas a
    /// busy peer is better kept: it sends pings while it does not read.
    lets_go: bool,
    tick: Interval,
    /// Received frames that are not handed on yet.
    frames: VecDeque<Bytes>,
    /// Counts received bytes that are not handed on yet.
    meter: Meter,
    /// Whether there is room for the long frame that is being read.
    is_admitted: bool,
    /// The timer while the connection waits for that room.
    waits: Option<Pin<Box<Sleep>>>,
    /// Until when this side does not want to read.
    pause: Arc<Pause>,
    /// The timer of a pause that lasts.
    paused: Option<Pin<Box<Sleep>>>,
    /// The end to report once `frames` is handed on.
    end: Option<End>,
    last_frame: Instant,
    /// When the socket stopped taking bytes.
    blocked: Option<Instant>,
    /// The socket takes no bytes any more. There may be something left to read.
    deaf: bool,
    /// Whether anything was written since the last tick.
    wrote: bool,
}

impl<S: Stream> Link<S> {
    /// Takes `outbox` over from an older connection.
    pub(super) fn new(
        established: Established<S>,
        outbox: Arc<Outbox>,
        limits: &Limits,
        counters: Arc<Counters>,
    ) -> Self {
        let number = outbox.connect(established.version);
        let mut tick = tokio::time::interval(limits.ping_every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        count(&counters.opened);
        let Established { stream, reader, version, .. } = established;
        Self {
            stream,
            reader,
            writer: FrameWriter::default(),
            outbox,
            number,
            version,
            counters,
            idle: limits.idle,
            lets_go: false,
            tick,
            frames: VecDeque::new(),
            meter: Meter::default(),
            is_admitted: false,
            waits: None,
            pause: Arc::default(),
            paused: None,
            end: None,
            last_frame: Instant::now(),
            blocked: None,
            deaf: false,
            wrote: false,
        }
    }

    /// The version of the protocol that both sides agreed on. Frames are read and written by it.
    pub(super) fn version(&self) -> u16 {
        self.version
    }

    /// Ends the connection if the other side does not read.
    pub(super) fn letting_go(mut self) -> Self {
        self.lets_go = true;
        self
    }

    /// Lets `meter` count received bytes that are not handed on yet.
    pub(super) fn metered(mut self, meter: Meter) -> Self {
        self.meter = meter;
        self
    }

    /// Obeys `pause`.
    pub(super) fn pausing(mut self, pause: Arc<Pause>) -> Self {
        self.pause = pause;
        self
    }

    /// Moves frames in both directions until the connection ends. `tag` turns a received frame into
    /// the message that goes to `inbound`.
    pub(super) async fn run<T>(
        mut self,
        inbound: &Inbound<T>,
        wake: &Wake,
        tag: impl Fn(Bytes) -> T,
    ) -> End {
        // Frames may have arrived right behind the hello.
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
            // The connection ends whether the farewell arrives or not.
            let _ = tokio::time::timeout(FAREWELL, self.part()).await;
        }
        end
    }

    /// For an owner that polls the connection: writes, then reads the next frame.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, End>> {
        if self.frames.is_empty() && self.end.is_none() {
            // Frames may have arrived right behind the hello.
            self.end = self.parse().err();
        }
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Poll::Ready(Ok(frame));
            }
            ready!(self.poll_turn(cx, true))?;
        }
    }

    /// Ends the stream and waits until the other side does so too. If a socket is dropped with
    /// unread bytes, the system resets the connection, and the last bytes sent are lost.
    async fn part(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        loop {
            match self.stream.fill_buf().await?.len() {
                0 => return Ok(()),
                count => Pin::new(&mut self.stream).consume(count),
            }
        }
    }

    /// Hands received frames on. While there is no room, this goes on writing but does not read.
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
                    // Room for many frames at once, so that neither side is woken for each message.
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
                    // The other side could not be heard because this side did not read.
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

    /// Writes, and reads if asked to. Ready when there are frames to hand on, or at the end.
    fn poll_turn(&mut self, cx: &mut Context<'_>, read: bool) -> Poll<Result<(), End>> {
        if let Some(end) = self.end {
            return Poll::Ready(Err(end));
        }
        let is_paused = read && !self.poll_pause(cx);
        while self.tick.poll_tick(cx).is_ready() {
            self.on_tick(read && self.waits.is_none() && !is_paused)?;
        }
        self.poll_write(cx)?;
        if is_paused && self.deaf {
            // Without reading, this is how the end of the other side shows.
            return Poll::Ready(Err(End::Closed));
        }
        if !read || is_paused {
            return Poll::Pending;
        }
        let began = std::time::Instant::now();
        let mut bytes = 0;
        let polled = self.poll_read(cx, &mut bytes);
        if bytes > 0 {
            // While reading, no frame is kept from one poll to the next. All of these came now.
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
        // A poll that finds nothing to write is no visit. A poll that continues an unfinished write
        // is one.
        if taken.wrote || taken.frames > 0 {
            self.counters.send.visit(began.elapsed(), taken.frames, taken.waiting);
        }
        result
    }

    fn write_all(&mut self, cx: &mut Context<'_>, load: &mut Load) -> Result<(), End> {
        let mut is_idle = false;
        while !self.deaf {
            if self.writer.is_empty() {
                let idle = std::mem::take(&mut is_idle);
                match self.outbox.take(self.number, &mut self.writer, cx.waker(), idle) {
                    Taken::Some { frames, bytes, left } => {
                        add(&self.counters.frames_out, frames);
                        add(&self.counters.bytes_out, bytes);
                        load.frames += frames;
                        load.waiting = load.waiting.max(frames + left);
                    }
                    Taken::Behind if self.poll_flush(cx)? => {
                        is_idle = true;
                        continue;
                    }
                    Taken::Behind => return Ok(()),
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

    /// Whether the socket has taken everything.
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

    /// Reads until nothing is left, or until there is enough to hand on. Adds the bytes read to
    /// `bytes`.
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

    /// Whether no pause lasts. During one the other side is pushed back.
    fn poll_pause(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(end) = self.pause.end() {
            let timer = self.paused.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            if timer.deadline() != end {
                timer.as_mut().reset(end);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
        }
        if self.paused.take().is_some() {
            // The other side could not be heard because this side did not read.
            self.last_frame = Instant::now();
        }
        true
    }

    /// Whether there is room to read on. While there is none, the other side is pushed back.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> bool {
        let announced = self.reader.announced().filter(|bytes| *bytes >= LONG_FRAME_BYTES);
        let Some(bytes) = announced.filter(|_| !self.is_admitted) else { return true };
        if self.meter.poll_admit(bytes, cx.waker()) {
            self.is_admitted = true;
            if self.waits.take().is_some() {
                // The other side could not be heard because this side did not read.
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

    /// Takes whole frames out of the bytes read.
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
