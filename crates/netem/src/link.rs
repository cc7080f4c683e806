//! Links: the effect on packets that pass in one direction.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{self, UnitError};

/// The distribution of jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Uniform from `delay − jitter` to `delay + jitter`.
    #[default]
    Uniform,
    /// Normal, with `jitter` as the standard deviation. It is cut off beyond four of them, and
    /// below a delay of zero.
    Normal,
}

/// A link in one direction. Unset values have no effect: the default is an ideal wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Link {
    /// The time that a packet takes.
    pub delay: Duration,
    /// The variation of the delay, independent for each packet. As with the kernel's `sch_netem`,
    /// packets may overtake each other.
    pub jitter: Duration,
    /// The distribution of the variation.
    pub distribution: Distribution,
    /// The share of packets that are lost, independent for each packet.
    pub loss: f64,
    /// The share of packets that pass without delay, and so overtake earlier ones (as with
    /// `sch_netem`).
    pub reorder: f64,
    /// The share of packets that arrive twice.
    pub duplicate: f64,
    /// Bits a second of whole IP packets; `None` is no limit.
    pub rate_bits: Option<u64>,
    /// Whether the bandwidth is that of its sender's uplink, which the sender's other links share
    /// that say so.
    pub shared: bool,
    /// The bytes that may wait for the bandwidth; a packet beyond is dropped. `None`: as many as
    /// pass in 50 ms, at least 30,000.
    pub queue_bytes: Option<u64>,
    /// Whether the link is cut (a partition). The other values are kept for the time after it.
    pub cut: bool,
}

/// The reason why a text does not describe a link.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LinkError {
    /// A value is malformed.
    #[error("{key}: {source}")]
    Value {
        /// The key.
        key: String,
        /// The error.
        source: UnitError,
    },
    /// An unknown key.
    #[error(
        "there is no {0:?} of a link: write delay=, jitter=, distribution=, loss=, reorder=, \
         duplicate=, bandwidth=, shared=, queue= or cut="
    )]
    Key(String),
    /// An unknown distribution.
    #[error("distribution: there is no {0:?}: write uniform or normal")]
    Distribution(String),
    /// A value other than true and false.
    #[error("{key}: {value:?} is neither true nor false")]
    Bool {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// The values contradict each other.
    #[error("{0}")]
    Together(&'static str),
}

impl Link {
    /// A link with only a delay.
    #[must_use]
    pub fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Parses pairs `key=value`, separated by white space or commas: `delay=50ms loss=0.1%`.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn parse(text: &str) -> Result<Self, LinkError> {
        let mut link = Self::default();
        link.change(text)?;
        Ok(link)
    }

    /// Sets the values that `text` names and keeps the rest. After an error nothing is changed.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn change(&mut self, text: &str) -> Result<(), LinkError> {
        let mut changed = self.clone();
        for pair in text.split([' ', '\t', ',']).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            changed.set(key, value)?;
        }
        changed.check()?;
        *self = changed;
        Ok(())
    }

    /// Sets one value without a check of the others: see [`Link::check`].
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), LinkError> {
        let of = |source| LinkError::Value { key: key.to_owned(), source };
        match key {
            "delay" => self.delay = units::duration(value).map_err(of)?,
            "jitter" => self.jitter = units::duration(value).map_err(of)?,
            "loss" => self.loss = units::share(value).map_err(of)?,
            "reorder" => self.reorder = units::share(value).map_err(of)?,
            "duplicate" => self.duplicate = units::share(value).map_err(of)?,
            "bandwidth" if value == "none" => self.rate_bits = None,
            "bandwidth" => self.rate_bits = Some(units::rate(value).map_err(of)?),
            "queue" => self.queue_bytes = Some(units::bytes(value).map_err(of)?),
            "distribution" => {
                self.distribution = match value {
                    "uniform" => Distribution::Uniform,
                    "normal" => Distribution::Normal,
                    _ => return Err(LinkError::Distribution(value.to_owned())),
                }
            }
            "shared" => self.shared = truth(key, value)?,
            "cut" => self.cut = truth(key, value)?,
            _ => return Err(LinkError::Key(key.to_owned())),
        }
        Ok(())
    }

    /// Checks that the values are consistent.
    ///
    /// # Errors
    /// [`LinkError::Together`].
    pub fn check(&self) -> Result<(), LinkError> {
        if self.jitter > self.delay {
            return Err(LinkError::Together(
                "jitter is more than the delay, and packets cannot arrive before they are sent: \
                 lower it",
            ));
        }
        if self.reorder > 0.0 && self.delay.is_zero() {
            return Err(LinkError::Together(
                "packets are reordered by skipping the delay: set one",
            ));
        }
        let shares = [self.loss, self.reorder, self.duplicate];
        if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
            return Err(LinkError::Together("loss, reorder and duplicate are from 0 to 1"));
        }
        if self.delay > units::LONGEST
            || self.rate_bits.is_some_and(|bits| !(1_000..=units::FASTEST_BITS).contains(&bits))
            || self.queue_bytes.is_some_and(|bytes| bytes > units::LARGEST_QUEUE_BYTES)
        {
            return Err(LinkError::Together(
                "a delay is at most 60 s, a bandwidth from 1kbit to 400Gbit, a queue at most 4GiB",
            ));
        }
        Ok(())
    }

    /// The bytes that may wait for the bandwidth.
    #[must_use]
    pub fn queue_limit_bytes(&self) -> u64 {
        let of_rate = self.rate_bits.unwrap_or(0) / 8 / 20;
        self.queue_bytes.unwrap_or_else(|| of_rate.max(30_000))
    }
}

fn truth(key: &str, value: &str) -> Result<bool, LinkError> {
    let refused = || LinkError::Bool { key: key.to_owned(), value: value.to_owned() };
    value.parse().map_err(|_| refused())
}

/// The text that [`Link::parse`] reads; empty for an ideal wire.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut time = |key: &str, time: Duration| {
            if !time.is_zero() {
                parts.push(format!("{key}={}", units::show_duration(time)));
            }
        };
        time("delay", self.delay);
        time("jitter", self.jitter);
        if self.distribution != Distribution::default() {
            parts.push("distribution=normal".to_owned());
        }
        for (key, share) in
            [("loss", self.loss), ("reorder", self.reorder), ("duplicate", self.duplicate)]
        {
            if share > 0.0 {
                parts.push(format!("{key}={share}"));
            }
        }
        parts.extend(self.rate_bits.map(|bits| format!("bandwidth={}", units::show_rate(bits))));
        if self.shared {
            parts.push("shared=true".to_owned());
        }
        parts.extend(self.queue_bytes.map(|bytes| format!("queue={bytes}B")));
        if self.cut {
            parts.push("cut=true".to_owned());
        }
        f.write_str(&parts.join(" "))
    }
}
