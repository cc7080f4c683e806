//! `quorate genesis`

mod arguments;
mod dealing;
mod verify;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quorate_core::Digest;
use quorate_node::ceremony;
use quorate_node::config::HostPort;
use quorate_node::config::genesis::{Proposal, seal};
use quorate_node::written::write_once;
use serde_json::json;

use crate::arguments::HomeArgument;
use crate::failure::Failure;
use crate::output::{Format, print, print_json, table};

/// What an owner does in a genesis ceremony.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a proposal: all that the owners agree on, but their replicas. Edit it before the first
    /// one joins.
    New(arguments::NewArguments),
    /// Join a proposal: make the keys of a replica on its own machine. What it writes to
    /// config/genesis-member.toml is for the other owners, and holds no secret.
    Join(JoinArguments),
    /// With threshold signatures: deal. The owners generate one key together, which nobody ever
    /// knows as a whole. What it writes to config/genesis-dealing.toml is for the other owners.
    Deal(dealing::DealArguments),
    /// With threshold signatures: check what all dealt to this owner; exit code 1 if something does
    /// not fit. Complaints in config/genesis-complaints.toml are for the other owners.
    Check(dealing::CheckArguments),
    /// Make cluster.toml of a proposal and the files of all owners. All who seal the same files get
    /// the same bytes; compare the genesis digest.
    Seal(SealArguments),
    /// Sign a sealed cluster.toml, if it is what this owner makes of the same files itself, and has
    /// the digest that the owners compared; and take it into the home. The signature in
    /// config/genesis-signature.toml is for the other owners.
    Sign(SignArguments),
    /// Say who has signed a cluster.toml and who is missing; exit code 1 if somebody is.
    Verify(verify::Arguments),
}

/// The proposal, and the owner that joins it.
#[derive(Debug, Args)]
pub struct JoinArguments {
    /// The proposal.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The folder of the replica's home; made, and never written over.
    #[arg(long, value_name = "FOLDER")]
    home: PathBuf,
    /// What others call this owner. Replicas are numbered in the order of the names.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Where other replicas will reach it.
    #[arg(long, value_name = "ADDRESS")]
    replica_address: HostPort,
    /// Where clients will reach it.
    #[arg(long, value_name = "ADDRESS")]
    client_address: HostPort,
}

/// The proposal and its owners, to be sealed.
#[derive(Debug, Args)]
pub struct SealArguments {
    /// The proposal.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The genesis-member.toml of each owner, the own one among them, in any order.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    #[command(flatten)]
    dealt: dealing::DealingArguments,
    /// Where the result goes. Another file of that name is never written over.
    #[arg(long, value_name = "FILE", default_value = "cluster.toml")]
    out: PathBuf,
}

/// The sealed cluster, its owners and the digest, to be signed.
#[derive(Debug, Args)]
pub struct SignArguments {
    /// The sealed cluster.toml.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The genesis-member.toml of each owner, as it was handed over, in any order.
    #[arg(required = true, value_name = "MEMBER")]
    members: Vec<PathBuf>,
    #[command(flatten)]
    dealt: dealing::DealingArguments,
    /// The genesis digest, as this owner compared it with all others.
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    genesis: Digest,
    #[command(flatten)]
    home: HomeArgument,
    /// Where the replica tells status and metrics.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    http: HostPort,
}

fn digest(text: &str) -> Result<Digest, String> {
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(pair).collect();
    let digest = bytes.and_then(|bytes| bytes.try_into().ok());
    digest.map(Digest).ok_or_else(|| "expected the 64 hexadecimal digits that seal prints".into())
}

/// Runs `genesis`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::New(arguments) => arguments::new(arguments, format),
        Command::Join(arguments) => join(arguments, format),
        Command::Deal(arguments) => dealing::deal(arguments, format),
        Command::Check(arguments) => dealing::check(arguments, format),
        Command::Seal(arguments) => sealed(arguments, format),
        Command::Sign(arguments) => sign(arguments, format),
        Command::Verify(arguments) => verify::run(arguments, format),
    }
}

fn join(arguments: &JoinArguments, format: Format) -> Result<(), Failure> {
    let JoinArguments { file, home, name, replica_address, client_address } = arguments;
    let reached = arguments::reached(replica_address, client_address, name)?;
    let home = quorate_node::config::Home::new(home);
    let owner = ceremony::join(file, &home, name, reached)?;
    let (member, key) = (home.owner_file(), owner.administrator.map(|_| home.administrator_file()));
    match format {
        Format::Table => {
            let key = key.map(|file| format!("administrator: {}\n", file.display()));
            print(&format!(
                "{name} has keys in {}\n{}hand {} to all other owners; it holds no secret\n{}",
                home.config_folder().display(),
                key.unwrap_or_default(),
                member.display(),
                match owner.encryption_key() {
                    Some(_) => "with the files of all, run quorate genesis deal\n",
                    None => "",
                }
            ))
        }
        Format::Json => print_json(&json!({
            "name": name,
            "home": home.root().display().to_string(),
            "member": member.display().to_string(),
            "administrator_key": key.map(|file| file.display().to_string()),
            (match owner.encryption_key() {
                Some(_) => "encryption_key",
                None => "consensus_key",
            }): owner.member.consensus_key.to_string(),
        })),
    }
}

fn sealed(arguments: &SealArguments, format: Format) -> Result<(), Failure> {
    let SealArguments { file, members, dealt, out } = arguments;
    let cluster = seal(&Proposal::load(file)?, &dealt.files(members))?;
    write_once(out, &cluster.to_toml()).map_err(arguments::usage)?;
    let (genesis, chain) = (cluster.genesis_digest(), cluster.chain_digest());
    match format {
        Format::Table => {
            let rows = cluster.members.iter().map(|member| {
                let name = member.name.clone().unwrap_or_default();
                let (peer, client) = (&member.peer_address, &member.client_address);
                [member.id.to_string(), name, peer.to_string(), client.to_string()]
            });
            let rows = table(["REPLICA", "NAME", "PEERS", "CLIENTS"], &rows.collect::<Vec<_>>());
            print(&format!(
                "{rows}\nsealed: {}, of chain {} ({chain})\n\
                 genesis digest {genesis}: compare it with all other owners, then sign\n",
                out.display(),
                cluster.chain,
            ))
        }
        Format::Json => print_json(&json!({
            "cluster": out.display().to_string(),
            "chain": cluster.chain,
            "chain_digest": chain.to_string(),
            "genesis_digest": genesis.to_string(),
            "replicas": cluster.members.iter().map(|member| json!({
                "id": member.id.0,
                "name": member.name,
            })).collect::<Vec<_>>(),
        })),
    }
}

fn sign(arguments: &SignArguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let SignArguments { file, members, dealt, genesis, http, .. } = arguments;
    let files = dealt.files(members);
    let sealed = ceremony::Sealed { cluster: file, files, genesis: *genesis };
    let (cluster, member) = ceremony::sign(sealed, &home, http)?;
    let (genesis, file) = (cluster.genesis_digest(), home.signature_file());
    match format {
        Format::Table => print(&format!(
            "replica {} signed the cluster of genesis digest {genesis}\n\
             hand {} to all other owners\n\
             with the signatures of all, run quorate genesis verify\n",
            member.label(),
            file.display()
        )),
        Format::Json => print_json(&json!({
            "replica": member.id.0,
            "name": member.name,
            "genesis_digest": genesis.to_string(),
            "signature": file.display().to_string(),
        })),
    }
}
