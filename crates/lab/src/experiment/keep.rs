//! Keeps a study's results beside the documents: everything that its pictures are drawn from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::laboratory::{RUNS, STUDY};
use super::plan::Plan;
use super::results::{Lines, ResultsError, runs_csv};
use super::row::Row;
use super::study::Study;
use crate::plot::{self, PlotError};

/// Why a study's results are not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// There is nothing to keep.
    #[error("the folder has no results of this study")]
    Empty,
    /// It is the quick form.
    #[error("these are results of --quick: they show that a study works, and are not to be quoted")]
    Quick,
    /// Rows of several programs.
    #[error("the runs are of more than one program: {} and {}", .0, .1)]
    Mixed(String, String),
    /// The pictures drawn from what would be kept are not those of the results.
    #[error("{0}.svg would not be the same drawn from what is kept")]
    Lost(String),
    /// A picture.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The rows.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The system.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was written or removed.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Writes to the folder `to` the study's file (`text`), the rows that its pictures are drawn from,
/// the table of runs and the pictures. What was kept there under those names is replaced; tables of
/// other names stay. `quorate experiment plot` draws the pictures of such a folder again.
///
/// # Errors
/// [`KeepError`]: nothing was changed then, but for [`KeepError::Io`].
pub fn keep(
    study: &Study,
    text: &str,
    plan: &Plan,
    rows: &[Row],
    to: &Path,
) -> Result<(), KeepError> {
    let first = rows.first().ok_or(KeepError::Empty)?;
    if study.is_quick {
        return Err(KeepError::Quick);
    }
    if let Some(other) = rows.iter().find(|row| !row.context.has_program_of(&first.context)) {
        let words = |row: &Row| row.context.program_in_words();
        return Err(KeepError::Mixed(words(first), words(other)));
    }
    let kept = plot::kept(study, plan, rows);
    let pictures = plot::pictures(study, plan, rows)?;
    let again = plot::pictures(study, plan, &kept)?;
    if let Some((lost, _)) = pictures.iter().zip(&again).find(|(was, is)| was != is) {
        return Err(KeepError::Lost(lost.name.clone()));
    }
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| KeepError::Io { path, source }
    };
    fs::create_dir_all(to).map_err(io(to))?;
    // Each file is replaced whole: whoever is cut short has files of both, and none in part.
    let part = to.join("part");
    let place = |name: &str| {
        let path = to.join(name);
        fs::rename(&part, &path).map_err(io(&path))
    };
    let write = |name: &str, text: &str| {
        fs::write(&part, text).map_err(io(&part))?;
        place(name)
    };
    write(STUDY, text)?;
    write("runs.csv", &runs_csv(rows))?;
    for picture in &pictures {
        write(&format!("{}.svg", picture.name), &picture.svg)?;
    }
    fs::write(&part, "").map_err(io(&part))?;
    let (mut lines, _) = Lines::open::<Row>(&part)?;
    for row in &kept {
        lines.append(row)?;
    }
    place(RUNS)?;
    for entry in fs::read_dir(to).map_err(io(to))?.flatten() {
        let path = entry.path();
        let is_old = path
            .file_stem()
            .is_some_and(|stem| pictures.iter().all(|picture| picture.name.as_str() != stem));
        if is_old && path.extension().is_some_and(|extension| extension == "svg") {
            fs::remove_file(&path).map_err(io(&path))?;
        }
    }
    Ok(())
}
