//! A channel: it seals and opens packets with DTLS 1.3 (RFC 9147), and proves the key of each end.
//!
//! DTLS libraries require certificates with ECDSA keys, but replicas know each other by Ed25519
//! keys. So each process makes a certificate for itself. The first message through the channel is a
//! *proof*: the transport key, and its signature of both certificates. The handshake has shown that
//! the other end holds its certificate's key, so a proof is valid only between these two
//! certificates.
//!
//! The roles are fixed: the dialling side is the DTLS client, and the replica with the lower id
//! dials.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dimpl::crypto::Dtls13CipherSuite;
use dimpl::{Config, Dtls, DtlsCertificate, Output};
use quorate_core::Digest;
use quorate_core::base::crypto::PublicKey;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};

use super::super::tls::{self, Identity, TlsError};
use super::door::OPENING_BYTES;
use super::path::LEAST_BYTES;

/// The first pause before a part of the handshake is sent again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The number of retries. The time limit ends the handshake earlier.
const RETRIES: usize = 10;
/// The library's limit for a handshake. The caller's limit is shorter.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(3600);
/// The limit of a datagram of a handshake; ours are shorter.
const HANDSHAKE_BYTES: usize = 1300;
/// The buffer for the library's output. The library joins at most 30 datagrams of a handshake, and
/// panics if their certificate is longer than the buffer.
const ROOM_BYTES: usize = 64 << 10;
const _: () = assert!(ROOM_BYTES > 30 * HANDSHAKE_BYTES);
/// Records that may wait to be sent. The library answers at most 16 records of a datagram, with one
/// record each. With fewer places it would abort the connection.
const WAITING_RECORDS: usize = 64;
const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
/// The length of a proof.
pub(super) const PROOF_BYTES: usize = KEY_BYTES + SIGNATURE_BYTES;

/// The DTLS role of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The dialling side.
    Client,
    /// The accepting side.
    Server,
}

/// The certificate of this process, for DTLS.
pub(super) struct Certificate {
    certificate: DtlsCertificate,
    config: Arc<Config>,
}

impl Certificate {
    /// Makes a new certificate.
    pub(super) fn new() -> Result<Self, TlsError> {
        let refused = |error: &dyn std::fmt::Display| {
            TlsError::from(rustls::Error::General(format!("no certificate for DTLS: {error}")))
        };
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|e| refused(&e))?;
        let params = CertificateParams::default();
        let certificate = params.self_signed(&key).map_err(|e| refused(&e))?;
        let suites =
            [Dtls13CipherSuite::AES_128_GCM_SHA256, Dtls13CipherSuite::CHACHA20_POLY1305_SHA256];
        let config = Config::builder()
            .mtu(LEAST_BYTES - OPENING_BYTES)
            .max_queue_tx(WAITING_RECORDS)
            .dtls13_cipher_suites(&suites)
            // The dialling side has shown its address before (see the door).
            .use_server_cookie(false)
            .flight_start_rto(FIRST_PAUSE)
            .flight_retries(RETRIES)
            .handshake_timeout(LONGEST_HANDSHAKE)
            .build()
            .map_err(|e| refused(&e))?;
        let certificate = DtlsCertificate {
            certificate: certificate.der().to_vec(),
            private_key: key.serialize_der(),
        };
        Ok(Self { certificate, config: Arc::new(config) })
    }

    fn digest(&self) -> Digest {
        Digest::of("quorate certificate", &self.certificate.certificate)
    }
}

