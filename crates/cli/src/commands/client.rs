//! `quorate client`

mod quota;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use quorate_core::Digest;
use quorate_core::base::crypto::PublicKey;
use quorate_core::ledger::clients::{Admission, Clients, Entry, Grant, MAX_PREFIX_BYTES};
use quorate_core::ledger::directive::{Directive, Order, Refusal, SignedDirective};
use quorate_crypto::{SecretKey, ed25519};
use quorate_node::client::change::ChangeError;
use quorate_node::client::rights::{self, DirectiveError};
use quorate_node::config::schema::{Kind, Value};
use quorate_node::config::{ByteSize, Finding, Place};
use quorate_node::written::replace;
use serde_json::json;

use self::quota::Quota;
use super::member::carry_out::write_command;
use super::member::{HomeOnly, Known, Signing};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, table};

/// How long it is waited until f + 1 members tell a list that they ordered.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What to do about the clients of a cluster whose `cluster.toml` names administrators.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Let a key send commands: all of them, or what the options say. What the list said of the key
    /// before does not count any more, but for its quota: that stays unless --quota is given.
    Allow(AllowArguments),
    /// Bar a key. Its session ends, and it gets no other, whatever the policy.
    Revoke(KeyArguments),
    /// Take a key off the list, allowed or revoked.
    Forget(KeyArguments),
    /// Take commands from anybody whose key is not revoked (open), or from allowed keys alone
    /// (listed).
    Policy(PolicyArguments),
    /// Sign a directive that another administrator wrote down (`--out`).
    Approve(FileArguments),
    /// Submit a directive that enough administrators have signed.
    Submit(FileArguments),
    /// Show the policy and the list, as f + 1 replicas tell them.
    List(HomeOnly),
}

/// The administrators that sign, and the file for an order that others sign as well.
#[derive(Debug, Args)]
pub struct Directing {
    #[command(flatten)]
    signing: Signing,
    /// Do not submit it, but write it to this file, for other administrators to approve. Never
    /// written over.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A key and what it may do.
#[derive(Debug, Args)]
pub struct AllowArguments {
    #[command(flatten)]
    directing: Directing,
    /// The public key of the client, as `quorate keygen` printed it.
    #[arg(value_name = "KEY", value_parser = public_key)]
    key: PublicKey,
    /// It may ask replicas, as anybody may, and have no command ordered.
    #[arg(long, conflicts_with_all = ["prefix", "rate", "quota"])]
    read_only: bool,
    /// Its commands may touch keys with this prefix. Can be repeated. Default: all keys.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    prefix: Vec<Bytes>,
    /// How many commands a second each replica takes from it. Default: as many as come.
    #[arg(long, value_name = "COMMANDS")]
    rate: Option<NonZeroU32>,
    /// How much of the state the keys and values that it writes may take, such as 64MiB; `none`
    /// takes its quota away. Default: what the list says of the key, and for a key that it does not
    /// name, as much as there is. Needs rules 2 of the core (`quorate upgrade switch`), and an
    /// application that sees to it: the key-value store does.
    #[arg(long, value_name = "SIZE|none")]
    quota: Option<Quota>,
}

/// A key.
#[derive(Debug, Args)]
pub struct KeyArguments {
    #[command(flatten)]
    directing: Directing,
    /// The public key of the client.
    #[arg(value_name = "KEY", value_parser = public_key)]
    key: PublicKey,
}

/// A policy.
#[derive(Debug, Args)]
pub struct PolicyArguments {
    #[command(flatten)]
    directing: Directing,
    /// From whom commands are taken.
    #[arg(value_enum, value_name = "POLICY")]
    policy: Policy,
}

/// A directive in a file.
#[derive(Debug, Args)]
pub struct FileArguments {
    #[command(flatten)]
    signing: Signing,
    /// The file that `--out` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// From whom commands are taken.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    /// Anybody whose key is not revoked.
    Open,
    /// Allowed keys alone.
    Listed,
}

impl From<Policy> for Admission {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Open => Self::Open,
            Policy::Listed => Self::Listed,
        }
    }
}

fn public_key(text: &str) -> Result<PublicKey, String> {
    let expected = "expected the 64 hexadecimal digits that `quorate keygen` printed";
    let Some(Value::Hex(bytes)) = Kind::Hex(&[32]).parse(text) else {
        return Err(expected.to_owned());
    };
    let key: [u8; 32] = bytes.try_into().map_err(|_| expected)?;
    ed25519::read_key(&key).map_err(|problem| format!("the key {problem}: {expected}"))?;
    Ok(PublicKey(key))
}

fn prefix(text: &str) -> Result<Bytes, String> {
    match text.len() {
        0 => Err("it is empty: leave --prefix out to allow all keys".to_owned()),
        1..=MAX_PREFIX_BYTES => Ok(Bytes::copy_from_slice(text.as_bytes())),
        _ => Err(format!("it has more than {MAX_PREFIX_BYTES} bytes")),
    }
}

