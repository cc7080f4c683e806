//! A small client for those endpoints: one request, one answer, both bounded.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme, StreamOwned,
};
use serde_json::Value;

use super::access::{AccessError, Token};
use crate::tls::{TlsError, certificates};

/// Bytes of an answer at most.
const ANSWER_BYTES: u64 = 4 << 20;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code, such as 200.
    pub code: u16,
    /// The body.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody can be reached there, or the connection broke.
    #[error("{address} does not answer: {source}")]
    Io {
        /// Who was asked.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// Whoever answers there is no replica.
    #[error("{address} does not answer as a replica does: {what}")]
    Foreign {
        /// Who was asked.
        address: String,
        /// What is wrong.
        what: &'static str,
    },
    /// It asks for a token, or for another one.
    #[error(
        "{address} asks for its token (`http.token` in its node.toml): name the file with --token-file"
    )]
    Token {
        /// Who was asked.
        address: String,
    },
}

/// What is shown to replicas that are asked, and asked of them: by default nothing, in the clear.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    token: Option<Token>,
    tls: Option<Arc<ClientConfig>>,
}

impl Asker {
    /// Shows the token in this file.
    ///
    /// # Errors
    /// [`AccessError`], with the file.
    pub fn showing(self, token: &Path) -> Result<Self, AccessError> {
        Ok(Self { token: Some(Token::read(token)?), ..self })
    }

    /// Asks over TLS. The other end has a certificate of one of these authorities (PEM), for the
    /// name or address by which it is asked.
    ///
    /// # Errors
    /// [`AccessError`], with the file.
    pub fn trusting(self, authorities: &Path) -> Result<Self, AccessError> {
        let wrong = |what: String| TlsError::File { file: authorities.to_owned(), what };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        self.trusting_roots(roots).map_err(|error| wrong(error).into())
    }

    /// Asks over TLS. The other end has a certificate of an authority that the system trusts: by
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR`, where they are set, as in OpenSSL.
    ///
    /// # Errors
    /// [`AccessError`]: the system trusts none.
    pub fn trusting_system(self) -> Result<Self, AccessError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // Systems have some that rustls does not take. The others do.
        roots.add_parsable_certificates(found.certs);
        let trouble = || found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        if roots.is_empty() {
            return Err(TlsError::NoAuthorities(trouble()).into());
        }
        self.trusting_roots(roots)
            .map_err(|error| TlsError::NoAuthorities(format!(": {error}")).into())
    }

    fn trusting_roots(self, roots: RootCertStore) -> Result<Self, String> {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().map_err(|error| error.to_string())?;
        Ok(self.verifying(verifier))
    }

    /// Asks over TLS. The other end has the certificate in this file (PEM), whatever it is called.
    ///
    /// # Errors
    /// [`AccessError`], with the file.
    pub fn knowing(self, certificate: &Path) -> Result<Self, AccessError> {
        let known = certificates(certificate)?.into_iter().next();
        Ok(self.verifying(Arc::new(Known { known, provider: provider() })))
    }

    fn verifying(self, verifier: Arc<dyn ServerCertVerifier>) -> Self {
        let builder = ClientConfig::builder_with_provider(provider());
        let Ok(builder) = builder.with_safe_default_protocol_versions() else {
            unreachable!("the provider has what TLS 1.3 takes")
        };
        let config = builder.dangerous().with_custom_certificate_verifier(verifier);
        Self { tls: Some(Arc::new(config.with_no_client_auth())), ..self }
    }

    /// Asks `address` (`host:port`) for `path`, and blocks for `patience` at most.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn ask(&self, address: &str, path: &str, patience: Duration) -> Result<Reply, AskError> {
        self.reply(address, &format!("GET {path} HTTP/1.0\r\n"), "", patience)
    }

    /// Sends `body`, JSON, to a program that takes it at this path, and blocks for `patience` at
    /// most.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn post_json(
        &self,
        address: &str,
        path: &str,
        body: &str,
        patience: Duration,
    ) -> Result<Reply, AskError> {
        let head = format!(
            "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.reply(address, &head, body, patience)
    }

    /// The answer to a request: its first lines, and its body.
    fn reply(
        &self,
        address: &str,
        head: &str,
        body: &str,
        patience: Duration,
    ) -> Result<Reply, AskError> {
        let text = self
            .exchange(address, (head, body), patience)
            .map_err(|source| AskError::Io { address: address.to_owned(), source })?;
        let foreign = |what| AskError::Foreign { address: address.to_owned(), what };
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| foreign("no HTTP head"))?;
        let code = head
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1)?.parse().ok())
            .ok_or_else(|| foreign("no HTTP status"))?;
        Ok(Reply { code, body: body.to_owned() })
    }

    /// As [`ask`](Self::ask), for an answer of 200 in JSON.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn ask_json(
        &self,
        address: &str,
        path: &str,
        patience: Duration,
    ) -> Result<Value, AskError> {
        let foreign = |what| AskError::Foreign { address: address.to_owned(), what };
        let reply = self.ask(address, path, patience)?;
        match reply.code {
            200 => {}
            401 => return Err(AskError::Token { address: address.to_owned() }),
            _ => return Err(foreign("not status 200")),
        }
        serde_json::from_str(&reply.body).map_err(|_| foreign("the body is not JSON"))
    }

    fn exchange(
        &self,
        address: &str,
        (head, body): (&str, &str),
        patience: Duration,
    ) -> io::Result<String> {
        let deadline = Instant::now() + patience;
        let socket = address
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such host"))?;
        let stream = TcpStream::connect_timeout(&socket, left(deadline)?)?;
        stream.set_write_timeout(Some(left(deadline)?))?;
        let shown =
            self.token.as_ref().map(|token| format!("Authorization: {}\r\n", token.header()));
        // HTTP/1.0: the answer comes in one piece and ends with the connection.
        let request = format!("{head}Host: {address}\r\n{}\r\n{body}", shown.unwrap_or_default());
        let patient = Patient { stream, deadline };
        let Some(tls) = &self.tls else { return said(patient, &request) };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
        said(StreamOwned::new(connection, patient), &request)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// What is left until the deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    }
}

/// A stream that is read until a deadline.
struct Patient {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(bytes)
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// What is answered to a request.
fn said(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > ANSWER_BYTES {
        return Err(io::Error::other("the answer is too long"));
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Believes one certificate, whose key the other end has to have.
#[derive(Debug)]
struct Known {
    known: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.known.as_ref().is_some_and(|known| known == shown) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Asks in the clear, and shows nothing; see [`Asker::ask`].
///
/// # Errors
/// [`AskError`].
pub fn ask(address: &str, path: &str, patience: Duration) -> Result<Reply, AskError> {
    Asker::default().ask(address, path, patience)
}

/// As [`ask`], for an answer of 200 in JSON.
///
/// # Errors
/// [`AskError`].
pub fn ask_json(address: &str, path: &str, patience: Duration) -> Result<Value, AskError> {
    Asker::default().ask_json(address, path, patience)
}
