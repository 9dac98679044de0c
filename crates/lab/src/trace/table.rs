//! Reads the traces' tables: comma-separated, with a header line. Fields may be quoted, as some programs that
//! process the traces write them. The input is untrusted, so lines and rows are bounded.

use std::{
    borrow::Cow,
    io::{BufRead as _, BufReader, Read},
};

use super::TraceError;

/// Far longer than any line of the traces: 1440 minutes of seven digits.
const LONGEST_LINE: u64 = 64 << 10;
/// The largest table of the traces has 2 million rows.
const MOST_ROWS: usize = 10_000_000;

pub(super) struct Table<R> {
    lines: BufReader<R>,
    at: usize,
    columns: Vec<String>,
}

/// A row of a table.
pub(super) struct Row<'a> {
    line: usize,
    columns: &'a [String],
    fields: Vec<Cow<'a, str>>,
}

impl<R: Read> Table<R> {
    /// Reads the header, which must contain all of `needed`.
    pub(super) fn open(source: R, needed: &[&str]) -> Result<Self, TraceError> {
        let mut table = Self { lines: BufReader::new(source), at: 0, columns: Vec::new() };
        let head = table.line()?.unwrap_or_default();
        // Spreadsheets put a byte order mark first.
        let head = head.trim_start_matches('\u{feff}');
        let names = fields(head).map_err(|why| TraceError::Line { line: 1, why })?;
        table.columns = names.into_iter().map(|name| name.trim().to_owned()).collect();
        match needed.iter().find(|name| !table.columns.iter().any(|column| column == *name)) {
            None => Ok(table),
            Some(missing) => Err(TraceError::Line { line: 1, why: format!("there is no column {missing}") }),
        }
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Calls `take` for every row.
    pub(super) fn rows(
        mut self,
        mut take: impl FnMut(&Row<'_>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        while let Some(line) = self.line()? {
            if line.is_empty() {
                continue;
            }
            let fields = fields(&line).map_err(|why| TraceError::Line { line: self.at, why })?;
            let row = Row { line: self.at, columns: &self.columns, fields };
            if row.fields.len() != self.columns.len() {
                let why = format!("{} fields instead of {}", row.fields.len(), self.columns.len());
                return Err(row.wrong(why));
            }
            take(&row)?;
        }
        Ok(())
    }

    fn line(&mut self) -> Result<Option<String>, TraceError> {
        let mut bytes = Vec::new();
        let read = (&mut self.lines).take(LONGEST_LINE).read_until(b'\n', &mut bytes)?;
        self.at += 1;
        let wrong = |why: &str| TraceError::Line { line: self.at, why: why.into() };
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == LONGEST_LINE {
            return Err(wrong("it is longer than any line of a trace"));
        }
        if self.at > MOST_ROWS {
            return Err(wrong("there are more rows than in any trace"));
        }
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text"))?;
        Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
    }
}

impl Row<'_> {
    pub(super) fn wrong(&self, why: impl Into<String>) -> TraceError {
        TraceError::Line { line: self.line, why: why.into() }
    }

    /// The text in a column; empty if there is no such column.
    pub(super) fn text(&self, column: &str) -> &str {
        let at = self.columns.iter().position(|name| name == column);
        at.map_or("", |at| self.fields[at].trim())
    }

    /// The field at index `at`.
    pub(super) fn field(&self, at: usize) -> &str {
        self.fields[at].trim()
    }

    /// A finite, non-negative number.
    pub(super) fn number(&self, column: &str) -> Result<f64, TraceError> {
        let text = self.text(column);
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(self.wrong(format!("{column} is '{text}' instead of a number"))),
        }
    }
}

/// The fields of a line. In a quoted one, commas are text and two quotes stand for one.
fn fields(line: &str) -> Result<Vec<Cow<'_, str>>, String> {
    if !line.contains('"') {
        return Ok(line.split(',').map(Cow::Borrowed).collect());
    }
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' if quoted && signs.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(Cow::Owned(std::mem::take(&mut field))),
            sign => field.push(sign),
        }
    }
    if quoted {
        return Err("a quote that is opened and not closed in this line".into());
    }
    fields.push(Cow::Owned(field));
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_are_what_they_quote() {
        for (line, expected) in [
            ("a,,b", &["a", "", "b"][..]),
            (r#""a","1","b""#, &["a", "1", "b"]),
            (r#""a,b",say "",c"#, &["a,b", "say ", "c"]),
            (r#""he said ""no""",2"#, &["he said \"no\"", "2"]),
        ] {
            assert_eq!(fields(line).unwrap(), expected, "{line}");
        }
        assert!(fields(r#"a,"b"#).unwrap_err().contains("not closed"));
    }
}
