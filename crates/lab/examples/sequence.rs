//! Draws what a transcript says as a message-sequence picture.
//!
//! `cargo run -p quorate-lab --example sequence -- SCRIPT [from=ms] [to=ms] > picture.svg`
//! `cargo run -p quorate-lab --example sequence -- --manifest docs/pictures/manifest.txt SCRIPTS`

use std::error::Error;
use std::path::Path;

use quorate_lab::sequence::Manifest;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--manifest", list, scripts] => {
            let folder = Path::new(list).parent().unwrap_or(Path::new("."));
            for picture in Manifest::parse(&std::fs::read_to_string(list)?)?.pictures {
                std::fs::write(folder.join(&picture.file), picture.draw(Path::new(scripts))?)?;
                println!("{}", folder.join(&picture.file).display());
            }
            Ok(())
        }
        [script, range @ ..] => {
            let manifest = Manifest::parse(&format!("- {script} {}", range.join(" ")))?;
            for picture in manifest.pictures {
                print!("{}", picture.draw(Path::new("."))?);
            }
            Ok(())
        }
        [] => Err("usage: sequence SCRIPT [from=ms] [to=ms] | --manifest LIST SCRIPTS".into()),
    }
}