/// The output of a channel.
pub(super) enum Yield<'a> {
    /// A datagram to send.
    Sealed(&'a [u8]),
    /// A packet that the other side sent.
    Opened(&'a [u8]),
}

/// One end of a channel.
pub(super) struct Channel {
    dtls: Dtls,
    side: Side,
    mine: Digest,
    theirs: Option<Digest>,
    is_open: bool,
    /// The other side has closed the channel.
    is_closed: bool,
    room: Vec<u8>,
    deadline: Option<Instant>,
}

impl Channel {
    pub(super) fn new(side: Side, certificate: &Certificate, now: Instant) -> Self {
        let config = Arc::clone(&certificate.config);
        let mut dtls = Dtls::new_13(config, certificate.certificate.clone(), now);
        dtls.set_active(side == Side::Client);
        // The library panics if it does not know the time before the first datagram. The next tick
        // reports the error of this call again.
        let _ = dtls.handle_timeout(now);
        Self {
            dtls,
            side,
            mine: certificate.digest(),
            theirs: None,
            is_open: false,
            is_closed: false,
            room: vec![0; ROOM_BYTES],
            deadline: None,
        }
    }

    /// Whether the handshake is done.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the other side has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// When to [`tick`](Self::tick) next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Advances the time.
    pub(super) fn tick(&mut self, now: Instant) -> io::Result<()> {
        guarded(|| self.dtls.handle_timeout(now))
    }

    /// Takes a datagram, if the other side can have sent it. [`yield_all`](Self::yield_all) hands
    /// out the result.
    pub(super) fn open(&mut self, datagram: &[u8]) -> io::Result<()> {
        let may_be = match self.is_open {
            true => is_sealed(datagram),
            false => datagram.len() <= HANDSHAKE_BYTES && !is_said_in_the_open(datagram),
        };
        if may_be { guarded(|| self.dtls.handle_packet(datagram)) } else { Ok(()) }
    }

    /// Seals a packet once the channel is open. [`yield_all`](Self::yield_all) hands out the
    /// datagram.
    pub(super) fn seal(&mut self, packet: &[u8]) -> io::Result<()> {
        guarded(|| self.dtls.send_application_data(packet).map(|_| ()))
    }

    /// Announces the end of the channel to the other side.
    pub(super) fn close(&mut self) -> io::Result<()> {
        guarded(|| self.dtls.close())
    }

    /// Hands out all output.
    pub(super) fn yield_all(&mut self, mut each: impl FnMut(Yield<'_>)) -> io::Result<()> {
        guarded(|| {
            loop {
                match self.dtls.poll_output(&mut self.room) {
                    Output::Packet(datagram) => each(Yield::Sealed(datagram)),
                    Output::ApplicationData(packet) => each(Yield::Opened(packet)),
                    Output::PeerCert(der) => {
                        self.theirs = Some(Digest::of("quorate certificate", der));
                    }
                    Output::Connected => self.is_open = true,
                    Output::CloseNotify => self.is_closed = true,
                    Output::BufferTooSmall { needed } => self.room.resize(needed, 0),
                    Output::Timeout(at) => {
                        self.deadline = Some(at);
                        return Ok(());
                    }
                    _ => {}
                }
            }
        })
    }

    /// The statement that the holder of a key signs: its side, and both certificates.
    fn statement(&self, side: Side) -> Option<Vec<u8>> {
        let (theirs, mine) = (self.theirs?, self.mine);
        let (role, holder, other) = match side == self.side {
            true => (self.side, mine, theirs),
            false => (side, theirs, mine),
        };
        let role: &[u8] = match role {
            Side::Client => b"quorate udp dials\0",
            Side::Server => b"quorate udp is dialled\0",
        };
        Some([role, &holder.0, &other.0].concat())
    }

    /// The proof of the key at this end.
    pub(super) fn proof(&self, identity: &Identity) -> Result<Vec<u8>, TlsError> {
        let statement = self.statement(self.side).ok_or_else(|| {
            rustls::Error::General("the other side has shown no certificate".to_owned())
        })?;
        let (key, signature) = identity.sign(&statement)?;
        Ok([&key.0[..], &signature].concat())
    }

    /// The key of the other end, if `proof` is valid.
    pub(super) fn proven(&self, proof: &[u8]) -> Option<PublicKey> {
        let (key, signature) = proof.split_first_chunk::<KEY_BYTES>()?;
        let other = if self.side == Side::Client { Side::Server } else { Side::Client };
        let key = PublicKey(*key);
        tls::has_signed(&key, &self.statement(other)?, signature).then_some(key)
    }
}

/// Whether all records of a datagram look like those of an open channel (RFC 9147, section 4: a
/// unified header with a length). After the handshake the library still answers its plain-text
/// records, and anybody can forge those.
fn is_sealed(mut datagram: &[u8]) -> bool {
    const HEADER: u8 = 0b0010_1100;
    const EPOCH: u8 = 0b0000_0011;
    while let Some((header, rest)) = datagram.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        match rest.split_at_checked(length) {
            Some((_, rest)) if header[0] & !EPOCH == HEADER => datagram = rest,
            _ => return false,
        }
    }
    datagram.is_empty()
}

/// Whether a datagram of a handshake contains a malformed record, or a plain-text alert or
/// acknowledgement. Anybody could end the handshake with these, without a key or a certificate.
fn is_said_in_the_open(mut datagram: &[u8]) -> bool {
    const PLAIN_HEADER: usize = 13;
    const SEALED_HEADER: usize = 5;
    while let Some(&kind) = datagram.first() {
        let header = match kind {
            22 => PLAIN_HEADER,
            32..=63 => SEALED_HEADER,
            _ => return true,
        };
        let Some((header, rest)) = datagram.split_at_checked(header) else { return true };
        let length =
            header.last_chunk().map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
        let Some(rest) = rest.get(length..) else { return true };
        datagram = rest;
    }
    false
}

/// Runs the library's code on input from others. The library has counters that can overflow, and
/// asserts conditions that others control. A panic ends this connection and nothing else.
fn guarded(work: impl FnOnce() -> Result<(), dimpl::Error>) -> io::Result<()> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| broken(&error)),
        Err(_) => Err(broken(&"the DTLS library panicked")),
    }
}

