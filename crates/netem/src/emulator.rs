//! The emulator in user space: one thread that carries the packets of all nodes.
//!
//! It sleeps until a packet can be read or the next one is due (to the microsecond: `ppoll` without
//! timer slack). It reads packets from the devices into preallocated slots, asks the link for the
//! fate of each, and writes those that are due.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::error::NetError;
use crate::link::Link;
use crate::network::Settings;
use crate::pool::{Pool, Slot};
pub use crate::shaper::LinkCounters;
use crate::shaper::{Flights, Shaper, Verdict};
use crate::topology::Topology;

/// Packets read from one device before the next device has its turn.
const AT_A_TIME: usize = 32;
/// The step in which lateness is counted.
const LATE_STEP_NS: u64 = 2_000;
/// The number of steps, followed by one for everything above.
const LATE_STEPS: usize = 4_096;
/// The first three bytes of every node's address; the last is its number plus one.
pub(crate) const PREFIX: [u8; 3] = [10, 86, 0];

/// The emulator's counters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The counters of each link: from node i to node j at `i × nodes + j`.
    pub links: Vec<LinkCounters>,
    /// Packets that were delivered.
    pub carried: u64,
    /// Bytes of these packets.
    pub carried_bytes: u64,
    /// Dropped packets whose destination is not in the network (multicast, other addresses).
    pub strays: u64,
    /// Packets dropped because too many were under way.
    pub no_room: u64,
    /// Packets that the receiving node's device refused.
    pub refused: u64,
    /// Packets under way now.
    pub under_way: u64,
    /// Processor time of the thread.
    pub processor: Duration,
    /// The median lateness of delivered packets.
    pub late_p50: Duration,
    /// The lateness that 99 % did not exceed.
    pub late_p99: Duration,
    /// The greatest lateness.
    pub late_max: Duration,
}

enum Order {
    Set(Vec<(usize, usize, Link)>),
    Report(Sender<Report>),
    Stop,
}

struct Orders {
    wake: OwnedFd,
    waiting: Mutex<Vec<Order>>,
    /// The error that ended the thread, if any.
    ended: Mutex<Option<String>>,
}

impl Orders {
    fn give(&self, order: Order) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        // This fails if the counter is full, which wakes the thread as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<Order> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn why_ended(&self) -> NetError {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        NetError::Stopped(ended.unwrap_or_else(|| "it was told to".to_owned()))
    }
}

/// The running thread. Dropping it ends the thread and with it the devices.
pub(crate) struct Emulator {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

impl Emulator {
    /// Carries packets between the nodes of `topology` from now on. Device i belongs to node i.
    pub(crate) fn start(
        topology: &Topology,
        devices: Vec<OwnedFd>,
        settings: &Settings,
    ) -> Result<Self, NetError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| NetError::system("making an eventfd")(errno.into()))?;
        let orders = Arc::new(Orders { wake, waiting: Mutex::default(), ended: Mutex::default() });
        let mut carrier = Carrier::new(topology, settings);
        let before_others = settings.before_others;
        let shared = Arc::clone(&orders);
        let thread = std::thread::Builder::new()
            .name("network emulator".to_owned())
            .spawn(move || {
                be_punctual(before_others);
                if let Err(error) = carrier.run(&devices, &shared) {
                    *shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    // A thread that waits for a report sees that its sender is gone.
                    shared.take();
                }
            })
            .map_err(NetError::system("starting the emulator's thread"))?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Sets several links at the same time.
    pub(crate) fn set(&self, links: Vec<(usize, usize, Link)>) -> Result<(), NetError> {
        // The answer comes after the change, so packets sent from now on see it.
        self.orders.give(Order::Set(links));
        self.report().map(|_| ())
    }

