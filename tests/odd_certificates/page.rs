//! The page and the program say the same of each shape.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::outcome::{self, Outcome, outcome};
use crate::shape::{Shape, World};
use crate::{chains, dates, encoding, keys, names, products, table, usages};

/// All of them, made once: some keys take their time.
pub static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let world = World::new();
    [
        dates::all(&world),
        names::all(&world),
        usages::all(&world),
        keys::all(&world),
        chains::all(&world),
        encoding::all(&world),
        products::all(&world),
    ]
    .into_iter()
    .flatten()
    .collect()
});

#[test]
fn each_shape_is_accepted_or_refused_as_the_page_says() {
    let mut rows: BTreeMap<String, table::Row> = BTreeMap::new();
    for row in table::shapes() {
        let before = rows.insert(row.name.clone(), row);
        assert!(before.is_none(), "two rows of one name: {before:?}");
    }
    let mut wrong = Vec::new();
    for shape in &*SHAPES {
        let found = outcome(shape);
        match rows.remove(shape.name) {
            None => wrong.push(format!("no row: | `{}` | | {found} |", shape.name)),
            Some(row) if !row.is(&found) => wrong.push(format!("{}: {found}, and the page says {row:?}", shape.name)),
            Some(_) => {}
        }
    }
    wrong.extend(rows.into_keys().map(|name| format!("a row without a shape: {name}")));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(SHAPES.len() >= 200, "{}", SHAPES.len());
}

/// What the verifier lets in gets in: the whole conversation, in both versions, with the proof of the key.
#[test]
fn what_is_accepted_gets_in_by_a_whole_conversation() {
    let mut wrong = Vec::new();
    for shape in SHAPES.iter().filter(|shape| shape.private.is_some()) {
        if outcome(shape) != Outcome::Accepted {
            continue;
        }
        for version in shape.versions {
            if let Err(why) = outcome::converse(shape, *version) {
                wrong.push(format!("{} {version}: {why}", shape.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn rules_see_of_each_shape_what_the_page_says() {
    let shapes: BTreeMap<&str, &Shape> = SHAPES.iter().map(|shape| (shape.name, shape)).collect();
    let mut wrong = Vec::new();
    for shape in &*SHAPES {
        let shown = outcome::shown(shape);
        if shown.contains(|character: char| character.is_control() && character != '\n') {
            wrong.push(format!(
                "{}: cert show prints control characters: {shown:?}",
                shape.name
            ));
        }
    }
    for row in table::facts() {
        let Some(shape) = shapes.get(row.name.as_str()) else {
            wrong.push(format!("no shape: {row:?}"));
            continue;
        };
        let found = outcome::fact(shape, &row.attribute);
        if found != row.values {
            wrong.push(format!(
                "{} {}: {found:?}, and the page says {:?}",
                row.name, row.attribute, row.values
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
