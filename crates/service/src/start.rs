//! `start`: one replica, from its configuration to its exit code.

use std::time::Duration;

use clap::Args;
use quorate_core::{Committee, Digest};
use quorate_node::config::{FlagSetting, Keys, Loaded, load};
use quorate_node::descriptors;
use quorate_node::http::access::AccessError;
use quorate_node::launch::{self, LaunchError, Launched, Remedies};
use quorate_node::replica::StartError;
use quorate_node::replica::data::DataError;
use quorate_node::replica::decide::End;
use quorate_store::lock::LockError;
use quorate_store::snapshot::SnapshotError;
use quorate_store::wal;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::arguments::{HomeArgument, SettingArguments};
use crate::exit::{Exit, Failure};
use crate::parent::{Gone, ParentArgument};
use crate::scheduling::{self, NetworkCores};
use crate::{logging, notify, stdout};

/// Run one replica until it is told to stop (SIGTERM or SIGINT; a second one exits at once).
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    home: HomeArgument,
    #[command(flatten)]
    settings: SettingArguments,
    /// The data folder was lost: ask the others which views this replica may have signed in, and
    /// take part only behind them. Without this, a missing signing state is refused.
    #[arg(long)]
    rejoin_after_data_loss: bool,
    /// Make this replica Byzantine (laboratory.adversary): NAME, NAME@FROM..TO or
    /// NAME@FROM..TO/PERIOD, several separated by commas; times count from the start. Refused
    /// unless laboratory.enabled is set. docs/adversaries.md says what each does.
    #[arg(long, value_name = "SCHEDULE")]
    adversary: Option<String>,
    /// Do not give the commands with this digest to the application, which panics on them; their
    /// reply is empty. May be given several times. Give the same at every replica.
    /// docs/operations.md says when.
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    skip_command: Vec<Digest>,
    #[command(flatten)]
    parent: ParentArgument,
}

/// A configuration that was loaded, and what a replica is launched with.
pub struct Ready<'a> {
    /// The configuration.
    pub loaded: &'a Loaded,
    /// The committee.
    pub committee: Committee,
    /// The replica's keys.
    pub keys: Keys,
    /// What the operator asks for.
    pub remedies: Remedies,
}

/// How often it is looked whether the replica has ended by itself.
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn digest(text: &str) -> Result<Digest, String> {
    let bytes = (0..text.len()).step_by(2).map(|at| {
        let pair = text.get(at..at + 2)?;
        pair.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u8::from_str_radix(pair, 16).ok())?
    });
    let bytes = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| bytes.try_into().ok());
    bytes.map(Digest).ok_or_else(|| {
        "a digest has 64 hexadecimal digits: copy it from the message of the replica that stopped".to_owned()
    })
}

