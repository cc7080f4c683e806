//! `quorate upgrade`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quorate_core::base::membership::Rules;
use quorate_core::client::message::Program;
use quorate_core::{Committee, ReplicaId};
use quorate_node::client::change::{Edit, programs};
use serde_json::{Value, json};

use super::member::{Known, Signing, carry_out};
use crate::client_home::ClientHome;
use crate::failure::Failure;
use crate::output::{Format, print, print_json, table};

/// How far an upgrade is, and the switch at its end, in a cluster whose `cluster.toml` names
/// administrators. docs/operations.md, "Upgrade", has the steps.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the program of each member, the rules in force, those that could be switched on, and
    /// who holds that up.
    Status(StatusArguments),
    /// Show what the switch would do, and who is not ready; change nothing.
    Plan(PlanArguments),
    /// Switch newer rules on. There is no way back: from then on a replica needs a program that
    /// supports them.
    Switch(SwitchArguments),
}

/// A client's home.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    home: ClientHome,
}

/// The rules to switch on.
#[derive(Debug, Args)]
pub struct SwitchArguments {
    #[command(flatten)]
    signing: Signing,
    /// The rules to switch on, of the core and of the application. Without it: the newest that all
    /// members that count support.
    #[arg(long, value_name = "CORE.APPLICATION")]
    rules: Option<Rules>,
}

/// A switch that is thought about.
#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    switch: SwitchArguments,
    /// Write the change to this file, for other administrators: they sign it by `quorate member
    /// approve`, and one submits it by `quorate member submit`. Never written over.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs `upgrade`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Status(arguments) => {
            let known = Known::of(&arguments.home)?;
            let standing = Standing::of(&known);
            match format {
                Format::Table => print(&standing.text()),
                Format::Json => print_json(&standing.to_json()),
            }
        }
        Command::Plan(PlanArguments { switch, out }) => {
            let mut known = Known::of(switch.signing.home())?;
            let (edit, keys) = (switch.edit(&known)?, switch.signing.keys()?);
            carry_out::plan(&mut known, &[edit], &keys, out.as_deref(), format)
        }
        Command::Switch(switch) => {
            let mut known = Known::of(switch.signing.home())?;
            let (edit, keys) = (switch.edit(&known)?, switch.signing.keys()?);
            carry_out::edits(&mut known, &[edit], &keys, format)
        }
    }
}

impl SwitchArguments {
    fn edit(&self, known: &Known) -> Result<Edit, Failure> {
        if let Some(rules) = self.rules {
            return Ok(Edit::Rules(rules));
        }
        let standing = Standing::of(known);
        match standing.possible() {
            Some(rules) => Ok(Edit::Rules(rules)),
            None => Err(known.failed(
                &format!("there are no newer rules than {} to switch on", standing.in_force()),
                &standing.advice(),
            )),
        }
    }
}

/// What the members say of their programs.
struct Standing {
    committee: Committee,
    programs: Vec<(ReplicaId, Result<Program, String>)>,
}

impl Standing {
    fn of(known: &Known) -> Self {
        let committee = known.chain.committee().clone();
        let programs = known.runtime.block_on(programs(&committee));
        Self { committee, programs }
    }

    fn in_force(&self) -> Rules {
        self.committee.rules()
    }

    /// What the members that count say.
    fn voters(&self) -> impl Iterator<Item = (ReplicaId, Option<&Program>)> {
        let counts = |id: &ReplicaId| self.committee.weight(*id) > 0;
        let said = self.programs.iter().filter(move |(id, _)| counts(id));
        said.map(|(id, program)| (*id, program.as_ref().ok()))
    }

    /// The newest rules that some member supports, of those that are of use to these members.
    fn newest(&self) -> Rules {
        let supported = self.voters().filter_map(|(_, program)| Some(program?.supports));
        self.committee.offers(supported.fold(self.in_force(), |newest, rules| Rules {
            core: newest.core.max(rules.core),
            application: newest.application.max(rules.application),
        }))
    }

    /// The rules that all members that count support, if they are newer than those in force.
    fn possible(&self) -> Option<Rules> {
        let mut supported = self.voters().map(|(_, program)| program.map(|it| it.supports));
        let common = supported.try_fold(self.newest(), |common, rules| Some(common.common(rules?)));
        common.filter(|common| common.cover(self.in_force()) && *common != self.in_force())
    }

