//! The demonstration page: its parts, as a server serves them, and all in one file.

const HTML: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/style.css");
const SCRIPTS: [&str; 4] = [
    include_str!("../page/module.js"),
    include_str!("../page/colours.js"),
    include_str!("../page/spends.js"),
    include_str!("../page/page.js"),
];

/// This crate, compiled to WebAssembly: `ci/snow-page.sh` builds it.
pub const MODULE: &[u8] = include_bytes!("../page/snow.wasm");

/// The page for a server: it refers to `snow.css`, `snow.js` and `snow.wasm` beside it.
#[must_use]
pub fn html() -> String {
    let style = "<link rel=\"stylesheet\" href=\"snow.css\">";
    filled(style, "<script src=\"snow.js\"></script>")
}

/// Its style.
#[must_use]
pub fn style() -> &'static str {
    STYLE
}

/// Its script.
#[must_use]
pub fn script() -> String {
    SCRIPTS.join("\n")
}

/// The page with all its parts in it, which opens from a disk: `docs/snow.html`.
#[must_use]
pub fn whole() -> String {
    let style = format!("<style>\n{STYLE}</style>");
    let module =
        format!("<script id=\"module\" type=\"text/plain\">\n{}\n</script>", base64(MODULE));
    filled(&style, &format!("{module}\n<script>\n{}</script>", script()))
}

fn filled(style: &str, script: &str) -> String {
    HTML.replace("<!-- style -->", style).replace("<!-- script -->", script)
}

/// Base64 (RFC 4648, section 4), in lines.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const IN_LINE: usize = 90;
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / IN_LINE + 8);
    for (at, part) in bytes.chunks(3).enumerate() {
        if at > 0 && at % (IN_LINE / 3) == 0 {
            text.push('\n');
        }
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            let index = bits >> (18 - 6 * letter) & 63;
            let is_there = letter <= part.len();
            text.push(if is_there { char::from(LETTERS[index as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_its_standard() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let found = texts.map(|text| base64(text.as_bytes()));
        assert_eq!(found, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn the_page_on_disk_is_made_of_its_parts() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/snow.html");
        let found = std::fs::read_to_string(path).unwrap();
        assert!(found == whole(), "docs/snow.html is old: run ci/snow-page.sh --write");
    }

    #[test]
    fn the_page_asks_nothing_of_other_hosts() {
        for part in [html(), script(), style().to_owned()] {
            for sign in ["http:", "https:", "//cdn", "@import", "url("] {
                assert!(!part.contains(sign), "{sign}");
            }
        }
    }

    #[test]
    fn a_module_is_small_and_exports_what_the_script_calls() {
        assert!(MODULE.starts_with(b"\0asm") && MODULE.len() < 350 << 10, "{}", MODULE.len());
        let script = script();
        let called = script.split("wasm.").skip(1);
        let mut names: Vec<&str> = called
            .filter_map(|rest| {
                rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next()
            })
            .filter(|name| !["memory", "wasm"].contains(name))
            .collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() > 15, "{names:?}");
        for name in names {
            let is_there = MODULE.windows(name.len()).any(|part| part == name.as_bytes());
            assert!(is_there, "{name} is not in the module");
        }
    }
}
