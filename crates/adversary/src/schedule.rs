//! Who acts when: `silent-leader@10s..25s,slow-leader@0s..15s/30s`.
//!
//! Adversaries are separated by commas. Behind a name, `@FROM..TO` says from when to when it acts,
//! counted from the driver's start; either may be left out. `/PERIOD` behind that repeats it: the
//! window is that of each period. Without `@` it acts all the time. What several do at once goes
//! through them in the order in which they are named. A schedule may name the adversaries of any
//! family of protocols; it is [built](Schedule::build) for one of them.

use std::fmt;
use std::str::FromStr;

use quorate_core::client::message::Response;
use quorate_core::{Duration, ReplicaId, Time};

use crate::{Adversary, Context, Peer, Sent, pbft};

/// When an adversary acts: spans from the driver's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From then on.
    pub from: Duration,
    /// Until then; `None`: for ever.
    pub to: Option<Duration>,
    /// The window is that of each of these spans.
    pub period: Option<Duration>,
}

impl Window {
    /// All the time.
    pub const ALWAYS: Self = Self { from: Duration::ZERO, to: None, period: None };

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self, now: Time) -> bool {
        let mut at = now.since(Time(0));
        if let Some(period) = self.period {
            at = Duration::from_nanos((at.as_nanos() % period.as_nanos().max(1)) as u64);
        }
        at >= self.from && self.to.is_none_or(|to| at < to)
    }
}

/// Which adversaries act when.
#[derive(Clone, Debug)]
pub struct Schedule {
    parts: Vec<(&'static str, Window)>,
}

/// Two are equal if they name the same adversaries in the same windows.
impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.parts().eq(other.parts())
    }
}

impl Eq for Schedule {}

/// An adversary that is named is none of the protocol's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no adversary of this protocol (docs/adversaries.md lists them by protocol)")]
pub struct Foreign(pub &'static str);

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at character {at} (\"{found}\"){remedy}")]
pub struct ScheduleError {
    /// What is wrong.
    pub what: &'static str,
    /// Where it begins: a character, counted from 1.
    pub at: usize,
    /// What stands there.
    pub found: String,
    /// What would be right, behind a colon.
    pub remedy: String,
}

impl Schedule {
    /// The names and windows, in order.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, Window)> {
        self.parts.iter().copied()
    }

    /// The adversary of HotStuff that it describes; each of its parts draws from its own part of
    /// the seed.
    ///
    /// # Errors
    /// [`Foreign`] if one is written for another protocol alone.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Adversary>, Foreign> {
        let part = |(at, (name, window)): (usize, &(&'static str, Window))| {
            let make = crate::named(name).ok_or(Foreign(name))?;
            let adversary = make(seed.wrapping_add(at as u64));
            Ok(Part { window: *window, adversary, tick_due: Time(0) })
        };
        let parts = self.parts.iter().enumerate().map(part).collect::<Result<_, _>>()?;
        Ok(Box::new(Scheduled { parts }))
    }

    /// The adversaries of PBFT that the schedule names.
    ///
    /// # Errors
    /// As there.
    pub fn build_for_pbft(&self, seed: u64) -> Result<Box<dyn pbft::Adversary>, Foreign> {
        let part = |(at, (name, window)): (usize, &(&'static str, Window))| {
            let make = pbft::named(name).ok_or(Foreign(name))?;
            Ok((*window, make(seed.wrapping_add(at as u64))))
        };
        let parts = self.parts.iter().enumerate().map(part).collect::<Result<_, _>>()?;
        Ok(pbft::scheduled(parts))
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let mut parts = Vec::new();
        let mut at = 1;
        for part in text.split(',') {
            let before = part.len() - part.trim_start().len();
            parts.push(parse_part(part.trim(), at + before)?);
            at += part.chars().count() + 1;
        }
        Ok(Self { parts })
    }
}

fn parse_part(part: &str, at: usize) -> Result<(&'static str, Window), ScheduleError> {
    let (name, window) = match part.split_once('@') {
        Some((name, window)) => (name, Some(window)),
        None => (part, None),
    };
    let names = crate::all_names();
    let Some(name) = names.iter().find(|known| **known == name).copied() else {
        let remedy = format!("; known are {}", names.join(", "));
        return Err(error("there is no such adversary", at, name, remedy));
    };
    let window = match window {
        None => Window::ALWAYS,
        Some(window) => parse_window(window, at + name.chars().count() + 1)?,
    };
    Ok((name, window))
}

