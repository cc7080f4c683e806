use super::*;
use crate::commands::table::{COMMANDS, find};

/// Whether `line`'s user may run the words.
fn may(line: &str, words: &[&str]) -> Result<(), Denied> {
    let acl = Acl::parse(line).expect("a good line");
    let user = acl.users().next().expect("a user");
    let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
    for word in words {
        ranges.push((bytes.len(), bytes.len() + word.len()));
        bytes.extend_from_slice(word.as_bytes());
    }
    let args = Args::new(&bytes, &ranges);
    let spec = find(COMMANDS, words[0].as_bytes()).expect("a command");
    let name = words.get(1).map(|part| format!("{}|{part}", words[0]));
    let part = spec.parts.iter().find(|part| Some(part.name) == name.as_deref());
    user.may(part.unwrap_or(spec), args)
}

#[test]
fn without_a_file_everybody_may_do_all() {
    let acl = Acl::default();
    let user = acl.newcomer().expect("nobody has to say who they are");
    assert_eq!(user.name(), "default");
    let args = Args::new(b"flushall", &[(0, 8)]);
    assert_eq!(user.may(find(COMMANDS, b"flushall").expect("a command"), args), Ok(()));
}

#[test]
fn a_password_is_right_for_its_user_while_the_user_is_on() {
    let text = "user default off\nuser app on >secret >second ~* +@all\nuser old off >secret +@all";
    let acl = Acl::parse(text).expect("good");
    assert!(acl.newcomer().is_none());
    let name = |name: &str, password: &str| {
        let user = acl.authenticate(name.as_bytes(), password.as_bytes());
        user.map(|user| user.name().to_owned())
    };
    assert_eq!(name("app", "secret").as_deref(), Some("app"));
    assert_eq!(name("app", "second").as_deref(), Some("app"));
    for (user, password) in [("app", "Secret"), ("app", ""), ("old", "secret"), ("none", "secret")]
    {
        assert_eq!(name(user, password), None, "{user} {password}");
    }
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let acl = Acl::parse(&format!("user app on #{hash}")).expect("good");
    assert!(acl.authenticate(b"app", b"secret").is_some());
}

#[test]
fn rules_take_effect_from_left_to_right() {
    assert_eq!(may("user a on ~* +@all -flushall", &["flushall"]), Err(Denied::Command));
    assert_eq!(may("user a on ~* -flushall +@all", &["flushall"]), Ok(()));
    assert_eq!(may("user a on ~* +get", &["set", "k", "v"]), Err(Denied::Command));
    assert_eq!(may("user a on ~* +@read -get", &["strlen", "k"]), Ok(()));
    assert_eq!(may("user a on +client -client|list", &["client", "list"]), Err(Denied::Command));
    assert_eq!(may("user a on +client|id", &["client", "id"]), Ok(()));
    assert_eq!(may("user a on +@all ~* reset", &["ping"]), Err(Denied::Command));
    assert_eq!(may("user a on +@all -@dangerous", &["keys", "*"]), Err(Denied::Command));
    assert_eq!(may("user a on +@all -@dangerous", &["acl", "whoami"]), Ok(()));
    assert_eq!(may("user a on +@all -@dangerous", &["acl", "list"]), Err(Denied::Command));
}

#[test]
fn every_key_of_a_command_must_match_a_pattern() {
    let line = "user a on +@all ~app:* %R~shared:*";
    assert_eq!(may(line, &["get", "app:1"]), Ok(()));
    assert_eq!(may(line, &["get", "shared:1"]), Ok(()));
    assert_eq!(may(line, &["get", "other"]), Err(Denied::Key));
    assert_eq!(may(line, &["set", "shared:1", "v"]), Err(Denied::Key));
    assert_eq!(may(line, &["mget", "app:1", "other"]), Err(Denied::Key));
    assert_eq!(may(line, &["mset", "app:1", "other", "app:2", "v"]), Ok(()));
    assert_eq!(may(line, &["mset", "app:1", "v", "other", "v"]), Err(Denied::Key));
    assert_eq!(may(line, &["del", "app:1", "shared:1"]), Err(Denied::Key));
}

#[test]
fn a_command_that_tells_what_it_overwrites_reads_as_well() {
    let line = "user a on +@all %W~k";
    assert_eq!(may(line, &["set", "k", "v"]), Ok(()));
    assert_eq!(may(line, &["set", "k", "v", "GET"]), Err(Denied::Key));
    assert_eq!(may(line, &["incr", "k"]), Err(Denied::Key));
    assert_eq!(may(line, &["get", "k"]), Err(Denied::Key));
    assert_eq!(may("user a on +@all %W~k %R~*", &["incr", "k"]), Ok(()));
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_no_password_is_shown() {
    let what = |text: &str| Acl::parse(text).expect_err("wrong").to_string();
    assert_eq!(what("\n# x\nacl app on"), "line 3: expected `user NAME RULE ...`, found `acl`");
    assert_eq!(what("user"), "line 1: a user needs a name");
    assert_eq!(what("user a on\nuser a on"), "line 2: user `a` is there twice");
    assert!(what("user a +blpop").contains("no command `blpop`"));
    assert!(what("user a +@stream").contains("unknown category `@stream`"));
    assert!(what("user a #12").contains("64 hexadecimal digits"));
    let forgotten = what("user a on hunter2");
    assert!(forgotten.contains("unknown rule `hu…`") && !forgotten.contains("hunter2"));
    let shown = Acl::parse("user a on >hunter2 ~x %R~y +get").expect("good");
    let line = shown.user("a").expect("there").line();
    assert!(line.starts_with("user a on #f52fbd32b2b3b86ff88ef6c490628285f482af15"), "{line}");
    assert!(line.ends_with(" ~x %R~y +get"), "{line}");
}

#[test]
fn each_command_has_a_category_besides_all() {
    for spec in COMMANDS.iter().flat_map(|spec| std::iter::once(spec).chain(spec.parts)) {
        let named = CATEGORIES.iter().filter(|category| in_category(spec, category)).count();
        assert!(named >= 2, "{}", spec.name);
    }
}
