//! Configuration that somebody edited: it loads, and says the same when it is written and read
//! again, or the error names the file, and what to do.

use std::path::Path;
use std::sync::OnceLock;

use quorate_node::config::{Home, Overrides, load, load_cluster};
use quorate_node::testnet;
use tempfile::TempDir;

use crate::input::Input;

struct World {
    /// Removed with the process.
    _folder: TempDir,
    home: Home,
    cluster: String,
    node: String,
}

/// A replica's home, of its own for each thread.
fn world() -> Option<World> {
    let folder = tempfile::tempdir().ok()?;
    let options = testnet::Options { base_port: Some(7000), ..testnet::Options::default() };
    let home = testnet::init(folder.path(), 4, &options).ok()?.replicas.into_iter().nth(1)?;
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let (cluster, node) = (read(&home.cluster_file())?, read(&home.node_file())?);
    Some(World { _folder: folder, home, cluster, node })
}

/// The text, with some lines cut, doubled or changed.
fn edited(text: &str, input: &mut Input<'_>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + input.byte() % 3 {
        let at = input.below(lines.len().max(1) as u64) as usize;
        let Some(line) = lines.get_mut(at) else { break };
        let place = input.below(line.len().max(1) as u64) as usize;
        match input.byte() % 6 {
            0 => drop(lines.remove(at)),
            1 => {
                let copy = line.clone();
                lines.insert(at, copy);
            }
            2 => *line = line.chars().take(place).collect(),
            3 => {
                let digits = format!("{}", input.number());
                *line = line.replace(|c: char| c.is_ascii_digit(), &digits);
            }
            4 => {
                let length = usize::from(input.byte() % 24);
                *line = String::from_utf8_lossy(&input.bytes(length)).into_owned();
            }
            _ => *line = line.replace(['"', '['], "="),
        }
    }
    lines.join("\n")
}

thread_local! {
    static WORLD: OnceLock<Option<World>> = const { OnceLock::new() };
}

/// Runs an input.
pub fn run(input: &[u8]) {
    WORLD.with(|world| {
        let Some(world) = world.get_or_init(self::world) else { panic!("no home to spoil") };
        let mut input = Input::new(input);
        let of_node = input.byte() & 1 == 1;
        let (file, text) = match of_node {
            true => (world.home.node_file(), &world.node),
            false => (world.home.cluster_file(), &world.cluster),
        };
        let spoilt = edited(text, &mut input);
        assert!(std::fs::write(&file, &spoilt).is_ok());
        let named = |error: &dyn std::fmt::Display| {
            let (error, name) = (error.to_string(), file.file_name().unwrap_or_default());
            assert!(error.contains(&*name.to_string_lossy()), "no file is named: {error}");
        };
        if let Err(error) = load(&world.home, &Overrides::default()) {
            named(&error);
        }
        if !of_node {
            match load_cluster(&file) {
                Ok((cluster, _)) => {
                    let digest = cluster.chain_digest();
                    assert!(std::fs::write(&file, cluster.to_toml()).is_ok());
                    match load_cluster(&file) {
                        Ok((again, _)) => assert_eq!(again.chain_digest(), digest),
                        Err(error) => panic!("what was written is refused: {error}"),
                    }
                }
                Err(error) => named(&error),
            }
        }
        assert!(std::fs::write(&file, text).is_ok());
    });
}
