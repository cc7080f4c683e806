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

/// Where a program takes requests over HTTP: `https://HOST:PORT`; or `http://HOST:PORT`, for which
/// `HOST:PORT` is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where to connect, the port above 0.
    pub address: HostPort,
    /// Whether it is asked over TLS.
    pub tls: bool,
}

impl FromStr for Endpoint {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, rest) => (false, rest.unwrap_or(text)),
        };
        let address = parse_host_port(rest.strip_suffix('/').unwrap_or(rest));
        let address = address.filter(|address| address.port() > 0);
        address
            .map(|address| Self { address, tls })
            .ok_or(InvalidQuantity("http:// or https://, a host and a port above 0"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https://" } else { "" };
        write!(f, "{scheme}{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn an_endpoint_has_a_scheme_and_a_port() {
        let read = |text: &str| text.parse::<Endpoint>().map(|read| read.to_string());
        assert_eq!(read("127.0.0.1:4318").as_deref(), Ok("127.0.0.1:4318"));
        assert_eq!(read("http://otel:4318/").as_deref(), Ok("otel:4318"));
        assert_eq!(read("https://[::1]:4318").as_deref(), Ok("https://[::1]:4318"));
        for wrong in ["https://otel", "https://otel:0", "ftp://otel:1", "http://otel:1/v1/traces"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
