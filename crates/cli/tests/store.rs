//! `quorate store` with the real binary: items, damage, compaction, and what it refuses.

mod program;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use program::{code, err, json, out, quorate};
use quorate_store::lazy_trie::{Durability, Hash, Options, Store};

/// Nobody's user and group, where root must not be refused by permissions alone.
const NOBODY: u32 = 65_534;

#[track_caller]
fn ok(folder: &Path, arguments: &[&str]) -> String {
    let output = quorate(folder, arguments);
    assert_eq!((code(&output), err(&output).as_str()), (0, ""), "{arguments:?}");
    out(&output)
}

/// A store in `folder/s` of so many items `key 0`, `key 1`, ..., whose pages are written out, and
/// no log to replay.
fn begin(folder: &Path, items: u32) {
    let durability = Durability::Os;
    let options = Options { segment_bytes: 1 << 20, durability, ..Options::default() };
    let (store, _) = Store::open(folder.join("s"), options).unwrap();
    for item in 0..items {
        store.put(format!("key {item}").as_bytes(), &[b'a' + (item % 26) as u8; 100]).unwrap();
    }
    store.checkpoint().unwrap();
}

#[test]
fn items_are_put_found_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let refused = quorate(here, &["store", "put", "s", "planet", "Uranus"]);
    assert_eq!(
        (code(&refused), err(&refused).as_str()),
        (
            2,
            "error: there is no such folder\n  where:  s\n  remedy: name the folder of a store of this \
             version, with store.head in it\n"
        )
    );
    assert!(!here.join("s").exists(), "a mistyped name begins nothing");

    assert_eq!(ok(here, &["store", "put", "s", "planet", "Uranus", "--create"]), "");
    let again = quorate(here, &["store", "put", "s", "planet", "Neptune", "-o", "json"]);
    assert_eq!(json(&again)["replaced"], true);
    assert_eq!(ok(here, &["store", "get", "s", "planet"]), "Neptune\n");
    assert_eq!(ok(here, &["store", "put", "s", "00ff", "c0de", "--hex"]), "");
    assert_eq!(ok(here, &["store", "get", "s", "00FF", "--hex"]), "c0de\n");
    let found = quorate(here, &["store", "get", "s", "00ff", "--hex", "-o", "json"]);
    assert_eq!(json(&found), serde_json::json!({ "key_hex": "00ff", "value_hex": "c0de" }));

    assert_eq!(ok(here, &["store", "delete", "s", "planet"]), "");
    for command in ["get", "delete"] {
        let gone = quorate(here, &["store", command, "s", "planet"]);
        assert_eq!((code(&gone), out(&gone).as_str()), (1, ""));
        assert!(err(&gone).starts_with("error: no item has this key\n  where:  s\n"));
    }
    let odd = quorate(here, &["store", "get", "s", "00f", "--hex"]);
    assert_eq!(code(&odd), 2);
    assert!(err(&odd).contains("\"00f\" is not of pairs of hexadecimal digits"), "{}", err(&odd));
}

