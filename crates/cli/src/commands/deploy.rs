//! `quorate deploy`

#[cfg(feature = "laboratory")]
mod study;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::{Args, Subcommand};
use quorate_deploy::inventory::Inventory;
use quorate_deploy::{Fleet, Outcome, Program, Trouble};
use quorate_node::config::{Finding, Place};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, table};

/// Clocks that are further apart are told.
const APART_MS: i64 = 100;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring the cluster up, or what is missing of it: programs, keys made on their hosts,
    /// configuration, processes. Running it twice changes nothing; interrupted, it goes on.
    Up(UpArguments),
    /// Start the replicas that do not run.
    Start(InventoryArgument),
    /// Stop the replicas that run.
    Stop(InventoryArgument),
    /// Restart the replicas one after the other, each when the one before has caught up.
    Restart(InventoryArgument),
    /// Ask all hosts how they are.
    Status(InventoryArgument),
    /// Put load on the cluster from all hosts with the role client, and bring their reports here.
    /// Or run a study: each of its runs on a cluster of its own.
    Run(RunArguments),
    /// Run a shell's command in the cluster's folder on each host.
    Exec(ExecArguments),
    /// Bring logs, configuration and status of each host here, an archive a host.
    Collect(CollectArguments),
    /// Take everything away from the hosts: programs, keys and data.
    Down(DownArguments),
}

/// The inventory.
#[derive(Debug, Args)]
pub struct InventoryArgument {
    /// The hosts, and what each is for: a TOML file (docs/deploy.md).
    #[arg(value_name = "INVENTORY")]
    inventory: PathBuf,
}

/// Arguments of `up`.
#[derive(Debug, Args)]
pub struct UpArguments {
    #[command(flatten)]
    inventory: InventoryArgument,
    /// The program for the hosts. Default: this one.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    inventory: InventoryArgument,
    /// A study's file (docs/experiments.md). The replicas of the inventory must not run: those of
    /// the study take their ports.
    #[arg(value_name = "STUDY", conflicts_with = "load")]
    study: Option<PathBuf>,
    /// Where the reports go, a file a host; default: nowhere. Of a study: where results go;
    /// default: results/NAME, or results/NAME-quick.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Of a study: what the file calls quick, to see that it works, not to quote.
    #[arg(long, requires = "study")]
    quick: bool,
    /// Of a study: how often each permutation is run, instead of what the file says.
    #[arg(long, value_name = "N", requires = "study")]
    repeats: Option<u32>,
    /// Of a study: run again what failed.
    #[arg(long, requires = "study")]
    retry: bool,
    /// Of a study: the program for the hosts. Default: this one.
    #[arg(long, value_name = "FILE", requires = "study")]
    binary: Option<PathBuf>,
    /// Arguments of quorate load, but for --home.
    #[arg(last = true, value_name = "ARGUMENTS")]
    load: Vec<String>,
}

/// Arguments of `exec`.
#[derive(Debug, Args)]
pub struct ExecArguments {
    #[command(flatten)]
    inventory: InventoryArgument,
    /// The command.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Arguments of `collect`.
#[derive(Debug, Args)]
pub struct CollectArguments {
    #[command(flatten)]
    inventory: InventoryArgument,
    /// Where the archives go.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Arguments of `down`.
#[derive(Debug, Args)]
pub struct DownArguments {
    #[command(flatten)]
    inventory: InventoryArgument,
    /// Yes, with all keys and data.
    #[arg(long)]
    yes: bool,
}

/// Runs `deploy`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Up(arguments) => up(arguments, format),
        Command::Start(InventoryArgument { inventory }) => {
            let outcomes = drive(inventory, async |fleet: &Fleet| Ok(fleet.start().await))?;
            settle(format, &outcomes, |was| done(*was, "started", "runs already"))
        }
        Command::Stop(InventoryArgument { inventory }) => {
            let outcomes = drive(inventory, async |fleet: &Fleet| Ok(fleet.stop().await))?;
            settle(format, &outcomes, |was| done(*was, "stopped", "did not run"))
        }
        Command::Restart(InventoryArgument { inventory }) => {
            let outcomes = drive(inventory, async |fleet: &Fleet| fleet.restart().await)?;
            settle(format, &outcomes, |()| json!("restarted"))
        }
        Command::Status(InventoryArgument { inventory }) => status(inventory, format),
        Command::Run(arguments) => match &arguments.study {
            Some(file) => of_study(arguments, file, format),
            None => load(arguments, format),
        },
        Command::Exec(arguments) => {
            let line = arguments.command.join(" ");
            let inventory = &arguments.inventory.inventory;
            let outcomes = drive(inventory, async |fleet: &Fleet| Ok(fleet.execute(&line).await))?;
            settle(format, &outcomes, |said| json!(said.trim_end()))
        }
        Command::Collect(arguments) => collect(arguments, format),
        Command::Down(arguments) => down(arguments, format),
    }
}

