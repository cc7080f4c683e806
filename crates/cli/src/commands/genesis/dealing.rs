//! `quorate genesis deal` and `quorate genesis check`

use std::path::PathBuf;

use clap::Args;
use quorate_core::Digest;
use quorate_node::ceremony::{self, Checked};
use quorate_node::config::genesis::{Files, KeyGeneration};
use quorate_node::config::{Finding, Home, Place};
use serde_json::json;

use crate::arguments::HomeArgument;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, table};

/// What all dealt, where consensus keys are shares of one.
#[derive(Debug, Args)]
pub struct DealingArguments {
    /// With threshold signatures: the genesis-dealing.toml of each owner, in any order.
    #[arg(long, num_args = 1.., value_name = "DEALING")]
    pub dealings: Vec<PathBuf>,
    /// With threshold signatures: the genesis-complaints.toml of each owner that has one.
    #[arg(long, num_args = 1.., value_name = "COMPLAINTS")]
    pub complaints: Vec<PathBuf>,
}

impl DealingArguments {
    /// These files, with those of the owners.
    pub fn files<'a>(&'a self, members: &'a [PathBuf]) -> Files<'a> {
        Files { members, dealings: &self.dealings, complaints: &self.complaints }
    }
}

/// The owners, to be dealt to.
#[derive(Debug, Args)]
pub struct DealArguments {
    /// The genesis-member.toml of each owner, the own one among them, in any order.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    #[command(flatten)]
    home: HomeArgument,
}

/// The owners and what they dealt, to be checked.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The genesis-member.toml of each owner, in any order.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    #[command(flatten)]
    dealt: DealingArguments,
    #[command(flatten)]
    home: HomeArgument,
}

pub(super) fn deal(arguments: &DealArguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let generation = ceremony::deal(&arguments.members, &home)?;
    let file = home.dealing_file();
    match format {
        Format::Table => print(&format!(
            "dealt to {} owners\n\
             hand {} to all other owners; nobody reads in it but what is its own\n\
             with the dealings of all, run quorate genesis check\n",
            generation.names().len(),
            file.display()
        )),
        Format::Json => print_json(&json!({
            "dealing": file.display().to_string(),
            "owners": generation.names(),
        })),
    }
}

pub(super) fn check(arguments: &CheckArguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let checked = ceremony::check(&arguments.dealt.files(&arguments.members), &home)?;
    report(&checked, &home, format)?;
    let [first, ..] = &checked.complained_of[..] else { return Ok(()) };
    Err(Failure::new(
        Exit::Failed,
        Finding {
            what: format!("what {first} dealt to this owner does not fit"),
            place: Place::File(home.complaints_file()),
            remedy: "hand this file to all other owners: it shows them. All seal and sign with \
                     --complaints then, and the key is made without that dealer"
                .to_owned(),
        },
    ))
}

fn report(checked: &Checked, home: &Home, format: Format) -> Result<(), Failure> {
    let Checked { generation, complained_of } = checked;
    let cheats: Vec<_> = generation.cheats().collect();
    let state = |name: &String| {
        if cheats.contains(&name.as_str()) {
            "cheated"
        } else if complained_of.contains(name) {
            "does not fit"
        } else {
            "fits"
        }
    };
    let digest = |at| shown(generation, at);
    let owners = generation.names().iter().enumerate();
    match format {
        Format::Table => {
            let rows = owners.map(|(at, name)| [name.clone(), digest(at), state(name).to_owned()]);
            let rows = table(["OWNER", "DEALING", "SHARE"], &rows.collect::<Vec<_>>());
            let next = match complained_of.is_empty() {
                true => {
                    "when nobody has complaints to hand over, run quorate genesis seal\n".into()
                }
                false => format!("complaints: {}\n", home.complaints_file().display()),
            };
            print(&format!("{rows}\n{next}"))
        }
        Format::Json => print_json(&json!({
            "owners": owners.map(|(at, name)| json!({
                "name": name,
                "dealing": digest(at),
                "share": state(name),
            })).collect::<Vec<_>>(),
            "complaints": (!complained_of.is_empty())
                .then(|| home.complaints_file().display().to_string()),
        })),
    }
}

/// The digest of an owner's dealing.
fn shown(generation: &KeyGeneration, owner: usize) -> String {
    let dealing = generation.generation().dealing(owner);
    dealing.map(|dealing| Digest(dealing.digest()).to_string()).unwrap_or_default()
}