    /// The counters so far.
    pub(crate) fn report(&self) -> Result<Report, NetError> {
        let (sender, receiver) = channel();
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(self.orders.why_ended());
        }
        self.orders.give(Order::Report(sender));
        loop {
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(report) => return Ok(report),
                Err(_) if self.thread.as_ref().is_none_or(JoinHandle::is_finished) => {
                    return Err(self.orders.why_ended());
                }
                Err(_) => {}
            }
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.orders.give(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it on standard error.
            let _ = thread.join();
        }
    }
}

/// Requests timers of microseconds, and priority if asked to. Without permission the thread is as
/// late as others.
fn be_punctual(before_others: bool) {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    if before_others {
        let _ = rustix::process::setpriority_process(None, -20);
    }
}

struct Carrier {
    nodes: usize,
    shapers: Vec<Shaper>,
    /// When the uplink of each node is free.
    uplinks_free_at_ns: Vec<u64>,
    pool: Pool,
    flights: Flights,
    began: Instant,
    counted: Report,
    late: Vec<u32>,
}

impl Carrier {
    fn new(topology: &Topology, settings: &Settings) -> Self {
        let nodes = topology.size();
        let pairs = (0..nodes * nodes).map(|pair| (pair / nodes, pair % nodes));
        let shapers = pairs.map(|(from, to)| {
            let link = topology.link(from, to).cloned().unwrap_or_default();
            Shaper::new(link, settings.seed, from, to)
        });
        Self {
            nodes,
            shapers: shapers.collect(),
            uplinks_free_at_ns: vec![0; nodes],
            pool: Pool::new(settings.most_under_way, usize::from(settings.mtu)),
            flights: Flights::new(settings.most_under_way as usize),
            began: Instant::now(),
            counted: Report::default(),
            late: vec![0; LATE_STEPS + 1],
        }
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn run(&mut self, devices: &[OwnedFd], orders: &Orders) -> Result<(), String> {
        let watched = devices.iter().map(|device| device.as_fd()).chain([orders.wake.as_fd()]);
        let mut polled: Vec<PollFd<'_>> =
            watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        loop {
            self.deliver(devices);
            match poll(&mut polled, self.patience().as_ref()) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(format!("poll: {}", io::Error::from(errno))),
            }
            for (from, polled) in polled.iter().enumerate() {
                if polled.revents().is_empty() {
                    continue;
                }
                match devices.get(from) {
                    Some(device) => self.collect(from, device)?,
                    None if self.obey(orders.take()) => return Ok(()),
                    None => {}
                }
                self.deliver(devices);
            }
        }
    }

    /// The time until the next packet is due.
    fn patience(&self) -> Option<Timespec> {
        let until_ns = self.flights.next_at_ns()?.saturating_sub(self.now_ns());
        let (tv_sec, tv_nsec) = (until_ns / 1_000_000_000, until_ns % 1_000_000_000);
        Some(Timespec { tv_sec: tv_sec as i64, tv_nsec: tv_nsec as i64 })
    }

    /// Reads packets from a node's device.
    fn collect(&mut self, from: usize, device: &OwnedFd) -> Result<(), String> {
        for _ in 0..AT_A_TIME {
            let Some(slot) = self.pool.take() else {
                // The packet is read and dropped, so that later ones are not late.
                let mut gone = [0; 64];
                match rustix::io::read(device, &mut gone) {
                    Ok(_) => self.counted.no_room += 1,
                    Err(_) => return Ok(()),
                }
                continue;
            };
            match rustix::io::read(device, self.pool.room(slot)) {
                Ok(bytes) => {
                    self.pool.set_length(slot, bytes);
                    self.forward(from, slot, bytes);
                }
                Err(errno) => {
                    self.pool.give(slot);
                    return match errno {
                        // EIO is the error of a device that was set down.
                        Errno::AGAIN | Errno::INTR | Errno::FAULT | Errno::IO => Ok(()),
                        _ => Err(format!("the device of node {from}: {}", io::Error::from(errno))),
                    };
                }
            }
        }
        Ok(())
    }

