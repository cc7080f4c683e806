//! Every transcript can be drawn, and says on paper what it says in words.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::layout::Layout;
use super::scene::{Range, Scene};
use super::svg::PALETTE;
use super::transcript::{Instant, Tenths, Transcript, What};
use super::{Manifest, draw, words};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// All scripts in a folder and the folders in it.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let found = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => scripts(&path),
        path if path.extension().is_some_and(|extension| extension == "txt") => vec![path],
        _ => Vec::new(),
    });
    found.collect()
}

fn transcripts() -> Vec<(PathBuf, Transcript)> {
    let mut paths = scripts(&root().join("tests/scripts"));
    paths.sort();
    assert!(paths.len() >= 10, "scripts are missing");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a script");
        let transcript = Transcript::parse(&text);
        (path.clone(), transcript.unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn kept_pictures_are_what_the_transcripts_give() {
    let folder = root().join("docs/pictures");
    let list = std::fs::read_to_string(folder.join("manifest.txt")).expect("the manifest");
    let manifest = Manifest::parse(&list).expect("a manifest");
    let mut listed = BTreeSet::new();
    for picture in &manifest.pictures {
        let drawn = picture.draw(&root().join("tests/scripts")).expect("drawn");
        let kept = std::fs::read_to_string(folder.join(&picture.file)).unwrap_or_default();
        let name = picture.file.display();
        assert!(kept == drawn, "docs/pictures/{name} is out of date: make pictures");
        assert!(drawn.len() <= 60_000, "{name} has {} bytes: show less of it", drawn.len());
        listed.insert(picture.file.clone());
    }
    for entry in std::fs::read_dir(folder).expect("the pictures") {
        let name = PathBuf::from(entry.expect("an entry").file_name());
        let known = name.extension().is_none_or(|e| e != "svg") || listed.contains(&name);
        assert!(known, "docs/pictures/{} is not in the manifest", name.display());
    }
}

#[test]
fn no_text_covers_another_in_any_transcript() {
    let mut drawn = 0;
    for (path, transcript) in transcripts() {
        let layout = Layout::of(&Scene::of(&transcript, Range::default()));
        let texts = layout.texts();
        drawn += texts.len();
        for (index, (text, edges)) in texts.iter().enumerate() {
            for (other, others) in texts.iter().skip(index + 1) {
                assert!(!edges.meets(others), "{}: `{text}` and `{other}`", path.display());
            }
            assert!(edges.right <= layout.width, "{}: `{text}` sticks out", path.display());
        }
    }
    assert!(drawn > 1_000, "{drawn} texts in all transcripts");
}

#[test]
fn every_message_has_its_arrow() {
    for (path, transcript) in transcripts() {
        let messages: BTreeSet<_> = transcript
            .records
            .iter()
            .filter_map(|record| match &record.what {
                What::Delivery { from, to, sent, words } => {
                    Some((from, to, sent.time, record.at, words::message(words).1))
                }
                _ => None,
            })
            .collect();
        let layout = Layout::of(&Scene::of(&transcript, Range::default()));
        let arrows: usize = layout.fans.iter().map(|fan| fan.arrows.len()).sum();
        assert_eq!(arrows, messages.len(), "{}", path.display());
        let down = layout.fans.iter().flat_map(|fan| &fan.arrows);
        for (arrow, _) in down {
            assert!(arrow.from.y < arrow.to.y, "{}: an arrow against time", path.display());
        }
    }
}

#[test]
fn the_document_is_well_formed() {
    for (path, transcript) in transcripts() {
        let svg = draw(&transcript, Range::default());
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').expect("a tag ends");
            let name = tag.split([' ', '/']).next().unwrap_or_default();
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{}", path.display()),
                None if tag.ends_with('/') => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{}: {open:?}", path.display());
        assert_eq!(svg, draw(&transcript, Range::default()));
    }
}

const SCRIPT: &str = "\
# Two of them. One & a <half>.

cluster replicas=2
----
    0.0  r0 starts
    0.0  r1 starts

slow r0 r1 to=20
----

delay proposals of=2 to=r1 by=3
----

send vote r1 r0
----
    0.0  r1 → r0  vote b1
    0.0  r0 refuses r1: Malformed(Stale)

trace off
----

crash r1
----

trace on
----

run
----
(silence)
   20.0  r0 → r1  knows QC(b1)
   20.5  r0 enters view 2
   20.5  r0 proposes in view 2, 1 frames: b2
   20.5  r0 votes for b2
   23.0  r1 → r0 r1  vote b2, too late
   43.5  r0 → r1  proposal b2 (QC(b1), 1 frames)
   43.5  r0 r1  votes for b2

status
----
r0: view 2
";

#[test]
fn a_transcript_is_read_as_it_is_written() {
    let transcript = Transcript::parse(SCRIPT).expect("a transcript");
    assert_eq!(transcript.title, "Two of them. One & a <half>.");
    assert_eq!(transcript.participants, ["r0", "r1"]);
    let sent: Vec<_> = transcript
        .records
        .iter()
        .filter_map(|record| match record.what {
            What::Delivery { sent, .. } => Some((sent, record.at)),
            _ => None,
        })
        .collect();
    let at = |time, round| Instant { time: Tenths(time), round };
    // What the script made up arrives at once, after all else of that time; the slow link's message
    // was sent 20 ms before, the delayed proposal 23.
    let last_of = |time| at(time, u32::MAX);
    let expected = [
        (at(0, 0), at(0, 1)),
        (last_of(0), at(200, 0)),
        (last_of(220), at(230, 0)),
        (last_of(220), at(230, 0)),
        (last_of(205), at(435, 0)),
    ];
    assert_eq!(sent, expected);

    let scene = Scene::of(&transcript, Range::default());
    let times: Vec<_> = scene.moments.iter().map(|m| (m.at.time.0, m.at.round)).collect();
    assert_eq!(times, [(0, 0), (0, 1), (200, 0), (205, 0), (220, 0), (230, 0), (435, 0)]);
    let lines = &scene.moments[3].lines[0];
    assert_eq!(lines.len(), 1, "one line for entering, proposing and voting: {lines:?}");
    assert_eq!(lines[0].text, "proposes b2, votes");
    assert!(scene.moments[1].lines[0].is_empty(), "a stale vote's refusal is left out");
    let both: Vec<_> = scene.moments[6].lines.iter().map(|lines| &lines[0].text).collect();
    assert_eq!(both, ["votes b2", "votes b2"], "a line may tell of several");
    let fans: Vec<_> =
        scene.bundles.iter().map(|fan| (fan.label.as_str(), fan.arrows.len())).collect();
    let late = ("proposal b2 · QC(b1)", 1);
    assert_eq!(fans, [("vote b1", 1), ("knows QC(b1)", 1), ("vote b2", 2), late]);
    let lost: Vec<_> = scene.bundles.iter().map(|bundle| bundle.arrows[0].lost).collect();
    assert_eq!(lost, [false, true, false, true], "r1 was crashed unseen after the first message");
    let svg = draw(&transcript, Range::default());
    assert!(svg.contains("<title>Two of them. One &amp; a &lt;half&gt;.</title>"));
    assert!(svg.contains(">20 ms later<"));
}

#[test]
fn a_range_shows_what_lies_within() {
    let transcript = Transcript::parse(SCRIPT).expect("a transcript");
    let range = |from, to| Range { from: Tenths::parse(from), to: Tenths::parse(to) };
    let scene = Scene::of(&transcript, range("0.1", "20"));
    assert!(scene.moments.is_empty(), "the message began before the range: {:?}", scene.moments);
    let scene = Scene::of(&transcript, range("0", "20"));
    assert_eq!((scene.moments.len(), scene.bundles.len()), (3, 2));
    let scene = Scene::of(&transcript, range("20.5", "21"));
    assert_eq!(scene.moments.len(), 1);
    assert_eq!(scene.absences.len(), 1, "r1 is still away");
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_the_place() {
    let wrong = |line: &str| {
        let text = format!("cluster\n----\n    2.0  r0 starts\n{line}\n");
        Transcript::parse(&text).expect_err(line).to_string()
    };
    assert!(wrong("    2.0  ").starts_with("line 4: "));
    assert!(wrong("    2.0  he starts").contains("`    2.0  he starts`"));
    assert!(wrong("    2.0  r0 → he  vote b1").contains("must follow the arrow"));
    assert!(wrong("    1.0  r0 starts").contains("time runs backwards"));
    for line in ["a.svg", "a.svg b.txt from", "a.svg b.txt from=1.23", "a.svg b.txt at=1"] {
        let error = Manifest::parse(&format!("\n# pictures\n{line}")).expect_err(line);
        assert!(error.to_string().contains("line 3") && error.to_string().contains(line));
    }
}

/// Red, green and blue in linear light, as the kinds of colour vision see them: all three cones,
/// then without the first, the second, the third (Machado, Oliveira and Fernandes 2009, severity
/// 1).
const VISIONS: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
];

fn linear(colour: &str) -> [f64; 3] {
    [1, 3, 5].map(|at| {
        let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal");
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

fn mixed(weights: [f64; 3], parts: [f64; 3]) -> f64 {
    weights.iter().zip(parts).map(|(weight, part)| weight * part).sum()
}

/// CIE L*a*b* under D65.
fn lab(linear: [f64; 3]) -> [f64; 3] {
    let [x, y, z] = [
        mixed([0.4124, 0.3576, 0.1805], linear) / 0.95047,
        mixed([0.2126, 0.7152, 0.0722], linear),
        mixed([0.0193, 0.1192, 0.9505], linear) / 1.08883,
    ]
    .map(|v| if v > 0.008856 { v.cbrt() } else { 7.787 * v.max(0.0) + 16.0 / 116.0 });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

#[test]
fn colours_stand_out_and_can_be_told_apart_by_everyone() {
    let light: Vec<_> = PALETTE.iter().map(|(light, _)| linear(light)).collect();
    let dark: Vec<_> = PALETTE.iter().map(|(_, dark)| linear(dark)).collect();
    for (colours, paper) in [(light, "#ffffff"), (dark, "#0d1117")] {
        let shine = |colour| mixed([0.2126, 0.7152, 0.0722], colour) + 0.05;
        for colour in &colours {
            let (a, b) = (shine(*colour), shine(linear(paper)));
            assert!(a.max(b) / a.min(b) >= 4.5, "{colour:?} on {paper}");
        }
        for vision in VISIONS {
            let seen: Vec<_> =
                colours.iter().map(|c| lab(vision.map(|row| mixed(row, *c)))).collect();
            for (index, one) in seen.iter().enumerate() {
                for other in seen.iter().skip(index + 1) {
                    let apart: f64 = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum();
                    assert!(apart.sqrt() > 25.0, "{one:?} and {other:?} are {}", apart.sqrt());
                }
            }
        }
    }
}
