//! The `quorate` command: one file a subcommand, nothing decided here that a library could.
#![deny(unsafe_code)]

#[cfg(quorate_mutants)]
compile_error!("known bugs are for tests: build the program without `--cfg quorate_mutants`");

mod arguments;
mod client_home;
mod cluster;
mod commands;
mod failure;
mod local;
mod output;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use quorate_service::{logging, parent};

use output::Format;

/// Messages, blocks and frames are many small allocations, freed by other threads than made them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const PRECEDENCE: &str = "\
Configuration: flags come before QUORATE_* variables, before config/node.toml, before defaults.";

/// Byzantine-fault-tolerant replication: run it, watch it, measure it.
#[derive(Debug, Parser)]
#[command(name = "quorate", version, after_help = format!("{}\n{PRECEDENCE}", failure::Exit::help()), max_term_width = 100)]
#[command(propagate_version = false, arg_required_else_help = true)]
struct Cli {
    /// What results look like: for people, or for programs.
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Clusters on one machine.
    #[command(subcommand)]
    Testnet(commands::testnet::Command),
    /// Run a cluster with load in a temporary folder, and show what it does.
    Demo(commands::demo::Arguments),
    /// Begin a cluster together: owners who do not trust each other make their own keys.
    #[command(subcommand)]
    Genesis(commands::genesis::Command),
    /// Make the data folder of a new replica.
    Init(commands::init::Arguments),
    /// Run one replica.
    Start(commands::start::Arguments),
    /// Let Redis clients use a cluster.
    Gateway(commands::gateway::Arguments),
    /// Let programs of any language use a service, over HTTP with JSON.
    Bridge(commands::bridge::Arguments),
    /// Write the crate of a service of your own.
    New(commands::new::Arguments),
    /// Clusters on many hosts, over ssh: bring one up, watch it, restart it, take it down.
    #[command(subcommand)]
    Deploy(commands::deploy::Command),
    /// Put load on a cluster, and report.
    Load(commands::load::Arguments),
    /// Change the members of a cluster, and see who they are.
    #[command(subcommand)]
    Member(commands::member::Command),
    /// Upgrade a running cluster: see how far it is, and switch on what is new.
    #[command(subcommand)]
    Upgrade(commands::upgrade::Command),
    /// Say who may send commands to a cluster, and see who they are.
    #[command(subcommand)]
    Client(commands::client::Command),
    /// Ask running replicas how they are.
    Status(commands::status::Arguments),
    Top(commands::top::Arguments),
    /// Measure clusters of processes on this machine.
    Bench(commands::bench::Arguments),
    /// Say where the time of a command goes, at leader and follower.
    Profile(commands::profile::Arguments),
    /// Studies: run every permutation of a file, and draw what came out.
    #[command(subcommand)]
    Experiment(commands::experiment::Command),
    /// Emulated networks on this machine: a namespace a node, and links with delay, loss and
    /// bandwidth.
    #[command(subcommand)]
    Net(commands::net::Command),
    /// Payments by Avalanche: make a network, run its nodes, watch it at work.
    #[command(subcommand)]
    Pay(commands::pay::Command),
    /// Keys, balances and payments of a payment network.
    #[command(subcommand)]
    Wallet(commands::wallet::Command),
    /// Look for violations in simulated clusters in which anything may go wrong.
    Sim(commands::sim::Arguments),
    /// The Snow family, shown: a page for browsers, and nodes that flip colours in a terminal.
    #[command(subcommand)]
    Snow(commands::snow::Command),
    /// Twins testing: count, write and run scenarios.
    #[command(subcommand)]
    Twins(commands::twins::Command),
    /// Print the protocols there are, and what goes with them.
    Protocols,
    /// Look into a lazy-trie store, the key-value store on disk, and mend it.
    #[command(subcommand)]
    Store(commands::store::Command),
    /// Read a key from one replica, verified.
    Get(commands::get::Arguments),
    /// Print what committed commands change, as they do, proven.
    Watch(commands::watch::Arguments),
    /// Print decided blocks, proven by their certificates.
    Pull(commands::pull::Arguments),
    /// Back a running cluster up, and check and list backups.
    #[command(subcommand)]
    Backup(commands::backup::Command),
    /// Start a new cluster, or one replica, from a backup.
    Restore(commands::restore::Arguments),
    /// Make a secret key and print its public half.
    Keygen(commands::keygen::Arguments),
    /// Check or show a replica's configuration.
    #[command(subcommand)]
    Config(commands::config::Command),
    /// Print the version.
    Version(commands::version::Arguments),
    /// Print the completions of a shell, to be sourced by it.
    Completions(commands::completions::Arguments),
    /// Write manual pages, one a subcommand.
    Man(commands::man::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Replicas and `store` map files. Without it they would end by the same signal, but without a
    // word.
    let _ = quorate_store::disk::explain_bus_errors();
    let done = match cli.command {
        Command::Testnet(command) => commands::testnet::run(&command, cli.output),
        Command::Demo(arguments) => commands::demo::run(&arguments, cli.output),
        Command::Status(arguments) => commands::status::run(&arguments, cli.output),
        Command::Member(command) => commands::member::run(&command, cli.output),
        Command::Upgrade(command) => commands::upgrade::run(&command, cli.output),
        Command::Client(command) => commands::client::run(&command, cli.output),
        Command::Top(arguments) => commands::top::run(&arguments, cli.output),
        Command::Bench(arguments) => commands::bench::run(&arguments, cli.output),
        Command::Profile(arguments) => commands::profile::run(&arguments, cli.output),
        Command::Experiment(command) => commands::experiment::run(&command, cli.output),
        Command::Net(command) => commands::net::run(&command, cli.output),
        Command::Pay(command) => commands::pay::run(&command, cli.output),
        Command::Wallet(command) => commands::wallet::run(&command, cli.output),
        Command::Snow(command) => commands::snow::run(&command, cli.output),
        Command::Twins(command) => commands::twins::run(&command, cli.output),
        Command::Store(command) => commands::store::run(&command, cli.output),
        Command::Watch(arguments) => commands::watch::run(&arguments, cli.output),
        Command::Pull(arguments) => commands::pull::run(&arguments, cli.output),
        Command::Backup(command) => commands::backup::run(&command, cli.output),
        Command::Restore(arguments) => commands::restore::run(&arguments, cli.output),
        Command::Get(arguments) => commands::get::run(&arguments, cli.output),
        Command::Genesis(command) => commands::genesis::run(&command, cli.output),
        Command::Init(arguments) => commands::init::run(&arguments, cli.output),
        Command::Start(arguments) => commands::start::run(&arguments, cli.output),
        Command::Gateway(arguments) => commands::gateway::run(&arguments, cli.output),
        Command::Bridge(arguments) => commands::bridge::run(&arguments, cli.output),
        Command::New(arguments) => commands::new::run(&arguments, cli.output),
        Command::Deploy(command) => commands::deploy::run(&command, cli.output),
        Command::Load(arguments) => commands::load::run(&arguments, cli.output),
        Command::Keygen(arguments) => commands::keygen::run(&arguments, cli.output),
        Command::Config(command) => commands::config::run(&command, cli.output),
        Command::Sim(arguments) => commands::sim::run(&arguments, cli.output),
        Command::Protocols => commands::protocols::run(cli.output),
        Command::Version(arguments) => commands::version::run(&arguments, cli.output),
        Command::Completions(arguments) => commands::completions::run::<Cli>(&arguments),
        Command::Man(arguments) => commands::man::run::<Cli>(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
