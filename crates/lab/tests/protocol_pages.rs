//! The protocol pages say what the code says: constants, sizes, commands; and their links lead
//! somewhere. `QUORATE_REGENERATE=1` writes the generated table anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use quorate_core::base::wire::{Decode, Encode};
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::rules;

const BEGIN: &str = "<!-- generated from the rules";
const END: &str = "<!-- end of the generated part -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn pages() -> Vec<(PathBuf, String)> {
    let folder = std::fs::read_dir(root().join("docs/protocols")).expect("the pages");
    let paths = folder.map(|entry| entry.expect("an entry").path());
    let pages = paths.filter(|path| path.extension().is_some_and(|e| e == "md"));
    let mut pages: Vec<_> = pages.map(|path| (path.clone(), read(&path))).collect();
    pages.sort();
    assert!(pages.len() >= 10, "pages are missing");
    pages
}

fn table() -> String {
    let mut table = String::from(
        "| protocol | certificates to a commit | message delays | view change | needs |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for rules in rules::ALL {
        let facts = rules.facts();
        let (name, certificates, delays) = (facts.name, facts.certificates, facts.message_delays);
        let (view_change, needs) = (facts.view_change, facts.needs);
        let _ = writeln!(
            table,
            "| [`{name}`]({name}.md) | {certificates} | {delays} | {view_change} | {needs} |"
        );
    }
    table
}

#[test]
fn the_table_is_that_of_the_rules() {
    let path = root().join("docs/protocols/README.md");
    let text = read(&path);
    let (before, rest) = text.split_once(BEGIN).expect("the beginning");
    let (first, rest) = rest.split_once("-->\n").expect("the end of the comment");
    let (written, after) = rest.split_once(END).expect("the end");
    let table = format!("\n{}\n", table());
    if std::env::var_os("QUORATE_REGENERATE").is_some() {
        let text = format!("{before}{BEGIN}{first}-->\n{table}{END}{after}");
        std::fs::write(path, text).expect("written");
    } else {
        assert_eq!(written, table, "QUORATE_REGENERATE=1 writes it anew");
    }
}

#[test]
fn every_protocol_has_a_page_with_its_constants_and_its_command() {
    for rules in rules::ALL {
        let facts = rules.facts();
        let page = read(&root().join("docs/protocols").join(format!("{}.md", facts.name)));
        let command = format!("$ quorate demo --protocol {}", facts.name);
        assert!(page.contains(&command), "{}: {command}", facts.name);
        let delays = format!("{} message delays", facts.message_delays);
        assert!(page.contains(&delays), "{}: {delays}", facts.name);
        for part in ["## Rules", "## Cost", "## Known faults", "## Deviations", "## Pictures"] {
            assert!(page.contains(&format!("\n{part}\n")), "{}: {part}", facts.name);
        }
        assert!(page.matches("](../pictures/").count() >= 2, "{}: pictures", facts.name);
    }
}

/// A heading as links name it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    for (path, text) in pages() {
        let folder = path.parent().expect("a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { folder.join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
            let is_there = heading.is_empty()
                || read(&target).lines().any(|line| {
                    line.strip_prefix('#')
                        .is_some_and(|rest| anchor(rest.trim_start_matches('#')) == heading)
                });
            assert!(is_there, "{}: no heading for {link}", path.display());
        }
    }
}

#[test]
fn every_picture_is_shown() {
    let text: String = pages().into_iter().map(|(_, text)| text).collect();
    for entry in std::fs::read_dir(root().join("docs/pictures")).expect("the pictures") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        let shown = !name.ends_with(".svg") || text.contains(&format!("../pictures/{name}"));
        assert!(shown, "no page shows docs/pictures/{name}");
    }
}

/// A signature with its length before it.
fn signature(bytes: u8) -> Vec<u8> {
    std::iter::once(bytes).chain(std::iter::repeat_n(7, bytes.into())).collect()
}

fn count(q: u16) -> [u8; 4] {
    u32::from(q).to_le_bytes()
}

/// A QC of replicas 0 .. q: a list of signatures, an aggregate, or the committee's.
fn qc(scheme: usize, q: u16) -> Vec<u8> {
    let mut bytes = [vec![1; 8], vec![1], vec![5; 32], vec![scheme as u8 + 1]].concat();
    match scheme {
        0 => {
            bytes.extend(count(q));
            for signer in 0..q {
                bytes.extend(signer.to_le_bytes());
                bytes.extend(signature(64));
            }
        }
        1 => {
            let set: Vec<u8> = (0..q.div_ceil(8))
                .map(|at| if 8 * at + 8 <= q { 255 } else { (1_u8 << (q % 8)) - 1 })
                .collect();
            bytes.push(set.len() as u8);
            bytes.extend(set);
            bytes.extend(signature(48));
        }
        _ => bytes.extend(signature(48)),
    }
    assert_eq!(Qc::from_bytes(bytes.clone().into()).expect("a QC").to_bytes(), bytes);
    bytes
}

/// A TC of replicas 0 .. q with so many QCs.
fn tc(scheme: usize, q: u16, qcs: u16) -> Vec<u8> {
    let mut bytes = [vec![2; 8], count(q).to_vec()].concat();
    for signer in 0..q {
        bytes.extend([signer.to_le_bytes().to_vec(), vec![1; 8]].concat());
    }
    let signatures = if scheme == 0 { q } else { 1 };
    bytes.extend(count(signatures));
    for _ in 0..signatures {
        bytes.extend(signature(if scheme == 0 { 64 } else { 48 }));
    }
    bytes.extend(count(qcs));
    (0..qcs).for_each(|_| bytes.extend(qc(scheme, q)));
    assert_eq!(Tc::from_bytes(bytes.clone().into()).expect("a TC").to_bytes(), bytes);
    bytes
}

/// 1234567 as 1,234,567.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn certificates_have_the_sizes_that_are_stated() {
    let page = read(&root().join("docs/protocols/signatures.md"));
    let quorums = [4, 16, 100].map(|n| quorate_core::base::membership::quorum(n) as u16);
    let row = |size: &dyn Fn(usize, u16) -> usize| {
        let cells = (0..3).map(|scheme| quorums.map(|q| grouped(size(scheme, q))).join(", "));
        format!("| n = 4, 16, 100 | {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    for row in [
        row(&|scheme, q| qc(scheme, q).len()),
        row(&|scheme, q| tc(scheme, q, 1).len()),
        row(&|scheme, q| tc(scheme, q, q).len()),
    ] {
        assert!(page.contains(&row), "docs/protocols/signatures.md should have\n{row}");
    }
}
