//! The tables of the older system, by the names that they share with ours, and how a row's columns are read.

use super::row::{MAX_VALUE, Row, Value};

/// A table that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Table {
    Sites,
    Clients,
    Policies,
    SitePolicies,
    Rules,
    Responses,
    Macs,
}

impl Table {
    /// All of them; none may be missing, since a set without its responses is another set.
    pub(super) const ALL: [Table; 7] = [
        Table::Sites,
        Table::Clients,
        Table::Policies,
        Table::SitePolicies,
        Table::Rules,
        Table::Responses,
        Table::Macs,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Table::Sites => "sites",
            Table::Clients => "clients",
            Table::Policies => "policies",
            Table::SitePolicies => "site_policies",
            Table::Rules => "rules",
            Table::Responses => "responses",
            Table::Macs => "mac_authentication_bypasses",
        }
    }

    pub(super) fn named(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Columns without which a row means nothing.
    const fn needed(self) -> &'static [&'static str] {
        match self {
            Table::Sites | Table::Policies => &["id", "name"],
            Table::Clients => &["site_id", "ip_range", "shared_secret"],
            Table::SitePolicies => &["site_id", "policy_id"],
            Table::Rules => &["policy_id", "request_attribute", "operator", "value"],
            Table::Responses => &["response_attribute", "value"],
            Table::Macs => &["id", "site_id", "address"],
        }
    }

    /// Columns that some versions have.
    const fn optional(self) -> &'static [&'static str] {
        match self {
            Table::Sites => &["tag", "timezone"],
            Table::Clients => &[
                "id",
                "tag",
                "radsec",
                "require_message_authenticator",
                "limit_proxy_state",
                "min_tls",
                "max_tls",
                "fragment_size",
                "mab_password",
                "mab_identity",
            ],
            Table::Policies => &["description", "fallback", "action", "methods"],
            Table::SitePolicies => &["id", "priority"],
            Table::Rules => &["id"],
            Table::Responses => &["id", "policy_id", "mac_authentication_bypass_id", "position"],
            Table::Macs => &["name", "description", "valid_until"],
        }
    }
}

/// Where a table's columns are in a row.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) table: Table,
    columns: Vec<String>,
    /// Whether `\` in a value may mean something else than itself.
    pub(super) is_backslash_doubtful: bool,
}

impl Layout {
    /// A layout, and the columns that nothing reads; an error if one is missing or there twice.
    pub(super) fn new(table: Table, columns: Vec<String>) -> Result<(Layout, Vec<String>), String> {
        for needed in table.needed() {
            if !columns.iter().any(|column| column == needed) {
                return Err(format!(
                    "the table has no column `{needed}`\nhint: it needs {}",
                    table.needed().join(", ")
                ));
            }
        }
        for (at, column) in columns.iter().enumerate() {
            if columns.iter().take(at).any(|other| other == column) {
                return Err(format!("the column `{column}` is there twice\nhint: leave one out"));
            }
        }
        let is_read = |column: &str| table.needed().contains(&column) || table.optional().contains(&column);
        let ignored = columns.iter().filter(|column| !is_read(column)).cloned().collect();
        let layout = Layout {
            table,
            columns,
            is_backslash_doubtful: false,
        };
        Ok((layout, ignored))
    }

    /// The row's columns; an error if it has more or fewer than the table.
    pub(super) fn fields<'a>(&'a self, row: &'a Row) -> Result<Fields<'a>, String> {
        match (row.len(), self.columns.len()) {
            (found, expected) if found == expected => Ok(Fields { layout: self, row }),
            (found, expected) => Err(format!(
                "{found} values for {expected} columns\nhint: the columns are {}",
                self.columns.join(", ")
            )),
        }
    }
}

/// A row's columns by name. Errors name the column and, unless it is a secret, what it holds.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    layout: &'a Layout,
    row: &'a Row,
}

