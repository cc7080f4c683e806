//! Topologies: the nodes of a network and the links between them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::link::{Link, LinkError};
use crate::preset::{self, Preset};

/// The most nodes of a network: their addresses are `10.86.0.1` to `10.86.0.254`.
pub const MOST_NODES: usize = 254;
/// The name of the clients' node.
pub const CLIENTS: &str = "clients";
/// The longest round trip in a matrix.
const LONGEST_RTT_MS: f64 = 120_000.0;

/// The reason why a description of a network is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TopologyError {
    /// An unknown preset.
    #[error("there is no preset {name:?}: there are {}", preset_names())]
    Preset {
        /// The name in the description.
        name: String,
    },
    /// A matrix that is not square.
    #[error(
        "row {row} of rtt_ms has {has} columns and there are {rows} rows: a matrix has as many \
         columns as rows, one of each a place"
    )]
    NotSquare {
        /// The row, from 0.
        row: usize,
        /// The number of its columns.
        has: usize,
        /// The number of rows.
        rows: usize,
    },
    /// An impossible round-trip time.
    #[error("rtt_ms[{row}][{column}] is {value}: a round trip takes from 0 to 120000 ms")]
    Entry {
        /// The row, from 0.
        row: usize,
        /// The column, from 0.
        column: usize,
        /// The value.
        value: String,
    },
    /// Neither or both are given.
    #[error("a network is described by either preset or rtt_ms (with at least one row): {0}")]
    Source(&'static str),
    /// Too many or too few nodes.
    #[error("{0} nodes: a network has from 1 to {MOST_NODES}")]
    Nodes(usize),
    /// A link's text is invalid.
    #[error("{place}: {source}")]
    Link {
        /// The place in the description.
        place: String,
        /// The error.
        source: LinkError,
    },
    /// An unknown node.
    #[error("{place}: there is no node {name:?}: there are 0 to {last} and {CLIENTS:?}; * is all")]
    Node {
        /// The place in the description.
        place: String,
        /// The name in the description.
        name: String,
        /// The last replica.
        last: usize,
    },
    /// An unknown place.
    #[error("clients: there is no place {place}: there are 0 to {last}")]
    Place {
        /// The number in the description.
        place: usize,
        /// The last place.
        last: usize,
    },
}

fn preset_names() -> String {
    preset::ALL.map(|(name, _)| name).join(", ")
}

/// The position of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", untagged)]
pub enum Clients {
    /// At this place of the preset or matrix, from 0.
    Place(usize),
    /// Beside every replica, without delay.
    Near(Near),
}

/// The word for [`Clients::Near`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Near {
    /// Without delay.
    Near,
}

/// A change of the links between some nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Between {
    /// A replica's number, `"clients"`, or `"*"` for all.
    pub from: String,
    /// As `from`.
    pub to: String,
    /// As [`Link::parse`] reads it; values that it does not name stay.
    pub link: String,
    /// Whether it applies to the other direction too.
    #[serde(default = "yes")]
    pub both: bool,
}

fn yes() -> bool {
    true
}

/// The description of a network in a file, for any number of replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The name of a preset.
    pub preset: Option<String>,
    /// Round-trip times between places in milliseconds. The diagonal has those between two nodes in
    /// the same place.
    pub rtt_ms: Option<Vec<Vec<f64>>>,
    /// Further values for all links, as [`Link::parse`] reads them.
    pub link: Option<String>,
    /// The position of the clients; by default the first place.
    pub clients: Option<Clients>,
    /// Changes of the links between some nodes. Later ones override earlier ones.
    #[serde(default)]
    pub between: Vec<Between>,
}

/// Nodes, and a link from each node to each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Topology {
    names: Vec<String>,
    links: Vec<Link>,
}

