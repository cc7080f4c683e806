//! `quorate new`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use quorate_node::config::{Finding, Place};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// Write the crate of a service of your own: a state machine, its program, and a test in simulated
/// clusters. It compiles as it is; change it to what you need.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The service's name, which is the crate's: lower-case letters, digits and '-', a letter
    /// first.
    #[arg(value_name = "NAME")]
    name: String,
    /// Where the crate goes. Default: a folder of this name.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Depend on Quorate's sources in this folder. Default: those that this program was built from.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["git", "release"])]
    path: Option<PathBuf>,
    /// Depend on Quorate in this git repository.
    #[arg(long, value_name = "URL", conflicts_with = "release")]
    git: Option<String>,
    /// The commit, branch or tag, with --git.
    #[arg(long, value_name = "REV", requires = "git")]
    rev: Option<String>,
    /// Depend on this published version of Quorate.
    #[arg(long, value_name = "VERSION")]
    release: Option<String>,
}

/// Longest name of a service.
const MOST_LETTERS: usize = 64;
/// Names that crates or this template need for themselves.
const TAKEN: [&str; 7] =
    ["test", "core", "std", "alloc", "quorate", "quorate-service", "quorate-sim"];
/// Words of the language, which no crate may have as its name.
const WORDS: &str = " as async await break const continue crate dyn else enum extern false fn for if \
                     impl in let loop match mod move mut pub ref return self static struct super trait \
                     true type unsafe use where while gen abstract become box do final macro override \
                     priv typeof unsized virtual yield try ";

/// The crate's files: path and template.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("../../templates/service/Cargo.toml.in")),
    ("src/lib.rs", include_str!("../../templates/service/lib.rs.in")),
    ("src/main.rs", include_str!("../../templates/service/main.rs.in")),
    ("tests/simulation.rs", include_str!("../../templates/service/simulation.rs.in")),
    (".gitignore", "/target\n"),
];

/// Runs `new`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let name = &arguments.name;
    check_name(name)?;
    let source = |of: &str| source(arguments, of);
    let (service, sim) = (source("service")?, source("sim")?);
    let folder = arguments.folder.clone().unwrap_or_else(|| PathBuf::from(name));
    if folder.exists() {
        let what = "there is something of this name already".to_owned();
        return Err(usage(what, Place::File(folder), "name another folder with --folder"));
    }
    let failed =
        |error: std::io::Error| Failure::io(error, &folder, "see to the folder's permissions");
    for (path, template) in FILES {
        let text = template
            .replace("{{name}}", name)
            .replace("{{crate}}", &name.replace('-', "_"))
            .replace("{{source}}", &service)
            .replace("{{source-sim}}", &sim);
        write(&folder.join(path), &text).map_err(failed)?;
    }
    let shown = folder.display().to_string();
    match format {
        Format::Json => print_json(&json!({ "service": name, "folder": shown })),
        Format::Table => print(&format!(
            "the service `{name}` is in {shown}; from there:\n  \
             cargo test                 simulated clusters with crashes, liars and partitions\n  \
             cargo build\n  \
             quorate testnet init net --program target/debug/{name}\n  \
             quorate testnet up net     four replicas on this machine\n"
        )),
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::File::create_new(path)?.write_all(text.as_bytes())
}

fn check_name(name: &str) -> Result<(), Failure> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let begins = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    let ends = !name.ends_with('-');
    let taken = TAKEN.contains(&name) || WORDS.contains(&format!(" {name} "));
    if begins && ends && name.bytes().all(fits) && name.len() <= MOST_LETTERS && !taken {
        return Ok(());
    }
    let what = match taken {
        true => format!("a crate cannot be called \"{name}\""),
        false => format!("\"{name}\" is no name of a crate"),
    };
    let remedy = "use up to 64 lower-case letters, digits and '-', a letter first";
    Err(usage(what, Place::Flag("NAME".to_owned()), remedy))
}

/// What stands behind a dependency on the crate of this name.
fn source(arguments: &Arguments, of: &str) -> Result<String, Failure> {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    if let Some(version) = &arguments.release {
        return Ok(format!("version = {}", quoted(version)));
    }
    if let Some(url) = &arguments.git {
        let rev = arguments.rev.as_ref().map(|rev| format!(", rev = {}", quoted(rev)));
        return Ok(format!("git = {}{}", quoted(url), rev.unwrap_or_default()));
    }
    let built_from = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let root = arguments.path.clone().unwrap_or_else(built_from);
    let root = root.canonicalize().unwrap_or(root);
    let path = root.join("crates").join(of);
    if !path.join("Cargo.toml").exists() {
        let what = format!("Quorate's sources are not in {}", root.display());
        let remedy = "name them with --path, or use --git URL or --release VERSION";
        return Err(usage(what, Place::Flag("--path".to_owned()), remedy));
    }
    Ok(format!("path = {}", quoted(&path.to_string_lossy())))
}

fn usage(what: String, place: Place, remedy: &str) -> Failure {
    Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() })
}
