//! `quorate new`, and what `testnet init` thinks of programs.

mod program;

use program::{code, err, json, out, quorate};

#[test]
fn it_writes_a_crate_and_says_what_to_do_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = quorate(folder.path(), &["new", "my-shop"]);
    assert_eq!(code(&made), 0, "{}", err(&made));
    assert!(out(&made).contains("quorate testnet init net --program target/debug/my-shop"));
    let shop = folder.path().join("my-shop");
    let read = |path: &str| std::fs::read_to_string(shop.join(path)).unwrap();
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    assert_eq!(manifest["package"]["name"].as_str(), Some("my-shop"));
    let path = manifest["dependencies"]["quorate-service"]["path"].as_str().unwrap();
    assert!(std::path::Path::new(path).join("Cargo.toml").exists(), "{path}");
    assert!(read("src/main.rs").contains("use my_shop::Counters;"));
    for file in ["Cargo.toml", "src/lib.rs", "src/main.rs", "tests/simulation.rs"] {
        assert!(!read(file).contains("{{"), "{file}");
    }
    let again = quorate(folder.path(), &["new", "my-shop"]);
    assert_eq!(code(&again), 2);
    assert!(err(&again).contains("there is something of this name already"), "{}", err(&again));
}

#[test]
fn it_depends_on_what_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let dependency = |name: &str, arguments: &[&str]| {
        let arguments = [&["-o", "json", "new", name], arguments].concat();
        let made = quorate(folder.path(), &arguments);
        assert_eq!(code(&made), 0, "{}", err(&made));
        assert_eq!(json(&made)["service"], name);
        let manifest = folder.path().join(name).join("Cargo.toml");
        let manifest: toml::Table =
            toml::from_str(&std::fs::read_to_string(manifest).unwrap()).unwrap();
        manifest["dependencies"]["quorate-service"].as_table().unwrap().clone()
    };
    let git = dependency("a", &["--git", "https://example.com/q.git", "--rev", "v1"]);
    assert_eq!(git["git"].as_str(), Some("https://example.com/q.git"));
    assert_eq!(git["rev"].as_str(), Some("v1"));
    assert_eq!(dependency("b", &["--release", "0.1.0"])["version"].as_str(), Some("0.1.0"));
    let wrong = quorate(folder.path(), &["new", "c", "--path", "/nowhere"]);
    assert_eq!(code(&wrong), 2);
    assert!(err(&wrong).contains("sources are not in /nowhere"), "{}", err(&wrong));
}

#[test]
fn names_that_no_crate_can_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["Bank", "1bank", "my_bank", "bank-", "../bank", "fn", "test", "core", "\u{e4}"] {
        let refused = quorate(folder.path(), &["new", name]);
        assert_eq!(code(&refused), 2, "{name}");
        assert!(err(&refused).contains("remedy: use up to 64 lower-case letters"), "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_program_that_is_none_of_a_service_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (program, expected) in [
        ("/no/such/program", "it cannot be run"),
        ("/bin/false", "it does not describe itself"),
        ("/bin/echo", "its description is no JSON"),
    ] {
        let refused = quorate(folder.path(), &["testnet", "init", "net", "--program", program]);
        assert_eq!(code(&refused), 2, "{program}");
        assert!(err(&refused).contains(expected), "{}", err(&refused));
    }
    let refused = quorate(folder.path(), &["testnet", "init", "net", "--application", "service"]);
    assert_eq!(code(&refused), 2);
    assert!(err(&refused).contains("add --program PATH or --pipe COMMAND"), "{}", err(&refused));
    assert!(!folder.path().join("net").exists());
}
