//! `quorate member`

pub(super) mod carry_out;
pub(super) mod generating;
mod newcomer;
mod shown;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner;
use quorate_crypto::SecretKey;
use quorate_crypto::key_file;
use quorate_node::client::change::Edit;
use quorate_node::client::generation;
use quorate_node::client::succession::{Chain, Following};
use quorate_node::config::{Cluster, Finding, Home, MemberFile, Place};
use tokio::runtime::Runtime;

use crate::client_home::ClientHome;
use crate::cluster::{cluster_of, fresh_key};
use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::Format;

/// What to do about the members of a cluster whose `cluster.toml` names administrators.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the home of a replica that is to join, on its own machine.
    New(newcomer::Arguments),
    /// Add newcomers as learners: they are sent everything, and count for nothing yet.
    Add(AddArguments),
    /// Let learners count that have caught up.
    Promote(IdsArguments),
    /// Remove members. Their processes go on until they are stopped.
    Remove(IdsArguments),
    /// Put a newcomer in a member's place: it learns, and counts when it has caught up; the other
    /// one leaves then.
    Replace(ReplaceArguments),
    /// Change how much members count.
    Weight(WeightArguments),
    /// Make the next consensus key or transport key of a member, on its own machine.
    NewKey(newcomer::KeyArguments),
    /// Have members sign, or connect, by their next keys. They go over by themselves, and erase the
    /// keys they had.
    RotateKey(RotateArguments),
    /// Change several things at once.
    Change(ChangeArguments),
    /// Show what a change would do, and who is not ready; change nothing.
    Plan(PlanArguments),
    /// Sign a change that somebody planned (`plan --out`).
    Approve(FileArguments),
    /// Submit a change that enough administrators have signed.
    Submit(FileArguments),
    /// Show the members, and who is not reached.
    Status(HomeOnly),
    /// Show how the members changed, epoch by epoch.
    History(HomeOnly),
}

/// Who signs.
#[derive(Debug, Args)]
pub struct Signing {
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    pub(super) home: ClientHome,
    /// The key file of an administrator. Can be repeated.
    #[arg(long, value_name = "KEYFILE")]
    administrator: Vec<PathBuf>,
}

/// Who signs, and whether a threshold key is generated anew for the change.
#[derive(Debug, Args)]
pub struct Changing {
    #[command(flatten)]
    signing: Signing,
    /// Begin the key generation of this change anew, though one is under way: where a member lost
    /// the key that it began with, or nobody tells what a member dealt.
    #[arg(long)]
    begin_anew: bool,
}

