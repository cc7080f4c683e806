//! `quorate version`

use quorate_core::base::membership::Rules;
use quorate_transport::Versions;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Format, print, print_json};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The applications that this program has are in their first rules.
const RULES: Rules = Rules::supported(1);

/// Prints the version, what this binary was built for, and what it speaks and supports.
pub fn run(format: Format) -> Result<(), Failure> {
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    let wire = Versions::PROGRAM;
    match format {
        Format::Table => print(&format!(
            "quorate {VERSION} ({architecture}-{system})\n\
             wire protocol {wire}\nrules up to {RULES} (core.application)\n"
        )),
        Format::Json => print_json(&json!({
            "name": "quorate",
            "version": VERSION,
            "architecture": architecture,
            "system": system,
            "wire_versions": { "oldest": wire.oldest(), "newest": wire.newest() },
            "supports": RULES.to_string(),
        })),
    }
}