impl Topology {
    /// Replicas `0` to `replicas − 1` and the clients, with the same link between all.
    ///
    /// # Errors
    /// [`TopologyError::Nodes`], or the link's values are inconsistent.
    pub fn uniform(replicas: usize, link: &Link) -> Result<Self, TopologyError> {
        let nodes = replicas + 1;
        if replicas == 0 || nodes > MOST_NODES {
            return Err(TopologyError::Nodes(nodes));
        }
        link.check().map_err(|source| TopologyError::Link { place: "link".to_owned(), source })?;
        let mut names: Vec<String> = (0..replicas).map(|id| id.to_string()).collect();
        names.push(CLIENTS.to_owned());
        Ok(Self { names, links: vec![link.clone(); nodes * nodes] })
    }

    /// Parses the displayed form: one line for each link.
    pub(crate) fn of_lines(shown: &str) -> Option<Self> {
        let line = |line: &str| {
            let (nodes, link) = line.split_once(':')?;
            let (from, to) = nodes.split_once(" -> ")?;
            Some((from.to_owned(), to.to_owned(), Link::parse(link).ok()?))
        };
        let lines: Vec<_> = shown.lines().map(line).collect::<Option<_>>()?;
        let mut names: Vec<String> = lines.iter().map(|(from, _, _)| from.clone()).collect();
        names.dedup();
        let mut this = Self { links: vec![Link::default(); names.len().pow(2)], names };
        if !(2..=MOST_NODES).contains(&this.size()) {
            return None;
        }
        for (from, to, link) in lines {
            let place = |node: &str| this.names.iter().position(|name| name == node);
            let (from, to) = (place(&from)?, place(&to)?);
            *this.link_mut(from, to)? = link;
        }
        Some(this)
    }

    /// The number of nodes: the replicas, and the clients' node as the last.
    #[must_use]
    pub fn size(&self) -> usize {
        self.names.len()
    }

    /// The names of the nodes.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The clients' node.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.names.len() - 1
    }

    /// The link from one node to another.
    #[must_use]
    pub fn link(&self, from: usize, to: usize) -> Option<&Link> {
        if to >= self.size() { None } else { self.links.get(from * self.size() + to) }
    }

    /// The same, for changes.
    pub fn link_mut(&mut self, from: usize, to: usize) -> Option<&mut Link> {
        let size = self.size();
        if to >= size { None } else { self.links.get_mut(from * size + to) }
    }

    /// The nodes with this name, `*` or a number. `place` is the name's place, for errors.
    ///
    /// # Errors
    /// [`TopologyError::Node`].
    pub fn nodes_named(&self, name: &str, place: &str) -> Result<Vec<usize>, TopologyError> {
        if name == "*" {
            return Ok((0..self.size()).collect());
        }
        let found = self.names.iter().position(|known| known == name);
        found.map(|node| vec![node]).ok_or_else(|| TopologyError::Node {
            place: place.to_owned(),
            name: name.to_owned(),
            last: self.size().saturating_sub(2),
        })
    }

    /// Changes every link from one of `from` to one of `to`, like [`Link::change`]; all or none.
    ///
    /// # Errors
    /// [`TopologyError`], which names `place`.
    pub fn change(
        &mut self,
        from: &str,
        to: &str,
        link: &str,
        place: &str,
    ) -> Result<Vec<(usize, usize)>, TopologyError> {
        let mut changed = self.clone();
        let mut pairs = Vec::new();
        for from in self.nodes_named(from, place)? {
            for to in self.nodes_named(to, place)? {
                if from != to
                    && let Some(found) = changed.link_mut(from, to)
                {
                    let of = |source| TopologyError::Link { place: place.to_owned(), source };
                    found.change(link).map_err(of)?;
                    pairs.push((from, to));
                }
            }
        }
        *self = changed;
        Ok(pairs)
    }

    /// Cuts all links between different groups; nodes in no group keep theirs.
    pub fn partition(&mut self, groups: &[Vec<usize>]) {
        let group = |node| groups.iter().position(|group| group.contains(&node));
        for from in 0..self.size() {
            for to in 0..self.size() {
                let apart =
                    group(from).is_some() && group(to).is_some() && group(from) != group(to);
                if let (true, Some(link)) = (apart, self.link_mut(from, to)) {
                    link.cut = true;
                }
            }
        }
    }

    /// Restores all links that were cut.
    pub fn heal(&mut self) {
        self.links.iter_mut().for_each(|link| link.cut = false);
    }
}

