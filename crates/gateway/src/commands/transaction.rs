//! MULTI, EXEC and DISCARD: commands that are executed together.
//!
//! The commands behind MULTI are kept until EXEC submits them as one: they are ordered in one
//! frame, and nothing of others is executed between them. As in Redis, a command that fails undoes
//! nothing of the others, and a command that cannot be kept spoils the transaction: EXEC then
//! executes nothing of it.
//!
//! WATCH is refused. A client that sends WATCH, MULTI and EXEC without reading the answers must not
//! write unguarded, so a refused WATCH spoils the next transaction as well.

use quorate_core::planted;

use super::acl::changes_user;
use super::table::{COMMANDS, Spec, find};
use super::{Batch, Connection, Then, fits, is_muted, refuse, run};
use crate::resp::{Args, write};

/// Most bytes of kept commands, with [`RANGE_BYTES`] for each argument.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// Bytes that an argument takes up beside its own.
const RANGE_BYTES: usize = size_of::<(usize, usize)>();

/// Where a connection stands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    kept: Option<Kept>,
    /// A WATCH was refused, and nothing has taken it back since.
    unguarded: bool,
}

/// The commands since MULTI.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Where the arguments are in `bytes`.
    ranges: Vec<(usize, usize)>,
    /// Where the arguments of each command end in `ranges`.
    ends: Vec<usize>,
    /// A command was not kept: EXEC must execute nothing.
    spoiled: bool,
}

impl Kept {
    fn push(&mut self, args: Args<'_>) {
        for arg in args.from(0) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(arg);
            self.ranges.push((start, self.bytes.len()));
        }
        self.ends.push(self.ranges.len());
    }

    fn has_room(&self, args: Args<'_>, most_commands: usize) -> bool {
        let more: usize = args.from(0).map(|arg| arg.len() + RANGE_BYTES).sum();
        self.ends.len() < most_commands
            && self.bytes.len() + self.ranges.len() * RANGE_BYTES + more <= MAX_KEPT_BYTES
    }
}

impl Transaction {
    /// Whether `spec` is to be kept for EXEC instead of being run.
    pub(super) fn keeps(&self, spec: &Spec) -> bool {
        let runs_at_once = ["discard", "exec", "multi", "quit", "reset", "watch"];
        self.kept.is_some() && !runs_at_once.contains(&spec.name)
    }

    /// A command was refused. If there is a transaction, nothing of it is executed any more.
    pub(super) fn spoil(&mut self) {
        if let Some(kept) = &mut self.kept
            && planted!("refused-multi-goes-on", false, true)
        {
            // What is kept is of no use now.
            *kept = Kept { spoiled: true, ..Kept::default() };
        }
    }
}

/// Keeps a command for EXEC.
pub(super) fn keep(spec: &Spec, args: Args<'_>, connection: &mut Connection, batch: &mut Batch) {
    let most_commands = connection.shared.frame.commands;
    let complaint = match &mut connection.transaction.kept {
        _ if !fits(spec, args) => {
            format!("ERR wrong number of arguments for '{}' command", spec.name)
        }
        _ if spec.name == "client" || changes_user(spec) => {
            format!("ERR {} is not allowed in a transaction", spec.name.to_ascii_uppercase())
        }
        Some(kept) if !kept.spoiled && !kept.has_room(args, most_commands) => format!(
            "ERR a transaction has at most {most_commands} commands and {MAX_KEPT_BYTES} \
             bytes"
        ),
        kept => {
            if let Some(kept) = kept.as_mut().filter(|kept| !kept.spoiled) {
                kept.push(args);
            }
            if !is_muted(connection) {
                batch.answer(|out| write::simple(out, "QUEUED"));
            }
            return;
        }
    };
    connection.transaction.spoil();
    refuse(&complaint, connection, batch);
}

pub(super) fn multi(_: Args<'_>, connection: &mut Connection, out: &mut Vec<u8>) -> Then {
    let transaction = &mut connection.transaction;
    if transaction.kept.is_some() {
        write::error(out, "ERR MULTI calls can not be nested");
        return Then::Continue;
    }
    transaction.kept = Some(Kept { spoiled: transaction.unguarded, ..Kept::default() });
    write::simple(out, "OK");
    Then::Continue
}

pub(super) fn discard(_: Args<'_>, connection: &mut Connection, out: &mut Vec<u8>) -> Then {
    match std::mem::take(&mut connection.transaction).kept {
        Some(_) => write::simple(out, "OK"),
        None => write::error(out, "ERR DISCARD without MULTI"),
    }
    Then::Continue
}

pub(super) fn watch(_: Args<'_>, connection: &mut Connection, out: &mut Vec<u8>) -> Then {
    connection.transaction.spoil();
    connection.transaction.unguarded = true;
    write::error(
        out,
        "ERR WATCH is not supported: use MULTI alone, SET with NX or GETSET; the transaction that \
         follows is not executed",
    );
    Then::Continue
}

pub(super) fn unwatch(_: Args<'_>, connection: &mut Connection, out: &mut Vec<u8>) -> Then {
    connection.transaction.unguarded = false;
    write::simple(out, "OK");
    Then::Continue
}

/// Puts the kept commands behind `batch`, to be submitted as one.
pub(super) fn exec(connection: &mut Connection, batch: &mut Batch) {
    let kept = match std::mem::take(&mut connection.transaction).kept {
        None => return refuse("ERR EXEC without MULTI", connection, batch),
        Some(kept) if kept.spoiled => {
            let complaint = "EXECABORT Transaction discarded because of previous errors.";
            return refuse(complaint, connection, batch);
        }
        Some(kept) => kept,
    };
    let mut together = Batch { together: true, ..Batch::default() };
    if !is_muted(connection) {
        together.answer(|out| write::array(out, kept.ends.len()));
    }
    let mut start = 0;
    for &end in &kept.ends {
        let args = Args::new(&kept.bytes, kept.ranges.get(start..end).unwrap_or_default());
        start = end;
        if let Some(spec) = find(COMMANDS, args.get(0)) {
            run(spec, args, connection, &mut together);
        }
    }
    let most_bytes = connection.shared.frame.bytes;
    if together.frame_bytes() > most_bytes {
        let complaint = format!(
            "EXECABORT Transaction discarded: its commands are longer than {most_bytes} bytes"
        );
        return refuse(&complaint, connection, batch);
    }
    batch.behind = Some(Box::new(together));
}
