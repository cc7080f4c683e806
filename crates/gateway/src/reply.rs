//! What the cluster answered, as a Redis client expects it.

use quorate_app::kv::Reply;

use super::resp::write::{self, Protocol};

/// How a command's reply is to be read, where that is not plain from the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As it is.
    Plain,
    /// `Ok` and `Nil` are 1 and 0 (SETNX).
    Done,
    /// Elements are keys and values in turn (HGETALL).
    Map,
    /// Whatever number is `OK` (HMSET).
    Ok,
    /// Every other element, from the first (HKEYS).
    Fields,
    /// Every other element, from the second (HVALS).
    Values,
    /// Keys that are there never expire: 1 and 0 are -1 and -2 (TTL).
    Lifetime,
    /// Not to be sent (CLIENT REPLY).
    Silent,
}

/// Appends `encoded`, the encoding of a [`Reply`], as `protocol` has it.
pub fn write_reply(out: &mut Vec<u8>, encoded: &[u8], shape: Shape, protocol: Protocol) {
    let Ok(reply) = Reply::decode(encoded) else {
        return write::error(out, "ERR the cluster's answer is no reply of this application");
    };
    match (shape, reply) {
        (Shape::Silent, _) => {}
        (Shape::Done, Reply::Ok) => write::integer(out, 1),
        (Shape::Done, Reply::Nil) => write::integer(out, 0),
        (Shape::Ok, Reply::Integer(_)) => write::simple(out, "OK"),
        (Shape::Lifetime, Reply::Integer(there)) => {
            write::integer(out, if there > 0 { -1 } else { -2 });
        }
        (Shape::Fields | Shape::Values, Reply::Array(items)) => {
            write::array(out, items.len() / 2);
            let skipped = usize::from(shape == Shape::Values);
            for item in items.iter().skip(skipped).step_by(2) {
                plain(out, &item, protocol);
            }
        }
        (Shape::Map, Reply::Array(items)) => {
            write::map(out, protocol, items.len() / 2);
            items.iter().for_each(|item| plain(out, &item, protocol));
        }
        (_, reply) => plain(out, &reply, protocol),
    }
}

fn plain(out: &mut Vec<u8>, reply: &Reply<'_>, protocol: Protocol) {
    match reply {
        Reply::Ok => write::simple(out, "OK"),
        Reply::Integer(number) => write::integer(out, *number),
        Reply::Bulk(bytes) => write::bulk(out, bytes),
        // RESP has no empty reply: the empty command is no Redis command.
        Reply::Empty | Reply::Nil => write::nil(out, protocol),
        Reply::Status(word) => write::simple(out, word),
        Reply::Error(kind, message) => write::error(out, format!("{} {message}", kind.word())),
        Reply::Array(items) => {
            write::array(out, items.len());
            items.iter().for_each(|item| plain(out, &item, protocol));
        }
    }
}