/// Newcomers to add.
#[derive(Debug, Args)]
pub struct AddArguments {
    #[command(flatten)]
    signing: Signing,
    /// The member.toml of each newcomer, as `quorate member new` wrote it.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Members with their next keys.
#[derive(Debug, Args)]
pub struct RotateArguments {
    #[command(flatten)]
    signing: Changing,
    /// The next-key.toml or next-transport-key.toml of each, as `quorate member new-key` wrote it.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Members by their ids.
#[derive(Debug, Args)]
pub struct IdsArguments {
    #[command(flatten)]
    signing: Changing,
    /// Their ids.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<u16>,
}

/// Who takes whose place.
#[derive(Debug, Args)]
pub struct ReplaceArguments {
    #[command(flatten)]
    signing: Changing,
    /// Who leaves.
    #[arg(value_name = "ID")]
    id: u16,
    /// The member.toml of the newcomer.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Weights of members.
#[derive(Debug, Args)]
pub struct WeightArguments {
    #[command(flatten)]
    signing: Changing,
    /// A member and how much it is to count; 0: it learns.
    #[arg(required = true, value_name = "ID=WEIGHT", value_parser = weight)]
    weights: Vec<(u16, u16)>,
}

/// What is to be different.
#[derive(Debug, Args)]
pub struct Edits {
    /// Add the newcomer of this member.toml as a learner. Can be repeated, as the others.
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
    /// Let this learner count.
    #[arg(long, value_name = "ID")]
    promote: Vec<u16>,
    /// Remove this member.
    #[arg(long, value_name = "ID")]
    remove: Vec<u16>,
    /// Let this member count so much; 0: it learns.
    #[arg(long, value_name = "ID=WEIGHT", value_parser = weight)]
    weight: Vec<(u16, u16)>,
    /// Let the member of this next-key.toml, or next-transport-key.toml, go over to its next key.
    #[arg(long, value_name = "FILE")]
    rotate_key: Vec<PathBuf>,
}

/// A change that is carried out.
#[derive(Debug, Args)]
pub struct ChangeArguments {
    #[command(flatten)]
    signing: Changing,
    #[command(flatten)]
    edits: Edits,
}

/// A change that is thought about.
#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    change: ChangeArguments,
    /// Write the change to this file, for other administrators to approve. Never written over.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A change in a file.
#[derive(Debug, Args)]
pub struct FileArguments {
    #[command(flatten)]
    signing: Signing,
    /// The file that `quorate member plan --out` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// A client's home.
#[derive(Debug, Args)]
pub struct HomeOnly {
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    pub(super) home: ClientHome,
}

fn weight(text: &str) -> Result<(u16, u16), String> {
    let (id, weight) = text.split_once('=').ok_or("expected ID=WEIGHT, such as 3=2")?;
    let number = |text: &str| text.trim().parse::<u16>();
    match (number(id), number(weight)) {
        (Ok(id), Ok(weight)) => Ok((id, weight)),
        _ => Err("expected ID=WEIGHT, such as 3=2".to_owned()),
    }
}

/// Runs `member`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    let ids = |ids: &[u16], edit: fn(ReplicaId) -> Edit| -> Vec<Edit> {
        ids.iter().map(|id| edit(ReplicaId(*id))).collect()
    };
    let weights = |weights: &[(u16, u16)]| -> Vec<Edit> {
        weights.iter().map(|(id, weight)| Edit::Weight(ReplicaId(*id), *weight)).collect()
    };
    match command {
        Command::New(arguments) => newcomer::run(arguments, format),
        Command::NewKey(arguments) => newcomer::next_key(arguments, format),
        Command::RotateKey(RotateArguments { signing, files }) => {
            let mut known = signing.known()?;
            let edits = known.next_keys(files)?;
            carry_out::edits(&mut known, &edits, &signing.keys()?, format)
        }
        Command::Status(arguments) => shown::status(&mut Known::of(&arguments.home)?, format),
        Command::History(arguments) => shown::history(&mut Known::of(&arguments.home)?, format),
        Command::Add(AddArguments { signing, files }) => {
            let mut known = Known::of(&signing.home)?;
            let edits = known.newcomers(files)?;
            carry_out::edits(&mut known, &edits, &signing.keys()?, format)
        }
        Command::Promote(IdsArguments { signing, ids: of }) => {
            let edits = ids(of, Edit::Promote);
            carry_out::edits(&mut signing.known()?, &edits, &signing.keys()?, format)
        }
        Command::Remove(IdsArguments { signing, ids: of }) => {
            let edits = ids(of, Edit::Remove);
            carry_out::edits(&mut signing.known()?, &edits, &signing.keys()?, format)
        }
        Command::Weight(WeightArguments { signing, weights: of }) => {
            let edits = weights(of);
            carry_out::edits(&mut signing.known()?, &edits, &signing.keys()?, format)
        }
        Command::Replace(ReplaceArguments { signing, id, file }) => {
            let mut known = signing.known()?;
            let newcomer = known.newcomer(file)?;
            carry_out::replace(&mut known, ReplicaId(*id), newcomer, &signing.keys()?, format)
        }
        Command::Change(ChangeArguments { signing, edits }) => {
            let mut known = signing.known()?;
            let edits = edits.all(&known, ids, weights)?;
            carry_out::edits(&mut known, &edits, &signing.keys()?, format)
        }
        Command::Plan(PlanArguments { change: ChangeArguments { signing, edits }, out }) => {
            let mut known = signing.known()?;
            let edits = edits.all(&known, ids, weights)?;
            carry_out::plan(&mut known, &edits, &signing.keys()?, out.as_deref(), format)
        }
        Command::Approve(FileArguments { signing, file }) => {
            carry_out::approve(&mut Known::of(&signing.home)?, file, &signing.keys()?, format)
        }
        Command::Submit(FileArguments { signing, file }) => {
            carry_out::submit(&mut Known::of(&signing.home)?, file, &signing.keys()?, format)
        }
    }
}

impl Edits {
    fn all(
        &self,
        known: &Known,
        ids: impl Fn(&[u16], fn(ReplicaId) -> Edit) -> Vec<Edit>,
        weights: impl Fn(&[(u16, u16)]) -> Vec<Edit>,
    ) -> Result<Vec<Edit>, Failure> {
        let mut edits = known.newcomers(&self.add)?;
        edits.extend(ids(&self.promote, Edit::Promote));
        edits.extend(weights(&self.weight));
        edits.extend(ids(&self.remove, Edit::Remove));
        edits.extend(known.next_keys(&self.rotate_key)?);
        if edits.is_empty() {
            let what = "nothing is to be different".to_owned();
            let remedy = "add --add, --promote, --remove, --weight or --rotate-key".to_owned();
            let place = Place::Flag("--add".to_owned());
            return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
        }
        Ok(edits)
    }
}

impl Changing {
    /// The cluster, and whether its key generation is to begin anew.
    fn known(&self) -> Result<Known, Failure> {
        Ok(Known { begin_anew: self.begin_anew, ..Known::of(&self.signing.home)? })
    }