fn done(was_new: bool, new: &str, old: &str) -> Value {
    json!(if was_new { new } else { old })
}

/// Reads the inventory and does something with its hosts, until Ctrl-C.
fn drive<T>(
    file: &Path,
    job: impl AsyncFnOnce(&Fleet) -> Result<T, Trouble>,
) -> Result<T, Failure> {
    let inventory = Inventory::read(file).map_err(|finding| Failure::new(Exit::Usage, finding))?;
    let fleet = Fleet::new(inventory, progress());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::io(error, file, "see to the system's limits"))?;
    let place = || Place::File(file.to_owned());
    let done = runtime.block_on(async {
        tokio::select! {
            done = job(&fleet) => Some(done),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    match done {
        Some(done) => done.map_err(|Trouble { what, remedy }| {
            Failure::new(Exit::Failed, Finding { what, place: place(), remedy })
        }),
        None => {
            let what = "interrupted".to_owned();
            let remedy = "run the same again: it goes on where it was".to_owned();
            Err(Failure::new(Exit::Failed, Finding { what, place: place(), remedy }))
        }
    }
}

/// On a terminal a line a host, which is written over; else a line each step.
fn progress() -> impl Fn(&str, &str) + Send + Sync + 'static {
    let lines: Mutex<Vec<(String, String)>> = Mutex::default();
    let is_terminal = std::io::stderr().is_terminal();
    move |host, what| {
        let mut err = std::io::stderr().lock();
        if !is_terminal {
            // Who reads no progress is not told any.
            let _ = writeln!(err, "{host}: {what}");
            return;
        }
        let mut lines = lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let drawn = lines.len();
        match lines.iter_mut().find(|(name, _)| name == host) {
            Some((_, state)) => what.clone_into(state),
            None => lines.push((host.to_owned(), what.to_owned())),
        }
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = if drawn > 0 { format!("\x1b[{drawn}A") } else { String::new() };
        for (name, state) in lines.iter() {
            text.push_str(&format!("\x1b[2K{name:width$}  {state}\n"));
        }
        let _ = err.write_all(text.as_bytes());
    }
}

/// Prints what came of it, host by host; fails if it failed at one.
fn settle<T>(
    format: Format,
    outcomes: &[Outcome<T>],
    told: impl Fn(&T) -> Value,
) -> Result<(), Failure> {
    let values: Vec<Value> = outcomes
        .iter()
        .map(|Outcome { host, result }| match result {
            Ok(value) => json!({ "host": host.name, "result": told(value) }),
            Err(trouble) => {
                json!({ "host": host.name, "error": trouble.what, "remedy": trouble.remedy })
            }
        })
        .collect();
    match format {
        Format::Json => print_json(&json!({ "hosts": values }))?,
        Format::Table => {
            let line = |value: &Value| {
                let text = match &value["result"] {
                    Value::String(text) => text.clone(),
                    Value::Null => "FAILED".to_owned(),
                    other => other.to_string(),
                };
                [value["host"].as_str().unwrap_or_default().to_owned(), text]
            };
            print(&table(["HOST", "RESULT"], &values.iter().map(line).collect::<Vec<_>>()))?;
        }
    }
    fail(outcomes)
}

/// The hosts that failed, by name.
fn fail<T>(outcomes: &[Outcome<T>]) -> Result<(), Failure> {
    let failed = outcomes.iter().filter_map(|Outcome { host, result }| {
        let Trouble { what, remedy } = result.as_ref().err()?.clone();
        Some(Finding { what, place: Place::File(host.name.clone().into()), remedy })
    });
    let failed: Vec<_> = failed.collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::of_all(Exit::Failed, failed)) }
}

/// The program for the hosts, and its file.
fn program(binary: Option<&Path>) -> Result<(Program, PathBuf), Failure> {
    let file = match binary {
        Some(file) => file.to_owned(),
        None => std::env::current_exe()
            .map_err(|error| Failure::io(error, Path::new("quorate"), "name it with --binary"))?,
    };
    let bytes = std::fs::read(&file)
        .map_err(|error| Failure::io(error, &file, "name a program with --binary"))?;
    Ok((Program::new(bytes), file))
}

fn up(arguments: &UpArguments, format: Format) -> Result<(), Failure> {
    let (program, _) = program(arguments.binary.as_deref())?;
    let inventory = &arguments.inventory.inventory;
    let outcomes = drive(inventory, async |fleet: &Fleet| fleet.up(&program).await)?;
    settle(format, &outcomes, |news| {
        json!(if news.is_empty() {
            "nothing to do".to_owned()
        } else {
            format!("new: {}", news.join(", "))
        })
    })
}

