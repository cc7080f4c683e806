//! `quorate version`

use serde_json::json;

use crate::failure::Failure;
use crate::output::{Format, print, print_json};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the version and what this binary was built for.
pub fn run(format: Format) -> Result<(), Failure> {
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    match format {
        Format::Table => print(&format!("quorate {VERSION} ({architecture}-{system})\n")),
        Format::Json => print_json(&json!({
            "name": "quorate",
            "version": VERSION,
            "architecture": architecture,
            "system": system,
        })),
    }
}