/// Loads the configuration, launches the replica with `launch`, and waits for its end. `version` is
/// that of the program; `json` says whether the announcement is for programs.
///
/// # Errors
/// [`Failure`]: the replica did not come up, or ended by itself.
pub fn run(
    arguments: &Arguments,
    version: &str,
    json: bool,
    launch: impl AsyncFnOnce(Ready<'_>) -> Result<Launched, Failure>,
) -> Result<(), Failure> {
    let parent = arguments.parent.watch();
    let mut overrides = arguments.settings.overrides();
    overrides.flags.extend(arguments.adversary.iter().map(|schedule| FlagSetting {
        flag: "--adversary".to_owned(),
        key: "laboratory.adversary".to_owned(),
        value: schedule.clone(),
    }));
    let loaded = load(&arguments.home.home(), &overrides)?;
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    if !loaded.node.processor.preempts {
        scheduling::wait_for_turns();
    }
    let keys = loaded.open_keys()?;
    let committee = loaded.cluster.committee().map_err(|error| {
        let remedy = "restore cluster.toml from another replica";
        Failure::at(Exit::Usage, error.to_string(), &loaded.home.cluster_file(), remedy)
    })?;
    log_to_stderr(&loaded);
    let cores = NetworkCores::of(&loaded);
    let workers = loaded.node.pipeline.network(cores.count());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("network")
        .on_thread_start(move || cores.keep_to())
        .enable_all()
        .build()
        .map_err(|error| of_system(&error, &loaded))?;
    runtime.block_on(async {
        let remedies = Remedies {
            rejoin: arguments.rejoin_after_data_loss,
            skipped_commands: arguments.skip_command.iter().copied().collect(),
        };
        let ready = Ready { loaded: &loaded, committee, keys, remedies };
        let launched = launch(ready).await?;
        let refused = |error| of_system(&error, &loaded);
        // Before anybody hears that it is up, and may tell it to stop.
        let terminate = signal(SignalKind::terminate()).map_err(refused)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
        announce(&launched, &loaded, version, json)?;
        notify::ready();
        let ended = serve(launched, &loaded, parent, [terminate, interrupt]).await;
        if let Err(failure) = &ended {
            // It is told on standard error in any case.
            let _ = launch::note_end(&loaded.node.storage.folder, &failure.findings);
        }
        ended
    })
}

fn of_system(error: &std::io::Error, loaded: &Loaded) -> Failure {
    Failure::at(Exit::Failed, error.to_string(), loaded.home.root(), "see the system's limits")
}

fn log_to_stderr(loaded: &Loaded) {
    let level = loaded.node.log.level.name();
    let filter = level.parse().unwrap_or(tracing_subscriber::filter::LevelFilter::INFO);
    logging::to_stderr(filter, loaded.node.log.format);
}

fn announce(
    launched: &Launched,
    loaded: &Loaded,
    version: &str,
    json: bool,
) -> Result<(), Failure> {
    let epochs = launched.running.epochs();
    let committee = epochs.committee();
    tracing::info!(
        "{} {version}: replica {} of {} in chain {} ({}), state recovered at height {}",
        loaded.cluster.application_name(),
        loaded.node.replica,
        committee.replicas().count(),
        loaded.cluster.chain,
        loaded.cluster.chain_digest(),
        launched.running.recovered_height()
    );
    if let Some(said) = epochs.standing(loaded.node.replica).said() {
        tracing::warn!("epoch {}: {said}", committee.epoch());
    }
    for note in launched.running.notes() {
        tracing::warn!("recovery: {note}");
    }
    let (peer, client) = (launched.peer_address, launched.client_address);
    let text = match json {
        false => format!(
            "replica {} of chain {}: peers at {peer}, clients at {client}, http at {}\n",
            loaded.node.replica, loaded.cluster.chain, launched.http_address
        ),
        true => format!("{}\n", launched.announcement(loaded.node.replica)),
    };
    stdout::print(&text)
}

/// Until a signal, or the replica's own end.
async fn serve(
    launched: Launched,
    loaded: &Loaded,
    mut parent: Gone,
    [mut terminate, mut interrupt]: [Signal; 2],
) -> Result<(), Failure> {
    let Launched { running, facts, .. } = launched;
    let mut asked = false;
    let mut look = tokio::time::interval(LOOK_EVERY);
    let data = &loaded.node.storage.folder;
    while !running.is_gone() {
        // A call into the application cannot be broken off but by the end of the process.
        if (asked || running.has_ended())
            && let Some(lasts) = running.metrics().watch.any_lasting()
        {
            crate::pipe::kill_all();
            let what = format!("{lasts}, and was not waited for");
            let remedy = "the data is unharmed: start again. If it hangs there again, see \
                          \"application-blocks\" in docs/operations.md";
            return Err(Failure::at(Exit::Application, what, data, remedy));
        }
        let told = tokio::select! {
            _ = terminate.recv() => true,
            _ = interrupt.recv() => true,
            () = parent.wait() => true,
            _ = look.tick() => false,
        };
        if told && asked {
            std::process::exit(i32::from(Exit::Failed as u8));
        }
        if told {
            asked = true;
            notify::stopping();
            facts.stop();
            running.stop();
        }
    }
    let (exit, what, remedy) = match running.join() {
        End::Stopped => return Ok(()),
        End::Storage(reason) => (
            Exit::Failed,
            format!("storage failed: {reason}"),
            "see to the disk (space, health, permissions) and start again: what was promised is on disk",
        ),
        End::Application(reason) => (
            Exit::Application,
            reason,
            "the data is unharmed: start again. If it ends there again, mend the application, or see \
             \"A command that the application does not survive\" in docs/operations.md",
        ),
        End::Bug(reason) => (
            Exit::Failed,
            reason,
            "report it with the log, and start again: what was promised is on disk",
        ),
        End::Safety(reason) => {
            (Exit::Unsafe, reason, "keep this data folder as evidence, and report it")
        }
    };
    Err(Failure::at(exit, what, data, remedy))
}

/// Why a replica did not come up, for people.
#[must_use]
pub fn launch_failure(error: &LaunchError, loaded: &Loaded) -> Failure {
    let data = &loaded.node.storage.folder;
    let (exit, remedy) = match error {
        LaunchError::Start(StartError::Data(data)) => match data {
            DataError::Locked(LockError::Io { .. }) => (
                Exit::Failed,
                "see to the folder's permissions and the disk (space, health), and start again",
            ),
            DataError::Locked(LockError::Held { .. }) => {
                (Exit::Locked, "stop the other process, or wait for its end")
            }
            DataError::Io { .. } => (Exit::Failed, "see to the folder's permissions and the disk"),
            DataError::Log { source: wal::Error::Io { .. }, .. }
            | DataError::Snapshot { source: SnapshotError::Io { .. }, .. } => {
                (Exit::Failed, "see to the disk (space, health, permissions) and start again")
            }
            DataError::Log { source: wal::Error::Identity { .. }, .. } => {
                (Exit::Usage, "give this replica its own data folder (storage.folder in node.toml)")
            }
            DataError::NotLost(_) => (Exit::Usage, "start without --rejoin-after-data-loss"),
            DataError::HalfBegun(_) => (Exit::Usage, "run `quorate init` as the message says"),
            DataError::HalfRestored(_) | DataError::OtherBeginning { .. } => {
                (Exit::Usage, "run `quorate restore` as the message says")
            }
            DataError::Kept(_) | DataError::State { .. } => {
                (Exit::Corrupt, "one of those that the message names")
            }
            _ => (
                Exit::Corrupt,
                "if the data cannot be had back, move the folder away and start once with \
                 --rejoin-after-data-loss",
            ),
        },
        LaunchError::Start(StartError::Descriptors(_)) => (Exit::Failed, descriptors::REMEDY),
        LaunchError::Start(StartError::Collector(_)) => {
            (Exit::Usage, "name a file of authorities in tracing.otlp_ca of node.toml, or mend it")
        }
        LaunchError::Start(_) => (Exit::Failed, "see the system's limits"),
        LaunchError::OtherApplication { .. } => {
            (Exit::Usage, "run the program of the service that cluster.toml names")
        }
        LaunchError::CannotUndo { .. } => (
            Exit::Usage,
            "leave out tentative in cluster.toml; or, with `kv`, set storage.state = \"memory\" in \
             node.toml",
        ),
        LaunchError::Listen { .. } => (Exit::Failed, "choose another address in node.toml"),
        LaunchError::Access(AccessError::Mode { .. }) => {
            (Exit::Usage, "if nobody has read it: chmod 600; else make a new token")
        }
        LaunchError::Access(_) => (Exit::Usage, "mend the file, or the key of [http] in node.toml"),
    };
    Failure::at(exit, error.to_string(), data, remedy)
}
