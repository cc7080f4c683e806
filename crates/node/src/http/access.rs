//! Who may read over HTTP: TLS with a certificate, and a token.
//!
//! The token is the content of a file that its owner alone may read. A request shows it in its
//! head: `Authorization: Bearer TOKEN` (RFC 6750, section 2.1). Without it there is `/livez` alone,
//! and `/metrics` where `http.open_metrics` says so. Certificate, key and token are read again
//! after SIGHUP.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rustls::ServerConfig;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Http;
use crate::tls::{TlsError, TlsFiles};

/// Length of a token, bytes. Shorter ones can be guessed.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=4096;

/// Why files are not taken.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token's file cannot be read.
    #[error("the token in {file}: {source}")]
    Io {
        /// Which.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Others may read the token's file.
    #[error("the token in {file} has mode {mode:04o}: others than its owner may read it")]
    Mode {
        /// Which.
        file: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file holds no token.
    #[error(
        "the token in {0} is none: it has 16 to 4096 letters, digits and punctuation marks of ASCII, on \
         one line"
    )]
    NoToken(PathBuf),
}

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a token")
    }
}

impl Token {
    /// The token that a file holds.
    ///
    /// # Errors
    /// [`AccessError`], with the file.
    pub fn read(file: &Path) -> Result<Self, AccessError> {
        let failed = |source| AccessError::Io { file: file.to_owned(), source };
        let mut opened = File::open(file).map_err(failed)?;
        let mode = opened.metadata().map_err(failed)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(AccessError::Mode { file: file.to_owned(), mode });
        }
        let mut text = String::new();
        let most = *TOKEN_BYTES.end() as u64 + 2;
        let read = opened.by_ref().take(most).read_to_string(&mut text);
        read.map_err(failed)?;
        let token = text.trim_ascii_end();
        let is_one =
            TOKEN_BYTES.contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        match is_one {
            true => Ok(Self(token.to_owned())),
            false => Err(AccessError::NoToken(file.to_owned())),
        }
    }

    /// What a request shows.
    #[must_use]
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether a request shows this token. Takes as long whatever it shows instead.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).map(|shown| shown.as_bytes());
        let shown = shown.and_then(|shown| shown.split_at_checked(7));
        shown.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case(b"bearer ")
                && verify_slices_are_equal(token, self.0.as_bytes()).is_ok()
        })
    }
}

/// Who may read.
#[derive(Debug, Default)]
pub struct Access {
    files: Http,
    now: RwLock<Now>,
}

/// What the files held when they were read last.
#[derive(Clone, Debug, Default)]
struct Now {
    tls: Option<Arc<ServerConfig>>,
    token: Option<Arc<Token>>,
}

impl Now {
    fn read(files: &Http) -> Result<Self, AccessError> {
        let pair = files.certificate.clone().zip(files.key.clone());
        let tls = pair.map(|(certificate, key)| {
            TlsFiles { certificate, key, client_authorities: None }.load()
        });
        let token = files.token.as_deref().map(Token::read).transpose()?;
        Ok(Self { tls: tls.transpose()?, token: token.map(Arc::new) })
    }
}

impl Access {
    /// As the files say.
    ///
    /// # Errors
    /// [`AccessError`], with the file.
    pub fn of(files: &Http) -> Result<Arc<Self>, AccessError> {
        let now = RwLock::new(Now::read(files)?);
        Ok(Arc::new(Self { files: files.clone(), now }))
    }

    fn now(&self) -> Now {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What connections are encrypted with, if they are.
    pub(super) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.now().tls
    }

