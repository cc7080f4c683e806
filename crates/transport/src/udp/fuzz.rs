//! Fuzz targets for private items of the UDP transport.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_core::Digest;
use tokio::sync::mpsc;

use super::super::fuzz::Draw;
use super::channel::{Certificate, Channel, Side, Yield};
use super::datagrams::Datagrams;
use super::door::{self, Door};
use super::exchange::Exchange;

const WINDOW: usize = 1 << 20;
const LONGEST: usize = 1 << 16;
/// More steps than any input needs. An input that takes more never ends.
const STEPS: usize = 200_000;

/// Two ends, and a network that the input controls. Every message arrives once and complete, in
/// spite of loss, duplication and delay. Forged packets are refused, are without effect, or end the
/// connection.
pub fn exchange(input: &[u8]) {
    let mut draw = Draw(input);
    let mut now = Instant::now();
    let mut ends = [Exchange::new(now, WINDOW), Exchange::new(now, WINDOW)];
    for end in &mut ends {
        if end.open_up(LONGEST, WINDOW).is_err() {
            return;
        }
    }
    // By receiver: the messages that were sent to it and have not arrived.
    let mut owed: [BTreeMap<Vec<u8>, usize>; 2] = Default::default();
    let (mut flying, mut packet, mut forged) = (Vec::<(usize, Vec<u8>)>::new(), Vec::new(), false);
    let mut steps = 0;
    while !draw.0.is_empty() {
        let choice = draw.byte();
        let from = usize::from(choice & 1);
        match choice >> 1 & 7 {
            0 | 1 => {
                let message = message(draw.number() % 3000, choice);
                *owed[1 - from].entry(message.clone()).or_default() += 1;
                ends[from].write(message.into());
            }
            2 | 3 => {
                if ends[from].transmit(now, &mut packet) {
                    flying.push((1 - from, packet.clone()));
                }
            }
            4 => now += Duration::from_micros(draw.number() as u64 * 16),
            5 => {
                // One packet under way arrives. It may arrive again later.
                let at = usize::from(draw.byte());
                let Some((to, bytes)) = flying.get(at % flying.len().max(1)).cloned() else {
                    continue;
                };
                if choice & 128 != 0 {
                    flying.remove(at % flying.len());
                }
                if ends[to].receive(now, &bytes).is_err() {
                    assert!(forged, "an end refused what the other sent");
                    return;
                }
            }
            6 => drop(flying.pop()),
            _ => {
                let length = usize::from(draw.byte());
                let mut bytes = draw.bytes(length);
                if let (true, Some((_, real))) = (choice & 128 != 0, flying.last()) {
                    // A packet of the other end, with some bytes changed.
                    let mut real = real.clone();
                    real.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
                    bytes = real;
                }
                forged = true;
                if ends[from].receive(now, &bytes).is_err() {
                    return;
                }
            }
        }
        steps += 1;
        take(&mut ends, &mut owed, forged);
    }
    if !forged {
        deliver_all(ends, owed, now, steps);
    }
}

/// Everything that is owed arrives once the network is well, before `steps` are too many.
fn deliver_all(
    mut ends: [Exchange; 2],
    mut owed: [BTreeMap<Vec<u8>, usize>; 2],
    mut now: Instant,
    mut steps: usize,
) {
    let mut packet = Vec::new();
    ends.iter_mut().for_each(Exchange::finish);
    while owed.iter().any(|owed| !owed.is_empty()) {
        for from in 0..2 {
            while ends[from].transmit(now, &mut packet) {
                assert!(ends[1 - from].receive(now, &packet).is_ok(), "refused");
                steps += 1;
                assert!(steps < STEPS, "it does not end");
            }
        }
        take(&mut ends, &mut owed, false);
        steps += 1;
        assert!(steps < STEPS, "it does not end");
        now = ends.iter_mut().filter_map(|end| end.deadline(now)).min().unwrap_or(now).max(now);
    }
}

fn message(length: usize, tag: u8) -> Vec<u8> {
    let mut message = (length as u32).to_le_bytes().to_vec();
    message.resize(4 + length, tag);
    message
}

