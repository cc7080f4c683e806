//! The demonstration page in a real browser, without its window: the module computes there what the
//! same functions compute here.
//!
//! Without Chromium it says that it is skipped.

use std::path::Path;
use std::process::{Command, Stdio};

use quorate_snow::web;

/// Its names on Debian, on other distributions, and Google's.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The page's document after what the address asks for; none without a browser.
fn document(fragment: &str) -> Option<String> {
    let answers = |name: &&&str| {
        let asked = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        asked.is_ok_and(|said| said.status.success())
    };
    let Some(browser) = BROWSERS.iter().find(answers) else {
        eprintln!("skipped, because there is no Chromium; to enable: apt-get install chromium");
        return None;
    };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/snow.html");
    let page = page.canonicalize().unwrap();
    let said = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg("--virtual-time-budget=20000")
        .arg(format!("file://{}#{fragment}", page.display()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(said.status.success(), "{browser} failed");
    Some(String::from_utf8_lossy(&said.stdout).into_owned())
}

/// What an attribute of the body says.
fn attribute<'a>(document: &'a str, name: &str) -> &'a str {
    let body = document.split_once("<body").map_or("", |(_, rest)| rest);
    let body = body.split_once('>').map_or("", |(body, _)| body);
    let value = body.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest);
    value.split_once('"').map_or("", |(value, _)| value)
}

#[test]
fn a_run_in_the_browser_is_the_run_that_is_computed_here() {
    let Some(document) = document("seed=7&ms=900&paused=1") else { return };
    assert_eq!(attribute(&document, "data-ready"), "yes", "the page did not begin");
    // 400 nodes, 8 % faulty: the page's own numbers.
    assert_eq!(web::grid_new(2, 400, 32, 0, 10, 7, 20, 0, 500, 7), 1);
    (0..100).for_each(|_| {
        web::grid_advance(9.0);
    });
    let numbers = web::grid_numbers_now();
    let trace = format!("{}-{}", numbers[7], numbers[8]);
    assert_eq!(attribute(&document, "data-trace"), trace);
    assert_eq!(attribute(&document, "data-messages"), numbers[6].to_string());
    assert!(
        document.contains("two correct nodes decide differently with a probability of at most")
    );
}

#[test]
fn a_double_spend_in_the_browser_ends_with_one_spend_accepted_by_all() {
    let Some(document) = document("tab=spends&seed=9&ms=9000&twice=1&paused=1") else { return };
    assert_eq!(attribute(&document, "data-ready"), "yes", "the page did not begin");
    let title = document.split_once("id=\"pair-title\">").map_or("", |(_, rest)| rest);
    let title = title.split_once('<').map_or("", |(title, _)| title);
    assert!(title.starts_with("All 24 correct nodes accepted the "), "{title}");
}
