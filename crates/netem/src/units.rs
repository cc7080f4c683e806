//! Quantities as people write them: `50ms`, `0.1%`, `100Mbit`, `256KiB`.

use std::time::Duration;

/// The reason why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: write it like {example}")]
pub struct UnitError {
    /// The text.
    pub text: String,
    /// The expected quantity.
    pub what: &'static str,
    /// An example of it.
    pub example: &'static str,
}

/// The longest delay accepted: beyond it TCP gives up anyway.
pub const LONGEST: Duration = Duration::from_secs(60);
/// The highest rate accepted, in bits a second.
pub const FASTEST_BITS: u64 = 400_000_000_000;
/// The largest queue accepted, in bytes.
pub const LARGEST_QUEUE_BYTES: u64 = 1 << 32;

/// Splits a text into a finite number that is not negative, and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some((number, unit.trim()))
}

/// Parses a time of at most a minute: `200us`, `50ms`, `1.5s`, `0`.
///
/// # Errors
/// [`UnitError`].
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        what: "a time of at most 60 s",
        example: "200us, 50ms or 1.5s",
    };
    let (number, unit) = split(text).ok_or_else(error)?;
    let nanoseconds = match unit {
        "ns" => number,
        "us" | "µs" => number * 1e3,
        "ms" => number * 1e6,
        "s" => number * 1e9,
        "" if number == 0.0 => 0.0,
        _ => return Err(error()),
    };
    if nanoseconds > LONGEST.as_secs_f64() * 1e9 {
        return Err(error());
    }
    // It fits: it is not negative and not above LONGEST.
    Ok(Duration::from_nanos(nanoseconds.round() as u64))
}

/// Parses a share from 0 to 1: `0.1%` or `0.001`.
///
/// # Errors
/// [`UnitError`].
pub fn share(text: &str) -> Result<f64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        what: "a share from 0 to 100 %",
        example: "0.1% or 0.001",
    };
    let (number, unit) = split(text).ok_or_else(error)?;
    let share = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => return Err(error()),
    };
    if share > 1.0 { Err(error()) } else { Ok(share) }
}

/// Parses bits a second: `64kbit`, `100Mbit`, `1Gbit`; units are powers of 1,000.
///
/// # Errors
/// [`UnitError`].
pub fn rate(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        what: "a rate from 1kbit to 400Gbit a second",
        example: "64kbit, 100Mbit or 1Gbit",
    };
    let (number, unit) = split(text).ok_or_else(error)?;
    let bits = match unit {
        "kbit" => number * 1e3,
        "Mbit" => number * 1e6,
        "Gbit" => number * 1e9,
        _ => return Err(error()),
    };
    if !(1e3..=FASTEST_BITS as f64).contains(&bits) {
        return Err(error());
    }
    Ok(bits.round() as u64)
}

/// Parses bytes: `1500B`, `256KiB`, `1MiB`.
///
/// # Errors
/// [`UnitError`].
pub fn bytes(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        what: "a number of bytes from 1B to 4GiB",
        example: "1500B, 256KiB or 1MiB",
    };
    let (number, unit) = split(text).ok_or_else(error)?;
    let bytes = match unit {
        "B" => number,
        "KiB" => number * 1024.0,
        "MiB" => number * 1048576.0,
        "GiB" => number * 1073741824.0,
        _ => return Err(error()),
    };
    if !(1.0..=LARGEST_QUEUE_BYTES as f64).contains(&bytes) {
        return Err(error());
    }
    Ok(bytes.round() as u64)
}

/// Formats a time in milliseconds, without trailing zeros: `50ms`, `0.25ms`.
#[must_use]
pub fn show_duration(time: Duration) -> String {
    let ms = format!("{:.6}", time.as_secs_f64() * 1e3);
    format!("{}ms", ms.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a rate: `100Mbit`.
#[must_use]
pub fn show_rate(bits: u64) -> String {
    let kbit = format!("{:.3}", bits as f64 / 1e3);
    match bits {
        bits if bits % 1_000_000_000 == 0 => format!("{}Gbit", bits / 1_000_000_000),
        bits if bits % 1_000_000 == 0 => format!("{}Mbit", bits / 1_000_000),
        _ => format!("{}kbit", kbit.trim_end_matches('0').trim_end_matches('.')),
    }
}
