//! Commands about the connection and the gateway, answered on the spot.

use quorate_app::kv::MAX_PATTERN_BYTES;
use quorate_app::kv::decimal::parse_integer;

use super::client::{clear_name, set_name};
use super::{Connection, Muting, Then, acl, info};
use crate::resp::write::Protocol;
use crate::resp::{Args, MAX_BULK_BYTES, write};

type Out = Vec<u8>;

pub(super) fn ping(args: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    match args.len() {
        1 => write::simple(out, "PONG"),
        2 => write::bulk(out, args.get(1)),
        _ => write::error(out, "ERR wrong number of arguments for 'ping' command"),
    }
    Then::Continue
}

pub(super) fn echo(args: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    write::bulk(out, args.get(1));
    Then::Continue
}

pub(super) fn select(args: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    match parse_integer(args.get(1)) {
        Some(0) => write::simple(out, "OK"),
        Some(_) => write::error(out, "ERR DB index is out of range"),
        None => write::error(out, "ERR value is not an integer or out of range"),
    }
    Then::Continue
}

pub(super) fn quit(_: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    write::simple(out, "OK");
    Then::Close
}

pub(super) fn reset(_: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    connection.muting = Muting::Off;
    connection.speak(Protocol::Resp2);
    clear_name(connection);
    acl::reset_user(connection);
    write::simple(out, "RESET");
    Then::Continue
}

pub(super) fn hello(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    if let Err(complaint) = greet(args, connection) {
        write::error(out, complaint);
        return connection.after_failure();
    }
    write::map(out, connection.protocol, 7);
    write::bulk(out, "server");
    write::bulk(out, "quorate");
    write::bulk(out, "version");
    write::bulk(out, info::REDIS_VERSION);
    write::bulk(out, "proto");
    write::integer(out, connection.protocol.number());
    write::bulk(out, "id");
    write::integer(out, i64::try_from(connection.client.id).unwrap_or(i64::MAX));
    write::bulk(out, "mode");
    write::bulk(out, "standalone");
    write::bulk(out, "role");
    write::bulk(out, "master");
    write::bulk(out, "modules");
    write::array(out, 0);
    Then::Continue
}

/// Redis's words.
const HELLO_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, \
                           otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                           authenticate the client and select the RESP protocol version at the \
                           same time";

/// HELLO's arguments, all of which must be good before any takes effect.
fn greet(args: Args<'_>, connection: &mut Connection) -> Result<(), String> {
    let mut protocol = connection.protocol;
    if args.len() > 1 {
        match parse_integer(args.get(1)) {
            Some(2) => protocol = Protocol::Resp2,
            Some(3) => protocol = Protocol::Resp3,
            Some(_) => return Err("NOPROTO unsupported protocol version".to_owned()),
            None => {
                return Err("ERR Protocol version is not an integer or out of range".to_owned());
            }
        }
    }
    let (mut at, mut name, mut user) = (2, None, None);
    while at < args.len() {
        if args.is(at, "auth") && at + 2 < args.len() {
            user = Some((args.get(at + 1), args.get(at + 2)));
            at += 3;
            continue;
        }
        if !args.is(at, "setname") || at + 1 == args.len() {
            let option = String::from_utf8_lossy(args.get(at));
            return Err(format!("ERR Syntax error in HELLO option '{option}'"));
        }
        name = Some(args.get(at + 1));
        at += 2;
    }
    if let Some((user, password)) = user
        && !connection.authenticate(user, password)
    {
        return Err(acl::WRONG_PASSWORD.to_owned());
    }
    if !connection.is_known() {
        return Err(HELLO_FIRST.to_owned());
    }
    if let Some(name) = name {
        set_name(connection, name)?;
    }
    connection.speak(protocol);
    Ok(())
}

/// Most names in one question: each costs a description, of a hundred times its length.
const MAX_NAMES: usize = 64;

/// Refuses a question with too many names behind its two words.
pub(super) fn few(args: Args<'_>) -> Result<(), String> {
    match args.len() <= 2 + MAX_NAMES {
        true => Ok(()),
        false => Err(format!("ERR at most {MAX_NAMES} names are answered for at a time")),
    }
}

pub(super) fn info(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let wanted: Vec<_> = args.from(1).collect();
    write::text(out, connection.protocol, info::text(&connection.shared, &wanted));
    Then::Continue
}

pub(super) fn config_get(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let too_long = args.from(2).any(|pattern| pattern.len() > MAX_PATTERN_BYTES);
    let refused = match too_long {
        true => Err(format!("ERR pattern is longer than {MAX_PATTERN_BYTES} bytes")),
        false => few(args),
    };
    if let Err(complaint) = refused {
        write::error(out, complaint);
        return Then::Continue;
    }
    let settings = [
        // Every decided block is in a log before it is answered for, and there are no dumps.
        ("appendonly", "yes".to_owned()),
        ("appendfsync", "always".to_owned()),
        ("databases", "1".to_owned()),
        ("maxclients", connection.shared.max_clients.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", connection.shared.address.port().to_string()),
        ("proto-max-bulk-len", MAX_BULK_BYTES.to_string()),
        ("save", String::new()),
    ];
    let patterns: Vec<_> = args.from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let matching = settings.iter().filter(|(name, _)| {
        patterns.iter().any(|pattern| quorate_app::kv::matches(pattern, name.as_bytes()))
    });
    let matching: Vec<_> = matching.collect();
    write::map(out, connection.protocol, matching.len());
    for (name, value) in matching {
        write::bulk(out, name);
        write::bulk(out, value);
    }
    Then::Continue
}

pub(super) fn config_set(_: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    write::error(
        out,
        "ERR CONFIG SET is not supported: the gateway is configured when it is started",
    );
    Then::Continue
}
