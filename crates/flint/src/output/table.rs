//! Formats tables for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Rows under a header, columns aligned; `right` lists the columns of numbers.
pub(crate) fn table(header: &[&str], right: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|title| title.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    let last = header.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_do_not_trail_spaces() {
        let text = table(
            &["name", "ms"],
            &[1],
            [vec!["a".into(), "1".into()], vec!["longer".into(), "1000".into()]],
        );
        assert_eq!(text, "NAME      MS\na          1\nlonger  1000");
    }
}