#[test]
fn a_dump_can_be_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (store, _) = Store::open(here.join("s"), Options::default()).unwrap();
    store.put(b"text", "a tab\tand umlauts: \u{e4}\u{f6}\u{fc}".as_bytes()).unwrap();
    store.put(b"\xff\x00", b"\x80").unwrap();
    store.put(&Hash([7; 32]), b"by its hash").unwrap();
    drop(store);

    let lines = ok(here, &["store", "dump", "s"]);
    assert!(lines.contains("text\ta tab\\tand umlauts: \u{e4}\u{f6}\u{fc}\n"), "{lines}");
    assert!(lines.contains("\\xff\\x00\t\\x80\n"), "{lines}");
    assert!(lines.contains(&format!("#{}\tby its hash\n", "07".repeat(32))), "{lines}");
    let digits = ok(here, &["store", "dump", "s", "--hex"]);
    assert!(digits.contains("ff00\t80\n"), "{digits}");

    let dump = ok(here, &["store", "dump", "s", "-o", "json"]);
    assert_eq!(dump.lines().count(), 3);
    assert_eq!(ok(here, &["store", "dump", "s", "-o", "json", "--to", "d"]), "");
    assert_eq!(std::fs::read_to_string(here.join("d")).unwrap(), dump);
    let again = quorate(here, &["store", "dump", "s", "--to", "d"]);
    assert_eq!(code(&again), 2);
    assert!(err(&again).contains("there is such a file already"));

    assert_eq!(ok(here, &["store", "put", "t", "--create", "--from", "d"]), "3 items\n");
    assert_eq!(ok(here, &["store", "dump", "t", "-o", "json"]), dump);
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.current_dir(here).args(["store", "put", "t", "--from", "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = b"{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"c\"}\n";
    child.stdin.take().unwrap().write_all(input).unwrap();
    let refused = child.wait_with_output().unwrap();
    assert_eq!(code(&refused), 2);
    assert!(err(&refused).starts_with("error: no field value or value_hex\n"), "{}", err(&refused));
    assert_eq!(ok(here, &["store", "get", "t", "a"]), "b\n");
}

#[test]
fn a_whole_store_checks_and_tells_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    begin(folder.path(), 500);
    let told = ok(folder.path(), &["store", "check", "s"]);
    assert!(told.starts_with("the store is whole: 500 items, "), "{told}");
    let report = quorate(folder.path(), &["store", "check", "s", "-o", "json"]);
    assert_eq!(
        (json(&report)["ok"].as_bool(), json(&report)["items"].as_u64()),
        (Some(true), Some(500))
    );
    let stats = json(&quorate(folder.path(), &["store", "stats", "s", "-o", "json"]));
    assert_eq!((stats["items"].as_u64(), stats["value_bytes"].as_u64()), (Some(500), Some(50_000)));
    assert!(ok(folder.path(), &["store", "stats", "s"]).contains("\nkey_bytes "));
}

/// Where the value of item `key 3` is in its file.
fn place(region: &Path) -> usize {
    let bytes = std::fs::read(region).unwrap();
    let item = [b"key 3".as_slice(), &[b'd'; 100]].concat();
    bytes.windows(item.len()).position(|window| window == item).expect("the item")
}

#[test]
fn damage_is_named_with_file_offset_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    begin(here, 40);
    let region = here.join("s/000000.space");
    let at = place(&region);
    let mut bytes = std::fs::read(&region).unwrap();
    bytes[at + 50] ^= 4;
    std::fs::write(&region, &bytes).unwrap();

    let checked = quorate(here, &["store", "check", "s"]);
    assert_eq!((code(&checked), out(&checked).as_str()), (4, ""));
    // The checksum and the lengths stand before the key.
    let expected = format!("error: damaged at offset {}: the checksum of an item\n", at - 6);
    assert!(err(&checked).starts_with(&expected), "{}", err(&checked));
    assert!(err(&checked).contains("  where:  s/000000.space\n  remedy: restore the folder"));
    let report = quorate(here, &["store", "check", "s", "-o", "json"]);
    assert_eq!(code(&report), 4);
    assert_eq!(json(&report)["findings"][0]["where"]["file"], "s/000000.space");

    let dump = quorate(here, &["store", "dump", "s"]);
    assert_eq!((code(&dump), out(&dump).lines().count()), (4, 39));
    assert!(err(&dump).starts_with("error: damaged at offset "), "{}", err(&dump));
    let compacted = quorate(here, &["store", "compact", "s"]);
    assert_eq!(code(&compacted), 4, "{}", err(&compacted));
    assert!(!err(&compacted).is_empty() && std::fs::read(&region).unwrap() == bytes);
}

#[test]
fn a_damaged_log_is_refused_or_given_up_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for item in ["1", "2", "3"] {
        ok(here, &["store", "put", "s", item, "a value of which a bit is flipped", "--create"]);
    }
    // The first commit that the log has.
    let value = b"a value of which";
    let mut segments: Vec<_> = std::fs::read_dir(here.join("s"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "wal"))
        .collect();
    segments.sort();
    let found = segments.into_iter().find_map(|log| {
        let bytes = std::fs::read(&log).unwrap();
        let at = bytes.windows(value.len()).position(|window| window == value)?;
        Some((log, bytes, at))
    });
    let (log, mut bytes, at) = found.expect("a commit");
    bytes[at] ^= 1;
    std::fs::write(&log, &bytes).unwrap();

    let refused = quorate(here, &["store", "get", "s", "3"]);
    assert_eq!(code(&refused), 4);
    let text = err(&refused);
    assert!(text.starts_with("error: damaged at offset ") && text.contains(".wal\n"), "{text}");
    assert!(text.contains("go on from before the damage with --best-effort"), "{text}");
    let dump = quorate(here, &["store", "dump", "s", "--best-effort"]);
    assert_eq!((code(&dump), out(&dump).as_str()), (0, ""));
    assert!(err(&dump).starts_with("warning: commits behind the damage"), "{}", err(&dump));
    assert!(ok(here, &["store", "check", "s"]).starts_with("the store is whole: 0 items"));
}

