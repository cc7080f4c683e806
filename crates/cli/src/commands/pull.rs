//! `quorate pull`

mod verify;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use quorate_core::Height;
use quorate_core::client::decided::DecidedBlock;
use quorate_node::client::pull::{Proof, Puller};
use quorate_node::config::{Finding, Place};
use serde_json::{Value, json};

use crate::client_home::ClientHome;
use crate::cluster::{addresses, cluster_of};
use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::{Format, hex, print, print_json_line};

/// How long to wait before replicas without news are asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// Print decided blocks with their commands, each proven by the certificates that replicas send
/// along: no replica is believed.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    pub home: ClientHome,
    /// The first height.
    #[arg(long, default_value_t = 1, value_name = "HEIGHT")]
    pub from: u64,
    /// Go on with blocks as they are decided, until told to stop.
    #[arg(long)]
    pub follow: bool,
    /// Ask nobody: verify what `quorate pull -o json` printed to this file. What it says is
    /// compared with what its certificates prove.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "follow"])]
    pub verify: Option<PathBuf>,
}

/// Runs `pull`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    if let Some(file) = &arguments.verify {
        return verify::run(file, &cluster, format);
    }
    let failed = |what: String| {
        let remedy = "see that the replicas run, and that cluster.toml is theirs".to_owned();
        let place = Place::File(home.cluster_file());
        Failure::new(Exit::Failed, Finding { what, place, remedy })
    };
    let mut puller = Puller::new(addresses(&cluster), &cluster, Height(arguments.from))
        .map_err(|error| failed(error.to_string()))?;
    if let Some(following) = arguments.home.following(&cluster)? {
        puller = puller.following(&following);
    }
    let (runtime, told) = runtime()?;
    // Replicas in a row that had nothing new, and what was wrong with those that failed.
    let (mut without_news, mut complaints) = (0, Vec::new());
    while !told.load(std::sync::atomic::Ordering::Relaxed) {
        match runtime.block_on(puller.pull()) {
            Ok(blocks) if blocks.is_empty() => without_news += 1,
            Ok(blocks) => {
                (without_news, complaints) = (0, Vec::new());
                for block in &blocks {
                    show(block, format)?;
                }
            }
            Err(error) => {
                without_news += 1;
                complaints.push(error.to_string());
            }
        }
        let count = puller.replicas();
        if without_news < count {
            continue;
        }
        if complaints.len() >= count && !arguments.follow {
            return Err(failed(complaints.join("; ")));
        }
        for complaint in complaints.drain(..) {
            eprintln!("warning: {complaint}");
        }
        if !arguments.follow {
            break;
        }
        without_news = 0;
        std::thread::sleep(PAUSE);
    }
    match format {
        Format::Table => Ok(()),
        Format::Json => print_json_line(&json_of_proof(&puller.proof())),
    }
}

/// What proves the last blocks: the blocks that follow, and the newest evidence; and how the
/// members changed.
fn json_of_proof(proof: &Proof) -> Value {
    let all = |list: &[Bytes]| list.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>();
    let mut value = json!({
        "blocks": all(&proof.blocks),
        "newest": proof.newest.as_ref().map(|newest| hex(newest)),
    });
    if !proof.handovers.is_empty() {
        value["handovers"] = all(&proof.handovers).into();
    }
    json!({ "proof": value })
}

fn show(block: &DecidedBlock, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => {
            let commands: u32 = block.frames.iter().map(|frame| frame.count()).sum();
            print(&format!(
                "height {}  view {}  proposer {}  commands {commands}  {}\n",
                block.height,
                block.view,
                block.proposer.map_or("-".to_owned(), |proposer| proposer.to_string()),
                block.id
            ))
        }
        Format::Json => print_json_line(&json_of(block)),
    }
}

/// A block as an executor reads it: its commands in the order of execution, in hexadecimal; and all
/// of it as replicas send it, with the evidence that it carries.
fn json_of(block: &DecidedBlock) -> Value {
    let frames: Vec<_> = block
        .frames
        .iter()
        .map(|frame| {
            let commands: Vec<_> = frame.commands().map(hex).collect();
            json!({
                "client": hex(&frame.key().0),
                "session": frame.session().0,
                "first": frame.first().0,
                "commands": commands,
            })
        })
        .collect();
    json!({
        "height": block.height.0,
        "view": block.view.0,
        "proposer": block.proposer.map(|proposer| proposer.0),
        "block": block.id.to_string(),
        "parent": block.parent.to_string(),
        "frames": frames,
        "encoded": hex(&block.encoded),
    })
}