fn broken(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("DTLS: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quorate_crypto::SecretKey;

    use super::*;

    fn identity(number: u8) -> Identity {
        Identity::new(&SecretKey::from_seed(&[number; 32])).unwrap()
    }

    /// Two ends that exchange datagrams.
    fn pair(certificates: [&Certificate; 2]) -> [Channel; 2] {
        let now = Instant::now();
        let mut ends = [
            Channel::new(Side::Client, certificates[0], now),
            Channel::new(Side::Server, certificates[1], now),
        ];
        while !ends.iter().all(Channel::is_open) {
            (0..2).for_each(|from| carry(&mut ends, from));
        }
        ends
    }

    /// Delivers the datagrams.
    fn carry(ends: &mut [Channel; 2], from: usize) {
        let mut datagrams = Vec::new();
        let sealed = ends[from].yield_all(|out| {
            if let Yield::Sealed(datagram) = out {
                datagrams.push(datagram.to_vec());
            }
        });
        sealed.unwrap();
        for datagram in datagrams {
            assert!(datagram.len() <= LEAST_BYTES);
            ends[1 - from].open(&datagram).unwrap();
        }
    }

    #[test]
    fn a_proof_names_who_is_at_the_other_end_of_this_channel_alone() {
        let certificates = [(); 3].map(|()| Certificate::new().unwrap());
        let [client, server] = pair([&certificates[0], &certificates[1]]);
        let proof = client.proof(&identity(1)).unwrap();
        assert_eq!(proof.len(), PROOF_BYTES);
        assert_eq!(server.proven(&proof), Some(identity(1).key()));
        assert_eq!(client.proven(&proof), None, "it is of the other side");
        let [_, other] = pair([&certificates[0], &certificates[2]]);
        assert_eq!(other.proven(&proof), None, "it is for another certificate");
        let stolen = [&identity(2).key().0[..], &proof[KEY_BYTES..]].concat();
        assert_eq!(server.proven(&stolen), None);
    }

    /// Records of a handshake, which the library would answer without end.
    #[test]
    fn what_anybody_can_write_neither_ends_an_open_channel_nor_is_answered() {
        let certificates = [(); 2].map(|()| Certificate::new().unwrap());
        let mut ends = pair([&certificates[0], &certificates[1]]);
        carry(&mut ends, 1);
        // A Finished message of a past epoch, sixteen times.
        let record = [&[22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13][..], &[20], &[0; 12]].concat();
        let forged = [&record.repeat(16)[..], &[21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 80]];
        // The same, behind a record that looks sealed.
        let behind = [&[0x2f, 0, 1, 0, 20][..], &[7; 20], &record.repeat(16)].concat();
        for end in &mut ends {
            for datagram in forged.iter().copied().chain([&behind[..]]) {
                end.open(datagram).unwrap();
                let mut answered = 0;
                end.yield_all(|_| answered += 1).unwrap();
                assert_eq!(answered, 0);
            }
        }
        ends[0].seal(b"still here").unwrap();
        carry(&mut ends, 0);
        let mut opened = Vec::new();
        let taken = ends[1].yield_all(|out| {
            if let Yield::Opened(packet) = out {
                opened.push(packet.to_vec());
            }
        });
        taken.unwrap();
        assert_eq!(opened, [b"still here"]);
    }

    #[test]
    fn a_panic_of_the_library_is_an_error_of_the_connection() {
        let panicked = guarded(|| panic!("as in a test"));
        assert!(panicked.unwrap_err().to_string().contains("panicked"));
    }

    /// A change to a datagram: which one, the byte and bits to flip, and the length to cut to.
    type Harm = (usize, usize, u8, usize);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Datagrams that are changed, cut, duplicated or reordered end a channel or are ignored.
        #[test]
        fn harmed_datagrams_do_no_harm(
            harms in proptest::collection::vec(
                (0usize..8, 0usize..1200, any::<u8>(), prop_oneof![Just(usize::MAX), 0usize..1200]),
                1..30,
            ),
        ) {
            let now = Instant::now();
            let certificate = Certificate::new().unwrap();
            let mut ends = [Side::Client, Side::Server].map(|side| Channel::new(side, &certificate, now));
            let mut seen: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
            for (place, harm) in harms.into_iter().enumerate() {
                let (from, harm): (usize, Harm) = (place % 2, harm);
                if ends[from].is_open() && ends[from].seal(b"packet").is_err() {
                    break;
                }
                let sealed = ends[from].yield_all(|out| {
                    if let Yield::Sealed(datagram) = out {
                        seen[from].push(datagram.to_vec());
                    }
                });
                if sealed.is_err() {
                    break;
                }
                // The newest as it is, and an old one changed.
                let newest = seen[from].last().cloned().unwrap_or_default();
                let (back, at, flipped, cut) = harm;
                let mut harmed = seen[from].iter().rev().nth(back).cloned().unwrap_or_default();
                if let Some(byte) = harmed.get_mut(at) {
                    *byte ^= flipped;
                }
                harmed.truncate(cut);
                let to = &mut ends[1 - from];
                let opened = to.tick(now).and_then(|()| to.open(&harmed)).and_then(|()| to.open(&newest));
                if opened.and_then(|()| to.yield_all(|_| {})).is_err() {
                    break;
                }
            }
        }
    }
}
