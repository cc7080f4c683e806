//! `quorate backup`

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use clap::{Args, Subcommand};
use quorate_node::backup::BackupError;
use quorate_node::backup::create::create;
use quorate_node::backup::folder::{Folder, Part};
use quorate_node::backup::verify::Backup;
use serde_json::{Value, json};

use crate::arguments::HomeArgument;
use crate::cluster::cluster_of;
use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::{Format, print, print_json, table};

/// Backups of a cluster's state and blocks, in a folder that proves itself.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Back a running cluster up into a folder. The next time, what was decided since is added.
    Create(CreateArguments),
    /// Check a backup without asking anybody: every byte, every certificate, every root.
    Verify(VerifyArguments),
    /// Show what a backup holds.
    List(FolderArgument),
}

/// The cluster to back up, and the folder for it.
#[derive(Debug, Args)]
pub struct CreateArguments {
    /// The folder; made if need be.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    home: HomeArgument,
    /// Add the newest state that replicas have, whether or not blocks would do.
    #[arg(long)]
    full: bool,
}

/// A backup.
#[derive(Debug, Args)]
pub struct FolderArgument {
    /// The folder of the backup.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// A backup, and what it must be of.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// The folder of the backup.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// A home whose cluster.toml names the chain. Without it, the committee in the backup is
    /// believed: compare the digest of the chain with your own.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// Runs `backup`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Create(arguments) => add(arguments, format),
        Command::Verify(arguments) => verify(arguments, format),
        Command::List(arguments) => list(arguments, format),
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Refused(finding) => Self::new(Exit::Usage, finding),
            BackupError::Damaged(finding) => Self::new(Exit::Corrupt, finding),
            BackupError::Failed(finding) => Self::new(Exit::Failed, finding),
        }
    }
}

fn add(arguments: &CreateArguments, format: Format) -> Result<(), Failure> {
    let cluster = cluster_of(&arguments.home.home())?;
    let (runtime, _) = runtime()?;
    let made = runtime.block_on(create(&cluster, &arguments.folder, arguments.full))?;
    match format {
        Format::Table => {
            let state = made.state.map(|height| format!("the state of height {height}, "));
            print(&format!(
                "added: {}{} blocks, {} bytes\n{} holds the chain {} up to height {}\n",
                state.unwrap_or_default(),
                made.blocks,
                made.bytes,
                arguments.folder.display(),
                cluster.chain,
                made.last
            ))
        }
        Format::Json => print_json(&json!({
            "chain": cluster.chain,
            "chain_digest": cluster.chain_digest().to_string(),
            "state": made.state.map(|height| height.0),
            "blocks": made.blocks,
            "bytes": made.bytes,
            "last": made.last.0,
        })),
    }
}

fn verify(arguments: &VerifyArguments, format: Format) -> Result<(), Failure> {
    let folder = Folder::read(&arguments.folder)?;
    let backup = Backup::read(&folder)?;
    if let Some(home) = &arguments.home {
        let own = cluster_of(&quorate_node::config::Home::new(home))?;
        backup.check_chain(&own, &folder)?;
    }
    let proven = backup.verify(&mut |part| {
        if format == Format::Table {
            eprintln!("checking {}", part.path.display());
        }
    })?;
    let (chain, digest) = (&backup.cluster.chain, backup.cluster.chain_digest());
    let heights = proven.heights.iter();
    match format {
        Format::Table => {
            let heights: Vec<_> =
                heights.map(|(first, last)| format!("{first} to {last}")).collect();
            print(&format!(
                "all is of the chain {chain} ({digest}); states: {}, blocks: {}\n\
                 heights that can be restored: {}\n",
                proven.states,
                proven.blocks,
                heights.join(", ")
            ))
        }
        Format::Json => print_json(&json!({
            "chain": chain,
            "chain_digest": digest.to_string(),
            "states": proven.states,
            "blocks": proven.blocks,
            "heights": heights.map(|(first, last)| [first.0, last.0]).collect::<Vec<_>>(),
        })),
    }
}

fn list(arguments: &FolderArgument, format: Format) -> Result<(), Failure> {
    let folder = Folder::read(&arguments.folder)?;
    let backup = Backup::read(&folder)?;
    let (chain, digest) = (&backup.cluster.chain, backup.cluster.chain_digest());
    match format {
        Format::Table => {
            let head = ["HOLDS", "FIRST", "LAST", "EPOCH", "BYTES", "MADE", "FILE"];
            let rows: Vec<_> = backup.parts.iter().map(row).collect();
            print(&format!("chain {chain} ({digest})\n\n{}", table(head, &rows)))
        }
        Format::Json => {
            let files: Vec<_> = backup.parts.iter().map(json_of).collect();
            print_json(&json!({
                "chain": chain,
                "chain_digest": digest.to_string(),
                "files": files,
            }))
        }
    }
}

fn row(part: &Part) -> [String; 7] {
    let file = part.path.file_name().unwrap_or_default().to_string_lossy();
    [
        part.kind.name().to_owned(),
        part.head.first.to_string(),
        part.head.last.to_string(),
        part.head.epoch.to_string(),
        part.bytes.to_string(),
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(part.head.made_at)),
        file.into_owned(),
    ]
}

fn json_of(part: &Part) -> Value {
    json!({
        "holds": part.kind.name(),
        "first": part.head.first.0,
        "last": part.head.last.0,
        "epoch": part.head.epoch.0,
        "bytes": part.bytes,
        "made_at": part.head.made_at,
        "file": part.path.display().to_string(),
    })
}