#[test]
fn an_authenticated_store_tells_its_root_and_proves_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let create = ["store", "put", "s", "planet", "Uranus", "--create", "--authenticated"];
    let alone = quorate(here, &["store", "put", "s", "planet", "Uranus", "--authenticated"]);
    assert_eq!(code(&alone), 2, "{}", err(&alone));
    ok(here, &create);
    ok(here, &create);
    ok(here, &["store", "put", "s", "moon", "Titania"]);

    let stats = json(&quorate(here, &["store", "stats", "s", "-o", "json"]));
    let root = stats["root"].as_str().unwrap();
    assert!(ok(here, &["store", "stats", "s"]).contains(&format!(" {root} ")));
    let found = json(&quorate(here, &["store", "get", "s", "planet", "--proof", "-o", "json"]));
    assert_eq!(
        (&found["value"], &found["found"], &found["root"]),
        (&"Uranus".into(), &true.into(), &root.into())
    );
    let proof = found["proof"].as_str().unwrap();
    let told = ok(here, &["store", "get", "s", "planet", "--proof"]);
    assert_eq!(told, format!("value  Uranus\nroot   {root}\nproof  {proof}\n"));
    let verify = |proof: &str, rest: &[&str]| {
        let flags = ["store", "verify-proof", "--root", root, "--proof", proof];
        quorate(here, &[&flags[..], rest].concat())
    };
    let proven = verify(proof, &["planet", "Uranus"]);
    assert_eq!((code(&proven), out(&proven).as_str()), (0, "proven: the key has this value\n"));
    for wrong in [&["planet", "Neptune"][..], &["planet"], &["moon", "Uranus"]] {
        let refused = verify(proof, wrong);
        assert_eq!((code(&refused), out(&refused).as_str()), (1, ""), "{wrong:?}");
    }
    let malformed = verify("0102", &["planet", "Uranus"]);
    assert_eq!(code(&malformed), 2);
    assert!(err(&malformed).starts_with("error: no proof: at byte "), "{}", err(&malformed));

    let none = json(&quorate(here, &["store", "get", "s", "comet", "--proof", "-o", "json"]));
    assert_eq!((&none["found"], none.get("value")), (&false.into(), None));
    let proven = verify(none["proof"].as_str().unwrap(), &["comet", "-o", "json"]);
    assert_eq!(json(&proven), serde_json::json!({ "proven": true, "found": false }));

    ok(here, &["store", "put", "plain", "a", "b", "--create"]);
    let refused = quorate(here, &["store", "get", "plain", "a", "--proof"]);
    assert_eq!((code(&refused), out(&refused).as_str()), (2, ""));
    assert!(
        err(&refused).starts_with("error: the store is not authenticated"),
        "{}",
        err(&refused)
    );
    let refused =
        quorate(here, &["store", "put", "plain", "a", "b", "--create", "--authenticated"]);
    assert_eq!(code(&refused), 2);
    assert!(json(&quorate(here, &["store", "stats", "plain", "-o", "json"])).get("root").is_none());
}

#[test]
fn compacting_gives_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    begin(here, 300);
    let before = ok(here, &["store", "dump", "s", "-o", "json"]);
    let report = json(&quorate(here, &["store", "compact", "s", "-o", "json"]));
    assert_eq!(report["items"], 300);
    let (was, is) =
        (report["bytes_before"].as_u64().unwrap(), report["bytes_after"].as_u64().unwrap());
    assert!(is < was, "{report}");
    let names = std::fs::read_dir(here.join("s")).unwrap().map(|entry| entry.unwrap());
    let sizes =
        names.filter(|entry| entry.file_name() != "lock").map(|e| e.metadata().unwrap().len());
    assert_eq!(sizes.sum::<u64>(), is);
    assert_eq!(ok(here, &["store", "dump", "s", "-o", "json"]), before);
    assert!(ok(here, &["store", "check", "s"]).starts_with("the store is whole: 300 items"));
    assert!(ok(here, &["store", "compact", "s"]).starts_with("300 items; "));
}

/// `kill -9` in the midst of compacting, wherever that hits.
#[test]
fn a_killed_compaction_leaves_one_whole_store() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    begin(here, 20_000);
    let before = ok(here, &["store", "dump", "s"]);
    // Killed when it has begun, has room for items, or puts the new one in place.
    for stage in [".head.compact", ".space.compact", ".swap"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.current_dir(here).args(["store", "compact", "s"]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        loop {
            let reached = std::fs::read_dir(here.join("s")).unwrap().any(|entry| {
                entry.is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(stage))
            });
            if reached || child.try_wait().unwrap().is_some() {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ok(here, &["store", "dump", "s"]), before);
        assert!(ok(here, &["store", "check", "s"]).starts_with("the store is whole: 20000 items"));
    }
}