fn parse_window(text: &str, at: usize) -> Result<Window, ScheduleError> {
    let (span, period) = match text.split_once('/') {
        Some((span, period)) => (span, Some((period, at + span.chars().count() + 1))),
        None => (text, None),
    };
    let Some((from, to)) = span.split_once("..") else {
        let remedy = ": expected FROM..TO, such as 10s..25s".to_owned();
        return Err(error("this is no span of time", at, span, remedy));
    };
    let behind = at + from.chars().count() + 2;
    let window = Window {
        from: if from.is_empty() { Duration::ZERO } else { parse_time(from, at)? },
        to: if to.is_empty() { None } else { Some(parse_time(to, behind)?) },
        period: period.map(|(text, at)| parse_time(text, at)).transpose()?,
    };
    if window.to.is_some_and(|to| to <= window.from) {
        let remedy = ": it must come after the beginning".to_owned();
        return Err(error("the end is not after the beginning", behind, to, remedy));
    }
    if let (Some(length), Some((text, at))) = (window.period, period) {
        let end = window.to.unwrap_or(window.from);
        if length < end || length.is_zero() {
            let remedy = ": it must be at least as long as the window reaches".to_owned();
            return Err(error("the period is too short", at, text, remedy));
        }
    }
    Ok(window)
}

/// A whole number of `ms`, `s` or `m`.
fn parse_time(text: &str, at: usize) -> Result<Duration, ScheduleError> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    let value = units.iter().find_map(|(unit, millis)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*millis).map(Duration::from_millis)
    });
    value.ok_or_else(|| {
        let remedy = ": expected a whole number of ms, s or m, such as 10s".to_owned();
        error("this is no time", at, text, remedy)
    })
}

fn error(what: &'static str, at: usize, found: &str, remedy: String) -> ScheduleError {
    ScheduleError { what, at, found: found.to_owned(), remedy }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, window)) in self.parts.iter().enumerate() {
            write!(f, "{}{name}", if at > 0 { "," } else { "" })?;
            if *window == Window::ALWAYS {
                continue;
            }
            write!(f, "@{}ms..", window.from.as_millis())?;
            if let Some(to) = window.to {
                write!(f, "{}ms", to.as_millis())?;
            }
            if let Some(period) = window.period {
                write!(f, "/{}ms", period.as_millis())?;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Part {
    window: Window,
    adversary: Box<dyn Adversary>,
    tick_due: Time,
}

/// Several adversaries, each in its window: what one leaves goes through the next.
#[derive(Debug)]
struct Scheduled {
    parts: Vec<Part>,
}

impl Scheduled {
    fn open(&mut self, now: Time) -> impl Iterator<Item = &mut Part> {
        self.parts.iter_mut().filter(move |part| part.window.is_open(now))
    }
}

impl Adversary for Scheduled {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let mut under_way = vec![Sent::now(to, message)];
        for part in self.open(cx.now) {
            let mut behind = Vec::new();
            for Sent { to, delay, message } in under_way.drain(..) {
                let first = behind.len();
                part.adversary.sends(cx, to, message, &mut behind);
                behind[first..].iter_mut().for_each(|sent| sent.delay += delay);
            }
            under_way = behind;
        }
        out.append(&mut under_way);
    }

    fn receives(&mut self, cx: &Context<'_>, from: ReplicaId, message: &Peer) {
        // One that is about to act has learnt before.
        for part in &mut self.parts {
            part.adversary.receives(cx, from, message);
        }
    }

    fn responds(&mut self, cx: &Context<'_>, response: Response, out: &mut Vec<Response>) {
        let mut under_way = vec![response];
        for part in self.open(cx.now) {
            let mut behind = Vec::new();
            for response in under_way.drain(..) {
                part.adversary.responds(cx, response, &mut behind);
            }
            under_way = behind;
        }
        out.append(&mut under_way);
    }

    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        for part in self.open(cx.now) {
            if let Some(span) = part.adversary.wants_tick()
                && part.tick_due <= cx.now
            {
                part.tick_due = cx.now.after(span);
                part.adversary.tick(cx, out);
            }
        }
    }

    /// The shortest of all.
    fn wants_tick(&self) -> Option<Duration> {
        self.parts.iter().filter_map(|part| part.adversary.wants_tick()).min()
    }
}