    /// Reads the files again after each SIGHUP. A bad file is logged, and changes nothing.
    pub(super) async fn follow(self: Arc<Self>) {
        let is_fixed = self.files.certificate.is_none() && self.files.token.is_none();
        let hang_up = if is_fixed { None } else { signal(SignalKind::hangup()).ok() };
        let Some(mut hang_up) = hang_up else { return std::future::pending().await };
        while hang_up.recv().await.is_some() {
            match Now::read(&self.files) {
                Ok(now) => {
                    // Connections that are open keep what they were opened with.
                    *self.now.write().unwrap_or_else(PoisonError::into_inner) = now;
                    tracing::info!("SIGHUP: certificate and token for HTTP were read again");
                }
                Err(error) => {
                    tracing::warn!(
                        "SIGHUP: certificate and token for HTTP stay as before: {error}"
                    );
                }
            }
        }
    }

    fn lets_in(&self, path: &str, headers: &HeaderMap) -> bool {
        let is_open = path == "/livez" || path == "/metrics" && self.files.open_metrics;
        is_open || self.now().token.is_none_or(|token| token.is_shown(headers))
    }

    /// Whether a request shows a token that is asked for.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        self.now().token.is_some_and(|token| token.is_shown(headers))
    }
}

/// The token was asked for, and shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown;

/// Answers those alone who may read.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Response {
    if access.is_shown(request.headers()) {
        request.extensions_mut().insert(Shown);
    }
    if access.lets_in(request.uri().path(), request.headers()) {
        return next.run(request).await;
    }
    let asks = [(header::WWW_AUTHENTICATE, "Bearer realm=\"quorate\"")];
    (StatusCode::UNAUTHORIZED, asks, "a token is needed: `http.token` in node.toml\n")
        .into_response()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    fn file(folder: &Path, mode: u32, text: &str) -> PathBuf {
        let path = folder.join(format!("token-{mode:o}-{}", text.len()));
        let mut options = File::options();
        let mut file = options.create(true).write(true).mode(mode).open(&path).expect("a file");
        io::Write::write_all(&mut file, text.as_bytes()).expect("room");
        path
    }

    #[test]
    fn a_token_is_read_from_a_file_that_its_owner_alone_may_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |mode, text: &str| Token::read(&file(folder.path(), mode, text));
        assert_eq!(read(0o600, "0123456789abcdef\n").expect("a token").0, "0123456789abcdef");
        assert!(matches!(
            read(0o640, "0123456789abcdef"),
            Err(AccessError::Mode { mode: 0o640, .. })
        ));
        let long = "x".repeat(4097);
        for none in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\nx", &long] {
            assert!(matches!(read(0o600, none), Err(AccessError::NoToken(_))), "{none}");
        }
        let missing = Token::read(&folder.path().join("none"));
        assert!(matches!(missing, Err(AccessError::Io { .. })));
    }

    #[test]
    fn who_shows_no_token_or_another_one_is_not_let_in() {
        let token = Token("0123456789abcdef".to_owned());
        let mut access = Access::default();
        let lets_in = |access: &Access, path: &str, shown: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(shown) = shown {
                headers.insert(header::AUTHORIZATION, shown.parse().expect("a header"));
            }
            access.lets_in(path, &headers)
        };
        assert!(lets_in(&access, "/status", None), "there is no token");
        access.now = RwLock::new(Now { tls: None, token: Some(Arc::new(token.clone())) });
        assert!(lets_in(&access, "/status", Some(&token.header())));
        assert!(lets_in(&access, "/status", Some("bearer 0123456789abcdef")));
        assert!(lets_in(&access, "/livez", None));
        for path in ["/status", "/metrics", "/watch", "/", "/livez/x", "/readyz"] {
            assert!(!lets_in(&access, path, None), "{path}");
        }
        for wrong in
            ["Bearer ", "Bearer 0123456789abcdeF", "Bearer 0123456789abcdef0", "Basic x", ""]
        {
            assert!(!lets_in(&access, "/status", Some(wrong)), "{wrong}");
        }
        access.files.open_metrics = true;
        assert!(lets_in(&access, "/metrics", None));
        assert!(!lets_in(&access, "/status", None));
    }
}