    /// The members that count and are in the way of the newest rules.
    fn in_the_way(&self) -> Vec<ReplicaId> {
        let newest = self.newest();
        let lacks =
            |program: Option<&Program>| !program.is_some_and(|it| it.supports.cover(newest));
        self.voters().filter(|(_, program)| lacks(*program)).map(|(id, _)| id).collect()
    }

    /// What an operator does next.
    fn advice(&self) -> String {
        let (newest, in_the_way) = (self.newest(), self.in_the_way());
        let listed = in_the_way.iter().map(ReplicaId::to_string).collect::<Vec<_>>().join(", ");
        match (self.possible(), in_the_way.is_empty()) {
            (Some(_), true) => {
                "switch them on: quorate upgrade switch --administrator KEYFILE".into()
            }
            (Some(_), false) => format!(
                "upgrade replica {listed} to reach rules {newest}; or switch on what there is: quorate \
                 upgrade switch --administrator KEYFILE"
            ),
            (None, false) => {
                format!(
                    "upgrade or start replica {listed}, or remove a member that does not come back"
                )
            }
            (None, true) => {
                "put a release with newer rules in place, one replica after another".into()
            }
        }
    }

    /// How a member stands, in words.
    fn state(&self, id: ReplicaId, program: &Result<Program, String>) -> String {
        let program = match program {
            Ok(program) => program,
            Err(error) => return format!("not reached: {error}"),
        };
        if !program.supports.cover(self.newest()) {
            let counts = self.committee.weight(id) > 0;
            let what = if counts { "holds up" } else { "learns, and would stop at" };
            return format!("{what} rules {}: upgrade it", self.newest());
        }
        match text(&program.not_ready) {
            reason if reason.is_empty() => "ready".to_owned(),
            reason => format!("not ready: {reason}"),
        }
    }

    fn text(&self) -> String {
        let row = |(id, program): &(ReplicaId, Result<Program, String>)| {
            let of = |show: fn(&Program) -> String| program.as_ref().map_or("?".to_owned(), show);
            [
                id.to_string(),
                match self.committee.weight(*id) {
                    0 => "learner".to_owned(),
                    weight => weight.to_string(),
                },
                of(|program| text(&program.release)),
                of(|program| format!("{}–{}", program.versions.0, program.versions.1)),
                of(|program| program.supports.to_string()),
                self.state(*id, program),
            ]
        };
        let rows: Vec<_> = self.programs.iter().map(row).collect();
        let possible = self.possible();
        format!(
            "epoch {} executes by rules {} (core.application)\ncould be switched on now: {}\nnext: {}\n{}",
            self.committee.epoch(),
            self.in_force(),
            possible.map_or("nothing newer".to_owned(), |rules| rules.to_string()),
            self.advice(),
            table(["REPLICA", "WEIGHT", "RELEASE", "WIRE", "RULES", "STATE"], &rows),
        )
    }

    fn to_json(&self) -> Value {
        let member = |(id, program): &(ReplicaId, Result<Program, String>)| {
            let said = program.as_ref().ok();
            json!({
                "id": id.0,
                "weight": self.committee.weight(*id),
                "release": said.map(|program| text(&program.release)),
                "wire_versions": said.map(|program| json!({
                    "oldest": program.versions.0,
                    "newest": program.versions.1,
                })),
                "supports": said.map(|program| program.supports.to_string()),
                "epoch": said.map(|program| program.epoch.0),
                "not_ready": said.map(|program| text(&program.not_ready)),
                "unreached": program.as_ref().err(),
                "state": self.state(*id, program),
            })
        };
        json!({
            "epoch": self.committee.epoch().0,
            "rules": self.in_force().to_string(),
            "possible": self.possible().map(|rules| rules.to_string()),
            "newest": self.newest().to_string(),
            "in_the_way": self.in_the_way().iter().map(|id| id.0).collect::<Vec<_>>(),
            "next": self.advice(),
            "members": self.programs.iter().map(member).collect::<Vec<_>>(),
        })
    }
}

/// What a replica wrote: nothing in it moves a terminal's cursor.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|it| !it.is_control()).collect()
}
