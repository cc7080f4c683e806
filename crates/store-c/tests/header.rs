//! Tests that the checked-in header matches the crate. `make header` writes it.

use std::path::Path;

/// If set, the test writes the header instead of comparing it.
const WRITE: &str = "QUORATE_WRITE_HEADER";
/// The files, in the order of the header.
const SOURCES: [&str; 5] =
    ["src/outcome.rs", "src/store.rs", "src/batch.rs", "src/snapshot.rs", "src/statistics.rs"];

fn generated(folder: &Path) -> String {
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let builder =
        SOURCES.iter().fold(cbindgen::Builder::new().with_config(config), |builder, file| {
            builder.with_src(folder.join(file))
        });
    let mut bytes = Vec::new();
    builder.generate().unwrap().write(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_header_is_what_the_crate_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = folder.join("quorate_store.h");
    let generated = generated(folder);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&header, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&header).unwrap();
    let differs = checked_in.lines().zip(generated.lines()).position(|(left, right)| left != right);
    assert!(
        checked_in == generated,
        "quorate_store.h differs from the crate at line {:?}: make header",
        differs.map(|line| line + 1)
    );
}

/// Every function of the crate is declared: no other file has any.
#[test]
fn every_function_is_declared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = generated(folder);
    let mut functions = 0;
    for entry in std::fs::read_dir(folder.join("src")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for (at, marker) in source.match_indices("extern \"C\" fn ") {
            let rest = &source[at + marker.len()..];
            let name = &rest[..rest.find('(').unwrap()];
            assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
            functions += 1;
        }
    }
    assert!(functions > 15, "{functions}");
}