/// Takes received messages, which must have been sent.
fn take(ends: &mut [Exchange; 2], owed: &mut [BTreeMap<Vec<u8>, usize>; 2], forged: bool) {
    for (end, owed) in ends.iter_mut().zip(owed) {
        while let Some(mut bytes) = end.take() {
            while let (false, Some(length)) = (forged, bytes.first_chunk()) {
                let length = 4 + u32::from_le_bytes(*length) as usize;
                let message = bytes.split_to(length.min(bytes.len())).to_vec();
                match owed.get_mut(&message) {
                    Some(1) => drop(owed.remove(&message)),
                    Some(count) => *count -= 1,
                    None => panic!("a message that was not sent, or came twice"),
                }
            }
        }
    }
}

/// The door's answers are shorter than the datagrams that cause them. Only an address that shows
/// its own token gets a session.
pub fn door(input: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    let _inside = runtime.enter();
    let socket = || UdpSocket::bind("127.0.0.1:0");
    let (Ok(inner), Ok(visitor), Ok(other)) = (socket(), socket(), socket()) else { return };
    let (Ok(()), Ok(()), Ok(from), Ok(stranger)) = (
        visitor.set_nonblocking(true),
        other.set_nonblocking(true),
        visitor.local_addr(),
        other.local_addr(),
    ) else {
        return;
    };
    let Ok(datagrams) = Datagrams::new(inner) else { return };
    let (arrivals, mut arrived) = mpsc::channel(64);
    let Ok(door) = Door::new(Arc::new(datagrams), Digest::default(), 2, arrivals) else { return };
    let mut answer = [0; 2048];
    let mut draw = Draw(input);
    let mut allowed = Vec::new();
    while !draw.0.is_empty() {
        let choice = draw.byte();
        let length = usize::from(draw.byte());
        let mut datagram = draw.bytes(length);
        let nonce = [choice >> 4; 8];
        if choice & 1 == 1 {
            // A correct ask.
            door.handle(from, &door::ask(nonce));
            let Ok((length, _)) = visitor.recv_from(&mut answer) else { continue };
            let Some(token) = door::token(&answer[..length], nonce) else {
                panic!("an ask was not answered by its token")
            };
            datagram = [&door::opening(nonce, token)[..], &[22], &datagram].concat();
            let sender = if choice & 2 == 2 { stranger } else { from };
            if sender == from {
                allowed.push(nonce);
            }
            door.handle(sender, &datagram);
        } else {
            door.handle(from, &datagram);
        }
        while let Ok((length, _)) = visitor.recv_from(&mut answer) {
            assert!(length < datagram.len(), "{length} bytes for {}", datagram.len());
        }
        while let Ok(session) = arrived.try_recv() {
            assert!(session.address == from && !allowed.is_empty(), "an address that was made up");
        }
    }
}

/// Datagrams of and after a handshake are lost, changed or forged. The library neither panics nor
/// hands on a byte that the other side did not seal.
pub fn channel(input: &[u8]) {
    let mut draw = Draw(input);
    let now = Instant::now();
    let certificates = [Certificate::new(), Certificate::new()];
    let [Ok(mine), Ok(theirs)] = certificates else { return };
    let mut ends =
        [Channel::new(Side::Client, &mine, now), Channel::new(Side::Server, &theirs, now)];
    for round in 0..24u8 {
        for from in 0..2 {
            let mut sealed = Vec::new();
            if ends[from].is_open() && ends[from].seal(&[b's', from as u8, round]).is_err() {
                return;
            }
            let outcome = ends[from].yield_all(|out| match out {
                Yield::Sealed(datagram) => sealed.push(datagram.to_vec()),
                Yield::Opened(packet) => {
                    assert!(matches!(packet, [b's', side, _] if usize::from(*side) == 1 - from));
                }
            });
            if outcome.is_err() {
                return;
            }
            for mut datagram in sealed {
                let copies = match draw.byte() {
                    0..200 => 1,
                    200..220 => 0,
                    220..230 => 2,
                    230..245 => {
                        let at = draw.number() % datagram.len().max(1);
                        if let Some(byte) = datagram.get_mut(at) {
                            *byte ^= draw.byte();
                        }
                        1
                    }
                    245..250 => {
                        datagram.truncate(draw.number() % datagram.len().max(1));
                        1
                    }
                    _ => {
                        let length = usize::from(draw.byte());
                        datagram = draw.bytes(length);
                        1
                    }
                };
                for _ in 0..copies {
                    if ends[1 - from].open(&datagram).is_err() {
                        return;
                    }
                }
            }
        }
    }
}