/// Runs `client`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Allow(AllowArguments { directing, key, read_only, prefix, rate, quota }) => {
            directed(directing, format, |known, clients| {
                let grant = Grant {
                    write: !read_only,
                    prefixes: prefix.clone(),
                    commands_per_second: *rate,
                    stored_bytes: quota::decided(*quota, known, clients, key)?,
                };
                Ok(Order::Allow(*key, grant))
            })
        }
        Command::Revoke(KeyArguments { directing, key }) => {
            directed(directing, format, |_, _| Ok(Order::Revoke(*key)))
        }
        Command::Forget(KeyArguments { directing, key }) => {
            directed(directing, format, |_, _| Ok(Order::Forget(*key)))
        }
        Command::Policy(PolicyArguments { directing, policy }) => {
            directed(directing, format, |_, _| Ok(Order::Admit((*policy).into())))
        }
        Command::Approve(FileArguments { signing, file }) => approve(signing, file, format),
        Command::Submit(FileArguments { signing, file }) => {
            let mut known = Known::of(&signing.home)?;
            let administrators = signing.keys()?;
            let directive = signed(&known, read(file)?, &administrators);
            submitted(&mut known, &directive, &administrators, format)
        }
        Command::List(arguments) => {
            let known = Known::of(&arguments.home)?;
            told(&known, &listed(&known)?, format)
        }
    }
}

/// Gives the order that follows from the list: submits the directive, or writes it down.
fn directed(
    directing: &Directing,
    format: Format,
    order: impl FnOnce(&Known, &Clients) -> Result<Order, Failure>,
) -> Result<(), Failure> {
    let mut known = Known::of(&directing.signing.home)?;
    let administrators = directing.signing.keys()?;
    let clients = listed(&known)?;
    let (serial, order) = (clients.next_serial(), order(&known, &clients)?);
    let directive =
        SignedDirective { directive: Directive { serial, order }, approvals: Vec::new() };
    let directive = signed(&known, directive, &administrators);
    let Some(out) = &directing.out else {
        return submitted(&mut known, &directive, &administrators, format);
    };
    write_command(out, &directive.to_command())?;
    told_of(&known, &directive, format)
}

/// Adds approvals to a directive in a file.
fn approve(signing: &Signing, file: &Path, format: Format) -> Result<(), Failure> {
    let known = Known::of(&signing.home)?;
    let administrators = signing.keys()?;
    if administrators.is_empty() {
        let what = "nobody signs".to_owned();
        let remedy = "name an administrator's key file".to_owned();
        let place = Place::Flag("--administrator".to_owned());
        return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
    }
    let directive = signed(&known, read(file)?, &administrators);
    replace(file, &directive.to_command())
        .map_err(|finding| Failure::new(Exit::Failed, finding))?;
    told_of(&known, &directive, format)
}

fn read(file: &Path) -> Result<SignedDirective, Failure> {
    let usage = |what: String| {
        let remedy = "name the file that `quorate client … --out` wrote".to_owned();
        let place = Place::File(file.to_owned());
        Failure::new(Exit::Usage, Finding { what, place, remedy })
    };
    let command = std::fs::read(file).map_err(|error| usage(error.to_string()))?;
    if !SignedDirective::is_one(&command) {
        return Err(usage("this is no directive on clients".to_owned()));
    }
    SignedDirective::of_command(&command)
        .map_err(|error| usage(format!("the directive cannot be read: {error}")))
}

fn signed(
    known: &Known,
    mut directive: SignedDirective,
    administrators: &[SecretKey],
) -> SignedDirective {
    let committee = known.chain.committee();
    administrators.iter().for_each(|key| rights::approve(&mut directive, committee, key));
    directive
}

fn listed(known: &Known) -> Result<Clients, Failure> {
    let listed = known.runtime.block_on(rights::list(known.chain.committee()));
    listed.map_err(|error| known.failed(&error, "see that the replicas run (`quorate status`)"))
}

