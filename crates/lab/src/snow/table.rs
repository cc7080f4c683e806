//! Rows of a study.

/// A table with named columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// One without rows.
    #[must_use]
    pub fn new(columns: &[&'static str]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: a cell for each column.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Its columns.
    #[must_use]
    pub fn columns(&self) -> &[&'static str] {
        &self.columns
    }

    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The cells of a column as numbers; what is none is left out.
    #[must_use]
    pub fn numbers(&self, column: &str) -> Vec<f64> {
        let Some(at) = self.columns.iter().position(|name| *name == column) else {
            return Vec::new();
        };
        self.rows.iter().filter_map(|row| row.get(at)?.parse().ok()).collect()
    }

    /// As a file of comma-separated values. No cell has a comma.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = self.columns.join(",");
        for row in &self.rows {
            text.push('\n');
            text.push_str(&row.join(","));
        }
        text.push('\n');
        text
    }
}
