//! Whether the tests of emulated networks can run.

use std::io::Write as _;
use std::path::Path;

/// Whether networks are to be made here. Where they cannot it fails, unless it was asked to leave them out; then it says so past the
/// harness, which would keep it to itself.
pub fn permitted() -> bool {
    if std::env::var_os("QUORATE_WITHOUT_NETWORKS").is_some() {
        let _ = writeln!(
            std::io::stderr(),
            "NOT TESTED: emulated networks, as QUORATE_WITHOUT_NETWORKS is set"
        );
        return false;
    }
    assert!(
        rustix::process::getuid().is_root() && Path::new("/dev/net/tun").exists(),
        "emulated networks want root and /dev/net/tun: run this as root, or set QUORATE_WITHOUT_NETWORKS=1 to leave these tests out"
    );
    true
}
