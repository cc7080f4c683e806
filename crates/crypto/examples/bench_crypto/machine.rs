//! Where and of what rows were measured, for their columns.

use std::process::Command;

/// The columns of [`cells`].
pub const COLUMNS: &str = "commit,machine_processor,machine_cores";

/// The commit of the tree, with `+` if the tree was changed since; the processor; its cores.
pub fn cells() -> String {
    format!("{},{},{}", commit(), processor().replace(',', ";"), cores())
}

/// The processor's name.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or("an unknown processor", |(_, name)| name).trim().to_owned()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Empty where there is no git.
fn commit() -> String {
    let words = ["describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"];
    let said = Command::new("git").args(words).output();
    let said = said.ok().filter(|said| said.status.success());
    said.map_or_else(String::new, |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
