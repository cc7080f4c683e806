//! ACL and its subcommands, and who a connection is.

use std::sync::Arc;
use std::time::Instant;

use super::table::{COMMANDS, Spec};
use super::{Connection, Then, Transaction, is_word, lock};
use crate::acl::gate::Refusal;
use crate::acl::{CATEGORIES, DEFAULT, Denied, User, in_category};
use crate::resp::{Args, write};

type Out = Vec<u8>;

pub(super) const WRONG_PASSWORD: &str =
    "WRONGPASS invalid username-password pair or user is disabled.";
const NO_AUTH: &str = "NOAUTH Authentication required.";
/// Wrong passwords after which a connection ends.
const MAX_FAILURES: u32 = 10;
/// Commands of whoever has not said who they are.
const FOR_STRANGERS: [&str; 4] = ["auth", "hello", "quit", "reset"];

impl Connection {
    /// Whether it is known who this is.
    pub(crate) const fn is_known(&self) -> bool {
        self.user.is_some()
    }

    /// Takes note of users that were replaced; says whether this one may stay.
    pub(super) fn follow_users(&mut self) -> bool {
        let generation = self.shared.gate.generation();
        if generation == self.generation {
            return true;
        }
        self.generation = generation;
        let Some(before) = self.user.take() else {
            self.become_user(self.shared.gate.acl().newcomer());
            return true;
        };
        let now = self.shared.gate.acl().user(before.name()).cloned();
        match now {
            // The same rights as before, or others, but the same password: it need not be said
            // again.
            Some(now) if now.is_enabled() && now.has_passwords_of(&before) => {
                if now != before {
                    self.transaction.spoil();
                }
                self.become_user(Some(now));
                true
            }
            _ => false,
        }
    }

    pub(super) fn become_user(&mut self, user: Option<Arc<User>>) {
        let name = user.as_ref().map_or(String::new(), |user| user.name().to_owned());
        *lock(&self.client.user) = name;
        self.user = user;
    }

    /// Whether this connection may run the command; else the error.
    pub(super) fn may(&self, spec: &Spec, args: Args<'_>) -> Result<(), String> {
        let part = spec.parts.iter().find(|part| is_word(part.last_word(), args.get(1)));
        let Some(user) = &self.user else {
            return match FOR_STRANGERS.contains(&spec.name) {
                true => Ok(()),
                false => Err(NO_AUTH.to_owned()),
            };
        };
        let spec = part.unwrap_or(spec);
        // Everybody may say who they are, and go.
        if FOR_STRANGERS.contains(&spec.name) {
            return Ok(());
        }
        let denied = match user.may(spec, args) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        };
        let (reason, text) = match denied {
            Denied::Command => {
                let (user, name) = (user.name(), spec.name);
                let text =
                    format!("NOPERM User {user} has no permissions to run the '{name}' command");
                ("command", text)
            }
            Denied::Key => ("key", "NOPERM No permissions to access a key".to_owned()),
        };
        self.note_refusal(user.name(), reason, spec.name);
        Err(text)
    }

    fn note_refusal(&self, user: &str, reason: &'static str, command: &str) {
        self.shared.gate.note(Refusal {
            user: user.to_owned(),
            reason,
            command: command.to_owned(),
            address: self.client.address,
            at: Instant::now(),
        });
    }

    /// Says who this is. Whether the password is right.
    pub(super) fn authenticate(&mut self, name: &[u8], password: &[u8]) -> bool {
        let user = self.shared.gate.acl().authenticate(name, password);
        let is_right = user.is_some();
        if is_right {
            self.become_user(user);
            self.failures = 0;
        } else {
            self.failures += 1;
            let name = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
            self.note_refusal(&name, "auth", "auth");
        }
        is_right
    }

    /// After a wrong password: whoever guesses has to connect anew.
    pub(super) const fn after_failure(&self) -> Then {
        if self.failures >= MAX_FAILURES { Then::Close } else { Then::Continue }
    }
}

