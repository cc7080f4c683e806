//! COMMAND and its subcommands: the table, told to clients.

use quorate_app::kv::MAX_PATTERN_BYTES;

use super::local::few;
use super::table::{Argument, COMMANDS, Spec, find};
use super::{Connection, Then};
use crate::acl::{CATEGORIES, in_category};
use crate::resp::write::Protocol;
use crate::resp::{Args, write};

type Out = Vec<u8>;

/// COMMAND without a subcommand.
pub(super) fn all(protocol: Protocol, out: &mut Out) {
    write::array(out, COMMANDS.len());
    for spec in COMMANDS {
        details(out, protocol, spec);
    }
}

pub(super) fn count(_: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    write::integer(out, COMMANDS.len() as i64);
    Then::Continue
}

pub(super) fn info(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let protocol = connection.protocol;
    if args.len() == 2 {
        all(protocol, out);
        return Then::Continue;
    }
    if let Err(complaint) = few(args) {
        write::error(out, complaint);
        return Then::Continue;
    }
    write::array(out, args.len() - 2);
    for name in args.from(2) {
        match named(name) {
            Some(spec) => details(out, protocol, spec),
            None => write::nil_array(out, protocol),
        }
    }
    Then::Continue
}

pub(super) fn docs(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    if let Err(complaint) = few(args) {
        write::error(out, complaint);
        return Then::Continue;
    }
    // As in Redis a name that there is not is left out.
    let specs: Vec<_> = match args.len() {
        2 => COMMANDS.iter().collect(),
        _ => args.from(2).filter_map(named).collect(),
    };
    write::map(out, connection.protocol, specs.len());
    for spec in specs {
        documentation(out, connection.protocol, spec);
    }
    Then::Continue
}

pub(super) fn list(args: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    let names: Vec<_> = match args.len() {
        2 => COMMANDS.iter().collect(),
        5 if args.get(4).len() > MAX_PATTERN_BYTES => {
            let complaint = format!("ERR pattern is longer than {MAX_PATTERN_BYTES} bytes");
            write::error(out, complaint);
            return Then::Continue;
        }
        5 if args.is(2, "filterby") && args.is(3, "pattern") => {
            let pattern = args.get(4).to_ascii_lowercase();
            let fits = |spec: &&Spec| quorate_app::kv::matches(&pattern, spec.name.as_bytes());
            COMMANDS.iter().filter(fits).collect()
        }
        5 if args.is(2, "filterby") && args.is(3, "aclcat") => {
            let wanted = String::from_utf8_lossy(args.get(4)).to_ascii_lowercase();
            COMMANDS
                .iter()
                .filter(|spec| categories(spec).contains(&format!("@{wanted}")))
                .collect()
        }
        5 if args.is(2, "filterby") && args.is(3, "module") => Vec::new(),
        _ => {
            write::error(out, "ERR syntax error");
            return Then::Continue;
        }
    };
    write::array(out, names.len());
    for spec in names {
        write::bulk(out, spec.name);
    }
    Then::Continue
}

pub(super) fn keys_of(args: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    let Some(spec) = find(COMMANDS, args.get(2)) else {
        write::error(out, "ERR Invalid command specified");
        return Then::Continue;
    };
    // Positions count from the command's name, which is the argument at 2.
    let count = args.len() - 2;
    let enough = match usize::try_from(spec.arity) {
        Ok(exactly) => count == exactly,
        Err(_) => count >= spec.arity.unsigned_abs() as usize,
    };
    if spec.keys.0 == 0 {
        write::error(out, "ERR The command has no key arguments");
        return Then::Continue;
    }
    if !enough {
        write::error(out, "ERR Invalid number of arguments specified for command");
        return Then::Continue;
    }
    let keys: Vec<_> = spec.keys_of(args, 2).collect();
    write::array(out, keys.len());
    for key in keys {
        write::bulk(out, key);
    }
    Then::Continue
}

/// What `CONTAINER HELP` says.
pub(super) fn help(out: &mut Out, spec: &Spec) {
    let container = spec.name.to_ascii_uppercase();
    write::array(out, 3 + 2 * spec.parts.len());
    let head = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    write::simple(out, &head);
    for part in spec.parts {
        let words: Vec<_> = part.arguments.iter().map(syntax).collect();
        let name = part.last_word().to_ascii_uppercase();
        write::simple(out, format!("{name} {}", words.join(" ")).trim_end());
        write::simple(out, &format!("    {}.", part.summary));
    }
    write::simple(out, "HELP");
    write::simple(out, "    Print this help.");
}