fn status(inventory: &Path, format: Format) -> Result<(), Failure> {
    let outcomes = drive(inventory, async |fleet: &Fleet| Ok(fleet.status().await))?;
    if format == Format::Json {
        return settle(
            format,
            &outcomes,
            |(status, (least, most))| json!({ "status": status, "clock_ahead_ms": [least, most] }),
        );
    }
    let rows: Vec<[String; 8]> = outcomes
        .iter()
        .map(|Outcome { host, result }| {
            let mut row = [const { String::new() }; 8];
            row[0].clone_from(&host.name);
            row[1].clone_from(&host.region);
            match result {
                Err(_) => row[2] = "FAILED".to_owned(),
                Ok((None, _)) => row[2] = "no replica runs".to_owned(),
                Ok((Some(status), _)) => {
                    row[2] = match (status["unreachable"].as_str(), status["not_ready"].as_str()) {
                        (Some(why), _) => why.to_owned(),
                        (None, Some(why)) => format!("not ready: {why}"),
                        (None, None) => "ready".to_owned(),
                    };
                    let shown =
                        ["replica", "view", "committed_height", "executed_height", "version"];
                    for (cell, name) in row[3..].iter_mut().zip(shown) {
                        *cell = status[name].to_string().trim_matches('"').to_owned();
                    }
                }
            }
            row
        })
        .collect();
    let head = ["HOST", "REGION", "STATE", "REPLICA", "VIEW", "COMMITTED", "EXECUTED", "VERSION"];
    print(&table(head, &rows))?;
    warn_of_clocks(&outcomes);
    fail(&outcomes)
}

/// Tells which clocks are surely far from this machine's.
fn warn_of_clocks<T>(outcomes: &[Outcome<(T, (i64, i64))>]) {
    for Outcome { host, result } in outcomes {
        let Ok((_, (least, most))) = result else { continue };
        if *least > APART_MS || *most < -APART_MS {
            eprintln!(
                "warning: {}: its clock is {least} to {most} ms ahead of this one; set it by NTP, or \
                 times in logs and studies cannot be compared",
                host.name
            );
        }
    }
}

#[cfg(feature = "laboratory")]
fn of_study(arguments: &RunArguments, file: &Path, format: Format) -> Result<(), Failure> {
    study::run(arguments, file, format)
}

/// Refused: what makes the load belongs to the laboratory.
#[cfg(not(feature = "laboratory"))]
fn of_study(_: &RunArguments, _: &Path, _: Format) -> Result<(), Failure> {
    super::without_laboratory::refused("deploy run INVENTORY STUDY")
}

fn load(arguments: &RunArguments, format: Format) -> Result<(), Failure> {
    let inventory = &arguments.inventory.inventory;
    let (clocks, reports) = drive(inventory, async |fleet: &Fleet| {
        let clocks = fleet.status().await;
        Ok((clocks, fleet.load(&arguments.load).await))
    })?;
    warn_of_clocks(&clocks);
    if reports.is_empty() {
        let what = "no host has the role \"client\"".to_owned();
        let place = Place::File(inventory.clone());
        let remedy = "give it to the hosts that load is to come from".to_owned();
        return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
    }
    if let Some(folder) = &arguments.out {
        for Outcome { host, result } in &reports {
            if let Ok(report) = result {
                keep(folder, &format!("{}.json", host.name), format!("{report:#}\n").as_bytes())?;
            }
        }
    }
    if format == Format::Json {
        return settle(format, &reports, Value::clone);
    }
    let rows: Vec<[String; 4]> = reports
        .iter()
        .map(|Outcome { host, result }| match result {
            Ok(report) => {
                let figure = |name: &str| report[name].to_string();
                [host.name.clone(), figure("commands_per_s"), figure("p50_ms"), figure("p99_ms")]
            }
            Err(_) => [host.name.clone(), "FAILED".to_owned(), String::new(), String::new()],
        })
        .collect();
    print(&table(["HOST", "COMMANDS/S", "P50 MS", "P99 MS"], &rows))?;
    fail(&reports)
}

fn collect(arguments: &CollectArguments, format: Format) -> Result<(), Failure> {
    let inventory = &arguments.inventory.inventory;
    let outcomes = drive(inventory, async |fleet: &Fleet| Ok(fleet.collect().await))?;
    for Outcome { host, result } in &outcomes {
        if let Ok(archive) = result {
            keep(&arguments.out, &format!("{}.tar.gz", host.name), archive)?;
        }
    }
    settle(format, &outcomes, |archive| json!(format!("{} bytes", archive.len())))
}

fn keep(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let file = folder.join(name);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&file, bytes))
        .map_err(|error| Failure::io(error, &file, "see to the disk and the permissions"))
}

fn down(arguments: &DownArguments, format: Format) -> Result<(), Failure> {
    let inventory = &arguments.inventory.inventory;
    if !arguments.yes {
        let what = "this removes the cluster with all its keys and data".to_owned();
        let place = Place::File(inventory.clone());
        let remedy = "add --yes if that is meant".to_owned();
        return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
    }
    let outcomes = drive(inventory, async |fleet: &Fleet| Ok(fleet.down().await))?;
    settle(format, &outcomes, |was| done(*was, "removed", "nothing was there"))
}
