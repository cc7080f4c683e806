//! Tests of a process without free descriptors. It has a test binary, and so a process, of its own.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use quorate_transport::Door;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn set_limit(current: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

#[tokio::test]
async fn without_descriptors_those_who_wait_are_refused_and_later_ones_accepted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let door = Door::new(listener);
    let mut waiting: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    let before = getrlimit(Resource::Nofile).current;
    // The system assigns the lowest free descriptor, so all below this one are taken.
    let next = std::fs::File::open("/dev/null").unwrap();
    set_limit(Some(next.as_raw_fd() as u64));
    drop(next);

    let refused = tokio::time::timeout(PATIENCE, door.accept()).await.unwrap();
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
    for stream in &mut waiting {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        match stream.read(&mut [0]) {
            Ok(read) => assert_eq!(read, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }

    set_limit(before);
    let _late = TcpStream::connect(address).unwrap();
    tokio::time::timeout(PATIENCE, door.accept()).await.unwrap().unwrap();
}