    fn keys(&self) -> Result<Vec<SecretKey>, Failure> {
        self.signing.keys()
    }
}

impl Signing {
    /// The client's home.
    pub(super) fn home(&self) -> &ClientHome {
        &self.home
    }

    /// The keys of those who sign.
    pub(super) fn keys(&self) -> Result<Vec<SecretKey>, Failure> {
        let read = |file: &PathBuf| {
            key_file::read(file).map_err(|error| {
                let remedy = "name an administrator's key file, with mode 0600".to_owned();
                let place = Place::File(file.clone());
                Failure::new(Exit::Usage, Finding { what: error.to_string(), place, remedy })
            })
        };
        self.administrator.iter().map(read).collect()
    }
}

/// A cluster, and its members as far as they are known by now.
pub(super) struct Known {
    pub home: Home,
    pub cluster: Cluster,
    pub chain: Chain,
    pub runtime: Runtime,
    /// Whether a key generation is begun though one is under way.
    pub begin_anew: bool,
}

impl Known {
    /// Reads `cluster.toml`, and asks the cluster who its members are by now.
    pub(super) fn of(client: &ClientHome) -> Result<Self, Failure> {
        let home = client.home();
        let cluster = cluster_of(&home)?;
        let mut known = Self::at(home, cluster)?;
        if let Some(following) = client.following(&known.cluster)? {
            known.chain = following.begin();
        }
        known.catch_up()?;
        Ok(known)
    }

    /// The same without asking.
    pub fn at(home: Home, cluster: Cluster) -> Result<Self, Failure> {
        let Some(following) = Following::of(&cluster) else {
            let what =
                "the members of this cluster are fixed: its cluster.toml has no [governance]";
            let remedy =
                "make a cluster with administrators: `quorate testnet init --administrators`";
            let (what, remedy) = (what.to_owned(), remedy.to_owned());
            let place = Place::File(home.cluster_file());
            return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
        };
        let (runtime, _) = runtime()?;
        Ok(Self { home, cluster, chain: following.begin(), runtime, begin_anew: false })
    }

    pub fn catch_up(&mut self) -> Result<(), Failure> {
        let caught_up = self.runtime.block_on(self.chain.catch_up());
        caught_up.map_err(|error| {
            let remedy = "see that members run; if all that cluster.toml names are gone, name the \
                          client address of a later one with --member-at";
            self.failed(&error, remedy)
        })
    }

    pub fn failed(&self, what: &impl std::fmt::Display, remedy: &str) -> Failure {
        let place = Place::File(self.home.cluster_file());
        let (what, remedy) = (what.to_string(), remedy.to_owned());
        Failure::new(Exit::Failed, Finding { what, place, remedy })
    }

    /// Whose session a command goes through that administrators signed: theirs, since they always
    /// get one. Without any, that of a fresh key.
    pub(super) fn client_of(
        &self,
        administrators: &[SecretKey],
    ) -> Result<Arc<dyn ClientSigner>, Failure> {
        match administrators.first() {
            Some(administrator) => Ok(Arc::new(administrator.clone())),
            None => fresh_key(&self.home),
        }
    }

    fn newcomer(&self, file: &Path) -> Result<Edit, Failure> {
        let member = MemberFile::load(file, self.cluster.chain_digest())?;
        Ok(Edit::Add(member.member))
    }

    fn newcomers(&self, files: &[PathBuf]) -> Result<Vec<Edit>, Failure> {
        files.iter().map(|file| self.newcomer(file)).collect()
    }

    fn next_keys(&self, files: &[PathBuf]) -> Result<Vec<Edit>, Failure> {
        let chain = self.cluster.chain_digest();
        let next = |file: &PathBuf| Ok(Edit::Rekey(MemberFile::load(file, chain)?.member));
        files.iter().map(next).collect()
    }

    /// Reads a change that somebody planned.
    fn read(&self, file: &Path) -> Result<carry_out::Planned, Failure> {
        let usage = |what: String| {
            let remedy = "name the file that `quorate member plan --out` wrote".to_owned();
            let place = Place::File(file.to_owned());
            Failure::new(Exit::Usage, Finding { what, place, remedy })
        };
        let command = std::fs::read(file).map_err(|error| usage(error.to_string()))?;
        if !generation::is_file(&command) {
            return Err(usage("this is no change of members".to_owned()));
        }
        let read = generation::of_file(&command);
        let read = read.map_err(|error| usage(format!("the change cannot be read: {error}")));
        read.map(|(change, begin)| carry_out::Planned { change, begin })
    }
}
