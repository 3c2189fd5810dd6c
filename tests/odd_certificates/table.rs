//! Reads the tables of `docs/certificates.md`.

use crate::outcome::Outcome;

const PAGE: &str = include_str!("../../docs/certificates.md");

/// `| shape | what it is | accepted, or the reason | what the log says |`
#[derive(Debug)]
pub struct Row {
    pub name: String,
    /// None: it is accepted.
    reason: Option<String>,
    says: String,
}

/// `| shape | attribute | what rules see |`
#[derive(Debug)]
pub struct FactRow {
    pub name: String,
    pub attribute: String,
    pub values: Vec<String>,
}

impl Row {
    /// Whether this is what was found; of what the log says the row has a part.
    pub fn is(&self, found: &Outcome) -> bool {
        match (found, &self.reason) {
            (Outcome::Accepted, None) => self.says.is_empty(),
            (Outcome::Refused(reason, detail), Some(expected)) => {
                reason == expected && !self.says.is_empty() && detail.contains(&self.says)
            }
            _ => false,
        }
    }
}

pub fn shapes() -> Vec<Row> {
    let rows = rows("| shape | what it is | outcome | the log says |");
    rows.map(|cells| {
        let [name, what, outcome, says] = <[String; 4]>::try_from(cells).unwrap_or_else(|cells| panic!("{cells:?}"));
        assert!(!what.is_empty(), "{name} is not explained");
        let reason = match outcome.as_str() {
            "accepted" => None,
            reason => Some(unquoted(reason)),
        };
        Row {
            name: unquoted(&name),
            reason,
            says: if says.is_empty() { says } else { unquoted(&says) },
        }
    })
    .collect()
}

pub fn facts() -> Vec<FactRow> {
    let rows = rows("| shape | attribute | rules see |");
    rows.map(|cells| {
        let [name, attribute, seen] = <[String; 3]>::try_from(cells).unwrap_or_else(|cells| panic!("{cells:?}"));
        FactRow {
            name: unquoted(&name),
            attribute: unquoted(&attribute),
            values: match seen.as_str() {
                "absent" | "malformed" => vec![seen],
                values => values
                    .split("` and `")
                    .map(|value| value.trim_matches('`').to_owned())
                    .collect(),
            },
        }
    })
    .collect()
}

/// The cells of the rows of each table with this head.
fn rows(head: &'static str) -> impl Iterator<Item = Vec<String>> {
    let mut inside = false;
    PAGE.lines().filter_map(move |line| {
        let is_row = line.starts_with('|');
        let is_wanted = inside && is_row && !line.starts_with("|---");
        inside = is_row && (inside || line == head);
        let cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned());
        is_wanted.then(|| cells.collect())
    })
}

fn unquoted(cell: &str) -> String {
    let text = cell.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    text.unwrap_or_else(|| panic!("`{cell}` does not stand in backticks"))
        .to_owned()
}
