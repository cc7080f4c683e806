//! Who is let in and what they may do, over sockets.

mod support;

use std::sync::Arc;

use quorate_gateway::acl::Acl;
use quorate_gateway::acl::gate::Gate;
use quorate_gateway::server::tls::TlsFiles;
use quorate_gateway::server::{Limits, Security};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use support::{Alone, Gateway};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

const USERS: &str = "user default off\n\
                     user app on >secret ~app:* +@all -@dangerous\n\
                     user reader on >other ~* +@read +@connection";
const NO_AUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

async fn gateway(gate: Gate) -> Gateway {
    let security = Security { gate: Arc::new(gate), tls: None };
    Gateway::start_for(Arc::new(Alone::default()), Limits::default(), security).await
}

fn users(text: &str) -> Gate {
    Gate::of(Acl::parse(text).expect("good"))
}

#[tokio::test]
async fn whoever_has_not_said_who_they_are_may_do_nothing_else() {
    let gateway = gateway(users(USERS)).await;
    let mut client = gateway.connect().await;
    for command in ["GET k", "PING", "NOSUCH", "MULTI", "COMMAND COUNT"] {
        client.ask(command, NO_AUTH).await;
    }
    client.ask("AUTH app wrong", WRONG).await;
    client.ask("AUTH nobody secret", WRONG).await;
    client.ask("AUTH app secret", "+OK\r\n").await;
    client.ask("ACL WHOAMI", "$3\r\napp\r\n").await;
    client.ask("SET app:1 v", "+OK\r\n").await;
    client.ask("RESET", "+RESET\r\n").await;
    client.ask("GET app:1", NO_AUTH).await;
    client.ask("QUIT", "+OK\r\n").await;
}

#[tokio::test]
async fn rights_are_refused_in_redis_words() {
    let gateway = gateway(users(USERS)).await;
    let mut client = gateway.connect().await;
    client.ask("AUTH app secret", "+OK\r\n").await;
    client.ask("GET other", "-NOPERM No permissions to access a key\r\n").await;
    let refused = "-NOPERM User app has no permissions to run the 'flushall' command\r\n";
    client.ask("FLUSHALL", refused).await;
    let refused = "-NOPERM User app has no permissions to run the 'client|list' command\r\n";
    client.ask("CLIENT LIST", refused).await;
    // A refused command spoils its transaction.
    client.ask("MULTI", "+OK\r\n").await;
    client.ask("SET app:1 v", "+QUEUED\r\n").await;
    client.ask("SET other v", "-NOPERM No permissions to access a key\r\n").await;
    client.ask("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n").await;
    client.ask("EXISTS app:1", ":0\r\n").await;
    // Another user on the same connection.
    client.ask("AUTH reader other", "+OK\r\n").await;
    client.ask("GET other", "$-1\r\n").await;
    let refused = "-NOPERM User reader has no permissions to run the 'set' command\r\n";
    client.ask("SET app:1 v", refused).await;
}

#[tokio::test]
async fn hello_says_who_one_is_and_guessing_ends_the_connection() {
    let gateway = gateway(users(USERS)).await;
    let mut client = gateway.connect().await;
    client.send("HELLO 3\r\n").await;
    client.expect("-NOAUTH HELLO must be called with the client already authenticated").await;
    let mut client = gateway.connect().await;
    client.send("HELLO 2 AUTH app secret\r\n").await;
    client.expect("*14\r\n$6\r\nserver\r\n").await;
    let mut client = gateway.connect().await;
    for _ in 0..10 {
        client.ask("AUTH app guess", WRONG).await;
    }
    client.expect_end().await;
    // Nor may a stranger have much kept of a request that does not end.
    let mut client = gateway.connect().await;
    client.send(format!("*2\r\n$3\r\nGET\r\n$100000\r\n{}", "x".repeat(40_000))).await;
    client.expect_end().await;
}

#[tokio::test]
async fn a_file_that_is_read_again_changes_who_may_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users.acl");
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    write(&format!("{USERS}\nuser admin on >root ~* +@all"));
    let gateway = gateway(Gate::of_file(&file).expect("good")).await;
    let (mut admin, mut app) = (gateway.connect().await, gateway.connect().await);
    admin.ask("AUTH admin root", "+OK\r\n").await;
    app.ask("AUTH app secret", "+OK\r\n").await;

    write("user admin on >root ~* +@all\nuser app on >secret ~app:* +nosuch");
    admin.send("ACL LOAD\r\n").await;
    admin.expect("-ERR ").await;
    let mut rest = vec![0; 4096];
    let read = admin.stream.read(&mut rest).await.expect("the rest");
    let text = String::from_utf8_lossy(&rest[..read]).into_owned();
    assert!(text.contains("line 2: the gateway has no command `nosuch`"), "{text}");
    app.ask("SET app:1 v", "+OK\r\n").await;

    // Fewer rights; then another password.
    write("user admin on >root ~* +@all\nuser app on >secret ~app:* +get");
    admin.ask("ACL LOAD", "+OK\r\n").await;
    let refused = "-NOPERM User app has no permissions to run the 'set' command\r\n";
    app.ask("SET app:1 v", refused).await;
    write("user admin on >root ~* +@all\nuser app on >changed ~app:* +get");
    admin.ask("ACL LOAD", "+OK\r\n").await;
    app.send("GET app:1\r\n").await;
    app.expect("-NOAUTH the user of this connection was changed\r\n").await;
    app.expect_end().await;
    admin.ask("ACL USERS", "*2\r\n$5\r\nadmin\r\n$3\r\napp\r\n").await;
}

#[tokio::test]
async fn tls_encrypts_and_asks_for_a_certificate_when_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let signed =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(path("cert.pem"), signed.cert.pem()).expect("written");
    std::fs::write(path("key.pem"), signed.signing_key.serialize_pem()).expect("written");
    let mut files =
        TlsFiles { certificate: path("cert.pem"), key: path("key.pem"), client_authorities: None };
    let start = async |files: &TlsFiles| {
        let (_, newest) = watch::channel(files.load().expect("good"));
        let security = Security { tls: Some(newest), ..Security::default() };
        Gateway::start_for(Arc::new(Alone::default()), Limits::default(), security).await
    };
    let mut roots = RootCertStore::empty();
    roots.add(signed.cert.der().clone()).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").expect("a name");

    let gateway = start(&files).await;
    let stream = TcpStream::connect(gateway.address).await.expect("a connection");
    let mut stream = connector.connect(name.clone(), stream).await.expect("a handshake");
    stream.write_all(b"SET k v\r\nGET k\r\n").await.expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"+OK\r\n$1\r\nv\r\n");
    // In the clear there is no answer.
    let mut plain = gateway.connect().await;
    plain.send("PING\r\n").await;
    let mut rest = Vec::new();
    let _ = plain.stream.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"+PONG"));

    files.client_authorities = Some(path("cert.pem"));
    let gateway = start(&files).await;
    let stream = TcpStream::connect(gateway.address).await.expect("a connection");
    let refused = match connector.connect(name, stream).await {
        Err(_) => true,
        // With TLS 1.3 the client hears of it when it reads.
        Ok(mut stream) => {
            let _ = stream.write_all(b"PING\r\n").await;
            stream.read(&mut [0; 16]).await.map_or(true, |read| read == 0)
        }
    };
    assert!(refused, "a client without a certificate was let in");

    std::fs::write(path("cert.pem"), "no certificate").expect("written");
    let error = files.load().expect_err("not PEM").to_string();
    assert!(error.contains("cert.pem"), "{error}");
}
