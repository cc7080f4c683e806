//! What owners say on the command line.

use std::path::PathBuf;

use clap::Args;
use quorate_node::ceremony;
use quorate_node::config::genesis::Reached;
use quorate_node::config::{Application, ConfigError, Finding, FlagSetting, HostPort, Place};
use serde_json::json;

use crate::arguments::{ChoiceArguments, application};
use crate::commands::services;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// A proposal: its owners, and what the cluster is to be like.
#[derive(Debug, Args)]
pub struct NewArguments {
    /// The file of the proposal. Never written over.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The chain's name.
    #[arg(long, value_name = "NAME")]
    chain: String,
    /// The name of an owner. Repeat it for each, at least four: these join, and nobody else.
    #[arg(long, required = true, value_name = "NAME")]
    owner: Vec<String>,
    /// The application that the cluster replicates.
    #[arg(long, value_parser = application(), value_name = "NAME")]
    #[arg(conflicts_with_all = ["program", "pipe"])]
    application: Option<Application>,
    /// Replicate the service of this program, as `quorate new` makes them.
    #[arg(long, value_name = "PATH", conflicts_with = "pipe")]
    program: Option<PathBuf>,
    /// Replicate an application that is a process of its own, in any language: this command, its
    /// words separated by spaces.
    #[arg(long, value_name = "COMMAND")]
    pipe: Option<String>,
    /// The public key of an administrator, who may change the members (`quorate member`). Can be
    /// repeated.
    #[arg(long, value_name = "KEY")]
    administrator: Vec<String>,
    /// How many administrators must sign a change. Without --administrator: each owner brings the
    /// key of one. Default: no administrators, and the members are fixed.
    #[arg(long, value_name = "M")]
    approvals: Option<u16>,
    /// The public key of a client: these alone may send commands. Needs administrators. Can be
    /// repeated. Default: anybody may.
    #[arg(long, value_name = "KEY")]
    client: Vec<String>,
    /// Set any other key of cluster.toml, as in `--set limits.max_state_bytes=4GiB`. Can be
    /// repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    choices: ChoiceArguments,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err("expected KEY=VALUE, such as limits.max_state_bytes=4GiB".to_owned()),
    }
}

impl NewArguments {
    /// All that is said, as keys of `cluster.toml`.
    fn values(&self) -> Result<Vec<FlagSetting>, Failure> {
        let service = match (&self.program, &self.pipe) {
            (Some(program), _) => Some(services::of_program(program)?),
            (None, Some(command)) => Some(services::of_command(command)?),
            (None, None) if self.application == Some(Application::Service) => {
                return Err(services::unnamed());
            }
            (None, None) => None,
        };
        let application = match &service {
            Some(_) => Some(Application::Service),
            None => self.application,
        };
        let keys = |keys: &[String]| (!keys.is_empty()).then(|| keys.join(","));
        let half = (self.administrator.len() / 2 + 1) as u16;
        let approvals = self.approvals.or((!self.administrator.is_empty()).then_some(half));
        let listed = (!self.client.is_empty()).then(|| "listed".to_owned());
        let said = [
            ("--chain", "chain", Some(self.chain.clone())),
            ("--application", "application", application.map(|it| it.to_string())),
            ("--program", "service", service.map(|service| service.agreed)),
            ("--administrator", "governance.administrators", keys(&self.administrator)),
            ("--approvals", "governance.approvals", approvals.map(|it| it.to_string())),
            ("--client", "clients.admission", listed),
            ("--client", "clients.keys", keys(&self.client)),
        ];
        let setting = |flag: &str, key: &str, value: String| FlagSetting {
            flag: flag.to_owned(),
            key: key.to_owned(),
            value,
        };
        let said = said.into_iter().filter_map(|(flag, key, value)| Some((flag, key, value?)));
        let mut values: Vec<_> = said.map(|(flag, key, value)| setting(flag, key, value)).collect();
        values.extend(self.choices.said());
        values.extend(self.set.iter().map(|(key, value)| setting("--set", key, value.clone())));
        Ok(values)
    }
}

pub(super) fn new(arguments: &NewArguments, format: Format) -> Result<(), Failure> {
    let NewArguments { file, owner: owners, .. } = arguments;
    owners.iter().try_for_each(|name| check_name("--owner", name))?;
    let proposal = ceremony::propose(file, owners, &arguments.values()?)?;
    match format {
        Format::Table => print(&format!(
            "proposal of chain {}: {}\n\
             edit it, and hand it to all owners; each joins with quorate genesis join\n",
            proposal.chain(),
            file.display()
        )),
        Format::Json => print_json(&json!({
            "proposal": file.display().to_string(),
            "chain": proposal.chain(),
            "digest": proposal.digest().to_string(),
        })),
    }
}

/// Addresses at which others can reach a replica, of an owner whose name is one.
pub(super) fn reached(peer: &HostPort, client: &HostPort, name: &str) -> Result<Reached, Failure> {
    let refused = |flag: &str, what: String, remedy: &str| {
        let place = Place::Flag(flag.to_owned());
        Err(usage(Finding { what, place, remedy: remedy.to_owned() }))
    };
    for (flag, address) in [("--replica-address", peer), ("--client-address", client)] {
        if address.port() == 0 {
            return refused(
                flag,
                format!("others cannot reach port 0 of {address}"),
                "name the port",
            );
        }
    }
    if peer == client {
        let what = format!("{peer} is the replica's address as well");
        return refused("--client-address", what, "give each its own port");
    }
    check_name("--name", name)?;
    Ok(Reached { peer: peer.clone(), client: client.clone() })
}

fn check_name(flag: &str, name: &str) -> Result<(), Failure> {
    if quorate_node::config::is_name(name) {
        return Ok(());
    }
    let (what, place) = (format!("{name:?} is no name"), Place::Flag(flag.to_owned()));
    let remedy = "choose 1 to 64 letters, digits, '-', '_' or '.'".to_owned();
    Err(usage(Finding { what, place, remedy }))
}

/// What somebody asked for cannot be done.
pub(super) fn usage(finding: Finding) -> Failure {
    Failure::of_all(Exit::Usage, ConfigError::from(finding).findings)
}
