//! The table of commands: what COMMAND says of each, and what answers it.

use super::{Complaint, Connection, Then, acl, client, docs, local, ordered, transaction};
use crate::reply::Shape;
use crate::resp::Args;
use crate::resp::write::Protocol;

/// A command or subcommand.
#[derive(Debug)]
pub struct Spec {
    /// Its name in lower case; a subcommand's is behind its command's and a bar.
    pub name: &'static str,
    /// How many arguments it takes, its own name included; negative: at least so many.
    pub arity: i32,
    /// Redis's flags.
    pub flags: &'static [&'static str],
    /// The positions of its first and last key (negative: from the end), and the step between.
    pub keys: (i8, i8, i8),
    /// Redis's group.
    pub group: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// Its subcommands.
    pub parts: &'static [Spec],
    /// What answers it.
    pub handler: Handler,
}

/// What answers a command.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// The cluster: this encodes the command for it.
    Ordered(fn(Args<'_>, &mut Vec<u8>) -> Result<Shape, Complaint>),
    /// The gateway: this writes the reply.
    Local(fn(Args<'_>, &mut Connection, &mut Vec<u8>) -> Then),
    /// EXEC: the commands since MULTI are submitted together.
    Exec,
    /// A subcommand; or, where none is given, this, if there is any.
    Container(Option<fn(Protocol, &mut Vec<u8>)>),
}

impl Spec {
    /// The arguments that are keys, of a request whose name is the argument at `name`.
    pub fn keys_of<'a>(&self, args: Args<'a>, name: usize) -> impl Iterator<Item = &'a [u8]> {
        let (first, last, step) = self.keys;
        let count = args.len().saturating_sub(name);
        let first = usize::try_from(first).unwrap_or(0);
        let end = match usize::try_from(last) {
            Ok(last) => last + 1,
            Err(_) => (count + 1).saturating_sub(usize::from(last.unsigned_abs())),
        };
        // Without keys the range is empty.
        let positions = first..if first == 0 { 0 } else { end };
        let step = usize::try_from(step).unwrap_or(1).max(1);
        positions.step_by(step).map(move |at| args.get(name + at))
    }

    /// A subcommand's own name.
    pub(super) fn last_word(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    const fn summary(mut self, since: &'static str, summary: &'static str) -> Self {
        self.since = since;
        self.summary = summary;
        self
    }

    const fn flags(mut self, flags: &'static [&'static str]) -> Self {
        self.flags = flags;
        self
    }

    const fn keys(mut self, first: i8, last: i8, step: i8) -> Self {
        self.keys = (first, last, step);
        self
    }

    const fn arguments(mut self, arguments: &'static [Argument]) -> Self {
        self.arguments = arguments;
        self
    }

    const fn parts(mut self, parts: &'static [Self]) -> Self {
        self.parts = parts;
        self
    }
}

const fn spec(name: &'static str, arity: i32, group: &'static str, handler: Handler) -> Spec {
    Spec {
        name,
        arity,
        flags: &[],
        keys: (0, 0, 0),
        group,
        since: "",
        summary: "",
        arguments: &[],
        parts: &[],
        handler,
    }
}

type Encode = fn(Args<'_>, &mut Vec<u8>) -> Result<Shape, Complaint>;
type Write = fn(Args<'_>, &mut Connection, &mut Vec<u8>) -> Then;

/// A command with its one key in front.
const fn keyed(name: &'static str, arity: i32, group: &'static str, encode: Encode) -> Spec {
    spec(name, arity, group, Handler::Ordered(encode)).keys(1, 1, 1)
}

/// A command about the connection.
const fn own(name: &'static str, arity: i32, write: Write) -> Spec {
    spec(name, arity, "connection", Handler::Local(write)).flags(LOCAL)
}

/// A command about a transaction.
const fn transactional(name: &'static str, arity: i32, handler: Handler) -> Spec {
    spec(name, arity, "transactions", handler).flags(LOCAL)
}

const fn server(name: &'static str, arity: i32, write: Write) -> Spec {
    spec(name, arity, "server", Handler::Local(write)).flags(LOCAL)
}

/// An argument, as COMMAND DOCS describes it.
#[derive(Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Redis's word for its type.
    pub kind: &'static str,
    /// The word in front of it.
    pub token: Option<&'static str>,
    /// Whether it can be left out.
    pub optional: bool,
    /// Whether it can be repeated.
    pub multiple: bool,
    /// The alternatives of a `oneof`, the parts of a `block`.
    pub parts: &'static [Self],
}

impl Argument {
    const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    const fn multiple(mut self) -> Self {
        self.multiple = true;
        self
    }

    const fn behind(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }
}

const fn argument(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, token: None, optional: false, multiple: false, parts: &[] }
}

const fn word(name: &'static str, token: &'static str) -> Argument {
    argument(name, "pure-token").behind(token)
}

const fn nested(name: &'static str, kind: &'static str, parts: &'static [Argument]) -> Argument {
    let mut argument = argument(name, kind);
    argument.parts = parts;
    argument
}

const KEY: Argument = argument("key", "key");
const VALUE: Argument = argument("value", "string");
const FIELD: Argument = argument("field", "string");
const PATTERN: Argument = argument("pattern", "pattern");
const FIELD_VALUE: Argument = nested("field_value", "block", &[FIELD, VALUE]).multiple();
const FLUSHING: Argument =
    nested("async", "oneof", &[word("async", "ASYNC"), word("sync", "SYNC")]).optional();

const READ_FAST: &[&str] = &["readonly", "fast"];
const READ: &[&str] = &["readonly"];
const WRITE_FAST: &[&str] = &["write", "denyoom", "fast"];
const WRITE: &[&str] = &["write", "denyoom"];
const REMOVE: &[&str] = &["write"];
const REMOVE_FAST: &[&str] = &["write", "fast"];
const LOCAL: &[&str] = &["loading", "stale", "fast"];

/// The command named `name`, in whatever case.
#[must_use]
pub fn find(table: &'static [Spec], name: &[u8]) -> Option<&'static Spec> {
    let mut lower = [0; 16];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let at = table.binary_search_by(|spec| spec.name.as_bytes().cmp(lower)).ok()?;
    table.get(at)
}

/// All commands, by name.
pub const COMMANDS: &[Spec] = &[
    spec("acl", -2, "server", Handler::Container(None))
        .summary("6.0.0", "A container for Access List Control commands")
        .parts(ACL),
    keyed("append", 3, "string", ordered::append)
        .summary("2.0.0", "Append a value to a key")
        .flags(WRITE_FAST)
        .arguments(&[KEY, VALUE]),
    own("auth", -2, acl::auth)
        .summary("1.0.0", "Authenticate to the server")
        .arguments(&[argument("username", "string").optional(), argument("password", "string")]),
    spec("client", -2, "connection", Handler::Container(None))
        .summary("2.4.0", "A container for client connection commands")
        .parts(CLIENT),
    spec("command", -1, "server", Handler::Container(Some(docs::all)))
        .summary("2.8.13", "Get array of command details")
        .flags(&["loading", "stale"])
        .parts(COMMAND),
    spec("config", -2, "server", Handler::Container(None))
        .summary("2.0.0", "A container for server configuration commands")
        .parts(CONFIG),
    spec("dbsize", 1, "server", Handler::Ordered(ordered::db_size))
        .summary("1.0.0", "Return the number of keys in the selected database")
        .flags(READ_FAST),
    keyed("decr", 2, "string", ordered::decr)
        .summary("1.0.0", "Decrement the integer value of a key by one")
        .flags(WRITE_FAST)
        .arguments(&[KEY]),
    keyed("decrby", 3, "string", ordered::decr_by)
        .summary("1.0.0", "Decrement the integer value of a key by the given number")
        .flags(WRITE_FAST)
        .arguments(&[KEY, argument("decrement", "integer")]),
    keyed("del", -2, "generic", ordered::del)
        .summary("1.0.0", "Delete a key")
        .flags(REMOVE)
        .keys(1, -1, 1)
        .arguments(&[KEY.multiple()]),
    transactional("discard", 1, Handler::Local(transaction::discard))
        .summary("2.0.0", "Discard the commands queued since MULTI"),
    own("echo", 2, local::echo)
        .summary("1.0.0", "Echo the given string")
        .arguments(&[argument("message", "string")]),
    transactional("exec", 1, Handler::Exec)
        .summary("1.2.0", "Execute the commands queued since MULTI together"),
    keyed("exists", -2, "generic", ordered::exists)
        .summary("1.0.0", "Determine if a key exists")
        .flags(READ_FAST)
        .keys(1, -1, 1)
        .arguments(&[KEY.multiple()]),
    spec("flushall", -1, "server", Handler::Ordered(ordered::flush))
        .summary("1.0.0", "Remove all keys from all databases")
        .flags(REMOVE)
        .arguments(&[FLUSHING]),
    spec("flushdb", -1, "server", Handler::Ordered(ordered::flush))
        .summary("1.0.0", "Remove all keys from the current database")
        .flags(REMOVE)
        .arguments(&[FLUSHING]),
    keyed("get", 2, "string", ordered::get)
        .summary("1.0.0", "Get the value of a key")
        .flags(READ_FAST)
        .arguments(&[KEY]),
    keyed("getdel", 2, "string", ordered::get_del)
        .summary("6.2.0", "Get the value of a key and delete the key")
        .flags(REMOVE_FAST)
        .arguments(&[KEY]),
    keyed("getset", 3, "string", ordered::get_set)
        .summary("1.0.0", "Set the string value of a key and return its old value")
        .flags(WRITE_FAST)
        .arguments(&[KEY, VALUE]),
    keyed("hdel", -3, "hash", ordered::h_del)
        .summary("2.0.0", "Delete one or more hash fields")
        .flags(REMOVE_FAST)
        .arguments(&[KEY, FIELD.multiple()]),
    own("hello", -1, local::hello).summary("6.0.0", "Handshake with Redis").arguments(&[nested(
        "arguments",
        "block",
        &[
            argument("protover", "integer"),
            nested(
                "auth",
                "block",
                &[argument("username", "string"), argument("password", "string")],
            )
            .behind("AUTH")
            .optional(),
            argument("clientname", "string").behind("SETNAME").optional(),
        ],
    )
    .optional()]),
    keyed("hexists", 3, "hash", ordered::h_exists)
        .summary("2.0.0", "Determine if a hash field exists")
        .flags(READ_FAST)
        .arguments(&[KEY, FIELD]),
    keyed("hget", 3, "hash", ordered::h_get)
        .summary("2.0.0", "Get the value of a hash field")
        .flags(READ_FAST)
        .arguments(&[KEY, FIELD]),
    keyed("hgetall", 2, "hash", ordered::h_get_all)
        .summary("2.0.0", "Get all the fields and values in a hash")
        .flags(READ)
        .arguments(&[KEY]),
    keyed("hincrby", 4, "hash", ordered::h_incr_by)
        .summary("2.0.0", "Increment the integer value of a hash field by the given number")
        .flags(WRITE_FAST)
        .arguments(&[KEY, FIELD, argument("increment", "integer")]),
    keyed("hkeys", 2, "hash", ordered::h_keys)
        .summary("2.0.0", "Get all the fields in a hash")
        .flags(READ)
        .arguments(&[KEY]),
    keyed("hlen", 2, "hash", ordered::h_len)
        .summary("2.0.0", "Get the number of fields in a hash")
        .flags(READ_FAST)
        .arguments(&[KEY]),
    keyed("hmget", -3, "hash", ordered::h_m_get)
        .summary("2.0.0", "Get the values of all the given hash fields")
        .flags(READ_FAST)
        .arguments(&[KEY, FIELD.multiple()]),
    keyed("hmset", -4, "hash", ordered::h_m_set)
        .summary("2.0.0", "Set multiple hash fields to multiple values")
        .flags(WRITE_FAST)
        .arguments(&[KEY, FIELD_VALUE]),
    keyed("hset", -4, "hash", ordered::h_set)
        .summary("2.0.0", "Set the string value of a hash field")
        .flags(WRITE_FAST)
        .arguments(&[KEY, FIELD_VALUE]),
    keyed("hvals", 2, "hash", ordered::h_vals)
        .summary("2.0.0", "Get all the values in a hash")
        .flags(READ)
        .arguments(&[KEY]),
    keyed("incr", 2, "string", ordered::incr)
        .summary("1.0.0", "Increment the integer value of a key by one")
        .flags(WRITE_FAST)
        .arguments(&[KEY]),
    keyed("incrby", 3, "string", ordered::incr_by)
        .summary("1.0.0", "Increment the integer value of a key by the given amount")
        .flags(WRITE_FAST)
        .arguments(&[KEY, argument("increment", "integer")]),
    server("info", -1, local::info)
        .summary("1.0.0", "Get information and statistics about the server")
        .arguments(&[argument("section", "string").optional().multiple()]),
    spec("keys", 2, "generic", Handler::Ordered(ordered::keys_like))
        .summary("1.0.0", "Find all keys matching the given pattern")
        .flags(READ)
        .arguments(&[PATTERN]),
    keyed("mget", -2, "string", ordered::m_get)
        .summary("1.0.0", "Get the values of all the given keys")
        .flags(READ_FAST)
        .keys(1, -1, 1)
        .arguments(&[KEY.multiple()]),
    keyed("mset", -3, "string", ordered::m_set)
        .summary("1.0.1", "Set multiple keys to multiple values")
        .flags(WRITE)
        .keys(1, -1, 2)
        .arguments(&[nested("key_value", "block", &[KEY, VALUE]).multiple()]),
    transactional("multi", 1, Handler::Local(transaction::multi))
        .summary("1.2.0", "Queue the commands that follow, until EXEC or DISCARD"),
    own("ping", -1, local::ping)
        .summary("1.0.0", "Ping the server")
        .arguments(&[argument("message", "string").optional()]),
    keyed("pttl", 2, "generic", ordered::ttl)
        .summary("2.6.0", "Get the time to live for a key in milliseconds")
        .flags(READ_FAST)
        .arguments(&[KEY]),
    own("quit", -1, local::quit).summary("1.0.0", "Close the connection"),
    own("reset", 1, local::reset).summary("6.2.0", "Reset the connection"),
    spec("scan", -2, "generic", Handler::Ordered(ordered::scan))
        .summary("2.8.0", "Incrementally iterate the keys space")
        .flags(READ)
        .arguments(&[
            argument("cursor", "integer"),
            PATTERN.behind("MATCH").optional(),
            argument("count", "integer").behind("COUNT").optional(),
            argument("type", "string").behind("TYPE").optional(),
        ]),
    own("select", 2, local::select)
        .summary("1.0.0", "Change the selected database for the current connection")
        .arguments(&[argument("index", "integer")]),
    keyed("set", -3, "string", ordered::set)
        .summary("1.0.0", "Set the string value of a key")
        .flags(WRITE)
        .arguments(&[
            KEY,
            VALUE,
            nested("condition", "oneof", &[word("nx", "NX"), word("xx", "XX")]).optional(),
            word("get", "GET").optional(),
        ]),
    keyed("setnx", 3, "string", ordered::set_nx)
        .summary("1.0.0", "Set the value of a key, only if the key does not exist")
        .flags(WRITE_FAST)
        .arguments(&[KEY, VALUE]),
    keyed("strlen", 2, "string", ordered::str_len)
        .summary("2.2.0", "Get the length of the value stored in a key")
        .flags(READ_FAST)
        .arguments(&[KEY]),
    keyed("touch", -2, "generic", ordered::exists)
        .summary("3.2.1", "Count those of the given keys that exist")
        .flags(READ_FAST)
        .keys(1, -1, 1)
        .arguments(&[KEY.multiple()]),
    keyed("ttl", 2, "generic", ordered::ttl)
        .summary("1.0.0", "Get the time to live for a key in seconds")
        .flags(READ_FAST)
        .arguments(&[KEY]),
    keyed("type", 2, "generic", ordered::kind)
        .summary("1.0.0", "Determine the type stored at key")
        .flags(READ_FAST)
        .arguments(&[KEY]),
    keyed("unlink", -2, "generic", ordered::del)
        .summary("4.0.0", "Delete a key")
        .flags(REMOVE_FAST)
        .keys(1, -1, 1)
        .arguments(&[KEY.multiple()]),
    transactional("unwatch", 1, Handler::Local(transaction::unwatch))
        .summary("2.2.0", "Take back a WATCH that was refused"),
    transactional("watch", -2, Handler::Local(transaction::watch))
        .summary("2.2.0", "Not supported: no key is watched, and the next EXEC is refused"),
];

const ACL: &[Spec] = &[
    server("acl|cat", -2, acl::cat)
        .summary("6.0.0", "List the categories of commands, or the commands of one")
        .arguments(&[argument("category", "string").optional()]),
    server("acl|list", 2, acl::list).summary("6.0.0", "List the users with their rules"),
    server("acl|load", 2, acl::load).summary("6.0.0", "Read the file of users again"),
    server("acl|log", -2, acl::log)
        .summary("6.0.0", "List what was refused lately, or forget it")
        .arguments(&[nested(
            "operation",
            "oneof",
            &[argument("count", "integer"), word("reset", "RESET")],
        )
        .optional()]),
    server("acl|users", 2, acl::users).summary("6.0.0", "List the names of the users"),
    server("acl|whoami", 2, acl::who_am_i).summary("6.0.0", "Return the user of this connection"),
];

const CLIENT: &[Spec] = &[
    own("client|getname", 2, client::name).summary("2.6.9", "Get the current connection name"),
    own("client|id", 2, client::id).summary("5.0.0", "Return the client ID of this connection"),
    own("client|info", 2, client::about)
        .summary("6.2.0", "Return information about the current connection"),
    own("client|list", -2, client::list).summary("2.4.0", "Get the list of client connections"),
    own("client|reply", 3, client::mute)
        .summary("3.2.0", "Instruct the server whether to reply to commands")
        .arguments(&[nested(
            "on_off_skip",
            "oneof",
            &[word("on", "ON"), word("off", "OFF"), word("skip", "SKIP")],
        )]),
    own("client|setinfo", 4, client::set_info)
        .summary("7.2.0", "Note the library that the client uses")
        .arguments(&[nested(
            "attr",
            "oneof",
            &[
                argument("libname", "string").behind("LIB-NAME"),
                argument("libver", "string").behind("LIB-VER"),
            ],
        )]),
    own("client|setname", 3, client::rename)
        .summary("2.6.9", "Set the current connection name")
        .arguments(&[argument("connection-name", "string")]),
];

const COMMAND: &[Spec] = &[
    server("command|count", 2, docs::count).summary("2.8.13", "Get total number of commands"),
    server("command|docs", -2, docs::docs)
        .summary("7.0.0", "Get array of specific command documentation")
        .arguments(&[argument("command-name", "string").optional().multiple()]),
    server("command|getkeys", -3, docs::keys_of)
        .summary("2.8.13", "Extract keys given a full command")
        .arguments(&[
            argument("command", "string"),
            argument("arg", "string").optional().multiple(),
        ]),
    server("command|info", -2, docs::info)
        .summary("2.8.13", "Get array of specific command details")
        .arguments(&[argument("command-name", "string").optional().multiple()]),
    server("command|list", -2, docs::list)
        .summary("7.0.0", "Get an array of command names")
        .arguments(&[PATTERN.behind("FILTERBY PATTERN").optional()]),
];

const CONFIG: &[Spec] = &[
    server("config|get", -3, local::config_get)
        .summary("2.0.0", "Get the values of configuration parameters")
        .arguments(&[argument("parameter", "string").multiple()]),
    server("config|set", -4, local::config_set)
        .summary("2.0.0", "Not supported: the gateway is configured when it is started")
        .arguments(&[nested(
            "parameter_value",
            "block",
            &[argument("parameter", "string"), argument("value", "string")],
        )
        .multiple()]),
];
