//! A step as it stands in the file, to be shown to people.

use super::Place;

/// The text of the step at a place, without the indentation that it has in the file.
pub fn step_text(source: &str, place: Place) -> String {
    let position = |number: u64| usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let column = position(place.column);
    let mut lines = source.lines().skip(position(place.line));
    let first: String = lines
        .next()
        .unwrap_or_default()
        .chars()
        .skip(column)
        .collect();
    if first.starts_with('{') {
        let rest = lines.map(|line| format!("\n{}", line.trim()));
        return flow(&std::iter::once(first).chain(rest).collect::<String>());
    }
    let indented = |line: &&str| line.trim().is_empty() || indentation(line) >= column;
    let rest = lines
        .take_while(indented)
        .map(|line| line.get(column..).unwrap_or_default());
    let text: Vec<&str> = std::iter::once(first.as_str()).chain(rest).collect();
    // Comments and blank lines behind a step belong to the next one.
    text.join("\n").trim_end().to_owned()
}

/// The step that begins with a brace, up to the brace that closes it.
fn flow(text: &str) -> String {
    let mut open = 0_usize;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(mark), _) if mark == c => quote = None,
            (None, '{') => open += 1,
            (None, '}') if open == 1 => return text[..=at].to_owned(),
            (None, '}') => open -= 1,
            _ => {}
        }
    }
    text.trim_end().to_owned()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
name: x
steps:
  - expect:
      rules: 4

      no_own: true
  # the next one
  - watch: { events: 0, steps: [ { refresh: { id: \"}\" } }, { wait: 1s } ] }
";

    #[test]
    fn a_step_on_lines_of_its_own_ends_where_the_indentation_does() {
        let place = Place { line: 3, column: 5 };
        assert_eq!(
            step_text(SOURCE, place),
            "expect:\n  rules: 4\n\n  no_own: true"
        );
    }

    #[test]
    fn a_step_within_a_line_ends_with_its_brace() {
        let place = Place {
            line: 8,
            column: 34,
        };
        assert_eq!(step_text(SOURCE, place), "{ refresh: { id: \"}\" } }");
    }
}
