//! Durations, sizes and addresses as people write them. Each prints as it parses.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A text that is no such quantity; says what one looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct InvalidQuantity(pub(crate) &'static str);

/// A span of time, as `"250ms"`: a whole number and one of `ns`, `us`, `ms`, `s`, `min`, `h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(pub Duration);

/// Nanoseconds in each unit, largest first.
const TIME_UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl FromStr for HumanDuration {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        number_of_units(text, &TIME_UNITS)
            .map(|nanoseconds| Self(Duration::from_nanos(nanoseconds)))
            .ok_or(InvalidQuantity("a whole number and a unit (ns, us, ms, s, min, h): \"250ms\""))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        write_in_units(f, nanoseconds, &TIME_UNITS, "s")
    }
}

/// A number of bytes, as `"64MiB"`: a whole number and one of `B`, `KiB`, `MiB`, `GiB`, `TiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// Bytes in each unit, largest first.
const SIZE_UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl FromStr for ByteSize {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        number_of_units(text, &SIZE_UNITS)
            .map(Self)
            .ok_or(InvalidQuantity("a whole number and a unit (B, KiB, MiB, GiB, TiB): \"64MiB\""))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_units(f, self.0, &SIZE_UNITS, "B")
    }
}

fn number_of_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Writes `amount` in the largest unit that divides it; nothing at all in the unit `zero`.
fn write_in_units(
    f: &mut fmt::Formatter<'_>,
    amount: u64,
    units: &[(&str, u64)],
    zero: &str,
) -> fmt::Result {
    match units.iter().find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor)) {
        Some((unit, factor)) => write!(f, "{}{unit}", amount / factor),
        None => write!(f, "{amount}{zero}"),
    }
}

/// A host (name, IPv4 address, or IPv6 address in brackets) and a port: `"127.0.0.1:7000"`.
/// Names are resolved when the address is used, not before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    /// Port `port` (0: any free one) of this machine's loopback interface.
    #[must_use]
    pub fn loopback(port: u16) -> Self {
        Self { host: "127.0.0.1".to_owned(), port }
    }

    /// The host, an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port; 0 asks for any free one.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host().parse::<std::net::IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host == "localhost",
        }
    }
}

impl FromStr for HostPort {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        parse_host_port(text)
            .ok_or(InvalidQuantity("a host and a port: \"127.0.0.1:7000\" or \"[::1]:7000\""))
    }
}

fn parse_host_port(text: &str) -> Option<HostPort> {
    let (host, port) = text.rsplit_once(':')?;
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let valid = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_host_name(host),
    };
    valid.then_some(())?;
    Some(HostPort { host: host.to_owned(), port: port.parse().ok()? })
}

/// Labels of letters, digits and hyphens between dots (RFC 1123), IPv4 addresses among them.
fn is_host_name(host: &str) -> bool {
    host.len() <= 253
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
