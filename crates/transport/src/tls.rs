//! TLS 1.3 with raw public keys (RFC 7250). The Ed25519 key itself is the identity. There is no
//! certificate, hence no name, no authority and no expiry; the keys are pinned.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use ::aws_lc_rs::signature;
use quorate_core::Digest;
use quorate_core::base::crypto::{ClientSigner as _, PublicKey};
use quorate_crypto::SecretKey;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, sign::any_eddsa_type};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName,
    Error, PeerIncompatible, ServerConfig, SignatureScheme,
};
use zeroize::Zeroizing;

/// The DER prefix of the 32 bytes of an Ed25519 public key (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
/// The DER prefix of the 32 bytes of an Ed25519 seed (RFC 8410, section 7).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// A transport key ready for TLS. It proves the identity of a replica on the wire. It is not the
/// key that the replica votes with. Clones are one identity: when its key [changes](Self::change),
/// all of them prove the new one.
#[derive(Clone)]
pub struct Identity {
    held: Arc<RwLock<Arc<Held>>>,
    restart_secret: Digest,
}

/// The key of an identity, by both halves.
struct Held {
    certified: Arc<CertifiedKey>,
    key: PublicKey,
}

/// The error when TLS cannot be set up with a given key.
#[derive(Debug, thiserror::Error)]
#[error("the transport key cannot be used for TLS: {0}")]
pub struct TlsError(#[from] Error);

impl Identity {
    /// Prepares a transport key for TLS.
    ///
    /// # Errors
    /// [`TlsError`] if the TLS library refuses the key.
    pub fn new(secret: &SecretKey) -> Result<Self, TlsError> {
        let held = Arc::new(RwLock::new(Arc::new(Held::new(secret)?)));
        let restart_secret = Digest::of("quorate restarted", secret.seed());
        Ok(Self { held, restart_secret })
    }

    /// From now on new connections prove this key. Those that are there stay as they are, until the
    /// other side ends them.
    ///
    /// # Errors
    /// [`TlsError`] if the TLS library refuses the key; then nothing has changed.
    pub fn change(&self, secret: &SecretKey) -> Result<(), TlsError> {
        let held = Arc::new(Held::new(secret)?);
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(())
    }

    fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A secret that only this replica knows, and that survives a restart with the same key. With
    /// it the replica proves that a connection from before the restart is gone (stateless resets,
    /// in QUIC and in UDP).
    pub(super) fn restart_secret(&self) -> &Digest {
        &self.restart_secret
    }

    /// Signs `message` with the transport key. Returns the public half beside the signature.
    pub(super) fn sign(&self, message: &[u8]) -> Result<(PublicKey, Vec<u8>), TlsError> {
        let held = self.held();
        let signer = held.certified.key.choose_scheme(&[SignatureScheme::ED25519]);
        let signer = signer.ok_or_else(|| Error::General("the key does not sign".to_owned()))?;
        Ok((held.key, signer.sign(message)?))
    }

    /// The public half, which others pin.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        self.held().key
    }
}

impl Held {
    fn new(secret: &SecretKey) -> Result<Self, TlsError> {
        let mut der = Zeroizing::new([0; 48]);
        der[..16].copy_from_slice(&PKCS8_PREFIX);
        der[16..].copy_from_slice(secret.seed());
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.as_slice()));
        let signing = any_eddsa_type(match &der {
            PrivateKeyDer::Pkcs8(der) => der,
            _ => return Err(TlsError(Error::General("not a PKCS #8 key".into()))),
        })?;
        let key = secret.public_key();
        let certified = CertifiedKey::new(vec![CertificateDer::from(spki(&key).to_vec())], signing);
        Ok(Self { certified: Arc::new(certified), key })
    }
}

/// What an identity shows: the key that it has at the time, itself and no certificate.
impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.held().certified))
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.held().certified))
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "identity {:?}", self.key())
    }
}

fn spki(key: &PublicKey) -> [u8; 44] {
    let mut der = [0; 44];
    der[..12].copy_from_slice(&SPKI_PREFIX);
    der[12..].copy_from_slice(&key.0);
    der
}

/// Extracts the key from the public key info that a peer showed, if it is an Ed25519 key.
pub(super) fn key_of(presented: &[u8]) -> Option<PublicKey> {
    let key = presented.strip_prefix(SPKI_PREFIX.as_slice())?;
    Some(PublicKey(key.try_into().ok()?))
}

/// Whether `signature` is `key`'s signature of `message`.
pub(super) fn has_signed(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    let key = signature::UnparsedPublicKey::new(&signature::ED25519, &key.0);
    key.verify(message, signature).is_ok()
}

fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    // In order of preference: the fastest for processors with AES instructions, then for those
    // without.
    provider.cipher_suites =
        vec![cipher_suite::TLS13_AES_128_GCM_SHA256, cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    Arc::new(provider)
}

/// The accepting side: shows `identity`, and asks for a key among `allowed` or for none.
pub(super) fn server_config(
    identity: &Identity,
    allowed: Option<Allowed>,
) -> Result<ServerConfig, TlsError> {
    let provider = provider();
    let pins = allowed.map(|keys| Arc::new(Pins::new(Some(keys), &provider)));
    let builder =
        ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let builder = match pins {
        Some(pins) => builder.with_client_cert_verifier(pins),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(identity.clone()));
    // A resumed session would not show its key again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The dialling side: expects one of the keys `server`, or any (`None`), and shows `identity` or
/// nothing.
pub(super) fn client_config(
    identity: Option<&Identity>,
    server: Option<&[PublicKey]>,
) -> Result<ClientConfig, TlsError> {
    let provider = provider();
    let server = server.map(|keys| Allowed::new(keys.to_vec()));
    let pins = Arc::new(Pins::new(server, &provider));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(pins);
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::new(identity.clone())),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

/// A placeholder: TLS libraries require a name, but the verifier checks the key only.
pub(super) fn no_name() -> ServerName<'static> {
    ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into())
}

/// Whether a handshake failed because of the other side's key or, as the other side reports, ours.
pub(super) fn is_about_a_key(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    matches!(
        inner,
        Some(
            Error::InvalidCertificate(_)
                | Error::NoCertificatesPresented
                | Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension)
                | Error::AlertReceived(
                    AlertDescription::AccessDenied
                        | AlertDescription::CertificateRequired
                        | AlertDescription::BadCertificate
                )
        )
    )
}

/// Keys that are accepted. They change with the members.
#[derive(Clone, Debug)]
pub(super) struct Allowed(Arc<RwLock<Vec<PublicKey>>>);

impl Allowed {
    pub(super) fn new(keys: Vec<PublicKey>) -> Self {
        Self(Arc::new(RwLock::new(keys)))
    }

    pub(super) fn set(&self, keys: Vec<PublicKey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    pub(super) fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn contains(&self, key: &PublicKey) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(key)
    }
}

/// The verifier that accepts exactly the pinned keys.
#[derive(Debug)]
struct Pins {
    /// `None`: any key, of somebody who has its secret half.
    keys: Option<Allowed>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pins {
    fn new(keys: Option<Allowed>, provider: &CryptoProvider) -> Self {
        Self { keys, algorithms: provider.signature_verification_algorithms }
    }

    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), Error> {
        match key_of(presented) {
            Some(key) if self.keys.as_ref().is_none_or(|keys| keys.contains(&key)) => Ok(()),
            Some(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
            None => Err(CertificateError::BadEncoding.into()),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(presented.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

/// This cannot be reached: only TLS 1.3 is offered.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
}

impl ServerCertVerifier for Pins {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(presented).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _presented: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, presented, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pins {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(presented).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _presented: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, presented, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