pub(super) fn auth(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let (name, password) = match args.len() {
        2 => (DEFAULT.as_bytes(), args.get(1)),
        3 => (args.get(1), args.get(2)),
        _ => {
            write::error(out, "ERR syntax error");
            return Then::Continue;
        }
    };
    if args.len() == 2 && !connection.shared.gate.has_passwords() {
        write::error(
            out,
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        );
        return Then::Continue;
    }
    if connection.authenticate(name, password) {
        write::simple(out, "OK");
        return Then::Continue;
    }
    write::error(out, WRONG_PASSWORD);
    connection.after_failure()
}

pub(super) fn who_am_i(_: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    write::bulk(out, connection.user.as_ref().map_or("", |user| user.name()));
    Then::Continue
}

pub(super) fn users(_: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let acl = connection.shared.gate.acl();
    let users: Vec<_> = acl.users().collect();
    write::array(out, users.len());
    users.iter().for_each(|user| write::bulk(out, user.name()));
    Then::Continue
}

pub(super) fn list(_: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let acl = connection.shared.gate.acl();
    let users: Vec<_> = acl.users().collect();
    write::array(out, users.len());
    users.iter().for_each(|user| write::bulk(out, user.line()));
    Then::Continue
}

pub(super) fn cat(args: Args<'_>, _: &mut Connection, out: &mut Out) -> Then {
    if args.len() == 2 {
        write::array(out, CATEGORIES.len());
        CATEGORIES.iter().for_each(|category| write::bulk(out, category));
        return Then::Continue;
    }
    let Some(category) = CATEGORIES.iter().find(|category| args.is(2, category)) else {
        let given = String::from_utf8_lossy(&args.get(2)[..args.get(2).len().min(64)]).into_owned();
        write::error(out, format!("ERR Unknown category '{given}'"));
        return Then::Continue;
    };
    let all = COMMANDS.iter().flat_map(|spec| std::iter::once(spec).chain(spec.parts));
    let names: Vec<_> =
        all.filter(|spec| in_category(spec, category)).map(|spec| spec.name).collect();
    write::array(out, names.len());
    names.iter().for_each(|name| write::bulk(out, name));
    Then::Continue
}

pub(super) fn load(_: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let gate = &connection.shared.gate;
    match gate.reload() {
        _ if !gate.has_file() => {
            write::error(
                out,
                "ERR the gateway was started without --acl-file: there is none to load",
            );
        }
        Ok(()) => write::simple(out, "OK"),
        Err(error) => write::error(out, format!("ERR {error}; the users before stay in force")),
    }
    Then::Continue
}

pub(super) fn log(args: Args<'_>, connection: &mut Connection, out: &mut Out) -> Then {
    let gate = &connection.shared.gate;
    if args.is(2, "reset") {
        gate.forget_refusals();
        write::simple(out, "OK");
        return Then::Continue;
    }
    let most = match args.len() {
        2 => Some(10),
        _ => quorate_app::kv::decimal::parse_integer(args.get(2))
            .and_then(|n| usize::try_from(n).ok()),
    };
    let Some(most) = most else {
        write::error(out, "ERR value is not an integer or out of range");
        return Then::Continue;
    };
    let mut refusals = gate.refusals();
    refusals.truncate(most);
    write::array(out, refusals.len());
    for refusal in refusals {
        write::map(out, connection.protocol, 5);
        let age = refusal.at.elapsed().as_secs_f64();
        let fields = [
            ("reason", refusal.reason.to_owned()),
            ("object", refusal.command),
            ("username", refusal.user),
            ("age-seconds", format!("{age:.3}")),
            ("client-info", format!("addr={}", refusal.address)),
        ];
        for (name, value) in fields {
            write::bulk(out, name);
            write::bulk(out, value);
        }
    }
    Then::Continue
}

/// Whether a connection in a transaction may not run this: it would change who runs the rest.
pub(super) fn changes_user(spec: &Spec) -> bool {
    ["acl", "auth", "hello"].contains(&spec.name)
}

/// RESET: the user of a new connection again.
pub(super) fn reset_user(connection: &mut Connection) {
    connection.transaction = Transaction::default();
    let newcomer = connection.shared.gate.acl().newcomer();
    connection.become_user(newcomer);
}