fn syntax(argument: &Argument) -> String {
    let parts: Vec<_> = argument.parts.iter().map(syntax).collect();
    let value = match argument.kind {
        "oneof" => parts.join("|"),
        "block" => parts.join(" "),
        "pure-token" => String::new(),
        _ => format!("<{}>", argument.name),
    };
    let mut text = format!("{} {value}", argument.token.unwrap_or_default()).trim().to_owned();
    if argument.multiple {
        text = format!("{text} [{text} ...]");
    }
    match argument.optional {
        true => format!("[{text}]"),
        false => text,
    }
}

/// The command or subcommand (`config|get`) of this name.
fn named(name: &[u8]) -> Option<&'static Spec> {
    let container = name.split(|byte| *byte == b'|').next()?;
    let spec = find(COMMANDS, container)?;
    match container.len() == name.len() {
        true => Some(spec),
        false => spec.parts.iter().find(|part| part.name.as_bytes().eq_ignore_ascii_case(name)),
    }
}

/// What COMMAND INFO says of a command.
fn details(out: &mut Out, protocol: Protocol, spec: &Spec) {
    let (first, last, step) = spec.keys;
    write::array(out, 10);
    write::bulk(out, spec.name);
    write::integer(out, i64::from(spec.arity));
    write::set(out, protocol, spec.flags.len());
    for flag in spec.flags {
        write::simple(out, flag);
    }
    for position in [first, last, step] {
        write::integer(out, i64::from(position));
    }
    let categories = categories(spec);
    write::set(out, protocol, categories.len());
    for category in categories {
        write::simple(out, &category);
    }
    // No tips and no key specifications beyond the positions above.
    write::set(out, protocol, 0);
    write::set(out, protocol, 0);
    write::array(out, spec.parts.len());
    for part in spec.parts {
        details(out, protocol, part);
    }
}

fn categories(spec: &Spec) -> Vec<String> {
    let named = CATEGORIES.into_iter().filter(|category| *category != "all");
    let named = named.filter(|category| in_category(spec, category));
    named.map(|category| format!("@{category}")).collect()
}

/// A name, and what COMMAND DOCS says under it.
fn documentation(out: &mut Out, protocol: Protocol, spec: &Spec) {
    write::bulk(out, spec.name);
    let more = usize::from(!spec.arguments.is_empty()) + usize::from(!spec.parts.is_empty());
    write::map(out, protocol, 3 + more);
    for (field, text) in [("summary", spec.summary), ("since", spec.since), ("group", spec.group)] {
        write::bulk(out, field);
        write::bulk(out, text);
    }
    if !spec.arguments.is_empty() {
        write::bulk(out, "arguments");
        arguments(out, protocol, spec.arguments);
    }
    if !spec.parts.is_empty() {
        write::bulk(out, "subcommands");
        write::map(out, protocol, spec.parts.len());
        for part in spec.parts {
            documentation(out, protocol, part);
        }
    }
}

fn arguments(out: &mut Out, protocol: Protocol, list: &[Argument]) {
    write::array(out, list.len());
    for argument in list {
        let flags: Vec<_> = [(argument.optional, "optional"), (argument.multiple, "multiple")]
            .into_iter()
            .filter_map(|(set, flag)| set.then_some(flag))
            .collect();
        let is_key = argument.kind == "key";
        let more = usize::from(is_key)
            + usize::from(argument.token.is_some())
            + usize::from(!flags.is_empty())
            + usize::from(!argument.parts.is_empty());
        write::map(out, protocol, 2 + more);
        write::bulk(out, "name");
        write::bulk(out, argument.name);
        write::bulk(out, "type");
        write::bulk(out, argument.kind);
        if is_key {
            write::bulk(out, "key_spec_index");
            write::integer(out, 0);
        }
        if let Some(token) = argument.token {
            write::bulk(out, "token");
            write::bulk(out, token);
        }
        if !flags.is_empty() {
            write::bulk(out, "flags");
            write::set(out, protocol, flags.len());
            for flag in flags {
                write::simple(out, flag);
            }
        }
        if !argument.parts.is_empty() {
            write::bulk(out, "arguments");
            arguments(out, protocol, argument.parts);
        }
    }
}
