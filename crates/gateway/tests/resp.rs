//! Reading requests: however they arrive, whatever they are.
#![allow(missing_docs)]

mod support;

use bytes::BufMut;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_gateway::resp::write::Protocol;
use quorate_gateway::resp::{
    MAX_BULK_BYTES, MAX_LINE_BYTES, MAX_REQUEST_BYTES, ProtocolError, Requests, write,
};
use support::{Element, element, request_of};

type Words = Vec<Vec<u8>>;

/// What `bytes` come to if they arrive in pieces of the given sizes, over and over.
fn read(bytes: &[u8], sizes: &[usize]) -> (Vec<Words>, Option<ProtocolError>) {
    let (mut requests, mut list, mut rest) = (Requests::default(), Vec::new(), bytes);
    for size in sizes.iter().cycle() {
        let (now, later) = rest.split_at((*size).min(rest.len()));
        requests.space().put_slice(now);
        rest = later;
        loop {
            match requests.next_request() {
                Ok(Some(args)) => {
                    assert!(!args.is_empty());
                    list.push(args.from(0).map(<[u8]>::to_vec).collect());
                }
                Ok(None) => break,
                Err(error) => return (list, Some(error)),
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    (list, None)
}

fn words(bytes: &[u8]) -> Result<Vec<Vec<String>>, ProtocolError> {
    let (list, error) = read(bytes, &[usize::MAX]);
    let text = |word: &Vec<u8>| String::from_utf8(word.clone()).expect("text");
    match error {
        Some(error) => Err(error),
        None => Ok(list.iter().map(|words| words.iter().map(text).collect()).collect()),
    }
}

proptest! {
    #[test]
    fn requests_are_the_same_however_they_arrive(
        list in vec(vec(vec(any::<u8>(), 0..30), 1..6), 0..8),
        sizes in vec(1usize..40, 1..8),
        empty in any::<bool>(),
    ) {
        let mut bytes = Vec::new();
        for words in &list {
            if empty {
                bytes.extend_from_slice(b"*0\r\n\r\n*-1\r\n");
            }
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            bytes.extend_from_slice(&request_of(&words));
        }
        prop_assert_eq!(&read(&bytes, &[usize::MAX]), &(list.clone(), None));
        prop_assert_eq!(read(&bytes, &sizes), (list.clone(), None));
        prop_assert_eq!(read(&bytes, &[1]), (list, None));
    }

    #[test]
    fn arbitrary_bytes_come_to_the_same_however_they_arrive(
        bytes in prop_oneof![
            vec(any::<u8>(), 0..200),
            vec(prop::sample::select(b"*$0123-\r\n\"'\\x ab\0\x0b".to_vec()), 0..200),
        ],
        sizes in vec(1usize..9, 1..5),
    ) {
        prop_assert_eq!(read(&bytes, &sizes), read(&bytes, &[usize::MAX]));
    }

    #[test]
    fn whatever_is_written_is_one_element(
        text in vec(any::<u8>(), 0..30),
        number in any::<i64>(),
        protocol in prop::sample::select(vec![Protocol::Resp2, Protocol::Resp3]),
    ) {
        let ascii: Vec<u8> = text.iter().map(|byte| byte & 0x7f).collect();
        let mut out = Vec::new();
        write::array(&mut out, 9);
        write::error(&mut out, &ascii);
        write::bulk(&mut out, &text);
        write::integer(&mut out, number);
        write::nil(&mut out, protocol);
        write::nil_array(&mut out, protocol);
        write::simple(&mut out, "a\r\nb");
        write::map(&mut out, protocol, 1);
        write::integer(&mut out, 1);
        write::integer(&mut out, 2);
        write::set(&mut out, protocol, 1);
        write::integer(&mut out, 3);
        write::text(&mut out, protocol, &ascii);
        let mut rest = &out[..];
        let Element::Array(list) = element(&mut rest) else { panic!("no array") };
        prop_assert!(rest.is_empty());
        prop_assert_eq!(&list[1], &Element::Bulk(text));
        prop_assert_eq!(&list[2], &Element::Integer(number));
        prop_assert_eq!(&list[3..5], &[Element::Nil, Element::Nil][..]);
        prop_assert_eq!(&list[5], &Element::Simple("a  b".to_owned()));
        let (pair, single) = (vec![Element::Integer(1), Element::Integer(2)], vec![Element::Integer(3)]);
        let ascii_text = String::from_utf8(ascii.clone()).expect("ASCII");
        let typed = match protocol {
            Protocol::Resp2 => [Element::Array(pair), Element::Array(single), Element::Bulk(ascii)],
            Protocol::Resp3 => [Element::Map(pair), Element::Set(single), Element::Text(ascii_text)],
        };
        prop_assert_eq!(&list[6..], &typed[..]);
    }
}

#[test]
fn inline_requests_are_split_as_redis_splits_them() {
    for (line, expected) in [
        ("PING\r\n", &["PING"][..]),
        ("set  k\t v \n", &["set", "k", "v"]),
        ("set k \"a b\"\r\n", &["set", "k", "a b"]),
        ("set k 'a \"b'\r\n", &["set", "k", "a \"b"]),
        ("set k 'it\\'s'\r\n", &["set", "k", "it's"]),
        ("set k \"\\x41\\n\\r\\t\\b\\a\\\\\\q\"\r\n", &["set", "k", "A\n\r\t\u{8}\u{7}\\q"]),
        ("set k \"\\xZZ\"\r\n", &["set", "k", "xZZ"]),
        ("set k pre\"fix\"\r\n", &["set", "k", "prefix"]),
        ("set k \"\"\r\n", &["set", "k", ""]),
        ("a\x0bb\r\n", &["a", "b"]),
    ] {
        assert_eq!(
            words(line.as_bytes()),
            Ok(vec![expected.iter().map(ToString::to_string).collect()])
        );
    }
    assert_eq!(words(b"\r\n  \r\n\n"), Ok(vec![]));
    for line in ["a \"b\r\n", "a 'b\r\n", "a \"b\"c\r\n", "a 'b'c\r\n", "a \"b\\\"\r\n"] {
        assert_eq!(words(line.as_bytes()), Err(ProtocolError::Quotes), "{line}");
    }
}

#[test]
fn protocol_errors_are_redis_s() {
    let long = vec![b'1'; MAX_LINE_BYTES + 2];
    let with = |head: &[u8], tail: &[u8]| [head, tail].concat();
    let too_long = format!("*1\r\n${}\r\n", (512 << 20) + 1);
    for (bytes, text) in [
        (b"*x\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*1048577\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*99999999999999999999\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*1\r\n$-1\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (b"*1\r\n$x\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (too_long.into_bytes(), "Protocol error: invalid bulk length"),
        (b"*1\r\n:1\r\n".to_vec(), "Protocol error: expected '$', got ':'"),
        (with(b"*", &long), "Protocol error: too big mbulk count string"),
        (with(b"*1\r\n$", &long), "Protocol error: too big bulk count string"),
        (long.clone(), "Protocol error: too big inline request"),
        (b"a \"\r\n".to_vec(), "Protocol error: unbalanced quotes in request"),
    ] {
        for sizes in [&[usize::MAX][..], &[1000]] {
            let (list, error) = read(&bytes, sizes);
            assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(text));
            assert!(list.is_empty());
        }
    }
    // Commands in front of the error are still commands.
    assert_eq!(read(b"PING\r\n*1\r\n$4\r\nPING\r\n*x\r\n", &[7]).0.len(), 2);
}

#[test]
fn a_request_may_be_large_but_not_without_end() {
    let value = vec![7; MAX_BULK_BYTES as usize];
    let (list, error) = read(&request_of(&[b"SET", b"k", &value]), &[100_000]);
    assert_eq!((list.len(), error), (1, None));
    assert_eq!(list[0][2], value);

    // What is too long is passed over whole, and what is behind it is read.
    let longer = [&value[..], b"7"].concat();
    let words = vec![&value[..]; 9];
    assert!(words.concat().len() > MAX_REQUEST_BYTES);
    for (bytes, refused) in [
        (request_of(&[b"SET", b"k", &longer, b"NX"]), ProtocolError::Argument),
        (request_of(&words), ProtocolError::Request),
    ] {
        assert!(!refused.ends_connection());
        let bytes = [bytes, request_of(&[b"GET", b"k"])].concat();
        for size in [usize::MAX, 100_000, 777] {
            let (mut requests, mut found, mut held) = (Requests::default(), Vec::new(), 0);
            for piece in bytes.chunks(size.min(bytes.len())) {
                requests.space().put_slice(piece);
                loop {
                    match requests.next_request() {
                        Ok(None) => break,
                        Ok(Some(args)) => {
                            found.push(Ok(args.from(0).map(<[u8]>::to_vec).collect()))
                        }
                        Err(error) => found.push(Err(error)),
                    }
                }
                held = held.max(requests.space().len());
            }
            assert_eq!(found, [Err(refused), Ok(vec![b"GET".to_vec(), b"k".to_vec()])]);
            assert!(held <= MAX_REQUEST_BYTES + 64, "{held} bytes are kept");
        }
    }
}
