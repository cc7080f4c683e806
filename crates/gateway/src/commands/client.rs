//! CLIENT and its subcommands.

use std::sync::atomic::Ordering;

use super::{Client, Connection, Muting, Then, lock};
use crate::resp::{Args, write};

type Out = Vec<u8>;

pub(super) fn id(_: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    write::integer(out, i64::try_from(connection.client.id).unwrap_or(i64::MAX));
    Then::Continue
}

pub(super) fn name(_: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let name = lock(&connection.client.name);
    match name.is_empty() {
        true => write::nil(out, connection.protocol),
        false => write::bulk(out, &*name),
    }
    Then::Continue
}

pub(super) fn rename(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    match set_name(connection, args.get(2)) {
        Ok(()) => write::simple(out, "OK"),
        Err(complaint) => write::error(out, complaint),
    }
    Then::Continue
}

/// Longest name of a connection, bytes: the list of clients shows all of them.
const MAX_NAME_BYTES: usize = 256;

pub(super) fn set_name(connection: &Connection, name: &[u8]) -> Result<(), &'static str> {
    if name.len() > MAX_NAME_BYTES {
        return Err("ERR Client names cannot be longer than 256 bytes.");
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    *lock(&connection.client.name) = name.to_vec();
    Ok(())
}

pub(super) fn clear_name(connection: &Connection) {
    lock(&connection.client.name).clear();
}

/// What libraries say about themselves is taken note of by nobody.
pub(super) fn set_info(args: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    match args.is(2, "lib-name") || args.is(2, "lib-ver") {
        true => write::simple(out, "OK"),
        false => {
            let option = String::from_utf8_lossy(args.get(2));
            write::error(out, format!("ERR Unrecognized option '{option}'"));
        }
    }
    Then::Continue
}

pub(super) fn list(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    if args.len() > 2 {
        write::error(out, "ERR syntax error: CLIENT LIST takes no filters here");
        return Then::Continue;
    }
    let clients = connection.shared.clients();
    let lines: Vec<u8> = clients.iter().flat_map(|client| line(client, connection)).collect();
    write::text(out, connection.protocol, lines);
    Then::Continue
}

pub(super) fn about(_: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    write::text(out, connection.protocol, line(&connection.client, connection));
    Then::Continue
}

fn line(client: &Client, connection: &Connection) -> Vec<u8> {
    let age = client.since.elapsed();
    let idle_s = client.idle().as_secs();
    let mut line = format!("id={} addr={} ", client.id, client.address).into_bytes();
    line.extend_from_slice(format!("laddr={} name=", connection.shared.address).as_bytes());
    line.extend_from_slice(&lock(&client.name));
    let protocol = if client.speaks_resp3.load(Ordering::Relaxed) { 3 } else { 2 };
    let rest = format!(
        " age={} idle={idle_s} flags=N db=0 user={} resp={protocol}\n",
        age.as_secs(),
        lock(&client.user)
    );
    line.extend_from_slice(rest.as_bytes());
    line
}

pub(super) fn mute(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    match () {
        () if args.is(2, "on") => {
            connection.muting = Muting::Off;
            write::simple(out, "OK");
        }
        () if args.is(2, "off") => connection.muting = Muting::On,
        // As in Redis nothing changes while replies are off altogether.
        () if args.is(2, "skip") => {
            if connection.muting != Muting::On {
                connection.muting = Muting::Next;
            }
        }
        () => write::error(out, "ERR syntax error"),
    }
    Then::Continue
}
