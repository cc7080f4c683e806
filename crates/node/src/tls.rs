//! TLS for who is no replica: certificates from files, and from the same files again when asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Where certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its chain, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Authorities whose certificates clients must show, PEM; none: clients show nothing.
    pub client_authorities: Option<PathBuf>,
}

/// Why files are not taken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One cannot be read, or is no PEM of its kind.
    #[error("{file}: {what}")]
    File {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The system trusts nobody.
    #[error("this system has no certificate authorities{0}: install them, or name a file of some")]
    NoAuthorities(
        /// What went wrong when they were read, behind `: `; or nothing.
        String,
    ),
    /// They do not belong together.
    #[error("{certificate} and its key cannot be used: {source}")]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

impl TlsFiles {
    /// What a server needs, from the files as they are now.
    ///
    /// # Errors
    /// [`TlsError`], with the file.
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let pair = |source| TlsError::Pair { certificate: self.certificate.clone(), source };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(pair)?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let wrong = |what: String| TlsError::File { file: file.clone(), what };
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| wrong(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| TlsError::File { file: self.key.clone(), what: error.to_string() })?;
        let config =
            builder.with_single_cert(certificates(&self.certificate)?, key).map_err(pair)?;
        Ok(Arc::new(config))
    }
}

/// The certificates that a file holds, at least one.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |what: String| TlsError::File { file: file.to_owned(), what };
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?.collect();
    let found = found.map_err(|error| wrong(error.to_string()))?;
    match found.is_empty() {
        true => Err(wrong("there is no certificate in it".to_owned())),
        false => Ok(found),
    }
}