fn submitted(
    known: &mut Known,
    directive: &SignedDirective,
    administrators: &[SecretKey],
    format: Format,
) -> Result<(), Failure> {
    if !directive.is_of_administrators(known.chain.committee()) {
        let what = "somebody signed who is no administrator of this epoch".to_owned();
        let remedy = "name the key files of administrators alone (--administrator)";
        return Err(known.failed(&what, remedy));
    }
    let clients = listed(known)?;
    let client = known.client_of(administrators)?;
    let done = rights::submit(directive, &clients, &known.cluster, &known.chain, client);
    known.runtime.block_on(done).map_err(|error| refused(known, &error))?;
    let began = Instant::now();
    loop {
        let clients = listed(known)?;
        // f + 1 members may be behind for a moment.
        if clients.next_serial() > directive.directive.serial || began.elapsed() > KNOWN_WITHIN {
            return told(known, &clients, format);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn refused(known: &Known, error: &DirectiveError) -> Failure {
    let remedy = match error {
        DirectiveError::Refused(Refusal::NotApproved { .. }) => {
            "add --administrator KEYFILE for each who must sign; if they are elsewhere, write the \
             directive down with --out FILE, and have them approve it (`quorate client approve`)"
        }
        DirectiveError::Refused(Refusal::Serial { .. }) => {
            "another directive was carried out first: see `quorate client list`, and give the order anew"
        }
        DirectiveError::Refused(Refusal::NoQuotasYet { .. }) => {
            "see that all members have this release (`quorate upgrade status`), switch the rules on \
             (`quorate upgrade switch`), and give the order anew"
        }
        DirectiveError::Refused(Refusal::Full(_)) => "forget keys that are not needed any more",
        DirectiveError::Refused(_) => "correct what is asked for; the list is as it was",
        DirectiveError::NotCarriedOut(ChangeError::RefusedThere(_)) => "the list is as it was",
        DirectiveError::NotCarriedOut(_) => {
            "look whether it was carried out (`quorate client list`), or try again; name an \
             administrator's key file (--administrator), who always gets a session"
        }
    };
    known.failed(error, remedy)
}

/// Says how many have signed.
fn told_of(known: &Known, directive: &SignedDirective, format: Format) -> Result<(), Failure> {
    let needed = known.chain.committee().governance().approvals;
    let (serial, signed) = (directive.directive.serial, directive.approvals.len());
    let said = said(&directive.directive.order);
    match format {
        Format::Table => print(&format!(
            "directive {serial}: {said}\nsigned by {signed} administrators; {needed} must\n"
        )),
        Format::Json => print_json(&json!({
            "serial": serial, "order": said, "signed": signed, "needed": needed,
        })),
    }
}

fn said(order: &Order) -> String {
    match order {
        Order::Allow(key, grant) => format!("allow {}: {}", Digest(key.0), rights_of(grant)),
        Order::Revoke(key) => format!("revoke {}", Digest(key.0)),
        Order::Forget(key) => format!("forget {}", Digest(key.0)),
        Order::Admit(admission) => format!("policy {}", name(*admission)),
    }
}

fn name(admission: Admission) -> &'static str {
    match admission {
        Admission::Open => "open",
        Admission::Listed => "listed",
    }
}

fn rights_of(grant: &Grant) -> String {
    let prefixes: Vec<_> = grant.prefixes.iter().map(|it| String::from_utf8_lossy(it)).collect();
    let keys = match (grant.write, prefixes.is_empty()) {
        (false, _) => "read-only".to_owned(),
        (true, true) => "all keys".to_owned(),
        (true, false) => format!("keys with {}", prefixes.join(", ")),
    };
    let rate = grant.commands_per_second.map(|rate| format!(", {rate} commands a second"));
    let quota = grant.stored_bytes.map(|bytes| format!(", {} of state", ByteSize(bytes.get())));
    keys + &rate.unwrap_or_default() + &quota.unwrap_or_default()
}

fn told(known: &Known, clients: &Clients, format: Format) -> Result<(), Failure> {
    let policy = name(clients.admission());
    let stored = quota::stored(known, clients);
    let of = |key: &PublicKey| stored.as_ref().and_then(|stored| stored.get(key).copied());
    match format {
        Format::Table => {
            let row = |(key, entry): (&PublicKey, &Entry)| {
                let rights = match entry {
                    Entry::Granted(grant) => rights_of(grant),
                    Entry::Revoked => "revoked".to_owned(),
                };
                let stores = of(key).map_or_else(|| "-".to_owned(), |it| ByteSize(it).to_string());
                [Digest(key.0).to_string(), rights, stores]
            };
            let rows: Vec<_> = clients.entries().map(row).collect();
            let next = clients.next_serial();
            let list = match rows.is_empty() {
                true => String::new(),
                false => table(["KEY", "MAY", "STORES"], &rows),
            };
            print(&format!("policy: {policy}; the next directive is {next}\n{list}"))
        }
        Format::Json => {
            let client = |(key, entry)| client(key, entry, of(key));
            print_json(&json!({
                "policy": policy,
                "next_serial": clients.next_serial(),
                "clients": clients.entries().map(client).collect::<Vec<_>>(),
            }))
        }
    }
}

fn client(key: &PublicKey, entry: &Entry, stored_bytes: Option<u64>) -> serde_json::Value {
    let key = Digest(key.0).to_string();
    match entry {
        Entry::Revoked => json!({ "key": key, "revoked": true, "stored_bytes": stored_bytes }),
        Entry::Granted(grant) => json!({
            "key": key,
            "revoked": false,
            "write": grant.write,
            "prefixes": grant.prefixes.iter().map(|it| String::from_utf8_lossy(it)).collect::<Vec<_>>(),
            "commands_per_second": grant.commands_per_second,
            "quota_bytes": grant.stored_bytes,
            "stored_bytes": stored_bytes,
        }),
    }
}
