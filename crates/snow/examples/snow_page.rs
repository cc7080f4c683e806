//! Writes `docs/snow.html`, the demonstration page in one file.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/snow.html");
    std::fs::write(path, quorate_snow::page::whole())
}
