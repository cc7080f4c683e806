//! `quorate pull --verify`

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use bytes::Bytes;
use quorate_core::Height;
use quorate_node::client::pull::{Proof, verify};
use quorate_node::config::{Cluster, Finding, Place};
use serde_json::{Value, json};

use super::json_of;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// Longest line, in bytes: of a block whose frames are as large as they may be, written twice in
/// hexadecimal.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// What a file says: its blocks with the numbers of their lines, and the proof at its end.
#[derive(Default)]
struct Pulled {
    lines: Vec<(usize, Value)>,
    encoded: Vec<Bytes>,
    proof: Proof,
}

/// Verifies the file.
pub(super) fn run(file: &Path, cluster: &Cluster, format: Format) -> Result<(), Failure> {
    let pulled = read(file)?;
    let wrong = |line: usize, what: String| {
        let remedy = "believe nothing of the file from there on; pull it again".to_owned();
        let place = Place::Line { file: file.to_owned(), line };
        Failure::new(Exit::Failed, Finding { what, place, remedy })
    };
    let first = pulled.lines.first().and_then(|(_, value)| value["height"].as_u64());
    let Some(from) = first else {
        return Err(wrong(1, "there is no block in it".to_owned()));
    };
    let proven = verify(cluster, Height(from), &pulled.encoded, &pulled.proof);
    let proven = proven.map_err(|error| wrong(pulled.lines[0].0, error.to_string()))?;
    for ((line, value), block) in pulled.lines.iter().zip(&proven) {
        if *value != json_of(block) {
            let what = format!("the block at height {} says something else", block.height);
            return Err(wrong(*line, what));
        }
    }
    if let Some((line, _)) = pulled.lines.get(proven.len()) {
        let left = pulled.lines.len() - proven.len();
        let what = format!("nothing in the file proves that the last {left} blocks are decided");
        return Err(wrong(*line, what));
    }
    let through = proven.last().map_or(from, |last| last.height.0);
    match format {
        Format::Table => print(&format!(
            "heights {from} to {through} are decided in chain {} ({})\n",
            cluster.chain,
            cluster.chain_digest()
        )),
        Format::Json => print_json(&json!({
            "chain_digest": cluster.chain_digest().to_string(),
            "from": from,
            "through": through,
        })),
    }
}

fn read(file: &Path) -> Result<Pulled, Failure> {
    let failed = |place: Place, what: String| {
        let remedy = "name a file that `quorate pull -o json` printed".to_owned();
        Failure::new(Exit::Usage, Finding { what, place, remedy })
    };
    let opened = File::open(file)
        .map_err(|error| failed(Place::File(file.to_owned()), error.to_string()))?;
    let mut reader = BufReader::new(opened);
    let (mut pulled, mut number) = (Pulled::default(), 0);
    loop {
        number += 1;
        let at =
            |what: &str| failed(Place::Line { file: file.to_owned(), line: number }, what.into());
        let mut line = String::new();
        let read = std::io::Read::take(&mut reader, MAX_LINE_BYTES).read_line(&mut line);
        let read = read.map_err(|error| at(&error.to_string()))?;
        if read == 0 {
            return Ok(pulled);
        }
        let value: Value =
            serde_json::from_str(&line).map_err(|error| at(&format!("not JSON: {error}")))?;
        let bytes = |value: &Value| value.as_str().and_then(unhex).map(Bytes::from);
        if let Some(proof) = value.get("proof") {
            let list = |name: &str| -> Option<Vec<Bytes>> {
                proof[name].as_array()?.iter().map(bytes).collect()
            };
            let Some(blocks) = list("blocks") else {
                return Err(at("`proof.blocks` is no list of bytes"));
            };
            let handovers = match &proof["handovers"] {
                Value::Null => Some(Vec::new()),
                _ => list("handovers"),
            };
            let Some(handovers) = handovers else {
                return Err(at("`proof.handovers` is no list of bytes"));
            };
            let newest = match &proof["newest"] {
                Value::Null => None,
                newest => Some(bytes(newest).ok_or_else(|| at("`proof.newest` is no bytes"))?),
            };
            pulled.proof = Proof { blocks, newest, handovers };
            continue;
        }
        let encoded = bytes(&value["encoded"]).ok_or_else(|| at("a block without `encoded`"))?;
        pulled.encoded.push(encoded);
        pulled.lines.push((number, value));
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    rest.is_empty().then(|| bytes.collect())?
}
