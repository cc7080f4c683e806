//! `quorate version`

use clap::Args;
use quorate_core::base::membership::Rules;
use quorate_node::formats::FORMATS;
use quorate_transport::Versions;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Format, print, print_json};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The applications that this program has are in their first rules.
const RULES: Rules = Rules::supported(1);

/// Print the version, what this program was built for, and what it speaks and supports.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The formats of what replicas keep on disk, too. Of each, this program reads one version.
    #[arg(long)]
    formats: bool,
}

/// Prints the version, what this binary was built for, and what it speaks and supports.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    let wire = Versions::PROGRAM;
    match format {
        Format::Table => print(&format!(
            "quorate {VERSION} ({architecture}-{system})\n\
             wire protocol {wire}\nrules up to {RULES} (core.application)\n{}",
            if arguments.formats { formats() } else { String::new() }
        )),
        Format::Json => print_json(&json!({
            "name": "quorate",
            "version": VERSION,
            "architecture": architecture,
            "system": system,
            "wire_versions": { "oldest": wire.oldest(), "newest": wire.newest() },
            "supports": RULES.to_string(),
            "formats": FORMATS.map(|format| json!({
                "name": format.name,
                "place": format.place,
                "version": format.version,
            })),
        })),
    }
}

fn formats() -> String {
    let mut text = format!("{:<25} {:<21} version\n", "format", "where");
    for format in FORMATS {
        text.push_str(&format!("{:<25} {:<21} {}\n", format.name, format.place, format.version));
    }
    text
}