impl Description {
    /// The description with this preset alone.
    #[must_use]
    pub fn of_preset(name: &str) -> Self {
        Self { preset: Some(name.to_owned()), ..Self::default() }
    }

    /// The network with this many replicas. Replica i is at place i modulo the number of places.
    ///
    /// # Errors
    /// [`TopologyError`], with the place and the remedy.
    pub fn topology(&self, replicas: usize) -> Result<Topology, TopologyError> {
        let mut topology = Topology::uniform(replicas, &Link::default())?;
        let (places, between) = self.places()?;
        let clients_at = match self.clients {
            Some(Clients::Place(place)) if place >= places => {
                return Err(TopologyError::Place { place, last: places - 1 });
            }
            Some(Clients::Place(place)) => Some(place),
            Some(Clients::Near(Near::Near)) => None,
            None => Some(0),
        };
        let clients = topology.clients();
        let place_of = |node| if node == clients { clients_at } else { Some(node % places) };
        for from in 0..topology.size() {
            for to in (0..topology.size()).filter(|to| *to != from) {
                if let (Some(a), Some(b), Some(link)) =
                    (place_of(from), place_of(to), topology.link_mut(from, to))
                {
                    *link = between(a, b);
                }
            }
        }
        if let Some(link) = &self.link {
            topology.change("*", "*", link, "link")?;
        }
        for (i, Between { from, to, link, both }) in self.between.iter().enumerate() {
            let place = format!("between[{i}]");
            topology.change(from, to, link, &place)?;
            if *both {
                topology.change(to, from, link, &place)?;
            }
        }
        Ok(topology)
    }

    /// The number of places, and the link between two of them.
    #[expect(clippy::type_complexity, reason = "it is a function of two places")]
    fn places(&self) -> Result<(usize, Box<dyn Fn(usize, usize) -> Link + '_>), TopologyError> {
        match (&self.preset, &self.rtt_ms) {
            (Some(_), Some(_)) => Err(TopologyError::Source("leave out one of the two")),
            (None, None) => Err(TopologyError::Source("neither is given")),
            (Some(name), None) => match Preset::named(name) {
                None => Err(TopologyError::Preset { name: name.clone() }),
                Some(Preset::Uniform { delay }) => {
                    Ok((1, Box::new(move |_, _| Link::delay(delay))))
                }
                Some(Preset::Places(places)) => Ok((
                    places.names.len(),
                    Box::new(move |from, to| preset::link_between(places, from, to)),
                )),
            },
            (None, Some(rtt_ms)) => {
                check_matrix(rtt_ms)?;
                let link = |from: usize, to: usize| {
                    let rtt_ms = rtt_ms.get(from).and_then(|row| row.get(to)).copied();
                    Link::delay(Duration::from_secs_f64(rtt_ms.unwrap_or(0.0) / 2e3))
                };
                Ok((rtt_ms.len(), Box::new(link)))
            }
        }
    }
}

fn check_matrix(rtt_ms: &[Vec<f64>]) -> Result<(), TopologyError> {
    if rtt_ms.is_empty() {
        return Err(TopologyError::Source("rtt_ms has no row"));
    }
    for (row, columns) in rtt_ms.iter().enumerate() {
        if columns.len() != rtt_ms.len() {
            let (has, rows) = (columns.len(), rtt_ms.len());
            return Err(TopologyError::NotSquare { row, has, rows });
        }
        for (column, value) in columns.iter().enumerate() {
            // A NaN is refused here too.
            if !(0.0..=LONGEST_RTT_MS).contains(value) {
                return Err(TopologyError::Entry { row, column, value: value.to_string() });
            }
        }
    }
    Ok(())
}

/// The links as a table, equal ones in one line.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (from, name) in self.names.iter().enumerate() {
            for (to, other) in self.names.iter().enumerate().filter(|(to, _)| *to != from) {
                if let Some(link) = self.link(from, to) {
                    writeln!(f, "{name} -> {other}: {link}")?;
                }
            }
        }
        Ok(())
    }
}