impl<'a> Fields<'a> {
    /// What it holds; none: NULL, or no such column.
    fn octets(&self, column: &str) -> Result<Option<&'a [u8]>, String> {
        let at = self.layout.columns.iter().position(|name| name == column);
        match at.and_then(|at| self.row.value(at)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Octets(octets)) if self.layout.is_backslash_doubtful && octets.contains(&b'\\') => {
                Err(format!(
                    "`{column}` holds a `\\`, and programs that write CSV do not agree on what that means\n\
                 hint: import a dump by `mysqldump`"
                ))
            }
            Some(Value::Octets(octets)) => Ok(Some(octets)),
            Some(Value::Expression) => Err(format!("`{column}` holds an expression\nhint: write the value itself")),
            Some(Value::TooLong) => Err(format!(
                "`{column}` holds more than {MAX_VALUE} octets\nhint: no such value can be used; shorten it"
            )),
        }
    }

    /// A text; none: NULL.
    pub(super) fn text(&self, column: &str) -> Result<Option<&'a str>, String> {
        let Some(octets) = self.octets(column)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(octets).map_err(|_| {
            format!("`{column}` is no UTF-8\nhint: dump with `mysqldump --default-character-set=utf8mb4`")
        })?;
        match text.contains('\0') {
            false => Ok(Some(text)),
            true => Err(format!("`{column}` holds a NUL octet\nhint: no such text can be used")),
        }
    }

    /// A text; NULL is an empty one.
    pub(super) fn text_or_empty(&self, column: &str) -> Result<String, String> {
        Ok(self.text(column)?.unwrap_or_default().to_owned())
    }

    /// A text that says something.
    pub(super) fn needed(&self, column: &str) -> Result<&'a str, String> {
        match self.text(column)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            _ => Err(format!("`{column}` is empty\nhint: it is needed")),
        }
    }

    /// A text that is empty or says something.
    pub(super) fn unless_empty(&self, column: &str) -> Result<Option<String>, String> {
        Ok(self.text(column)?.filter(|text| !text.is_empty()).map(str::to_owned))
    }

    /// A whole number; none: NULL or empty.
    pub(super) fn number(&self, column: &str) -> Result<Option<i64>, String> {
        match self.text(column)?.map(str::trim) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| format!("`{column}` is `{text}`, no whole number\nhint: is it the right column?")),
        }
    }

    /// A whole number that must be there.
    pub(super) fn needed_number(&self, column: &str) -> Result<i64, String> {
        self.number(column)?
            .ok_or_else(|| format!("`{column}` is empty\nhint: it is needed"))
    }

    /// A flag, in any of the ways in which MySQL and exports of it write one; none: NULL or empty.
    pub(super) fn flag(&self, column: &str) -> Result<Option<bool>, String> {
        match self.octets(column)? {
            None | Some(b"") => Ok(None),
            Some(b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"\0") => Ok(Some(false)),
            Some(b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"\x01") => Ok(Some(true)),
            Some(other) => Err(format!(
                "`{column}` is `{}`, neither true nor false\nhint: 1 or 0",
                other.escape_ascii()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&[u8]>]) -> Row {
        let mut row = Row::default();
        for value in values {
            match value {
                Some(octets) => {
                    row.extend(octets);
                    row.end();
                }
                None => row.null(),
            }
        }
        row
    }

    fn layout(table: Table, columns: &str) -> Result<(Layout, Vec<String>), String> {
        Layout::new(table, columns.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn columns_are_found_wherever_they_are() -> Result<(), String> {
        let (layout, ignored) = layout(Table::Policies, "created_at fallback name id rule_count")?;
        assert_eq!(ignored, ["created_at", "rule_count"]);
        let row = row(&[Some(b"2026-11-30"), Some(b"1"), Some(b"p"), Some(b"7"), None]);
        let fields = layout.fields(&row)?;
        assert_eq!(fields.number("id"), Ok(Some(7)));
        assert_eq!(fields.flag("fallback"), Ok(Some(true)));
        assert_eq!(fields.needed("name"), Ok("p"));
        assert_eq!(fields.text("action"), Ok(None));
        assert!(
            fields
                .number("name")
                .is_err_and(|error| error.contains("`name` is `p`"))
        );
        Ok(())
    }

    #[test]
    fn layouts_and_rows_that_do_not_fit() -> Result<(), String> {
        assert!(
            layout(Table::Rules, "id policy_id operator value")
                .is_err_and(|error| error.contains("`request_attribute`"))
        );
        assert!(layout(Table::Sites, "id name id").is_err_and(|error| error.contains("`id` is there twice")));
        let (layout, _) = layout(Table::Sites, "id name")?;
        let short = row(&[Some(b"1")]);
        assert!(
            layout
                .fields(&short)
                .is_err_and(|error| error.starts_with("1 values for 2 columns"))
        );
        Ok(())
    }

    #[test]
    fn flags() -> Result<(), String> {
        let (layout, _) = layout(Table::Policies, "id name fallback")?;
        for (octets, flag) in [
            (&b"0"[..], Ok(Some(false))),
            (b"1", Ok(Some(true))),
            (b"t", Ok(Some(true))),
            (b"f", Ok(Some(false))),
            (b"\0", Ok(Some(false))),
            (b"\x01", Ok(Some(true))),
            (b"", Ok(None)),
            (
                b"2",
                Err("`fallback` is `2`, neither true nor false\nhint: 1 or 0".to_owned()),
            ),
        ] {
            let row = row(&[Some(b"1"), Some(b"p"), Some(octets)]);
            assert_eq!(layout.fields(&row)?.flag("fallback"), flag);
        }
        Ok(())
    }
}
