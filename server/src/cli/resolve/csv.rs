//! Comma-separated values as RFC 4180 has them: quotes where a cell holds commas, quotes
//! or line ends, doubled within. Lines may end in CR LF or LF; empty ones are skipped.

use super::rows::{Place, Wrong};

/// One cell, and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) place: Place,
    pub(super) text: String,
}

/// All records of a text.
///
/// # Errors
/// Names the place where the quotes do not fit.
pub(super) fn read(text: &str) -> Result<Vec<Vec<Cell>>, Wrong> {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        place: Place { line: 1, column: 1 },
    };
    let mut records = Vec::new();
    while reader.rest.peek().is_some() {
        let record = reader.record()?;
        let is_blank = matches!(&record[..], [only] if only.text.is_empty());
        if !is_blank {
            records.push(record);
        }
    }
    Ok(records)
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    place: Place,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        self.place = match next {
            '\n' => Place {
                line: self.place.line + 1,
                column: 1,
            },
            _ => Place {
                column: self.place.column + 1,
                ..self.place
            },
        };
        Some(next)
    }

    /// Up to the end of the line, and past it.
    fn record(&mut self) -> Result<Vec<Cell>, Wrong> {
        let mut record = Vec::new();
        loop {
            let place = self.place;
            let text = match self.rest.peek() {
                Some('"') => self.quoted()?,
                _ => self.plain(),
            };
            record.push(Cell { place, text });
            match self.next() {
                Some(',') => {}
                Some('\r') => {
                    self.rest.next_if_eq(&'\n');
                    self.place = Place {
                        line: self.place.line + 1,
                        column: 1,
                    };
                    return Ok(record);
                }
                _ => return Ok(record),
            }
        }
    }

    /// Up to a comma or the end of the line, which stay.
    fn plain(&mut self) -> String {
        let mut text = String::new();
        while let Some(&next) = self.rest.peek() {
            if matches!(next, ',' | '\n' | '\r') {
                break;
            }
            text.extend(self.next());
        }
        text
    }

    fn quoted(&mut self) -> Result<String, Wrong> {
        let begin = self.place;
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(begin.wrong("", "has a quote that does not end")),
                Some('"') if self.rest.peek() == Some(&'"') => text.extend(self.next()),
                Some('"') => break,
                Some(other) => text.push(other),
            }
        }
        match self.rest.peek() {
            None | Some(',' | '\n' | '\r') => Ok(text),
            Some(_) => Err(self
                .place
                .wrong("", "after a closing quote must come a comma or the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(csv: &str) -> Vec<Vec<String>> {
        let records = read(csv).unwrap().into_iter();
        records
            .map(|record| record.into_iter().map(|cell| cell.text).collect())
            .collect()
    }

    #[test]
    fn quotes_commas_line_ends_and_empty_lines_are_read_as_the_rfc_says() {
        let expected = vec![
            vec!["a", "b"],
            vec!["x,1", "say \"no\"\nand"],
            vec!["", "y"],
        ];
        for end in ["\n", "\r\n"] {
            let csv = format!("a,b{end}\"x,1\",\"say \"\"no\"\"\nand\"{end}{end},y");
            assert_eq!(texts(&csv), expected, "{end:?}");
        }
    }

    #[test]
    fn each_cell_knows_where_it_begins() {
        let records = read("a,b\r\n1,\"2\n3\",4\n5,6,7\n").unwrap();
        let places: Vec<_> = records
            .iter()
            .flatten()
            .map(|cell| (cell.place.line, cell.place.column))
            .collect();
        let expected = [
            (1, 1),
            (1, 3),
            (2, 1),
            (2, 3),
            (3, 4),
            (4, 1),
            (4, 3),
            (4, 5),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn quotes_that_do_not_fit_are_named_with_their_place() {
        let told = |csv: &str| read(csv).unwrap_err().to_string();
        assert_eq!(
            told("a\nb,\"c"),
            "line 2, column 3: has a quote that does not end"
        );
        assert!(told("\"a\"b").starts_with("line 1, column 4: after a closing quote"));
    }
}
