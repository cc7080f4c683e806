//! The programs and permissions that some tests need. A test without them is skipped and reports
//! that. If `CI` is set it fails instead: no test may be left out unnoticed there.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;
use std::sync::Mutex;

/// Whether the tests of emulated networks can run: as root, with `ip`, network namespaces and
/// `/dev/net/tun`. `QUORATE_WITHOUT_NETWORKS` skips them without a check, in CI too, because some
/// kernels have no namespaces.
#[allow(dead_code)] // Each of the tests uses what it needs.
pub fn networks() -> bool {
    const TESTS: &str = "emulated networks";
    if std::env::var_os("QUORATE_WITHOUT_NETWORKS").is_some() {
        skipped(TESTS, "QUORATE_WITHOUT_NETWORKS is set", "unset it");
        return false;
    }
    let tun = || OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_ok();
    let lacking = if !rustix::process::getuid().is_root() {
        ("they want root", "run `make test` as root")
    } else if !runs("ip", "-V") {
        ("`ip` is missing", "apt-get install iproute2")
    } else if !tun() {
        (
            "/dev/net/tun cannot be opened",
            "modprobe tun; in a container: --device /dev/net/tun --cap-add NET_ADMIN --cap-add \
             SYS_ADMIN",
        )
    } else if !Command::new("unshare").args(["--net", "true"]).status().is_ok_and(|s| s.success()) {
        (
            "no network namespace can be made",
            "in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN",
        )
    } else {
        return true;
    };
    missing(TESTS, lacking.0, lacking.1);
    false
}

/// Whether a program that some tests use is installed; `package` is Debian's.
#[allow(dead_code)] // Each of the tests uses what it needs.
pub fn program(name: &str, package: &str) -> bool {
    let installed = runs(name, "--version");
    if !installed {
        let because = format!("{name} is missing");
        missing(&format!("tests with {name}"), &because, &format!("apt-get install {package}"));
    }
    installed
}

/// Whether hosts can be made that one reaches by `ssh`.
#[allow(dead_code)] // Each of the tests uses what it needs.
pub fn sshd() -> bool {
    let installed = std::path::Path::new("/usr/sbin/sshd").exists() && runs("ssh", "-V");
    if !installed {
        missing("deployment", "sshd is missing", "apt-get install openssh-server");
    }
    installed
}

/// Reports skipped tests that CI may skip too.
#[allow(dead_code)] // Each of the tests uses what it needs.
pub fn optional(tests: &str, because: &str, enable: &str) {
    skipped(tests, because, enable);
}

fn runs(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

fn missing(tests: &str, because: &str, enable: &str) {
    assert!(std::env::var_os("CI").is_none(), "{tests}: {because}, and CI skips nothing: {enable}");
    skipped(tests, because, enable);
}

/// Reports it past the test harness, which would hide it, and adds it to the file that
/// `QUORATE_SKIPPED` names, for the summary of `make test`.
fn skipped(tests: &str, because: &str, enable: &str) {
    let line = format!("{tests}: skipped, because {because}; to enable: {enable}\n");
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if !SAID.lock().expect("no test panics here").insert(line.clone()) {
        return;
    }
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os("QUORATE_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(list);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("QUORATE_SKIPPED is a file");
    }
}
