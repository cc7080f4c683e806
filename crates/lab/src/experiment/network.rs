//! The emulated network of a run: by its name in the grid, as a study describes it.

use std::path::Path;

use quorate_netem::topology::{Description, TopologyError};
use quorate_netem::{NetError, Network, Settings as NetworkSettings, preset};
use quorate_node::config::{ConfigError, Finding, Place};
use serde::{Deserialize, Serialize};

use super::axes::Point;
use super::file::{finding_of, place_in_table, place_of_key, read_text};
use super::study::Study;

/// No emulated network.
const LOOPBACK: &str = "loopback";
/// What a network is called that is described for the whole study.
const OF_STUDY: &str = "[network]";
/// Where the keys are explained.
const MANUAL: &str = "docs/networks.md explains the keys";

/// What a network is called: `"loopback"`, a preset's name, or one that the study describes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NetworkName(pub String);

impl Default for NetworkName {
    fn default() -> Self {
        Self(LOOPBACK.to_owned())
    }
}

/// Reads the description of a network: a file of its own, as `quorate net up` takes it.
///
/// # Errors
/// What is wrong with it, with its line and the remedy.
pub fn read_network(file: &Path, replicas: usize) -> Result<Description, ConfigError> {
    let text = read_text(file, "name a file that describes a network, or a preset")?;
    let description: Description =
        toml::from_str(&text).map_err(|error| finding_of(&error, &text, file, MANUAL))?;
    description.topology(replicas).map_err(|error| {
        let place = place_of_key(key_of(&error), &text, file);
        Finding { what: error.to_string(), place, remedy: remedy_of(&error) }
    })?;
    Ok(description)
}

/// The descriptions of a study, and where they stand.
pub(super) struct Networks<'a> {
    study: &'a Study,
    text: &'a str,
    file: &'a Path,
}

impl<'a> Networks<'a> {
    pub(super) fn new(study: &'a Study, text: &'a str, file: &'a Path) -> Self {
        Self { study, text, file }
    }

    /// What is wrong with them whatever is tried.
    pub(super) fn check(&self, wrong: &mut impl FnMut(Finding)) {
        for name in self.study.networks.keys() {
            let place = self.place_of_header(name);
            let known = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if name.is_empty() || name.len() > 64 || !name.chars().all(known) {
                wrong(Finding {
                    what: format!("a network is called \"{name}\""),
                    place,
                    remedy: "use 1 to 64 letters, digits and hyphens".to_owned(),
                });
            } else if name == LOOPBACK || preset::Preset::named(name).is_some() {
                wrong(Finding {
                    what: format!("there is a network \"{name}\" already"),
                    place,
                    remedy: "call it otherwise".to_owned(),
                });
            }
        }
    }

    /// Puts a point into the study's network where its grid names none.
    pub(super) fn settle(&self, point: &mut Point, named: bool) -> Result<(), Finding> {
        let Some(of_study) = &self.study.network else { return Ok(()) };
        if named {
            return Err(Finding {
                what: "the grid names a network, and [network] describes that of all runs"
                    .to_owned(),
                place: place_of_key("network", self.text, self.file),
                remedy: "call it [networks.NAME], and name it in the grid".to_owned(),
            });
        }
        let preset =
            of_study.preset.as_ref().filter(|name| *of_study == Description::of_preset(name));
        point.network = NetworkName(preset.map_or(OF_STUDY, String::as_str).to_owned());
        Ok(())
    }

    /// The network of a point; `None`: the loopback interface.
    pub(super) fn of(&self, point: &Point) -> Result<Option<Description>, Finding> {
        let NetworkName(name) = &point.network;
        if name == LOOPBACK {
            return Ok(None);
        }
        let described = match (&self.study.network, self.study.networks.get(name)) {
            (Some(of_study), _) => of_study.clone(),
            (None, Some(described)) => described.clone(),
            (None, None) if preset::Preset::named(name).is_some() => Description::of_preset(name),
            (None, None) => return Err(self.unknown(name)),
        };
        match described.topology(point.replicas) {
            Ok(_) => Ok(Some(described)),
            Err(error) => Err(self.misdescribed(name, &error)),
        }
    }

    fn unknown(&self, name: &str) -> Finding {
        let presets = preset::ALL.iter().map(|(name, _)| *name);
        let described = self.study.networks.keys().map(String::as_str);
        let known: Vec<&str> = [LOOPBACK].into_iter().chain(presets).chain(described).collect();
        Finding {
            what: format!("there is no network \"{name}\""),
            place: place_of_key("network", self.text, self.file),
            remedy: format!("there are {}; or describe it in [networks.{name}]", known.join(", ")),
        }
    }

    fn misdescribed(&self, name: &str, error: &TopologyError) -> Finding {
        let header = self.header(name);
        let place = match error {
            TopologyError::Nodes(_) => place_of_key("replicas", self.text, self.file),
            _ => place_in_table(&header, key_of(error), self.text, self.file),
        };
        Finding { what: format!("{header}: {error}"), place, remedy: remedy_of(error) }
    }

    fn header(&self, name: &str) -> String {
        match self.study.network {
            Some(_) => OF_STUDY.to_owned(),
            None => format!("[networks.{name}]"),
        }
    }

    fn place_of_header(&self, name: &str) -> Place {
        place_in_table(&self.header(name), "", self.text, self.file)
    }
}

/// The key of a description that an error is about.
fn key_of(error: &TopologyError) -> &'static str {
    match error {
        TopologyError::Preset { .. } | TopologyError::Source(_) => "preset",
        TopologyError::NotSquare { .. } | TopologyError::Entry { .. } => "rtt_ms",
        TopologyError::Place { .. } => "clients",
        TopologyError::Link { place, .. } if place == "link" => "link",
        TopologyError::Link { .. } | TopologyError::Node { .. } | TopologyError::Nodes(_) => {
            "between"
        }
    }
}

fn remedy_of(error: &TopologyError) -> String {
    let remedy = match error {
        TopologyError::Preset { .. } => "name one of these, or give rtt_ms",
        TopologyError::NotSquare { .. } => {
            "give a row and a column a place; replica i is at place i modulo their number"
        }
        TopologyError::Nodes(_) => "ask for fewer replicas: the clients are a node as well",
        _ => "correct it",
    };
    format!("{remedy}; {MANUAL}")
}

/// Brings up the network of a run.
///
/// # Errors
/// [`NetError`]: no privileges, no TUN device, no `ip`, ...
pub(super) fn up(
    described: Option<&Description>,
    replicas: usize,
    seed: u64,
) -> Result<Option<Network>, NetError> {
    let Some(described) = described else { return Ok(None) };
    let settings = NetworkSettings { seed, ..NetworkSettings::default() };
    Ok(Some(Network::up(&described.topology(replicas)?, &settings)?))
}