#[test]
fn what_is_no_store_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::create_dir(here.join("photos")).unwrap();
    std::fs::write(here.join("photos/1.jpg"), "not a store").unwrap();
    std::fs::write(here.join("file"), "not a folder").unwrap();
    let commands: [&[&str]; 7] = [
        &["check", "X"],
        &["dump", "X"],
        &["stats", "X"],
        &["compact", "X"],
        &["get", "X", "k"],
        &["put", "X", "k", "v", "--create"],
        &["delete", "X", "k"],
    ];
    for command in commands {
        for (name, what) in [
            ("photos", "this is no folder of a store: it has no file store.head"),
            ("file", "this is no folder"),
        ] {
            let arguments: Vec<&str> = std::iter::once("store")
                .chain(command.iter().map(|word| if *word == "X" { name } else { word }))
                .collect();
            let refused = quorate(here, &arguments);
            assert_eq!((code(&refused), out(&refused).as_str()), (2, ""), "{arguments:?}");
            assert!(err(&refused).starts_with(&format!("error: {what}\n")), "{}", err(&refused));
        }
    }
    let names = std::fs::read_dir(here.join("photos")).unwrap().count();
    assert_eq!(names, 1, "nothing was left in the folder of others");
    // Another program's file of the same name.
    std::fs::write(here.join("photos/store.head"), vec![b'x'; 20_000]).unwrap();
    let foreign = quorate(here, &["store", "check", "photos"]);
    assert_eq!(code(&foreign), 2);
    assert!(err(&foreign).contains("this is no file of this store: no magic number"));
    let bench = quorate(here, &["store", "bench", "--folder", "photos"]);
    assert_eq!(code(&bench), 2);
    assert!(err(&bench).starts_with("error: this folder is not empty\n"));
}

#[test]
fn a_store_in_use_names_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    begin(here, 1);
    let (store, _) = Store::open(here.join("s"), Options::default()).unwrap();
    for arguments in
        [&["store", "check", "s"][..], &["store", "compact", "s"], &["store", "stats", "s"]]
    {
        let refused = quorate(here, arguments);
        assert_eq!(code(&refused), 3);
        let expected = format!("error: the store is in use by process {}\n", std::process::id());
        assert!(err(&refused).starts_with(&expected), "{}", err(&refused));
    }
    drop(store);
    ok(here, &["store", "check", "s"]);
}

#[test]
fn a_read_only_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    begin(here, 1);
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(here, 0o755);
    for entry in std::fs::read_dir(here.join("s")).unwrap() {
        mode(&entry.unwrap().path(), 0o444);
    }
    mode(&here.join("s"), 0o555);
    // Nothing is read-only to root: nobody asks then, with a copy of the program that nobody may
    // run.
    let program = here.join("quorate");
    std::fs::copy(env!("CARGO_BIN_EXE_quorate"), &program).unwrap();
    mode(&program, 0o755);
    let is_root = rustix::process::geteuid().is_root();
    for arguments in [["store", "check", "s"], ["store", "compact", "s"]] {
        let mut command = Command::new(&program);
        command.current_dir(here).args(arguments);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let refused = command.output().unwrap();
        assert_eq!(code(&refused), 1, "{}", err(&refused));
        let text = err(&refused);
        assert!(
            text.starts_with("error: the folder cannot be locked: Permission denied"),
            "{text}"
        );
        assert!(text.contains("remedy: make it writable for this user"), "{text}");
    }
    mode(&here.join("s"), 0o755);
}

#[test]
fn a_benchmark_tells_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let short = ["--items", "2000", "--seconds", "1"];
    for workload in ["a", "f"] {
        let arguments =
            [&["store", "bench", "-o", "json", "--workload", workload][..], &short].concat();
        let report = json(&quorate(here, &arguments));
        assert_eq!(report["workload"], workload);
        for part in ["read", "change"] {
            let [p50, p99, max] =
                ["p50_us", "p99_us", "max_us"].map(|at| report[part][at].as_f64().unwrap());
            assert!(report[part]["count"].as_u64().unwrap() > 0, "{report}");
            assert!(p50 <= p99 && p99 <= max, "{report}");
        }
    }
    let arguments =
        ["store", "bench", "--folder", "kept", "--uniform", "--threads", "2", "--workload", "c"];
    let table = ok(here, &[&arguments[..], &short].concat());
    assert!(table.starts_with("2000 items loaded in ") && table.contains("P99.9 US"), "{table}");
    assert!(ok(here, &["store", "check", "kept"]).starts_with("the store is whole: 2000 items"));
}
