//! Files of scenarios, and how what is wrong with them is told.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use quorate_node::config::{Finding, Place};
use quorate_sim::twins::format::{self, Contents};

use crate::failure::{Exit, Failure};

/// Makes a folder, if it is not there.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::io(error, folder, "name a folder that can be written"))
}

/// Writes a file whole: whoever reads it finds the old one or the new one.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    });
    written.map_err(|error| Failure::io(error, path, "name a place that can be written"))
}

/// Reads a file of scenarios.
pub fn read(path: &Path) -> Result<Contents, Failure> {
    let io = |error| Failure::io(error, path, "name a file of scenarios that can be read");
    let length = std::fs::metadata(path).map_err(io)?.len();
    if length > format::MAX_BYTES {
        let what = format!("{length} bytes are more than a file of scenarios may have");
        return Err(refused(path, what, "make smaller files: twins generate --per-file"));
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    format::read(&text)
        .map_err(|error| refused(path, format!("{}: {}", error.place, error.what), &error.remedy))
}

/// What is wrong with a file.
pub fn refused(path: &Path, what: String, remedy: &str) -> Failure {
    let place = Place::File(path.to_owned());
    Failure::new(Exit::Corrupt, Finding { what, place, remedy: remedy.to_owned() })
}

/// The files among `paths`, and those in the folders among them, in order.
pub fn list(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let io = |error| Failure::io(error, path, "name a folder that can be read");
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io)? {
            let file = entry.map_err(io)?.path();
            if file.extension().is_some_and(|extension| extension == "json") {
                inside.push(file);
            }
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}
