//! Tables whose columns are as wide as their cells, and what gives way on a narrower page.

use super::layout::{Page, columns, left, right};

/// Columns of a page between two cells, and before the first.
const GAP: usize = 2;

/// How a table is laid out; columns are counted from 0.
#[derive(Clone, Copy, Default)]
pub(super) struct Form<'a> {
    /// Columns of text; the others are numbers, which stand to the right.
    pub(super) to_left: &'a [usize],
    /// Columns that a narrow page does without, the one that matters least first.
    pub(super) spare: &'a [usize],
    /// Leading columns that name a row. Where the others do not fit beside them, the table goes on below, with
    /// these again.
    pub(super) names: usize,
}

/// Rows of cells, the first of them the heads.
pub(super) fn table(page: &mut Page, rows: &[Vec<String>], form: Form) {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |at: usize| rows.iter().filter_map(|r| r.get(at)).map(|c| columns(c)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(widest).collect();
    let wide = |kept: &[usize]| kept.iter().map(|&at| GAP + widths[at]).sum::<usize>();
    let mut kept: Vec<usize> = (0..count).collect();
    let mut without: Vec<&str> = Vec::new();
    for &spare in form.spare {
        if wide(&kept) <= page.width {
            break;
        }
        kept.retain(|&at| at != spare);
        without.extend(rows.first().and_then(|heads| heads.get(spare)).map(String::as_str));
    }
    let (names, rest) = kept.split_at(form.names.min(kept.len()));
    let mut rest = rest;
    loop {
        let mut here = names.to_vec();
        while let Some((&next, others)) = rest.split_first() {
            here.push(next);
            // One at least, or the table would never end.
            if wide(&here) > page.width && here.len() > names.len() + 1 {
                here.pop();
                break;
            }
            rest = others;
        }
        for row in rows {
            let cell = |&at: &usize| {
                let cell = row.get(at).map_or("", String::as_str);
                if form.to_left.contains(&at) { left(cell, widths[at]) } else { right(cell, widths[at]) }
            };
            let gap = " ".repeat(GAP);
            page.line(&format!("{gap}{}", here.iter().map(cell).collect::<Vec<_>>().join(&gap)));
        }
        if rest.is_empty() {
            break;
        }
    }
    if !without.is_empty() {
        page.indented(&format!("left out on a page so narrow: {} (--width, --json)", without.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: usize, form: Form) -> String {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let long = "x".repeat(30);
        let rows = [row(["id", "name", "bytes", "spare"]), row(["1", &long, "123456789012345", &long])];
        let mut page = Page::new(width, false);
        table(&mut page, &rows, form);
        page.finish()
    }

    #[test]
    fn a_narrow_page_does_without_spare_columns_and_says_so() {
        let form = Form { to_left: &[1, 3], spare: &[3], names: 1 };
        let wide = shown(120, form);
        assert_eq!(wide.lines().count(), 2, "{wide}");
        let narrow = shown(60, form);
        assert!(!narrow.contains("bytes  spare") && narrow.contains("so narrow: spare"), "{narrow}");
        assert!(narrow.lines().all(|l| columns(l) <= 60), "{narrow}");
    }

    #[test]
    fn a_table_that_does_not_fit_goes_on_below_with_the_names_of_its_rows() {
        let narrow = shown(60, Form { to_left: &[1, 3], spare: &[], names: 1 });
        assert_eq!(narrow.lines().count(), 4, "{narrow}");
        assert_eq!(narrow.lines().filter(|l| l.starts_with("  id")).count(), 2, "{narrow}");
        assert!(narrow.lines().all(|l| columns(l) <= 60), "{narrow}");
        // A column that is wider than the page stands alone.
        assert_eq!(shown(60, Form { to_left: &[], spare: &[], names: 2 }).lines().count(), 4);
    }
}