    /// Puts a packet under way, or drops it.
    fn forward(&mut self, from: usize, slot: Slot, bytes: usize) {
        let to = destination(self.pool.packet(slot)).filter(|to| *to < self.nodes && *to != from);
        let uplink = self.uplinks_free_at_ns.get_mut(from);
        let Some((to, shaper, uplink)) = to.zip(uplink).and_then(|(to, uplink)| {
            Some((to, self.shapers.get_mut(from * self.nodes + to)?, uplink))
        }) else {
            self.counted.strays += 1;
            self.pool.give(slot);
            return;
        };
        let now_ns = self.began.elapsed().as_nanos() as u64;
        match shaper.offer(now_ns, bytes, uplink) {
            Verdict::Dropped => self.pool.give(slot),
            Verdict::Arrives { at_ns, again_at_ns } => {
                self.flights.add(at_ns, slot, to as u16);
                if let Some(again_at_ns) = again_at_ns {
                    match self.pool.copy(slot) {
                        Some(second) => self.flights.add(again_at_ns, second, to as u16),
                        None => self.counted.no_room += 1,
                    }
                }
            }
        }
    }

    /// Writes the packets that are due.
    fn deliver(&mut self, devices: &[OwnedFd]) {
        let mut now_ns = self.now_ns();
        while let Some(flight) = self.flights.due(now_ns) {
            let late_steps = ((now_ns - flight.at_ns) / LATE_STEP_NS) as usize;
            if let Some(count) = self.late.get_mut(late_steps.min(LATE_STEPS)) {
                *count += 1;
            }
            let late = Duration::from_nanos(now_ns - flight.at_ns);
            self.counted.late_max = self.counted.late_max.max(late);
            let packet = self.pool.packet(flight.slot);
            let bytes = packet.len() as u64;
            let written =
                devices.get(usize::from(flight.to)).map(|to| rustix::io::write(to, packet));
            match written {
                Some(Ok(_)) => {
                    self.counted.carried += 1;
                    self.counted.carried_bytes += bytes;
                }
                _ => self.counted.refused += 1,
            }
            self.pool.give(flight.slot);
            now_ns = self.now_ns();
        }
    }

    /// Executes orders. Returns whether to stop.
    fn obey(&mut self, orders: Vec<Order>) -> bool {
        for order in orders {
            match order {
                Order::Stop => return true,
                Order::Set(links) => {
                    for (from, to, link) in links {
                        if let Some(shaper) = self.shapers.get_mut(from * self.nodes + to) {
                            shaper.set(link);
                        }
                    }
                }
                Order::Report(sender) => {
                    // A receiver that is gone does not need it.
                    let _ = sender.send(self.report());
                }
            }
        }
        false
    }

    fn report(&self) -> Report {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Report {
            links: self.shapers.iter().map(|shaper| shaper.counters).collect(),
            under_way: self.flights.len() as u64,
            processor: Duration::new(used.tv_sec as u64, used.tv_nsec as u32),
            late_p50: late_share(&self.late, 0.5),
            late_p99: late_share(&self.late, 0.99),
            ..self.counted.clone()
        }
    }
}

/// The lateness that this share of packets does not exceed.
fn late_share(late: &[u32], share: f64) -> Duration {
    let all: u64 = late.iter().map(|count| u64::from(*count)).sum();
    let wanted = (all as f64 * share).ceil() as u64;
    let mut seen = 0;
    let step = late.iter().position(|count| {
        seen += u64::from(*count);
        seen >= wanted
    });
    let steps = if all == 0 { 0 } else { step.map_or(LATE_STEPS, |step| step + 1) };
    Duration::from_nanos(steps as u64 * LATE_STEP_NS)
}

/// The destination of a packet: IPv4, and one of the network's addresses.
fn destination(packet: &[u8]) -> Option<usize> {
    if packet.first()? >> 4 != 4 {
        return None;
    }
    match packet.get(16..20)? {
        [a, b, c, node] if [*a, *b, *c] == PREFIX => usize::from(*node).checked_sub(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
