//! `quorate net set`

use clap::Args;
use quorate_netem::{Topology, control};
use serde_json::json;

use super::NameArgument;
use crate::failure::Failure;
use crate::output::{Format, print, print_json};

/// Change links of a running network, for all that is sent from now on: delay, jitter, loss,
/// bandwidth and more (docs/networks.md), or partitions.
#[derive(Debug, Args)]
pub struct Arguments {
    /// From which node: a replica's number, clients, or * for all.
    #[arg(required_unless_present_any = ["partition", "heal"])]
    from: Option<String>,
    /// To which node.
    #[arg(required_unless_present_any = ["partition", "heal"])]
    to: Option<String>,
    /// What is to be: delay=50ms loss=1% cut=true. What is not named stays.
    #[arg(value_name = "KEY=VALUE", required_unless_present_any = ["partition", "heal"])]
    link: Vec<String>,
    /// Leave the other direction as it is.
    #[arg(long)]
    one_way: bool,
    /// Cut all links between these groups: --partition 0,1 2,3,clients. Nodes in no group keep
    /// theirs.
    #[arg(long, num_args = 2.., value_name = "NODES", conflicts_with_all = ["from", "one_way"])]
    partition: Vec<String>,
    /// Heal all that is cut.
    #[arg(long, conflicts_with_all = ["from", "one_way", "partition"])]
    heal: bool,
    #[command(flatten)]
    name: NameArgument,
}

impl Arguments {
    /// What the network is told.
    fn line(&self) -> String {
        if self.heal {
            return "heal".to_owned();
        }
        if !self.partition.is_empty() {
            return format!("partition {}", self.partition.join(" "));
        }
        let word = if self.one_way { "set" } else { "both" };
        let node = |node: &Option<String>| node.clone().unwrap_or_default();
        format!("{word} {} {} {}", node(&self.from), node(&self.to), self.link.join(" "))
    }
}

/// Runs it.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let found = arguments.name.running()?;
    let before = control::links(&found.socket)?;
    control::ask(&found.socket, &arguments.line())?;
    let after = control::links(&found.socket)?;
    let changed = differences(&before, &after);
    if format == Format::Json {
        let link = |(from, to, link): &(String, String, String)| json!({ "from": from, "to": to, "link": link });
        return print_json(&json!({ "changed": changed.iter().map(link).collect::<Vec<_>>() }));
    }
    let line = |(from, to, link): &(String, String, String)| format!("{from} -> {to}: {link}\n");
    print(&changed.iter().map(line).collect::<String>())
}

fn differences(before: &Topology, after: &Topology) -> Vec<(String, String, String)> {
    let mut changed = Vec::new();
    for (from, name) in after.names().iter().enumerate() {
        for (to, other) in after.names().iter().enumerate() {
            if let Some(link) =
                after.link(from, to).filter(|link| before.link(from, to) != Some(*link))
            {
                changed.push((name.clone(), other.clone(), link.to_string()));
            }
        }
    }
    changed
}
