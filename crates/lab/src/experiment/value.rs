//! Values of a study file: names, quantities, and "one or several of these".

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use quorate_adversary::Schedule;
use quorate_node::config::{
    Application, AuthenticationName, ByteSize, Durability, HumanDuration, LeaderName,
    PacemakerName, ProtocolName, SchemeName, VoteRoute,
};
use quorate_transport::TransportName;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One value, or several of which each is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Many<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ManyVisitor(PhantomData))
    }
}

struct ManyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ManyVisitor<T> {
    type Value = Many<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Many<T>, A::Error> {
        let values = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
        match values.is_empty() {
            true => Err(A::Error::custom("the list is empty: name at least one value")),
            false => Ok(Many(values)),
        }
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Many<T>, E> {
        Ok(Many(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Many<T>, E> {
        Ok(Many(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Many<T>, E> {
        Ok(Many(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Many<T>, E> {
        Ok(Many(vec![T::deserialize(value.into_deserializer())?]))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Many<T>, E> {
        Ok(Many(vec![T::deserialize(value.into_deserializer())?]))
    }
}

/// A type with a few named values.
pub trait Named: Copy + 'static {
    /// All names.
    fn names() -> Vec<&'static str>;
    /// The value called `name`.
    fn find(name: &str) -> Option<Self>;
    /// What it is called.
    fn called(self) -> &'static str;
}

macro_rules! named {
    ($($type:ty),*) => {
        $(impl Named for $type {
            fn names() -> Vec<&'static str> {
                <$type>::NAMES.to_vec()
            }
            fn find(name: &str) -> Option<Self> {
                <$type>::named(name)
            }
            fn called(self) -> &'static str {
                self.name()
            }
        })*
    };
}

named!(
    AuthenticationName,
    Durability,
    LeaderName,
    PacemakerName,
    ProtocolName,
    TransportName,
    VoteRoute
);

impl Named for SchemeName {
    fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|scheme| scheme.as_str()).collect()
    }

    fn find(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    fn called(self) -> &'static str {
        self.as_str()
    }
}

/// A value that is written by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name<T>(pub T);

impl<T: Named> fmt::Display for Name<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.called())
    }
}

impl<T: Named> Serialize for Name<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.called())
    }
}

impl<'de, T: Named> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        T::find(&name).map(Self).ok_or_else(|| {
            let names = T::names().join(", ");
            D::Error::custom(format!("there is no \"{name}\": expected one of {names}"))
        })
    }
}

/// A value that is written as people write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written<T>(pub T);

impl<T: fmt::Display> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(|error| D::Error::custom(format!("\"{text}\": {error}")))
    }
}

/// A number of bytes, as `"512B"`.
pub type Size = Written<ByteSize>;
/// A span of time, as `"15s"`.
pub type Span = Written<HumanDuration>;

/// How many commands a second arrive, if that does not depend on answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As soon as there is room: a closed loop.
    #[default]
    Closed,
    /// So many a second, whatever is answered.
    PerSecond(f64),
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::PerSecond(rate) => write!(f, "{rate}"),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Closed => to.serialize_str("closed"),
            Self::PerSecond(rate) => to.serialize_f64(*rate),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(RateVisitor)
    }
}

struct RateVisitor;

impl Visitor<'_> for RateVisitor {
    type Value = Rate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("commands a second, above 0, or \"closed\"")
    }

    fn visit_f64<E: serde::de::Error>(self, rate: f64) -> Result<Rate, E> {
        match rate.is_finite() && rate > 0.0 {
            true => Ok(Rate::PerSecond(rate)),
            false => Err(E::invalid_value(serde::de::Unexpected::Float(rate), &self)),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, rate: i64) -> Result<Rate, E> {
        self.visit_f64(rate as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, rate: u64) -> Result<Rate, E> {
        self.visit_f64(rate as f64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Rate, E> {
        match text {
            "closed" => Ok(Rate::Closed),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }
}

/// What Byzantine replicas do, and when, counted from the beginning of what is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attack(pub Option<Schedule>);

const NONE: &str = "none";

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(schedule) => schedule.fmt(f),
            None => f.write_str(NONE),
        }
    }
}

impl FromStr for Attack {
    type Err = quorate_adversary::ScheduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            NONE => Ok(Self(None)),
            schedule => Ok(Self(Some(schedule.parse()?))),
        }
    }
}

/// Which replica is killed, and when after measuring began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kill {
    /// None is.
    #[default]
    None,
    /// The leader of that time.
    Leader(HumanDuration),
    /// This one.
    Replica(u16, HumanDuration),
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str(NONE),
            Self::Leader(at) => write!(f, "leader@{at}"),
            Self::Replica(id, at) => write!(f, "{id}@{at}"),
        }
    }
}

/// A text that says no kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected \"none\", \"leader@5s\", or a replica's id and a time, as in \"3@5s\"")]
pub struct NoKill;

impl FromStr for Kill {
    type Err = NoKill;

    fn from_str(text: &str) -> Result<Self, NoKill> {
        if text == NONE {
            return Ok(Self::None);
        }
        let (whom, at) = text.split_once('@').ok_or(NoKill)?;
        let at = at.parse().map_err(|_| NoKill)?;
        match whom {
            "leader" => Ok(Self::Leader(at)),
            id => Ok(Self::Replica(id.parse().map_err(|_| NoKill)?, at)),
        }
    }
}

/// Whether arrivals of an open loop are even or random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalName {
    /// One every 1 / rate.
    #[default]
    Even,
    /// Independently of each other.
    Poisson,
}

/// What the commands of a load do, by the names of `quorate load --workload`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadName {
    /// Write random keys; with no payload, commands without a byte.
    #[default]
    Set,
    /// Write random keys, and answer what was there.
    Exchange,
    /// Half reads, half updates.
    YcsbA,
    /// 95 % reads, 5 % updates.
    YcsbB,
    /// Reads.
    YcsbC,
    /// 95 % reads of what was inserted last, 5 % inserts.
    YcsbD,
    /// 95 % scans, 5 % inserts.
    YcsbE,
    /// Half reads, half read-modify-writes.
    YcsbF,
    /// Bytes that mean nothing, put in order by the ordering application: replication alone.
    Opaque,
}

impl WorkloadName {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Exchange => "exchange",
            Self::YcsbA => "ycsb-a",
            Self::YcsbB => "ycsb-b",
            Self::YcsbC => "ycsb-c",
            Self::YcsbD => "ycsb-d",
            Self::YcsbE => "ycsb-e",
            Self::YcsbF => "ycsb-f",
            Self::Opaque => "opaque",
        }
    }

    /// The application that understands them.
    #[must_use]
    pub const fn application(self) -> Application {
        match self {
            Self::Opaque => Application::Ordering,
            _ => Application::Kv,
        }
    }
}

/// Which keys are asked for more often, by the names of `quorate load --popularity`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PopularityName {
    /// As the workload has it.
    #[default]
    Usual,
    /// None.
    Uniform,
    /// A few, by Zipf's law.
    Zipfian,
    /// Those that were written last.
    Latest,
}

/// To whom clients send frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendTo {
    /// To every replica.
    #[default]
    All,
    /// To one, which passes them on.
    One,
}
